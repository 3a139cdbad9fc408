"""What the order of atomics may cost: each of them rounds a sum that has grown by all before it.

A trusted implementation adds up in pairs or in float64, and errs by a few roundings. A sum of many atomics takes as
many roundings as it has terms. They add up like a random walk, and equal terms may all be rounded to one side. Each is
a rounding of what the sum is by then: about the result, or, where terms cancel, what so many terms of either sign
come to.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evo.device import Array
from evo.evaluate.gate.error_budget import STANDARD_ERRORS
from evo.spec.element_types import ROUNDOFF
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import UNBIASED
from evo.spec.task import Task, Tensor


def per_element(task: Task, atomics: int, elements: int) -> float:
    """How many atomics went into an element on average, if the task allows them; a GPU does not count them."""
    return atomics / max(1, elements) if task.nondeterministic is not None else 0.0


def without_accumulation(
    got: Array, want: NDArray[np.float64], tensor: Tensor, expectation: Expectation, accumulated: float
) -> Array:
    """An output, nearer to the truth by what so many atomics into each element may have erred."""
    moved = expectation.honest.at_each() if expectation.honest is not None else None
    rounding = ROUNDOFF[tensor.dtype] * np.abs(want)
    if moved is not None and tensor.name in moved:  # what moves if each term is rounded: a rounding of their norm
        rounding = rounding + moved[tensor.name].reshape(want.shape)
    steps = STANDARD_ERRORS * math.sqrt(accumulated)
    if expectation.distribution not in UNBIASED:
        steps = max(steps, accumulated)
    allowed = steps * rounding
    values: NDArray[np.float64] = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = values - want
        nearer = values - np.clip(error, -allowed, allowed)
    return np.where(np.isfinite(error), nearer, values)
