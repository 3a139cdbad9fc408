"""`evo limits`, `evo derive`, `evo baseline`, `evo doctor --calibrate`: streams, exit codes, bad input."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tiny import TASK_YAML, write_task

from evo.analysis import calibration
from evo.cli.app import run

ROOT = Path(__file__).parents[3]
WRONG_LAYOUT = """\
// Rows of 65 halfs.
// evo: task   attention
// evo: macro  D
// evo: launch attention grid (SQ, HQ, B) block (32) shared 0
// layout: k 64 x D float16 at row * (D + 1) + col of 64 * (D + 1) read ldmatrix
#include <cuda_fp16.h>
extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale) {
    if (threadIdx.x == 0) o[0] = q[0];
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(ROOT)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], code: int, arguments: list[str], *words: str) -> None:
    assert run(arguments) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    lines = streams.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1
    assert sum(line.startswith("hint: ") for line in lines) == 1
    for word in words:
        assert word in streams.err


def test_limits_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    shape = answer(capsys, "limits", "attention", "--gpu", "l4", "--case", "b4")
    assert (shape["task"], shape["chip"]) == ("attention", "l4")
    (case,) = shape["cases"]
    assert case["name"] == "b4"
    assert (case["flop"], case["exp"], case["bytes_compulsory"]) == (2_147_483_648, 8_388_608, 8_388_608)
    assert case["bytes_materialised"] == 109_051_904
    assert case["floors_us"]["tensor"] == pytest.approx(17.72, abs=0.01)
    assert set(case["floors_us"]) >= {"tensor", "fp32", "sfu", "dram_cold", "l2", "shared", "wave_quantum", "launch"}
    assert (case["limiter"], case["target_us"]) == ("tensor", 29)
    assert case["measured"] == []


def test_limits_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["limits", "attention", "--gpu", "l4"]) == 0
    text = capsys.readouterr().out
    for words in ("2,147,483,648", "17.72", "27.95", "37,748,736", "20.08", "unmeasured", "~22.87"):
        assert words in text


def test_measured_champions_stand_against_the_floor_at_their_clock(capsys: pytest.CaptureFixture[str]) -> None:
    shape = answer(capsys, "limits", "attention", "--gpu", "h200", "--case", "long")
    (case,) = shape["cases"]
    assert case["measured"], "the shipped leaderboard has an H200 champion"
    for entry in case["measured"]:
        assert entry["floor_fraction"] == pytest.approx(case["floor_us"] / entry["p50_us"], rel=1e-3)
        if "sm_clock_mhz" in entry:
            scaled = case["floor_us"] * shape["clock_hz"] / (entry["sm_clock_mhz"] * 1e6)
            assert entry["scaled_floor_us"] == pytest.approx(scaled, rel=1e-3)


