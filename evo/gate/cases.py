"""Running a variant's cases on workers, and what became of each: faults, overwritten inputs, numbers, stability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from evo.device import POISON_LARGE, Program, RunRequest, RunResult
from evo.device.worker import Crashed, TimedOut, Worker
from evo.gate.compare import compare, first_difference
from evo.reference import Reference
from evo.result import CaseCheck, Check, Fault, Status
from evo.task import Case, Task

_RUN_LIMIT_S = 120.0
_OFFSET_BYTES = 16  # the second run's shift: aligned for the widest access, unlike the first run's 256
_DETERMINISM_REPEATS = 10
_CHECK_BUDGET = 100_000_000  # warp instructions: check cases are small, and an endless loop should end in seconds

_FAULT_STATUS = {
    "budget": Status.TIMED_OUT,
    "trap": Status.CRASHED,
    "launch": Status.REFUSED,
    "unsupported": Status.REFUSED,
}


def fault_status(fault: Fault) -> Status:
    return _FAULT_STATUS.get(fault.kind, Status.UNSAFE)


def fault_reason(fault: Fault) -> str:
    """One line: what happened, and where in the source."""
    where = f"line {fault.source_line}: " if fault.source_line is not None else ""
    return f"{where}{fault.kind.replace('_', ' ')}: {fault.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where cases run. checker: a simulator worker, always. target: the GPU worker, or None on the simulator.

    half: `checker` or `target` to run that part alone, so that one variant's first part may overlap another's second.
    """

    checker: Worker
    target: Worker | None
    half: str | None = None


def run_gate(task: Task, programs: Mapping[str, Program], reference: Reference, places: Places, seed: int) -> Check:
    """Every check case, and the bench cases that the device can run whole. Raises EvoError for the harness only."""
    rows: list[CaseCheck] = []
    counters: dict[str, int] = {}
    for step in _steps(task, places):
        row, result, faults = _check_case(task, programs, reference, step, seed)
        rows.append(row)
        if result is not None and step.counted:
            for name, value in result.counters.items():
                counters[name] = counters.get(name, 0) + value
        if row.status is not Status.CORRECT:
            reason = f"case {row.name}: {row.reason}"
            return Check(status=row.status, reason=reason, cases=tuple(rows), faults=faults, counters=counters)
    return Check(status=Status.CORRECT, cases=tuple(rows), counters=counters)


@dataclass(frozen=True, slots=True)
class _Step:
    case: Case
    worker: Worker
    check_races: bool
    repeats: int = 1
    second_poison: bool = True
    budget: int | None = None
    counted: bool = False  # its counters go into the check's totals


def _steps(task: Task, places: Places) -> Iterator[_Step]:
    # The simulator's checkers see races and uninitialised reads that no tool sees on a GPU, so they always run.
    if places.half != "target":
        for case in task.check:
            yield _Step(case, places.checker, True, counted=True, budget=_CHECK_BUDGET)
    if places.half == "checker":
        return
    headline = task.case(task.headline)
    if places.target is None:
        # The check cases have been through races and the second poison; this one is large and guards its own shape.
        yield _Step(headline, places.checker, False, second_poison=False)
        return
    for case in (*task.check, *task.bench):
        repeats = _DETERMINISM_REPEATS if case in (task.check[0], headline) else 2
        yield _Step(case, places.target, True, repeats)


def _check_case(
    task: Task, programs: Mapping[str, Program], reference: Reference, step: _Step, seed: int
) -> tuple[CaseCheck, RunResult | None, tuple[Fault, ...]]:
    case = step.case
    expectation = reference.expectation(case, seed)
    first = RunRequest(
        program=programs[case.name],
        inputs=expectation.inputs,
        repeats=step.repeats,
        check_races=step.check_races,
        budget=step.budget,
    )
    result = _run(step.worker, first, case)
    if isinstance(result, CaseCheck):
        return result, None, ()
    if problem := _run_problem(case, result):
        return problem, result, result.faults
    row = compare(task, case.name, result.outputs[0], expectation)
    if row.status is not Status.CORRECT:
        return row, result, ()
    for again in result.outputs[1:]:
        if difference := first_difference(result.outputs[0], again):
            return _unstable(row, f"differs between launches: {difference}"), result, ()
    if not step.second_poison:
        return row, result, ()
    second = replace(first, poison=POISON_LARGE, offset_bytes=_OFFSET_BYTES, repeats=1, check_races=False)
    shifted = _run(step.worker, second, case)
    if isinstance(shifted, CaseCheck):
        return shifted, None, ()
    if problem := _run_problem(case, shifted):
        return problem, shifted, shifted.faults
    if difference := first_difference(result.outputs[0], shifted.outputs[0]):
        return _unstable(row, f"differs when memory held other values before: {difference}"), result, ()
    return row, result, ()


def _unstable(row: CaseCheck, reason: str) -> CaseCheck:
    return replace(row, status=Status.UNSTABLE, reason=reason)


def _run(worker: Worker, request: RunRequest, case: Case) -> RunResult | CaseCheck:
    try:
        result: RunResult = worker.call("run", request, time_limit_s=_RUN_LIMIT_S)
    except TimedOut as late:
        reason = f"still running after {late.seconds:g} s"
        return CaseCheck(name=case.name, status=Status.TIMED_OUT, reason=reason)
    except Crashed as crash:
        return CaseCheck(name=case.name, status=Status.CRASHED, reason=str(crash))
    return result


def _run_problem(case: Case, result: RunResult) -> CaseCheck | None:
    if result.faults:
        fault = result.faults[0]
        return CaseCheck(name=case.name, status=fault_status(fault), reason=fault_reason(fault))
    if result.overwritten:
        names = ", ".join(result.overwritten)
        return CaseCheck(name=case.name, status=Status.UNSAFE, reason=f"read only: input overwritten: {names}")
    if result.broken_guards:
        names = ", ".join(result.broken_guards)
        return CaseCheck(name=case.name, status=Status.UNSAFE, reason=f"out of bounds: wrote past the ends of {names}")
    return None
