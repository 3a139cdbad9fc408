"""On a GPU: rates against the datasheet, the library's backends against each other, limits that hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import evo

from evo.spec.chips import CHIPS, queried

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    return {"EVO_CACHE": str(tmp_path_factory.mktemp("cache"))}


def test_measured_rates_are_possible_and_not_far_below_the_datasheet(cache: dict[str, str]) -> None:
    shape = evo("doctor", "--calibrate", "--json", cwd=ROOT, env=cache).json
    print(shape)
    rates = {name: rate["value"] for name, rate in shape["rates"].items()}
    for name, stated in shape["datasheet"].items():
        share = rates[name] / stated
        # A power limit lowers what is sustained; nothing but a wrong row lifts it above what is stated.
        assert 0.3 < share < 1.08, (name, share)
    assert rates["l2_read_bytes_per_s"] > rates["dram_read_bytes_per_s"]
    assert 0.1e-6 < rates["launch_graph_s"] < rates["launch_event_s"] < 100e-6


def test_the_backends_of_attention(cache: dict[str, str]) -> None:
    shape = evo("baseline", "attention", "--case", "b2", "--json", cwd=ROOT, env=cache).json
    print(shape)
    (case,) = shape["cases"]
    rivals = {rival["name"]: rival for rival in case["rivals"]}
    assert set(rivals) == {"flash", "cudnn", "efficient", "math"}
    ran = {name: rival for name, rival in rivals.items() if rival["status"] == "measured"}
    assert {"flash", "math"} <= set(ran)
    for name, rival in rivals.items():
        assert (name in ran) != bool(rival.get("reason"))
    for rival in ran.values():
        assert rival["within_tolerance"]
        assert 0 < rival["max_error"] < 2e-3
        assert rival["warm"]["p50_us"] < rival["cold"]["p50_us"] * 1.05
        assert rival["warm"]["p50_us"] < rival["eager"]["p50_us"]
    assert case["beat"] == min(ran, key=lambda name: ran[name]["warm"]["p50_us"])
    assert ran["flash"]["warm"]["p50_us"] < ran["math"]["warm"]["p50_us"]


def test_no_measured_time_is_below_its_floor(cache: dict[str, str]) -> None:
    chip = evo("doctor", "--calibrate", "--quick", "--json", cwd=ROOT, env=cache).json["chip"]
    evo("baseline", "matmul", "--case", "square2k", cwd=ROOT, env=cache)
    shape = evo("limits", "matmul", "--gpu", "gpu:0", "--case", "square2k", "--json", cwd=ROOT, env=cache).json
    assert shape["chip"] == chip
    (case,) = shape["cases"]
    names = [entry["name"] for entry in case["measured"]]
    assert "rival cublas" in names
    assert all(entry["p50_us"] > case["floor_us"] for entry in case["measured"])
    assert case["calibrated_floors_us"]["tensor"] >= case["floors_us"]["tensor"] * 0.95


def test_a_gpu_of_the_table_reports_the_rows_capacities() -> None:
    cupy = pytest.importorskip("cupy")
    runtime = cupy.cuda.runtime
    found = {name: int(runtime.deviceGetAttribute(number, 0)) for name, number in queried.ATTRIBUTES.items()}
    product = bytes(runtime.getDeviceProperties(0)["name"]).decode()
    row = queried.from_attributes(product, found)
    known = [chip for chip in CHIPS.values() if product in (chip.name, *chip.products)]
    if not known:
        pytest.skip(f"{product} is not in the table")
    for field in ("sms", "capability", "l2_bytes", "registers_per_sm", "threads_per_sm", "blocks_per_sm",
                  "shared_per_sm", "shared_per_block_optin", "shared_reserved_per_block"):  # fmt: skip
        assert getattr(row, field) == getattr(known[0], field), field
    assert row.clock_hz == pytest.approx(known[0].clock_hz, rel=0.02)
    assert row.rate("dram_bytes_per_s") == pytest.approx(known[0].rate("dram_bytes_per_s"), rel=0.05)
