"""The A/A control of a night: a program against itself, before any comparison."""

from __future__ import annotations

from dataclasses import dataclass

from evo.decide.sequential import DEFAULT_RULE, decide_modelled
from evo.errors import EvoError, HarnessFault
from evo.evaluate.pipeline import EvaluationSession
from evo.evaluate.prepare import PrepareFailure
from evo.results import CaseBench, Fault, Verdict
from evo.spec.task import Task

_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOutcome:
    """The control's result. problem: why times of this task may not be compared tonight; None if they may.

    broken: the program does not run; this says nothing about the machine.
    """

    text: str
    problem: str | None = None
    broken: bool = False


def control(
    bench: EvaluationSession, task: Task, text: str, seed: int, *, margin: float | None = None
) -> ControlOutcome:
    """On a GPU the loop's own control, which gives the noise floor; on the simulator, the model twice.

    A failed control is a finding and never raises.
    """
    try:
        prepared = bench.prepare(task, text)
        if isinstance(prepared, PrepareFailure):
            said = f"none, because it does not run: {prepared.reason}"
            return ControlOutcome(text=said, problem=said, broken=True)
        return _modelled(bench, task, text, seed) if bench.modelled else _measured(bench, task, text, seed, margin)
    except EvoError as error:
        return ControlOutcome(text=error.message, problem=error.message)


def _measured(bench: EvaluationSession, task: Task, text: str, seed: int, margin: float | None) -> ControlOutcome:
    floor = bench.control(task, text, seed, margin=margin)
    said = (
        f"scatters by {floor.sd:.2%} a pair ({floor.pairs} pairs), which supports a margin of "
        f"{floor.smallest_margin(DEFAULT_RULE.fewest_pairs):.2%} and more"
    )
    return ControlOutcome(text=said)


def _modelled(bench: EvaluationSession, task: Task, text: str, seed: int) -> ControlOutcome:
    first, second = (_estimate(bench, task, text, seed) for _ in range(2))
    decision = decide_modelled(first, second, task.score)
    same = all(one.time_us == other.time_us for one, other in zip(first, second, strict=True))
    if decision.verdict is Verdict.REVERT and same:
        return ControlOutcome(text=f"the same modelled time in all {len(first)} cases, twice")
    text = f"the model gave one kernel two times: {decision.reason}"
    return ControlOutcome(text=text, problem=text)


def _estimate(bench: EvaluationSession, task: Task, text: str, seed: int) -> tuple[CaseBench, ...]:
    """An estimate without the session's cache: the second time must be computed again."""
    prepared = bench.prepare(task, text)
    if isinstance(prepared, PrepareFailure):
        raise HarnessFault(f"does not run: {prepared.reason}", hint="`evo check` says more")
    found = bench.checker.estimate(bench.bench_cases(task, prepared, seed), time_limit_s=_LIMIT_S)
    if isinstance(found, Fault):
        raise HarnessFault(f"faults: {found.message}", hint="`evo check` says more")
    return found
