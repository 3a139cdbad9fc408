"""A defect of the simulator ends the command with exit 5 and names its instruction; no variant is recorded for it."""

from __future__ import annotations

from pathlib import Path

import broken_simulator
import pytest
from tiny import ANEW, FAST, evo, evo_here, new_repository

from evo.evaluate.session import EvaluationSession
from evo.records.trials import load_records

FUSED = FAST.replace("2.0f * x[i]", "fmaf(x[i], 1.5f, 0.5f * x[i])")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(Path(broken_simulator.__file__).parent))  # for the worker's child process
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(EvaluationSession.__init__.__kwdefaults__, "opener", broken_simulator.OPENER)
    root = new_repository(tmp_path / "mine")
    (root / "fused.cu").write_text(FUSED)
    return root


@pytest.mark.long
def test_check_and_bench_end_with_exit_5(root: Path, tmp_path: Path) -> None:
    intact = {"EVO_CACHE": str(tmp_path / "intact")}
    assert evo("check", "fused.cu", "--device", "sim:l4", cwd=root, env=intact).code == 0
    for command in ("check", "bench"):
        ran = evo_here(command, "fused.cu", "--device", "sim:l4", "--json", cwd=root)
        assert ran.code == 5
        assert "fma.rn.f32" in ran.err
        assert "PTX line" in ran.err
        assert "KeyError" in ran.err
        assert ran.out == ""


@pytest.mark.long
def test_the_loop_ends_without_a_record_of_the_variant(root: Path) -> None:
    ran = evo_here(*ANEW, "--patch", "fused.cu", "--iterations", 2, "--json", cwd=root)
    assert ran.code == 5
    assert "fma.rn.f32" in ran.err
    records = load_records(root, settled=True)
    assert [record.kind for record in records] == ["start"]
    again = evo("iterate", "scale", "--device", "sim:l4", "--patch", "fused.cu", "--iterations", 1, "--json", cwd=root)
    assert again.code == 0, again.err
    assert [line["status"] for line in again.lines[:-1] if line["operator"] == "patch"] == ["correct"]  # not tabu
