"""Whether inputs beyond those that a task draws may be asked of its variants, by what the reference gives for them."""

from __future__ import annotations

import numpy as np

from evo.spec import input_distributions as distributions
from evo.spec.element_types import is_float
from evo.spec.expectation import Expectation
from evo.spec.integer_distributions import fits
from evo.spec.task import Task, Tensor
from evo.spec.tensor_arrays import Arrays, distance

_FEW_STEPS = 64


def float_outputs(task: Task) -> list[Tensor]:
    return [tensor for tensor in task.outputs if is_float(tensor.dtype)]


def is_accurate(task: Task, found: Expectation) -> bool:
    """Whether the trusted implementation errs no more than half of what is allowed, at every element."""
    tolerance = task.tolerance
    if tolerance.rtol == tolerance.atol == 0:
        return True  # the task asks for the exact result, as a copy gives it, and says so of any input
    for tensor in float_outputs(task):
        assert found.spread is not None
        error = found.spread[tensor.name].astype(np.float64)
        if found.trusted is not None:
            error = np.maximum(error, distance(found.trusted, found.expected, tensor.name))
        allowed = tolerance.atol + tolerance.rtol * np.abs(found.expected[tensor.name].astype(np.float64))
        if not (error <= 0.5 * allowed).all():
            return False
    return True


def representable(task: Task, expected: Arrays) -> bool:
    """Whether all outputs fit their types, with room for the errors of intermediate results."""
    for tensor in task.outputs:
        values = expected[tensor.name]
        if is_float(tensor.dtype):
            if not (np.abs(values) <= distributions.largest(tensor.dtype) / 2).all():
                return False
        elif not fits(values, tensor.dtype):
            return False
    return True


def vanishes(task: Task, expected: Arrays) -> bool:
    """Whether all outputs are within a few steps of zero."""
    steps = (np.abs(expected[t.name]).max() / distributions.smallest(t.dtype) for t in float_outputs(task))
    return all(step < _FEW_STEPS for step in steps)


def is_defined(task: Task, found: Expectation) -> bool:
    """Whether a trusted implementation gives NaN, infinities and accurate numbers where the reference does."""
    tolerance = task.tolerance
    if found.trusted is None:
        return False
    for tensor in task.outputs:
        if not is_float(tensor.dtype):
            return False  # NaN on the way to an integer becomes any number
        ours, truth = found.trusted[tensor.name].astype(np.float64), found.expected[tensor.name].astype(np.float64)
        finite = np.isfinite(truth)
        if not np.array_equal(ours[~finite], truth[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
            return False
        allowed = tolerance.atol + tolerance.rtol * np.abs(truth[finite])
        if not (np.abs(ours[finite] - truth[finite]) <= 0.5 * allowed).all():
            return False
    return True
