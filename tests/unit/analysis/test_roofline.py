"""Limits of a case on a chip: the audited attention figures, other shapes worked by hand, and bad declarations."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import TASK_YAML, tiny_task

from evo.analysis.roofline import CaseLimits, limits
from evo.errors import SyntaxInvalid, TaskInvalid
from evo.spec.chips import chip
from evo.spec.task import Case, Task, load_task, task_names

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def attention() -> Task:
    return load_task(ROOT, "attention")


def of(task: Task, name: str, slug: str = "l4") -> CaseLimits:
    return limits(task, task.case(name), chip(slug))


def test_attention_b4_on_an_l4(attention: Task) -> None:
    found = of(attention, "b4")
    assert (found.flop, found.mac, found.exp) == (2_147_483_648, 1_073_741_824, 8_388_608)
    assert (found.bytes_compulsory, found.bytes_materialised) == (8_388_608, 109_051_904)
    assert found.intensity_flop_per_byte == 256
    assert found.ridge_flop_per_byte == pytest.approx(404, abs=0.5)
    wanted = {"tensor": 17.72, "fp32": 70.90, "sfu": 4.43, "dram_cold": 27.95, "dram_warm": 0.0, "shared": 8.86}
    for name, us in wanted.items():
        assert found.floors_us[name] == pytest.approx(us, abs=0.006), name
    assert (found.limiter, found.limiter_cold) == ("tensor", "dram_cold")
    small, large = found.tiles
    assert (small.bytes_l2, large.bytes_l2) == (37_748_736, 20_971_520)
    assert small.floors_us["wave_quantum"] == pytest.approx(20.08, abs=0.006)
    assert large.floors_us["wave_quantum"] == pytest.approx(24.09, abs=0.006)
    assert (small.floors_us["l2"], large.floors_us["l2"]) == pytest.approx((22.9, 12.7), abs=0.06)
    assert large.floors_us["shared"] == pytest.approx(4.43, abs=0.006)
    assert (small.busy, large.busy) == pytest.approx((0.88, 0.74), abs=0.005)


@pytest.mark.parametrize(
    ("case", "tensor", "dram", "exp", "quantum64", "quantum128", "l2_64", "l2_128"),
    [
        ("b2", 8.86, 13.98, 2.22, 12.05, 16.06, 11.4, 6.4),
        ("b8", 35.45, 55.91, 8.86, 36.1, 40.2, 45.8, 25.4),
        ("long", 1134.4, 447.2, 141.8, 1157, 1157, 1342, 691),
    ],
)
def test_the_other_attention_cases_on_an_l4(
    attention: Task, case: str, tensor: float, dram: float, exp: float, quantum64: float, quantum128: float,
    l2_64: float, l2_128: float,
) -> None:  # fmt: skip
    found = of(attention, case)
    got = [found.floors_us[name] for name in ("tensor", "dram_cold", "sfu")]
    got += [tile.floors_us[name] for name in ("wave_quantum", "l2") for tile in found.tiles]
    assert got == pytest.approx([tensor, dram, exp, quantum64, quantum128, l2_64, l2_128], rel=2e-3, abs=0.05)


def test_attention_on_an_h200(attention: Task) -> None:
    found = of(attention, "b4", "h200")
    wanted = {"tensor": 2.17, "mma_sync": 3.50, "dram_cold": 1.75, "sfu": 2.17, "l2": 6.9}
    for name, us in wanted.items():
        assert found.floors_us[name] == pytest.approx(us, abs=0.04), name
    assert {"mma_sync", "l2", "launch"} <= set(found.estimated)
    assert of(attention, "long", "h200").floors_us["tensor"] == pytest.approx(138.9, abs=0.05)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("sq", "sk", "d"), [(300, 1000, 128), (1000, 300, 64), (129, 129, 80), (64, 1, 64)])
def test_traffic_of_ragged_grouped_shapes_counted_tile_by_tile(
    attention: Task, causal: int, sq: int, sk: int, d: int
) -> None:
    b, hq, hkv = 3, 6, 2
    case = Case(name="x", axes={"B": b, "HQ": hq, "HKV": hkv, "SQ": sq, "SK": sk, "D": d, "CAUSAL": causal})
    found = limits(attention, case, chip("l40s"))
    seen = [min(row + 1, sk) if causal else sk for row in range(sq)]
    assert found.flop == 4 * b * hq * d * sum(seen)
    assert found.exp == b * hq * sum(seen)
    assert found.bytes_compulsory == 2 * d * (2 * b * hq * sq + 2 * b * hkv * sk)
    for tile in found.tiles:
        rows = tile.tile["BLOCK_M"]
        starts = range(0, sq, rows)
        keys = sum(max(seen[start : start + rows]) for start in starts)
        assert tile.bytes_l2 == 2 * d * b * hq * (2 * sq + 2 * keys)
        assert tile.blocks == b * hq * len(starts)
        rounds = math.ceil(tile.blocks / 142)
        alone = found.flop / (142 * 512 * 2 * 2.52e9) * 1e6
        assert tile.floors_us["wave_quantum"] == pytest.approx(alone * rounds * 142 / tile.blocks, rel=1e-9)


def test_matmul_of_an_untuned_shape_on_an_a100() -> None:
    task = load_task(ROOT, "matmul")
    m, n, k = 1000, 777, 320
    found = limits(task, Case(name="x", axes={"M": m, "N": n, "K": k}), chip("a100-40"))
    assert found.flop == 2 * m * n * k
    assert found.bytes_compulsory == 2 * (m * k + k * n + m * n)
    assert found.floors_us["tensor"] == pytest.approx(found.flop / 311.87e12 * 1e6, rel=1e-4)
    assert found.floors_us["dram_cold"] == pytest.approx(found.bytes_compulsory / 1555e9 * 1e6, rel=1e-9)
    # 128 x 128 tiles: 8 rows of blocks read B, 7 columns of blocks read A.
    assert found.tiles[0].bytes_l2 == 2 * (7 * m * k + 8 * k * n + m * n)
    assert found.tiles[0].blocks == 56
    assert found.floors_us["l2"] == pytest.approx(found.tiles[0].bytes_l2 / (5120 * 1.41e9) * 1e6, rel=1e-9)
    assert "l2" not in found.estimated


def test_a_convolution_of_an_untuned_shape_counted_place_by_place() -> None:
    n, h, w, c, k, r, s, stride, pad, dil = 3, 37, 29, 24, 200, 3, 5, 2, 1, 2
    axes = {"N": n, "H": h, "W": w, "C": c, "K": k, "R": r, "S": s, "STRIDE": stride, "PAD": pad, "DIL": dil}
    found = limits(load_task(ROOT, "conv2d"), Case(name="x", axes=axes), chip("rtx4090"))
    rows = sum(1 for top in range(-pad, h + pad, stride) if top + dil * (r - 1) < h + pad)
    columns = sum(1 for left in range(-pad, w + pad, stride) if left + dil * (s - 1) < w + pad)
    pixels, taps = n * rows * columns, c * r * s
    assert found.flop == 2 * pixels * k * taps
    assert found.mac == pixels * k * taps
    assert found.bytes_compulsory == 2 * (n * h * w * c + k * taps + pixels * k)
    for tile in found.tiles:
        blocks = [
            (min(tile.tile["BLOCK_M"], pixels - first), min(tile.tile["BLOCK_N"], k - column))
            for first in range(0, pixels, tile.tile["BLOCK_M"])
            for column in range(0, k, tile.tile["BLOCK_N"])
        ]
        assert tile.blocks == len(blocks)
        assert tile.bytes_l2 == 2 * sum((m + filters) * taps + m * filters for m, filters in blocks)


def test_row_tasks_are_bound_by_memory_and_use_no_tensor_cores() -> None:
    task = load_task(ROOT, "softmax")
    found = limits(task, Case(name="x", axes={"ROWS": 50_000, "COLS": 3000}), chip("t4"))
    assert found.bytes_compulsory == 4 * 50_000 * 3000
    assert found.floors_us["dram_cold"] == pytest.approx(found.bytes_compulsory / 320e9 * 1e6)
    assert found.limiter_cold == "dram_cold"
    assert found.limiter == "dram_warm"  # 600 MB do not fit 4 MB of L2
    assert found.floor_us == pytest.approx((found.bytes_compulsory - 4 * 2**20) / 320e9 * 1e6)
    assert "l2" not in found.floors_us
    assert "launch" not in found.floors_us
    assert found.mac is None


def test_measured_rates_stand_beside_the_datasheet(attention: Task) -> None:
    measured = {"mma_f16_flop_per_s": 60e12, "dram_copy_bytes_per_s": 250e9, "l2_read_bytes_per_s": 2e12}
    found = limits(attention, attention.case("b4"), chip("l4"), measured=measured)
    assert found.floors_us["tensor"] == pytest.approx(17.72, abs=0.01)
    assert found.calibrated_floors_us["tensor"] == pytest.approx(2_147_483_648 / 60e12 * 1e6)
    assert found.calibrated_floors_us["l2"] == pytest.approx(37_748_736 / 2e12 * 1e6)
    assert "sfu" not in found.calibrated_floors_us
    assert found.calibrated_limiter == "tensor"
    slow = limits(attention, attention.case("b4"), chip("l4"), measured={**measured, "l2_read_bytes_per_s": 1e12})
    assert slow.calibrated_limiter == "l2"  # 37.75 us at the reference tile


# --- targets


def test_a_target_is_the_floor_over_the_efficiency(attention: Task) -> None:
    found = limits(attention, attention.case("b4"), chip("a10"))
    assert found.target_us == pytest.approx(found.floor_us / 0.6)
    asked = limits(attention, attention.case("b4"), chip("l4"), efficiency=0.9)
    assert asked.target_us == pytest.approx(17.7244 / 0.9, rel=1e-4)
    assert of(attention, "b4").target_us == 29


def test_any_task_has_limits_from_its_tensors_and_work(tmp_path: Path) -> None:
    task = tiny_task(tmp_path, TASK_YAML)
    found = limits(task, task.case("small"), chip("h100-pcie"))
    assert found.bytes_compulsory == 8 * 131_072
    assert found.floors_us["fp32"] == pytest.approx(131_072 / (114 * 128 * 2 * 1.62e9) * 1e6)
    assert "tensor" not in found.floors_us  # fp32 operands
    assert found.tiles == ()
    assert found.target_us is None


def test_a_target_below_the_floor_is_refused_with_its_line(tmp_path: Path) -> None:
    text = TASK_YAML.replace("flop: N", "flop: 1000000 * N") + "targets:\n  l4: {small: 30}\n"
    task = tiny_task(tmp_path, text)
    line = text.splitlines().index("  l4: {small: 30}") + 1
    with pytest.raises(SyntaxInvalid, match=rf"task\.yaml:{line}: .*targets\.l4\.small.*below the floor") as caught:
        limits(task, task.case("small"), chip("l4"))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("flop: N,", "flop: N - 2 * N,", "work.flop"),
        ("bytes: 8 * N", "bytes: 8 * N - 16 * N", "work.bytes"),
    ],
)
def test_impossible_work_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    task = tiny_task(tmp_path, TASK_YAML.replace(old, new))
    with pytest.raises(SyntaxInvalid, match=words):
        limits(task, task.case("small"), chip("l4"))


@pytest.mark.parametrize(("work", "moved"), [("", 8), ("work: {bytes: 8 * N}\n", 8), ("work: {bytes: 5 * N}\n", 5)])
def test_without_stated_arithmetic_bytes_alone_bind(tmp_path: Path, work: str, moved: int) -> None:
    task = tiny_task(tmp_path, TASK_YAML.replace("work: {flop: N, bytes: 8 * N}\n", work))
    found = limits(task, task.case("small"), chip("l4"))
    assert (found.flop, found.intensity_flop_per_byte, found.mac) == (None, None, None)
    assert set(found.floors_us) == {"dram_cold", "dram_warm", "launch"}
    assert found.bytes_compulsory == moved * 131_072
    assert (found.limiter_cold, found.floor_cold_us) == ("dram_cold", found.floors_us["dram_cold"])
    assert "flop" not in found.to_json()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("targets: {efficiency: 1.2}\n", "efficiency"),
        ("targets: {efficiency: 0}\n", "efficiency"),
        ("targets: {l4: {huge: 3}}\n", "no such bench case"),
        ("targets: {l4: {small: -3}}\n", "not a time"),
        ("targets: {l4: fast}\n", "microseconds by case"),
        ("traffic: {l2: 8 * M}\n", "unknown name 'M'"),
        ("traffic: {tiles: [{N: 3}]}\n", "not a new name"),
        ("traffic: {tiles: [{T: 3}, {U: 3}]}\n", "names differ"),
        ("traffic: {tiles: [{T: 0}]}\n", "not a size"),
        ("traffic: {speed: 3}\n", "unknown field"),
        ("derive: {tiles: {T: [32]}, threads: T}\n", "no `blocks`"),
        ("derive: {tiles: {T: [32, 32]}, threads: T, blocks: N}\n", "no list of sizes"),
        ("derive: {threads: 3, blocks: N}\n", "expected tile names"),
        (
            "derive: {tiles: {T: [32]}, threads: T, blocks: N, shared: [{name: x, rows: T, cols: 4, dtype: half}]}\n",
            "unknown dtype",
        ),
    ],
)
def test_bad_sections_name_file_line_and_field(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(TaskInvalid, match=r"task\.yaml:\d+: field") as caught:
        tiny_task(tmp_path, TASK_YAML + more)
    assert words in caught.value.message


def test_what_fits_l2_is_bound_by_l2_at_best_and_never_by_a_floor_of_nothing() -> None:
    """A copy of 4 MB has no arithmetic and no DRAM traffic when warm: its bytes still pass through L2."""
    task = load_task(Path(__file__).parents[3], "softmax")
    task = replace(task, work={name: formula for name, formula in task.work.items() if name == "bytes"})
    found = limits(task, task.case(task.headline), chip("l4"))
    assert (found.floor_us, found.limiter) == (0.0, "")
    assert found.best_limiter == "l2"
    assert found.best_floor_us == pytest.approx(found.bytes_compulsory / chip("l4").l2_bytes_per_s * 1e6, rel=1e-4)


@pytest.mark.parametrize("name", task_names(Path(__file__).parents[3]))
def test_a_cold_target_is_never_below_the_warm_one(name: str) -> None:
    task = load_task(Path(__file__).parents[3], name)
    for slug in ("l4", "h200"):
        for case in task.bench:
            found = limits(task, case, chip(slug))
            if found.target_us is not None and found.target_cold_us is not None:
                assert found.target_cold_us >= found.target_us, (slug, case.name)