def test_calibration_and_rivals_are_shown_where_they_were_measured(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    rate = {"value": 60e12, "unit": "FLOP/s", "condition": "sustained"}
    calibration.keep_rates("l4", {"driver": "1", "gpu": "NVIDIA L4"}, {"mma_f16_flop_per_s": rate}, now)
    warm = {"p50_us": 24.5, "p90_us": 25.0, "p99_us": 26.0, "mean_us": 24.5, "std_us": 0.1, "samples": 64}
    calibration.keep_baseline("attention", "l4", {"driver": "1"}, {"b4": {"flash": {"warm": warm}}}, now)
    shape = answer(capsys, "limits", "attention", "--gpu", "l4", "--case", "b4")
    (case,) = shape["cases"]
    assert case["calibrated_floors_us"]["tensor"] == pytest.approx(35.79, abs=0.01)
    assert [(entry["name"], entry["p50_us"]) for entry in case["measured"]] == [("rival flash", 24.5)]
    assert shape["calibration"]["driver"] == "1"
    assert run(["limits", "attention", "--gpu", "l4"]) == 0
    assert "by measured rates" in capsys.readouterr().out


def test_the_roofline_is_a_drawing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for task, gpu in (("attention", "h200"), ("softmax", "t4")):
        file = tmp_path / f"{task}.svg"
        assert run(["limits", task, "--gpu", gpu, "--plot", str(file)]) == 0
        root = ElementTree.parse(file).getroot()
        assert root.tag.endswith("svg")
        assert len(root.findall(".//{*}circle")) >= 8
        assert "DRAM" in file.read_text(encoding="utf-8")
        for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
            assert 0 <= float(circle.attrib["cx"]) <= 1120
            assert 0 <= float(circle.attrib["cy"]) <= 450
        capsys.readouterr()


def test_a_roofline_without_measured_times_never_says_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "softmax.svg"
    assert run(["limits", "softmax", "--gpu", "t4", "--plot", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert "measured" not in text
    assert "limit, inputs in DRAM" in text  # the legend
    capsys.readouterr()


def test_derive_as_json_and_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    shape = answer(capsys, "derive", "matmul", "--gpu", "l4", "--case", "square2k", "--no-compile")
    assert shape["predicted"]["hmma"] == 2 * 2048**3 // 4096
    assert shape["knobs"]["30_mma.cu"]
    assert shape["rejected"]
    assert all(entry["reason"] for entry in shape["rejected"])
    for layout in shape["chosen"]["layouts"]:
        assert layout["distinct_addresses"] == layout["rows"] * layout["cols"]
        assert layout["misaligned_chunks"] == 0
    assert run(["derive", "matmul", "--gpu", "l4", "--case", "square2k", "--no-compile"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# matmul, case square2k, on NVIDIA L4")
    assert "## Hypotheses" in text


def test_derive_compiles_the_rung_it_sets(capsys: pytest.CaptureFixture[str]) -> None:
    shape = answer(capsys, "derive", "softmax", "--gpu", "l4")
    rungs = {rung["rung"]: rung for rung in shape["rungs"]}
    assert rungs["30_registers.cu"]["compiled"]["registers"] > 0
    assert rungs["30_registers.cu"]["compiled"]["spill_bytes"] == 0


def test_derive_checks_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "wrong.cu"
    file.write_text(WRONG_LAYOUT)
    assert run(["derive", "--check", str(file), "--gpu", "l4", "--json"]) == 1
    shape = json.loads(capsys.readouterr().out)
    (layout,) = shape["layouts"]
    assert (layout["misaligned"], layout["chunks"]) == (448, 512)
    assert layout["first_misaligned"][:3] == ["0x82", "0x104", "0x186"]
    assert not shape["sound"]
    file.write_text(WRONG_LAYOUT.replace("D + 1", "D + 8"))
    assert run(["derive", "--check", str(file), "--gpu", "l4"]) == 0
    assert "sound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["limits", "attention", "--gpu", "rtx9999"], 2, ["rtx9999", "l4"]),
        (["limits", "attention", "--gpu", "l4", "--case", "huge"], 2, ["huge", "b2"]),
        (["limits", "nothing", "--gpu", "l4"], 2, ["nothing", "attention"]),
        (["limits", "attention", "--gpu", "l4", "--efficiency", "1.5"], 2, ["1.5", "floor"]),
        (["limits", "attention", "--gpu", "l4", "--plot", "x.png"], 2, ["svg"]),
        (["limits", "attention", "--gpu", "l4", "--plot", "no/such/folder/x.svg"], 5, ["x.svg"]),
        (["derive", "attention", "--gpu", "rtx9999"], 2, ["rtx9999"]),
        (["derive", "attention", "--gpu", "l4", "--case", "huge"], 2, ["huge"]),
        (["derive", "attention", "--gpu", "t4", "--no-compile"], 3, ["t4", "require"]),
        (["derive", "--check", "no/such.cu", "--gpu", "l4"], 3, ["no/such.cu"]),
        (["baseline", "attention", "--device", "sim:l4"], 4, ["library calls", "gpu:0"]),
        (["baseline", "attention", "--device", "tpu"], 2, ["tpu"]),
        (["baseline", "attention", "--case", "huge"], 2, ["huge"]),
        (["doctor", "--quick"], 2, ["--calibrate"]),
        (["doctor", "--calibrate", "--device", "sim:l4"], 4, ["sim:l4"]),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: list[str]) -> None:
    refused(capsys, code, arguments, *words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("flop: N,", "flop: -N,", ["task.yaml:12", "work.flop"]),
        ("flop: N,", "flop: 90000000 * N,", ["task.yaml:14", "targets.l4.small", "below the floor"]),
    ],
)
def test_bad_tasks_are_refused_with_their_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    write_task(tmp_path)
    (tmp_path / "kernels" / "scale" / "task.yaml").write_text(
        TASK_YAML.replace(old, new) + "targets:\n  l4: {small: 20}\n"
    )
    refused(capsys, 3, ["--root", str(tmp_path), "limits", "scale", "--gpu", "l4"], *words)


def test_without_a_gpu_a_gpu_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.device.gpu_present", lambda: False)
    for arguments in (["baseline", "attention"], ["doctor", "--calibrate"], ["limits", "attention", "--gpu", "gpu:0"]):
        refused(capsys, 4, arguments, "GPU")
