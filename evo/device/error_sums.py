"""Sums of errors over a block, as the comparison of floating numbers needs them: with NumPy, or on a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any  # of numpy, or of a library with its functions
_ROWS = 4096  # that a GPU reduces side by side, and then to one value


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
    np: Any,
    got: Array,
    truth: Array,
    rtol: float,
    atol: float,
    counted: Array | None = None,
    rounding: Array | None = None,
) -> ErrorSums:
    """Errors of a flat block against a float64 truth. np: the module that the arrays are of.

    counted: where they count. rounding: added to what is allowed.
    """
    error = got.astype(np.float64)
    if counted is not None:
        error = np.where(counted, error, 0.0)
    error -= truth
    size = np.abs(error)
    outward = float(_rows(np, error * np.sign(truth)).sum())
    largest = float(_rows(np, size, "max").max()) if size.size else 0.0
    allowed = np.abs(truth)
    allowed *= rtol
    allowed += atol
    if rounding is not None:
        allowed += rounding
    beyond = not bool(_rows(np, size <= allowed, "all").all())
    size *= size
    squares, total = float(_rows(np, size).sum()), float(_rows(np, error).sum())
    return ErrorSums(largest, squares, total, outward, beyond)


def truth_sums(np: Any, truth: Array, most: float) -> TruthSums:
    """The size of a flat block of a float64 truth. most: what its type holds."""
    size = np.abs(truth)
    within = bool(_rows(np, size <= most, "all").all())
    largest, total = float(_rows(np, size, "max").max()), float(_rows(np, size).sum())
    size *= size
    return TruthSums(float(_rows(np, size).sum()), largest, total, within)


def _rows(np: Any, values: Array, reduction: str = "sum") -> Array:
    """What is left to be reduced: on a GPU a value for each row, since one alone would keep one SM busy."""
    if np.__name__ == "numpy" or values.size % _ROWS or not values.size:
        return values
    return getattr(values.reshape(_ROWS, -1), reduction)(axis=1)
