"""The loop on a GPU that is faked in the worker's child: A/A control, what records hold, and a driver that is lost."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import fake_gpu
import pytest
from long_cases import long
from refusals import refused
from tiny import FAST, SLOW, commit_all, named, new_repository

from evo.cli.limits import measured_times
from evo.device import DeviceName, RunRequest
from evo.errors import EvoError, HarnessFault, UsageError
from evo.evaluate.gate import Sanitized
from evo.evaluate.pipeline import EvaluationSession
from evo.records.trials import Record, load_records
from evo.results import Fault, FaultKind
from evo.results.codec import as_written
from evo.search import pipelined as flight
from evo.search.events import Event, RunSummary
from evo.search.loop import Settings, evolve
from evo.spec.chips import CHIPS
from evo.spec.task import load_task
from evo.spec.variant import parse_variant

SUPPORT = Path(__file__).resolve().parents[1] / "support"
SETTINGS = Settings(task="scale", device=DeviceName("gpu", "0"), iterations=4, operators=("ladder",))
Run = Callable[..., list[Event]]


@pytest.fixture
def root(tmp_path: Path, faked_gpu: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose rungs take 20, 10 and 10 microseconds."""
    monkeypatch.setattr(flight, "EvaluationSession", functools.partial(EvaluationSession, opener=fake_gpu.OPENER))
    root = new_repository(tmp_path / "mine")
    ladder = root / "kernels" / "scale" / "ladder"
    (ladder / "00_slow.cu").write_text(named(SLOW, "slow_20"))
    (ladder / "10_fast.cu").write_text(named(FAST, "fast_10"))
    (ladder / "20_same.cu").write_text(
        named(FAST.replace("if (i < n)", "if (n < 0) y[0] = 0.0f;\n    if (i < n)"), "same_10")
    )
    commit_all(root)
    return root


@pytest.fixture
def run(root: Path) -> Run:
    def call(**more: object) -> list[Event]:
        events: list[Event] = []
        evolve(replace(SETTINGS, **more), root, events.append)  # type: ignore[arg-type]
        return events

    return call


def records(root: Path) -> list[Record]:
    return load_records(root, settled=True)


def test_a_run_begins_with_its_control_and_every_record_says_what_it_showed(root: Path, run: Run) -> None:
    events = run()
    notes = [event.note for event in events if event.note]
    assert any(text.startswith("A/A control: the champion against itself scatters by 0.") for text in notes), notes
    start, *trials = records(root)
    assert start.evaluation.control is None  # nothing to compare with yet
    assert start.evaluation.stages_s["control"] > 0  # taken while simulators looked at the start
    assert len(trials) >= 2
    for record in trials:
        control = record.evaluation.control
        assert control is not None
        assert (control.pairs, control.sd) == (12, pytest.approx(0.003, rel=0.5))
        environment = record.environment
        assert all((environment.chip, environment.arch, environment.toolkit, environment.task_hash))
        assert "+" in environment.harness
        detail = environment.detail
        assert (detail["gpu"], detail["uuid"], detail["driver"], detail["cuda"]) == (
            "Fake H200",
            "GPU-fake",
            "1.2",
            "13.0",
        )
        assert record.evaluation.stages_s
    assert trials[0].kept
    summary = events[-1].about
    assert isinstance(summary, RunSummary)
    assert summary.control is not None
    assert trials[0].evaluation.control == as_written(summary.control)


