"""A first look at many variants on a GPU: compile, load, one guarded and checked run, a short timing.

The cheap first stage in front of `evaluate`: it says what is worth a trial, decides nothing and is never recorded.
While one variant is on the GPU the next are compiled. On the simulator `Workbench.screen` does the like with estimates.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from evo import gate
from evo.bench import BenchOptions, BenchRequest
from evo.decide_modelled import CASE_LOSS
from evo.device import BenchCase, RunRequest, RunResult
from evo.device.samples import BenchResult, Stages
from evo.device.worker import Crashed, TimedOut
from evo.errors import UsageError
from evo.prepare import Failed, Prepared, prepare
from evo.reference import Expectation
from evo.result import Status
from evo.task import Case, Task
from evo.workbench import Workbench, screened_gain

_LIMIT_S = 20.0
_MOST_AHEAD = 8
_LARGER = 4  # times the headline's work
_OPTIONS = BenchOptions(samples=8, cold_samples=0, warm_up_s=0.0, budget_s=2.0)  # one block


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What a first look showed: MEASURED with a time, or how far the variant got and why."""

    variant: str
    status: Status
    reason: str | None = None
    p50_us: float | None = None
    stages_s: dict[str, float] = field(default_factory=dict)


def screen_all(
    task: Task, texts: Iterable[str], bench: Workbench, *, case: Case | None = None, seed: int = 0
) -> Iterator[Screened]:
    """Screen variants in order at one case (default: the headline), each compiled while others are on the GPU.

    Raises UsageError on a simulator, EvoError for harness failures.
    """
    if bench.modelled:
        raise UsageError("a first look on hardware needs a GPU", hint="use --device gpu:0")
    case = case or task.case(task.headline)
    expectation = bench.reference(task).expectation(case, seed)
    ahead = min(os.cpu_count() or 1, _MOST_AHEAD)

    def compiled(text: str) -> tuple[Prepared | Failed, Stages]:
        stages = Stages()
        with stages.time("compile"):
            return prepare(task, text, chip=bench.chip, arch=bench.arch, cases=[case]), stages

    waiting = iter(texts)
    with ThreadPoolExecutor(max_workers=ahead, thread_name_prefix="evo-screen") as pool:
        queue: deque[Future[tuple[Prepared | Failed, Stages]]] = deque(
            pool.submit(compiled, text) for text in islice(waiting, ahead + 1)
        )
        try:
            while queue:
                prepared, stages = queue.popleft().result()
                queue.extend(pool.submit(compiled, text) for text in islice(waiting, 1))
                yield _screened(task, prepared, stages, bench, case, expectation)
        finally:
            for future in queue:
                future.cancel()


def screened_gains(bench: Workbench, task: Task, parent: str, texts: Sequence[str], seed: int) -> list[float | None]:
    """Quick gains over the parent, to choose what to try: modelled, or measured at the headline case and a larger one.

    None where a text does not come as far as a time. On a GPU the parent is timed first and last, against drift.
    """
    if bench.modelled:
        return bench.screen(task, parent, texts, seed)
    gains: list[dict[str, float]] = [{} for _ in texts]
    hopeful = list(range(len(texts)))
    for case in _first_looks(task):
        found = _measured(bench, task, case, parent, [texts[place] for place in hopeful], seed)
        for place, gain in zip(hopeful, found, strict=True):
            if gain is not None:
                gains[place][case.name] = gain
        # A keep may make no case slower: what loses here is no better for what it gains elsewhere.
        hopeful = [place for place in hopeful if gains[place].get(case.name, 0.0) > 1 - 2 * CASE_LOSS]
    return [screened_gain(each, task.score) if each else None for each in gains]


def _first_looks(task: Task) -> list[Case]:
    """The headline, and the least of the bench cases with several times its work: a small launch hides what pays."""

    def work(case: Case) -> float:
        known = task.work_of(case)
        return known.get("flop") or known.get("bytes") or 0.0

    headline = task.case(task.headline)
    enough = _LARGER * work(headline)
    larger = sorted((case for case in task.bench if work(case) >= enough > 0), key=work)
    return [headline, *larger[:1]]


def _measured(
    bench: Workbench, task: Task, case: Case, parent: str, texts: Sequence[str], seed: int
) -> list[float | None]:
    if not texts:
        return []
    before, *rows, after = screen_all(task, [parent, *texts, parent], bench, case=case, seed=seed)
    ends = [row.p50_us for row in (before, after) if row.p50_us is not None]
    return [min(ends) / row.p50_us if ends and row.p50_us is not None else None for row in rows]


def _screened(
    task: Task, prepared: Prepared | Failed, stages: Stages, bench: Workbench, case: Case, expectation: Expectation
) -> Screened:
    if isinstance(prepared, Failed):
        return Screened(
            variant=prepared.variant, status=prepared.status, reason=prepared.reason, stages_s=stages.seconds
        )
    program, variant = prepared.programs[case.name], prepared.variant.id

    def ended(status: Status, reason: str | None) -> Screened:
        return Screened(variant=variant, status=status, reason=reason, stages_s=stages.seconds)

    try:
        with stages.time("check"):
            request = RunRequest(program=program, inputs=expectation.inputs)
            ran: RunResult = bench.worker.call("run", request, time_limit_s=_LIMIT_S)
            if ran.faults:
                return ended(gate.fault_status(ran.faults[0]), gate.fault_reason(ran.faults[0]))
            if touched := (*ran.overwritten, *ran.broken_guards):
                return ended(Status.UNSAFE, f"wrote where it may not: {', '.join(touched)}")
            row = gate.compare(task, case.name, ran.outputs[0], expectation)
        if row.status is not Status.CORRECT:
            return ended(row.status, row.reason)
        with stages.time("bench"):
            timed = BenchRequest(child=(BenchCase(program=program, inputs=expectation.inputs),), options=_OPTIONS)
            found: BenchResult = bench.worker.call("bench", timed, time_limit_s=_LIMIT_S)
    except TimedOut as late:
        return ended(Status.TIMED_OUT, str(late))
    except Crashed as crash:
        return ended(Status.CRASHED, str(crash))
    if found.divergence is not None:
        return ended(Status.UNSTABLE, f"while timing: {gate.fault_reason(found.divergence)}")
    return Screened(variant=variant, status=Status.MEASURED, p50_us=found.child[0].time_us, stages_s=stages.seconds)
