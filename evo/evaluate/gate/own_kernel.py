"""The task's own first kernel, and what it errs on inputs of the gate's making.

Where many terms are alike, a sum of one after the other is rounded to one side: on such inputs an honest kernel may be
beyond a tolerance that was meant for the task's own. A variant is held to no less there than the first kernel errs.
And where whole numbers follow from near ties that the first kernel tells apart one and all, a variant has to as well:
nothing is rounded on the way to them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evo.device import Program
from evo.device.remote_device import RemoteDevice
from evo.errors import TaskInvalid
from evo.evaluate.gate.outlying_inputs import near_ties
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step, check_case
from evo.results import CaseCheck, Fault, MismatchKind, Status
from evo.spec.derived_inputs import defined
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import domain_of, largest
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor
from evo.spec.variant import Variant, parse_variant

NEAR_TIES = "near_ties"
_ROUNDED = (MismatchKind.TOLERANCE, MismatchKind.MAX_ERROR, MismatchKind.RMS_ERROR)
_MORE = 2.0  # times its error: another order of a sum
_MOST = 8.0  # times the tolerance: what is further off is wrong, whoever wrote it
_FAR, _SMALL = (0.6, 0.98), (30.0, 60.0)  # the share of the largest number, and the exponents of two below one
_FEW_BEYOND = 0.9  # of the elements are no further out than what counts as far


class _Size(enum.IntEnum):
    """Of near ties. Some are as the task draws its inputs, over and over: who rounds is right on one by chance."""

    DRAWN = 0
    AGAIN = enum.auto()
    ONCE_MORE = enum.auto()
    FAR = enum.auto()
    TINY = enum.auto()


_AS_DRAWN = (_Size.DRAWN, _Size.AGAIN, _Size.ONCE_MORE)


def own_kernel(task: Task) -> str | None:
    """The text of the task's first kernel: the lowest rung, or what was adopted; None if it has neither."""
    named = (*task.ladder(), task.folder / "original.cu")
    return next((path.read_text(encoding="utf-8") for path in named if path.is_file()), None)


def is_original(task: Task, variant: Variant) -> bool:
    """Whether a variant is what the task was adopted from, which is its reference: its numbers are right by that."""
    path = task.folder / "original.cu"
    return path.is_file() and parse_variant(path.read_text(encoding="utf-8"), path=path.name).id == variant.id


def is_by_rounding(row: CaseCheck) -> bool:
    """Whether a case is wrong by numbers beyond their limits, which sums in another order may be."""
    return row.status is Status.WRONG and row.mismatch is not None and row.mismatch.kind in _ROUNDED


def is_own_too(
    task: Task,
    programs: Mapping[str, Program],
    honest: Bind | None,
    step: Step,
    expectation: Expectation,
    row: CaseCheck,
) -> bool:
    """Whether the task's own kernel is no better there: numbers are beyond their limits by rounding, and it errs about
    as much; or whole numbers are not the reference's, and are, one and all, what it gives: a label by distances of
    numbers so far out that floats do not tell them apart.

    honest: its programs. row: what the variant showed in this step.
    """
    own = honest([step.case]) if honest is not None and (is_by_rounding(row) or _is_whole_otherwise(row)) else {}
    if step.case.name not in own:
        return False
    plain = replace(step, check_races=False)
    theirs, result, _ = check_case(task, own, expectation, plain, {})
    if is_by_rounding(row):
        return _errs_alike(task, row, theirs, expectation)
    if result is None or not _is_whole_otherwise(theirs):
        return False
    whole = {t.name: result.outputs[0][t.name] for t in task.outputs if not is_float(t.dtype)}
    trusted = None if expectation.trusted is None else {**expectation.trusted, **whole}
    given = replace(expectation, expected={**expectation.expected, **whole}, trusted=trusted, memo={})
    return check_case(task, programs, given, plain, {})[0].status is Status.CORRECT


def _errs_alike(task: Task, row: CaseCheck, theirs: CaseCheck, expectation: Expectation) -> bool:
    if theirs.mismatch is None or theirs.mismatch.kind not in _ROUNDED or theirs.max_error is None:
        return False
    largest = float(np.max(np.abs(expectation.expected[theirs.mismatch.tensor]), initial=0.0))
    if theirs.max_error > _MOST * _allowed(task, largest) or _is_far(task, theirs):
        return False
    pairs = (row.max_error, theirs.max_error), (row.rms_error, theirs.rms_error)
    return all(ours is not None and other is not None and ours <= _MORE * other for ours, other in pairs)


