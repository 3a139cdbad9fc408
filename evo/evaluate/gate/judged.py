"""Large outputs that a judge compared where its truth lies: whether they are right, by the same sums and budgets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.device.error_sums import ErrorSums, TruthSums
from evo.evaluate.gate.error_budget import Base, ErrorBudget, base_of, errors_of
from evo.results import CaseCheck, Status
from evo.spec.blocks import exact_sum
from evo.spec.expectation import JudgedOutput, JudgedTruth
from evo.spec.input_distributions import UNBIASED
from evo.spec.task import Task

Sums = NDArray[np.float64]


def compared_by_judge(
    task: Task, name: str, outputs: Arrays, judged: JudgedTruth, distribution: str
) -> CaseCheck | None:
    """The row of a case whose outputs are all right; None if one is not, or if that is for NumPy to say."""
    if any(array.shape != judged.shapes.get(tensor) for tensor, array in outputs.items()):
        return None
    found = judged.compare(outputs)
    if found is None:
        return None
    worst: CaseCheck | None = None
    for tensor in task.outputs:
        size = outputs[tensor.name].size
        base, has_trusted = _base(judged.sums[tensor.name], size), judged.has_trusted
        ours = errors_of(_error_sums(found[tensor.name]), size, base.norm)
        allowed = ErrorBudget(
            tensor=tensor.name,
            dtype=tensor.dtype,
            tolerance=task.tolerance,
            base=base,
            shape=outputs[tensor.name].shape,
            has_trusted=has_trusted,
            judges_bias=distribution in UNBIASED,
        )
        budget, limits = allowed.limits(ours)
        if not base.ordinary or ours.beyond or allowed.problem(ours, limits) is not None:
            return None
        row = CaseCheck(
            name=name, status=Status.CORRECT, max_error=ours.largest, rms_error=ours.relative_rms, budget=budget
        )
        if worst is None or ours.largest > (worst.max_error or 0.0):
            worst = row
    return worst


def _base(found: JudgedOutput, size: int) -> Base:
    truth = [TruthSums(row[0], row[1], row[2], bool(row[3])) for row in found.truth.tolist()]
    norm = math.sqrt(exact_sum(block.squares for block in truth)) or 1.0
    errors = errors_of(_error_sums(found.errors), size, norm)
    return base_of(truth, norm, errors, size, ordinary=all(block.within for block in truth))


def _error_sums(rows: Sums) -> list[ErrorSums]:
    return [ErrorSums(row[0], row[1], row[2], row[3], bool(row[4])) for row in rows.tolist()]
