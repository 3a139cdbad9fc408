"""One variant under evaluation: what is asked of it, how far it has come, and the parts of its gate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from evo.device.remote_device import RemoteSimulator
from evo.device.timing_types import StageTimer
from evo.evaluate import gate
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.evaluate.session import EvaluationSession
from evo.results import Check, Evaluation
from evo.spec.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant to be evaluated. `rival` is the text it is compared with (its parent), if any.

    upto: `check` ends at the gate, `timed` after a look at every timed size, `bench` goes on to times. neutral:
    KEEP_NEUTRAL may be the answer. full: all the checks and figures that a reader wants; without it those that the
    decision needs, so that what is not to be kept ends early. baseline: time the task's library rivals beside what is
    kept. sanitize: ask the GPU's own checkers before it is kept. static_rules=False is for `evo redteam` alone.
    prepared: what compiling the text gave, if that was done here. promise: the gain that a first look showed.
    """

    task: Task
    text: str
    path: str = "<variant>"
    seed: int = 0
    rival: str | None = None
    upto: str = "bench"
    margin: float | None = None
    neutral: bool = False
    static_rules: bool = True
    full: bool = True
    baseline: bool = False
    sanitize: bool = False
    prepared: Prepared | PrepareFailure | None = None
    promise: float | None = None


@dataclass(slots=True, kw_only=True)
class CheckedJob:
    """A job after compile and simulator checks, or one that failed them and has ended.

    rival: what it is compared with, where that was prepared too; otherwise the second half prepares it.
    is_on_target: whether the GPU has been through its check cases, and its timed sizes unless timing comes first.
    """

    job: Job
    base: Evaluation
    rival: Prepared | None = None
    prepared: Prepared | None = None
    check: Check | None = None
    stages: StageTimer = field(default_factory=StageTimer)
    elapsed_s: float = 0.0
    is_on_target: bool = False

    @property
    def ended(self) -> bool:
        return self.prepared is None or (self.check is not None and not self.check.status.passed)


def part_of_gate(
    started: CheckedJob,
    bench: EvaluationSession,
    places: gate.GateDevices,
    beside: RemoteSimulator | None = None,
    passed: Callable[[], object] = lambda: None,
) -> Check:
    """beside: a simulator that hunts while the check cases run; the verdict is that of one after the other.

    passed: is called once the check cases have passed, before the hunt has ended.
    """
    assert started.prepared is not None
    job, prepared = started.job, started.prepared
    hunts = places.half in (None, "checker")
    with ThreadPoolExecutor(1, thread_name_prefix=threading.current_thread().name) as threads:
        hunt = partial(bench.hunt, job.task, prepared, [beside or places.checker], job.seed, share=gate.QUICK)
        coming = threads.submit(hunt) if beside is not None and hunts else None
        check = gate.run_gate(job.task, prepared.programs, bench.reference(job.task), places, job.seed)
        if not check.status.passed or not hunts:
            return check
        passed()
        with started.stages.time("hunt"):
            found = coming.result() if coming is not None else hunt()
    return replace(found, cases=(*check.cases, *found.cases), counters=check.counters) if found else check


def is_timed_first(job: Job) -> bool:
    """Whether the first stage of timing comes before the numbers at the timed sizes: most candidates end there.

    What is not to be kept need not be shown to be right at every size, and its large outputs are most of the work.
    What is kept has passed the same checks as ever, and its second stage of timing in a fresh process comes after them.
    """
    return job.rival is not None and job.upto == "bench" and not job.full


_SURE = 1.05  # most of such trials end with a keep, and their looks take longer than their timing


def is_sure(job: Job) -> bool:
    """Whether the first look showed a gain from which the looks before a keep begin beside its gate and its timing."""
    return is_timed_first(job) and (job.promise or 0.0) > _SURE


def further_gate(started: CheckedJob, bench: EvaluationSession, check: Check | None, half: str | None) -> Check:
    """The check with a further part of the gate: of the check cases on the device, or of the timed sizes there."""
    bench.on_stage("gate")
    with started.stages.time("gate"):
        rest = part_of_gate(started, bench, _places(bench, half))
    return joined(check, rest) if check else rest


def gate_on_target(started: CheckedJob, bench: EvaluationSession) -> Check:
    """The GPU's parts of the gate, which take their turn there; the caller books their time."""
    with bench.turn:
        check = part_of_gate(started, bench, _places(bench, "target"))
        if check.status.passed and not is_timed_first(started.job):
            check = joined(check, part_of_gate(started, bench, _places(bench, "timed")))
    return check


def _places(bench: EvaluationSession, half: str | None) -> gate.GateDevices:
    return gate.GateDevices(checker=bench.checker, target=bench.target, half=half, tell=bench.on_stage)


def joined(check: Check, rest: Check) -> Check:
    """What a further part of the gate shows, with the cases of the part before it."""
    return replace(rest, cases=(*check.cases, *rest.cases), counters=check.counters)
