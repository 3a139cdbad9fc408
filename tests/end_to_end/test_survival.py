"""Hostile variants cost a process at most: the right results for the others, the right status for each of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import fake_gpu
import pytest
from hostile import HOSTILE as MISDEEDS
from hostile import hostile
from long_cases import long
from tiny import FAST, SLOW, named, new_repository

from evo.cuda.compile import process_pool as pool
from evo.device import DeviceName
from evo.errors import EvoError
from evo.evaluate.gate import run_cases as cases
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate, evaluate_all
from evo.results import Status, Verdict
from evo.spec.task import Task, load_task

SUPPORT = Path(__file__).resolve().parents[1] / "support"
HOSTILE = {
    "hang_5": (Status.TIMED_OUT, "still running after"),
    "trap_5": (Status.CRASHED, "trap in trap_5"),
    "stray_5": (Status.UNSAFE, "out of bounds"),
    "deep_5": (Status.UNSAFE, "stack overflow"),
    "memory_5": (Status.REFUSED, "memory in memory_5"),
    "crash_5": (Status.CRASHED, "illegal memory access while it was timed"),
    "segfault_5": (Status.CRASHED, "segmentation fault"),
    "bomb_5": (Status.UNCOMPILED, "the compiler crashed (signal SIGSEGV)"),
}


@pytest.fixture
def task(tmp_path: Path, faked_gpu: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The task, with a GPU that is faked in the worker's child and a compiler that one of the texts crashes."""
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cases, "_RUN_LIMIT_S", 8.0)
    real = pool._Compiler.run

    def run(self: pool._Compiler, job: dict[str, Any], time_limit_s: float) -> tuple[dict[str, Any], bytes]:
        if "bomb_5" in job["text"]:
            os.kill(self.child.pid, signal.SIGSEGV)
        return real(self, job, time_limit_s)

    monkeypatch.setattr(pool._Compiler, "run", run)
    return load_task(new_repository(tmp_path / "mine"), "scale")


def jobs_of(task: Task, kernels: list[str]) -> list[Job]:
    return [Job(task=task, text=named(FAST, kernel), path=kernel, rival=named(FAST, "parent_10")) for kernel in kernels]


@pytest.mark.long
@pytest.mark.parametrize("times", [(4, 8, 10, 12, 14, 18, 22), long(tuple(range(4, 26, 2)))])
def test_eight_hostile_variants_spoil_nothing(
    task: Task, times: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "_RUN_LIMIT_S", 3.0)  # those that do not hang run for milliseconds
    good = [f"good_{us}" for us in times]
    good.append("killed_7")  # its process is killed from outside, once: nobody's fault, so it runs again
    hostile = list(HOSTILE)
    mixed = [
        kernel
        for pair in zip(good, [*hostile, *[""] * (len(good) - len(hostile))], strict=True)
        for kernel in pair
        if kernel
    ]
    with EvaluationSession(DeviceName("gpu", "0"), opener=fake_gpu.OPENER) as bench:
        found = {job.path: evaluation for job, evaluation in evaluate_all(jobs_of(task, mixed), bench, ahead=2)}
        starts = bench.remote.starts
    assert list(found) == mixed
    for kernel, (status, words) in HOSTILE.items():
        assert (kernel, found[kernel].status) == (kernel, status), found[kernel].reason
        assert words in str(found[kernel].reason)
        assert found[kernel].bench == ()
    for kernel in good:
        evaluation, us = found[kernel], float(kernel.rpartition("_")[2])
        assert (kernel, evaluation.status, evaluation.reason) == (kernel, Status.MEASURED, None)
        assert evaluation.bench[0].time_us == pytest.approx(us, rel=0.01)
        assert evaluation.decision is not None
        assert evaluation.decision.verdict is (Verdict.KEEP if us < 9.7 else Verdict.REVERT)
        assert evaluation.environment.timing == "measured"
    assert starts <= 1 + 6 + 1 + 4  # faults, the kill, and a fresh process for each confirmation


@pytest.mark.long
def test_real_misdeeds_on_the_simulator_are_named_and_the_rest_is_right(task: Task) -> None:
    texts = {name: hostile(name) for name in MISDEEDS} | {"right": FAST, "slow": SLOW}
    with EvaluationSession(DeviceName("sim", "l4")) as bench:
        jobs = [Job(task=task, text=text, path=name, rival=SLOW) for name, text in texts.items()]
        found = {job.path: evaluation for job, evaluation in evaluate_all(jobs, bench)}
    statuses = {name: evaluation.status for name, evaluation in found.items()}
    right = {"right": Status.CORRECT, "slow": Status.CORRECT}
    assert statuses == {name: misdeed.simulated for name, misdeed in MISDEEDS.items()} | right
    assert found["right"].decision is not None
    assert found["right"].decision.verdict is Verdict.KEEP


def test_a_lost_driver_is_the_harness_s_and_no_verdict(task: Task) -> None:
    with EvaluationSession(DeviceName("gpu", "0"), opener=fake_gpu.OPENER) as bench:
        assert evaluate(jobs_of(task, ["good_4"])[0], bench).status is Status.MEASURED
        for _ in range(2):
            with pytest.raises(EvoError) as lost:
                evaluate(jobs_of(task, ["lost_5"])[0], bench)
            assert lost.value.exit_code == 5


def test_duplicates_by_machine_code_are_evaluated_once(task: Task) -> None:
    twins = [named(FAST, "good_4"), "// the same\n\n" + named(FAST, "good_4"), named(FAST, "good_4") + "// more\n"]
    jobs = [Job(task=task, text=text, rival=named(FAST, "parent_10")) for text in twins]
    with EvaluationSession(DeviceName("gpu", "0"), opener=fake_gpu.OPENER) as bench:
        first, *others = [evaluation for _, evaluation in evaluate_all(jobs, bench, ahead=2)]
    for other in others:
        assert other.same_code_as == first.variant
        assert (other.bench, other.decision) == (first.bench, first.decision)
