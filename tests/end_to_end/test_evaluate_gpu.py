"""One variant through the pipeline on a GPU that is faked in the worker's child: checkers and controls, asked once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_gpu
import pytest
from long_cases import long
from tiny import FAST, SLOW, named, new_repository

from evo.cli import evaluation_view
from evo.decide.capture_noise import ASSUMED
from evo.device import DeviceName
from evo.evaluate import gate, session
from evo.evaluate.before_keep import before_keep
from evo.evaluate.look_process import looks_begun
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate, start
from evo.evaluate.prepare import Prepared
from evo.results import SanitizerReport
from evo.spec.task import Task, load_task

SUPPORT = Path(__file__).resolve().parents[1] / "support"


PARENT, CHILD = named(SLOW, "slow_20"), named(FAST, "fast_10")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(new_repository(tmp_path / "mine"), "scale")


@pytest.fixture
def bench(faked_gpu: Path) -> Iterator[EvaluationSession]:
    with EvaluationSession(DeviceName("gpu", "0"), opener=fake_gpu.OPENER) as bench_session:
        yield bench_session


@pytest.mark.long
def test_machine_code_that_the_checkers_passed_is_not_run_under_them_again(
    task: Task, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def sanitize(requests: list[object], index: str) -> gate.Sanitized:
        asked.append(len(requests))
        return gate.Sanitized(state="clean", tools=("memcheck",))

    monkeypatch.setattr(gate, "sanitize", sanitize)
    job = Job(task=task, text=CHILD, rival=PARENT, sanitize=True)
    first, second = evaluate(job, bench), evaluate(job, bench)
    assert asked == [2]
    assert first.check is not None
    assert second.check is not None
    assert first.check.sanitizer == SanitizerReport(state="clean", tools=("memcheck",))
    assert second.check.sanitizer == SanitizerReport(state="clean", tools=("memcheck",), cached=True)
    assert "sanitize" in first.stages_s
    assert "sanitize" not in second.stages_s


def test_an_interval_says_what_it_was_widened_by(task: Task, bench: EvaluationSession) -> None:
    job = Job(task=task, text=CHILD, rival=PARENT)
    assumed = evaluate(job, bench).decision
    assert assumed is not None
    assert assumed.evidence is not None
    assert assumed.evidence.between_captures == ASSUMED
    floor = bench.control(task, PARENT, 0)
    assert floor.between is not None
    measured = evaluate(job, bench).decision
    assert measured is not None
    assert measured.evidence is not None
    said = measured.evidence.between_captures
    assert said is not None
    assert (said.captures, said.assumed) == (4, False)
    assert said.sd == pytest.approx(floor.between.sd, abs=1e-7)
    shown = bench.controls[task.hash].between_captures
    assert shown is not None
    assert shown.captures == 4


def test_times_with_inputs_kept_in_l2_stand_beside_the_usual_ones(
    task: Task, bench: EvaluationSession, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = evaluate(Job(task=task, text=CHILD), bench)
    kept = bench.persisting(task, CHILD, 0)
    evaluation_view.show_persisting(evaluation.bench, kept)
    shown = capsys.readouterr().out
    assert [case.name for case in kept] == [case.name for case in evaluation.bench]
    assert "1.11" in shown
    assert "such a time is never recorded" in shown
    evaluation_view.show_persisting(evaluation.bench, ())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("rival", [None, long(PARENT)])
def test_looks_beside_the_timing_see_what_looks_after_it_see(
    task: Task, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch, rival: str | None
) -> None:
    monkeypatch.setattr(gate, "sanitize", lambda *_: gate.Sanitized(state="clean", tools=("memcheck",)))
    job = Job(task=task, text=CHILD, rival=rival, full=False, sanitize=rival is None)
    begun: list[bool] = []
    monkeypatch.setattr(session, "CORES_TO_SPARE", 1000)
    after = evaluate(job, bench)
    monkeypatch.setattr(session, "CORES_TO_SPARE", 1)
    monkeypatch.setattr(bench, "_timed", {})  # a look is kept by variant and seed
    monkeypatch.setattr(session, "looks_begun", lambda *given: begun.append(True) or looks_begun(*given))
    beside = evaluate(job, bench)
    assert begun == [True]
    assert after.check is not None
    assert after.check.verified is not None
    assert beside.check is not None
    assert beside.check.verified == after.check.verified


def test_what_comes_next_is_looked_at_while_simulators_look_at_a_start(
    task: Task, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "sanitize", lambda *_: gate.Sanitized(state="clean", tools=("memcheck",)))
    monkeypatch.setattr(session, "CORES_TO_SPARE", 1)
    asked: list[str] = []
    begun, is_judged = threading.Event(), threading.Event()

    def ahead(text: str) -> None:
        with bench.turn:  # which the start has left
            begun.set()
            assert is_judged.wait(60)  # its verdict does not wait for what comes next
            asked.append(text)

    bench.beside.control = lambda _: asked.append("control")
    bench.beside.ahead = ahead
    assert evaluate(Job(task=task, text=CHILD, sanitize=True), bench).status.passed
    assert begun.wait(60)
    is_judged.set()
    bench.beside.end(waits=True)
    assert asked == [CHILD, "control"]


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_decided_waits_for_the_control_of_a_start(
    task: Task, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(gate, "sanitize", lambda *_: gate.Sanitized(state="clean", tools=("memcheck",)))
    monkeypatch.setattr(session, "CORES_TO_SPARE", 1)
    asked: list[str] = []
    is_judged = threading.Event()

    def control(_: object) -> None:
        assert is_judged.wait(60)  # the start's verdict does not wait for it
        with bench.turn:
            asked.append("control")
        if fails:
            raise RuntimeError("a defect keeps no verdict waiting for ever")

    bench.beside.control = control
    assert evaluate(Job(task=task, text=PARENT, sanitize=True), bench).status.passed
    threading.Timer(0.3, is_judged.set).start()
    assert evaluate(Job(task=task, text=CHILD, rival=PARENT), bench).decision is not None
    assert asked == ["control"]


def test_looks_at_what_comes_next_wait_for_those_that_are_waited_for(
    task: Task, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "sanitize", lambda *_: gate.Sanitized(state="clean", tools=("memcheck",)))
    monkeypatch.setattr(session, "CORES_TO_SPARE", 1)
    begun: list[str] = []
    monkeypatch.setattr(
        session, "looks_begun", lambda *given: begun.append(given[2].variant.text) or looks_begun(*given)
    )
    following = bench.prepare(task, PARENT)
    assert isinstance(following, Prepared)

    def waited_for(*looks: Any, **more: Any) -> gate.TimedSizes:
        bench.begin_looks(task, following, 0, early=True)
        return before_keep(*looks, **more)

    monkeypatch.setattr(session, "before_keep", waited_for)
    assert evaluate(Job(task=task, text=CHILD, sanitize=True), bench).status.passed
    assert begun == [CHILD]
    bench.begin_looks(task, following, 0, early=True)
    assert begun == [CHILD, PARENT]


def test_looks_at_what_was_not_kept_keep_nobody_waiting(
    task: Task, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(session, "CORES_TO_SPARE", 1)
    monkeypatch.setattr(session, "looks_begun", lambda *given: begun.append(True) or looks_begun(*given))
    slower = Job(task=task, text=PARENT, rival=CHILD, full=False, promise=2.0)  # a first look may be mistaken
    assert not evaluate(slower, bench).kept
    start(Job(task=task, text=CHILD, rival=PARENT, full=False, promise=1.1), bench, bench.checker)
    assert begun == [True, True]
