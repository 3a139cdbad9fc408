"""Sums of errors over a block, as the comparison of floating numbers needs them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ErrorSums(NamedTuple):
    """Of one block of errors: the largest, the sum of squares, the sum, the sum outwards; whether one is beyond the
    tolerance.
    """

    largest: float
    squares: float
    total: float
    outward: float
    beyond: bool


class TruthSums(NamedTuple):
    """Of one block of a truth: its sum of squares, largest size, sum of sizes; whether all is within bounds."""

    squares: float
    largest: float
    total: float
    within: bool


def error_sums(
    got: Array,
    truth: Array,
    rtol: float,
    atol: float,
    counted: Array | None = None,
    rounding: Array | None = None,
) -> ErrorSums:
    """Errors of a flat block against a float64 truth.

    counted: where they count. rounding: added to what is allowed.
    """
    error = got.astype(np.float64)
    if counted is not None:
        error = np.where(counted, error, 0.0)
    error -= truth
    size = np.abs(error)
    outward = float((error * np.sign(truth)).sum())
    largest = float(size.max()) if size.size else 0.0
    allowed = np.abs(truth)
    allowed *= rtol
    allowed += atol
    if rounding is not None:
        allowed += rounding
    beyond = not bool((size <= allowed).all())
    return ErrorSums(largest, _squares(size), float(error.sum()), outward, beyond)


def truth_sums(truth: Array, most: float) -> TruthSums:
    """The size of a flat block of a float64 truth. most: what its type holds."""
    size = np.abs(truth)
    within, largest, total = bool((size <= most).all()), float(size.max()), float(size.sum())
    return TruthSums(_squares(size), largest, total, within)


def _squares(size: Array) -> float:
    with np.errstate(over="ignore"):  # infinite, then
        size *= size
        return float(size.sum())