def test_edits_of_what_is_faster_are_looked_at_while_simulators_judge_it(
    root: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("search.previews", "evaluate.session"):
        monkeypatch.setattr(f"evo.{room}.CORES_TO_SPARE", 1)
    looked_at: list[tuple[str, Sequence[str]]] = []
    beside: list[str] = []

    def seen(bench: object, task: object, parent: str, texts: Sequence[str], *_: object) -> list[float]:
        looked_at.append((parent, texts))
        beside.extend([parent] if threading.current_thread().name.startswith("evo-beside") else [])
        return [1.0 for _ in texts]

    monkeypatch.setattr("evo.search.proposer.screened_gains", seen)
    run(iterations=6, operators=("ladder", "rules"))
    start, kept, *_ = records(root)
    assert kept.kept
    assert {parse_variant(text).id for text in beside} == {start.variant, kept.variant}
    looks = [(parent, text) for parent, texts in looked_at for text in texts]
    assert any("fast_10" in parent for parent, _ in looks)
    assert len(set(looks)) == len(looks)  # what was looked at ahead is known when it is asked for


@pytest.mark.long
def test_a_control_serves_the_next_hour_in_the_same_environment(
    root: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def age_s() -> float | None:
        summary = run(iterations=1)[-1].about
        assert isinstance(summary, RunSummary)
        assert summary.control is not None
        return summary.control.age_s

    assert age_s() is None
    assert 0 <= (age_s() or -1.0) < 600
    with refused(UsageError, "margin-below-noise-floor"):
        run(margin=0.0001, iterations=1)  # what was measured an hour ago still bounds the margin
    kept = next((tmp_path / "cache" / "measured").rglob("control-*.json"))
    kept.write_text(kept.read_text().replace('"1.2"', '"1.3"'))  # another driver's
    assert age_s() is None
    kept.write_text("{")
    assert age_s() is None


def test_a_control_that_finds_a_gain_ends_the_run(root: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu" / "bias").write_text("0.9")
    with refused(HarnessFault, "false-gain"):
        run()
    assert [record.kind for record in records(root)] == ["start"]


@pytest.mark.long
def test_a_margin_below_the_noise_is_refused(root: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu" / "noise").write_text("0.04")
    with refused(UsageError, "margin-below-noise-floor") as refusal:
        run(margin=0.01)
    assert "--margin" in refusal.value.hint
    run(iterations=1)  # a margin that nobody chose grows
    decision = records(root)[1].evaluation.decision
    assert decision is not None
    assert decision.evidence is not None
    assert (decision.evidence.margin or 0.0) > 0.03
    run(margin=0.2, iterations=1)
    assert [record.kind for record in records(root)][:3] == ["start", "rung", "review"]


@pytest.mark.long
@pytest.mark.parametrize("torch", [True, long(False)])
def test_what_is_kept_has_its_library_baseline_where_one_runs(
    root: Path, run: Run, tmp_path: Path, torch: bool
) -> None:
    reference = root / "kernels" / "scale" / "reference.py"
    reference.write_text(reference.read_text() + "\n\ndef rivals():\n    return {}\n")
    commit_all(root)
    if not torch:
        (tmp_path / "gpu" / "no_torch").touch()
    run(iterations=1)
    board = json.loads((root / "leaderboard.json").read_text())
    case = board["entries"][0]["cases"]["small"]
    assert case.get("baseline") == ({"name": "library", "p50_us": 12.0, "others": {"plain": 14.0}} if torch else None)
    shown = [taken.what for taken in measured_times(root, load_task(root, "scale"), CHIPS["h200"])["small"]]
    assert shown[1:] == (["rival library, in the same run", "rival plain, in the same run"] if torch else [])
    assert case["roofline_fraction"] > 0
    assert case["samples"] >= 1000


@pytest.mark.long
def test_a_champions_figures_are_taken_once_when_the_run_ends(root: Path, run: Run) -> None:
    events = run(iterations=2)
    start, kept, rejected, figures = records(root)
    assert (start.kind, kept.kept, rejected.kept) == ("start", True, False)

    def samples(record: Record) -> int:
        warm = record.evaluation.bench[0].warm
        assert warm is not None
        return warm.samples

    assert (samples(start), samples(kept)) == (16, 64 + 300)
    assert (figures.kind, figures.variant, figures.kept, figures.gain) == ("review", kept.variant, True, None)
    assert samples(figures) == 1000
    assert figures.evaluation.check is not None
    assert kept.evaluation.check is not None
    assert figures.evaluation.check.cases == kept.evaluation.check.cases  # nothing that was shown of it is lost
    assert figures.evaluation.check.sanitizer is not None
    assert kept.evaluation.check.sanitizer is None
    assert kept.evaluation.check.unseen is None
    assert rejected.evaluation.check is not None
    assert rejected.evaluation.check.unseen is not None
    board = json.loads((root / "leaderboard.json").read_text())["entries"][0]
    assert board["variant"] == kept.variant
    assert board["cases"]["small"]["samples"] == 1000
    summary = events[-1].about
    assert isinstance(summary, RunSummary)
    assert summary.trials == 2
    run(iterations=1)  # goes on from a champion that it knows, and changes nothing
    assert [record.kind for record in records(root)[4:]].count("review") == 0


@pytest.mark.long
def test_a_champion_that_compute_sanitizer_refuses_at_the_end_makes_way(
    root: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sanitize(requests: Sequence[RunRequest], index: str) -> Sanitized:
        kernel = requests[0].program.launches[0].launch.kernel
        if kernel != "fast_10":
            return Sanitized(state="clean", tools=("memcheck",))
        fault = Fault(kind=FaultKind.OUT_OF_BOUNDS, kernel=kernel, message="stray write")
        return Sanitized(state="found", tools=("memcheck",), reason="memcheck: stray write", fault=fault)

    monkeypatch.setattr("evo.evaluate.gate.sanitize", sanitize)
    events = run(iterations=1)
    start, kept, back = records(root)
    assert kept.kept
    assert (back.kind, back.variant, back.parent) == ("review", start.variant, kept.variant)
    assert "slow_20" in next((root / "kernels" / "scale" / "champions").glob("*.cu")).read_text()
    assert any("does not hold" in (event.note or "") for event in events)
    summary = events[-1].about
    assert isinstance(summary, RunSummary)
    assert summary.champion == start.variant


@pytest.mark.long
def test_a_lost_driver_ends_the_run_without_a_verdict_and_the_next_goes_on(
    root: Path, run: Run, tmp_path: Path
) -> None:
    lost = root / "kernels" / "scale" / "ladder" / "15_lost.cu"
    lost.write_text(named(FAST, "lost_5"))
    commit_all(root)
    with pytest.raises(EvoError) as error:
        run()
    assert error.value.exit_code == 5
    before = records(root)
    assert [record.kept for record in before] == [True, True]
    with pytest.raises(EvoError) as again:
        run()
    assert again.value.exit_code == 5
    (tmp_path / "gpu" / "gone").unlink()
    lost.unlink()
    commit_all(root)
    run()
    assert records(root)[: len(before)] == before
    assert len(records(root)) > len(before)


@pytest.mark.long
def test_figures_of_another_driver_are_not_compared(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(iterations=1)
    monkeypatch.setattr("evo.evaluate.session.harness_version", lambda: "0.0.0+another")
    events = run(iterations=1)
    notes = [event.note for event in events if event.note]
    assert any("not compared with this run's: harness 0.0.0+another against" in text for text in notes), notes
    summary = events[-1].about
    assert isinstance(summary, RunSummary)
    assert summary.start == {}
