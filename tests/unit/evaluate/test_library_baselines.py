"""Rivals side by side: which one is to be beaten, errors against float64, refusals; and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from refusals import refused
from tiny import TASK_YAML, tiny_task

from evo.analysis import calibration
from evo.device import DeviceName
from evo.device.remote_device import RemoteGpu
from evo.errors import HarnessFault, TaskInvalid
from evo.evaluate.library_baselines import CaseBaseline, baseline
from evo.spec.reference import load_reference
from evo.spec.task import Task

RIVALS = '\n\ndef rivals():\n    return {"exact": lambda tensors, case: tensors["x"] * 2}\n'
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def worker() -> Iterator[RemoteGpu]:
    with RemoteGpu(DeviceName("gpu", "0"), opener="rival_device:open_device") as made:
        yield made


def with_rivals(folder: Path) -> Task:
    task = tiny_task(folder, TASK_YAML)
    path = task.folder / "reference.py"
    path.write_text(path.read_text() + RIVALS)
    return task


@pytest.fixture
def measured(tmp_path: Path, worker: RemoteGpu, monkeypatch: pytest.MonkeyPatch) -> CaseBaseline:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))
    task = with_rivals(tmp_path)
    return baseline(worker, load_reference(task), task.case("small"))


def test_the_fastest_that_is_right_is_to_be_beaten(measured: CaseBaseline) -> None:
    assert measured.to_beat is not None
    assert measured.to_beat.name == "near"
    assert measured.to_json()["beat"] == "near"
    by = {rival.name: rival for rival in measured.rivals}
    assert by["exact"].max_error == pytest.approx(0, abs=1e-12)
    assert by["near"].rms_error == pytest.approx(5e-7, rel=0.01)
    assert by["wrong"].within_tolerance is False
    assert by["wrong"].rms_error == pytest.approx(0.5, rel=1e-6)
    assert by["nan"].within_tolerance is False
    assert by["nan"].max_error is None


def test_refusals_say_why_and_have_no_figures(measured: CaseBaseline) -> None:
    refusing = next(rival for rival in measured.rivals if rival.name == "refusing")
    assert refusing.to_json() == {
        "name": "refusing",
        "status": "refused",
        "reason": "RuntimeError: No available kernel; the head is too wide",
    }
    silent = next(rival for rival in measured.rivals if rival.name == "silent")
    assert silent.max_error is None
    assert silent.within_tolerance is None
    assert "refusing" not in measured.kept()


def test_three_kinds_of_time_are_kept_apart(measured: CaseBaseline) -> None:
    exact = next(rival for rival in measured.rivals if rival.name == "exact")
    assert exact.warm is not None
    assert exact.cold is not None
    assert exact.eager is not None
    assert (exact.warm.p50_us, exact.cold.p50_us, exact.eager.p50_us) == (12.0, 17.0, 52.0)


def test_a_task_without_rivals_is_told_what_to_add(tmp_path: Path, worker: RemoteGpu) -> None:
    task = tiny_task(tmp_path, TASK_YAML)
    with refused(TaskInvalid, "no-rivals"):
        baseline(worker, load_reference(task), task.case("small"))


# --- what is kept


def test_measurements_are_kept_by_chip_and_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    assert calibration.latest_rates("l4") is None
    rate = {"value": 6e13, "unit": "FLOP/s", "condition": "sustained"}
    calibration.keep_rates("l4", {"driver": "570.1", "gpu": "NVIDIA L4"}, {"mma_f16_flop_per_s": rate}, NOW)
    later = NOW.replace(year=2027)
    calibration.keep_rates("l4", {"driver": "580.2 x/y"}, {"mma_f16_flop_per_s": {**rate, "value": 7e13}}, later)
    found = calibration.latest_rates("l4")
    assert found is not None
    assert found.rates() == {"mma_f16_flop_per_s": 7e13}
    assert found.driver == "580.2 x/y"
    assert calibration.latest_rates("h200") is None
    assert calibration.latest_baseline("scale", "l4") is None
    for path in (tmp_path / "measured" / "l4").iterdir():
        path.write_text("{")
    assert calibration.latest_rates("l4") is None


def test_a_cache_that_cannot_be_written_is_a_harness_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "file"))
    with pytest.raises(HarnessFault, match="measured"):
        calibration.keep_baseline("scale", "l4", {}, {}, NOW)