def _is_whole_otherwise(row: CaseCheck) -> bool:
    return row.status is Status.WRONG and row.mismatch is not None and row.mismatch.kind is MismatchKind.DIFFERENT


def is_own_wrong(task: Task, honest: Bind | None, case: Case, expectation: Expectation, device: RemoteDevice) -> bool:
    """Whether the task's own kernel has wrong numbers on these inputs: of numbers whose squares overflow nobody may ask
    more than it gives, and a reference that computes in float64 does not show that they do.
    """
    programs = honest([case]) if honest is not None else {}
    if case.name not in programs:
        return False
    row, _, _ = check_case(task, programs, expectation, Step(case, device, budget=CHECK_BUDGET), {})
    return row.status is Status.WRONG


def wrong_at_near_ties(
    task: Task, programs: Mapping[str, Program], honest: Bind, reference: Reference, device: RemoteDevice, seed: int
) -> tuple[Step, CaseCheck, tuple[Fault, ...]] | None:
    """Of a task whose outputs are whole numbers, the first check case at which the variant takes a near tie otherwise:
    as large as the inputs are drawn, far out, and so small that differences are next to nothing.

    honest: programs of the first kernel.
    """
    floats = [tensor for tensor in task.inputs if is_float(tensor.dtype) and tensor.domain != "fixed"]
    if not floats or any(is_float(tensor.dtype) for tensor in task.outputs) or task.tolerance.integers:
        return None
    own = honest(task.check)
    tries: list[tuple[Step, Expectation]] = []
    for size, case in ((size, case) for size in _Size for case in task.check if case.name in own):
        rng = np.random.default_rng([seed, 91, size, *case.name.encode()])
        drawn = reference.inputs(case, seed)
        changed = {t.name: _near_ties(drawn[t.name], t, rng, size) for t in floats}
        try:
            expectation = reference.expectation_of(drawn | changed, case)
        except TaskInvalid:  # it holds inputs to a condition that other values break
            continue
        step = Step(case, device, distribution=NEAR_TIES, budget=CHECK_BUDGET)
        theirs, _, _ = check_case(task, own, expectation, step, {})
        if theirs.status is Status.CORRECT:
            tries.append((step, expectation))
        elif size in _AS_DRAWN:
            return None
    for step, expectation in tries:
        row, _, faults = check_case(task, programs, expectation, step, {})
        if row.status is not Status.CORRECT:
            return step, row, faults
    return None


def _near_ties(
    drawn: NDArray[np.generic], tensor: Tensor, rng: np.random.Generator, size: _Size
) -> NDArray[np.generic]:
    """Near ties in the place of a tensor."""
    values, kind = drawn.astype(np.float64), NUMPY[tensor.dtype]
    sizes = np.abs(values)
    is_real = (tensor.domain or domain_of(tensor.dtype, drawn)) == "real"
    if size not in _AS_DRAWN and is_real:
        most = largest(tensor.dtype) * rng.uniform(*_FAR) if size is _Size.FAR else 2.0 ** -rng.uniform(*_SMALL)
        values = np.clip(values * (most / (float(np.quantile(sizes, _FEW_BEYOND)) or 1.0)), -most, most)
    found = near_ties(values.astype(kind).astype(np.float64), tensor.dtype, rng)
    if not is_real:
        found = np.clip(np.abs(found), sizes.min(initial=np.inf), sizes.max(initial=0.0))
    return defined(tensor, np.ascontiguousarray(found.astype(kind)), drawn)


def _is_far(task: Task, row: CaseCheck) -> bool:
    found = row.mismatch
    if found is None or found.kind is not MismatchKind.TOLERANCE or found.got is None or found.expected is None:
        return False
    return abs(float(found.got) - float(found.expected)) > _MOST * _allowed(task, abs(float(found.expected)))


def _allowed(task: Task, size: float) -> float:
    return task.tolerance.atol + task.tolerance.rtol * size
