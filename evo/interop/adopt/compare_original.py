"""The original compared with a reference that the user gave: a task asks of others no more than the original gives."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from evo.errors import UsageError
from evo.evaluate.gate.compare import compare
from evo.evaluate.gate.input_patterns import PATTERNS, ROWS, ZEROS, patterned
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.oracle import Failing
from evo.results import CaseCheck, MismatchKind
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import SPECIAL, suited_to
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_SEED = 7
_CASES, _TURNS = 3, 3
_BUDGETS = (MismatchKind.MAX_ERROR, MismatchKind.RMS_ERROR, MismatchKind.BIAS)


class Shortfall(enum.Enum):
    """What the task asks that the original does not give, though it computes the reference."""

    ROUNDING = "rounding"  # it errs more than the reference does in float32
    SPECIALS = "specials"  # it makes something else of NaN, infinities or zeros


@dataclass(frozen=True)
class OriginalComparison:
    """What the task has to ask less of, at which case; and what differs, in words."""

    shortfall: Shortfall | None = None
    case: str = ""
    differs: str = ""


def compare_original(given: str, task: Task, reference: Reference, trial: DraftTrial) -> OriginalComparison:
    """What the original lacks of the reference, on drawn inputs and on others.

    Raises UsageError if the original computes something else than the reference, with the first element.
    """
    for case in (*task.check, *task.bench):
        try:
            check = _checked(task, trial, reference.expectation(case, _SEED), case.axes)
        except Failing:
            if case in task.check:
                raise
            continue  # a timed size that the simulator does not run whole
        if check.status.passed:
            continue
        if _is_rounding(check):
            differs = f"the original is less accurate than the reference in float32: {check.reason}"
            return OriginalComparison(Shortfall.ROUNDING, case.name, differs)
        sizes = ", ".join(f"{axis}={value}" for axis, value in case.axes.items())
        hint = "correct the one that is wrong; without --reference the kernel is held to what it computes now"
        raise UsageError(f"--reference {given!r} contradicts the kernel: at {sizes} {check.reason}", hint=hint)
    return _with_other_inputs(task, reference, trial)


def _with_other_inputs(task: Task, reference: Reference, trial: DraftTrial) -> OriginalComparison:
    differs = ""
    for case, distribution, expectation in _other_inputs(task, reference):
        check = _checked(task, trial, expectation, case.axes)
        if check.status.passed:
            continue
        reason = f"with {distribution} inputs the original differs from the reference: {check.reason}"
        if distribution in (SPECIAL, ZEROS, ROWS):
            return OriginalComparison(Shortfall.SPECIALS, case.name, reason)
        if _is_rounding(check):
            return OriginalComparison(Shortfall.ROUNDING, case.name, reason)
        differs = differs or reason
    return OriginalComparison(differs=differs)


def _other_inputs(task: Task, reference: Reference) -> Iterator[tuple[Case, str, Expectation]]:
    """What the gate will put in, on the first cases."""
    for case in task.check[:_CASES]:
        for distribution in suited_to(tensor.dtype for tensor in task.inputs):
            if (found := reference.derived(case, _SEED, distribution)) is not None:
                yield case, distribution, found
        for pattern in PATTERNS:
            for turn in range(_TURNS):
                if (found := patterned(task, reference, case, _SEED, pattern, turn=turn)) is not None:
                    yield case, pattern, found


def _checked(task: Task, trial: DraftTrial, expectation: Expectation, axes: dict[str, int]) -> CaseCheck:
    outputs = trial.run(axes, races=False, others=expectation.inputs)
    return compare(task, task.check[0].name, outputs, expectation)


def _is_rounding(check: CaseCheck) -> bool:
    return check.mismatch is not None and check.mismatch.kind in _BUDGETS
