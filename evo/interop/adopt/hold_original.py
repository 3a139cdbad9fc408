"""The original, held to a reference that was given: what it computes, and how, is what the task may ask of others."""

from __future__ import annotations

import enum

from evo.errors import UsageError
from evo.evaluate.gate.compare import compare
from evo.interop.adopt.trial import DraftTrial
from evo.results import CaseCheck, MismatchKind
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import SPECIAL, suited_to
from evo.spec.reference import Reference
from evo.spec.task import Task

_SEED = 7
_BUDGETS = (MismatchKind.MAX_ERROR, MismatchKind.RMS_ERROR, MismatchKind.BIAS)


class Lack(enum.Enum):
    """What the task asks that the original does not give, though it computes the reference."""

    ROUNDING = "rounding"  # it errs more than the reference does in float32
    SPECIALS = "specials"  # it makes something else of NaN, infinities or zeros


def hold_original(given: str, task: Task, reference: Reference, trial: DraftTrial) -> tuple[Lack | None, str]:
    """What the task has to ask less of, and what differs with other inputs than drawn ones, in words.

    Raises UsageError if the original computes something else than the reference, with the first element.
    """
    for case in task.check:
        check = _checked(task, trial, reference.expectation(case, _SEED), case.axes)
        if check.status.passed:
            continue
        if _is_rounding(check):
            return Lack.ROUNDING, f"the original is less accurate than the reference in float32: {check.reason}"
        sizes = ", ".join(f"{axis}={value}" for axis, value in case.axes.items())
        hint = "correct the one that is wrong; without --reference the kernel is held to what it computes now"
        raise UsageError(f"--reference {given!r} contradicts the kernel: at {sizes} {check.reason}", hint=hint)
    return _with_other_inputs(task, reference, trial)


def _with_other_inputs(task: Task, reference: Reference, trial: DraftTrial) -> tuple[Lack | None, str]:
    case, differs = task.check[0], ""
    for distribution in suited_to(tensor.dtype for tensor in task.inputs):
        expectation = reference.derived(case, _SEED, distribution)
        if expectation is None:
            continue
        check = _checked(task, trial, expectation, case.axes)
        if check.status.passed:
            continue
        reason = f"with {distribution} inputs the original differs from the reference: {check.reason}"
        if distribution == SPECIAL or _is_rounding(check):
            return Lack.SPECIALS if distribution == SPECIAL else Lack.ROUNDING, reason
        differs = differs or reason
    return None, differs


def _checked(task: Task, trial: DraftTrial, expectation: Expectation, axes: dict[str, int]) -> CaseCheck:
    outputs = trial.run(axes, races=False, others=expectation.inputs)
    return compare(task, task.check[0].name, outputs, expectation)


def _is_rounding(check: CaseCheck) -> bool:
    return check.mismatch is not None and check.mismatch.kind in _BUDGETS
