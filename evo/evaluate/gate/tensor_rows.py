"""Rows of a tensor, to be changed one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Rng = np.random.Generator

_MOST = 4096


def some_rows(count: int, rng: Rng) -> list[int]:
    """All of so many rows, or as many as take a moment."""
    if count <= _MOST:
        return [*range(count)]
    return np.sort(rng.choice(count, _MOST, replace=False)).tolist()  # type: ignore[no-any-return]


def is_turned(values: Reals, rng: Rng) -> bool:
    """Whether the rows run along the last axis but one, as they do now and then."""
    return values.ndim > 1 and bool(rng.random() < 0.25)


def rows_of(values: Reals, *, turned: bool) -> tuple[Reals, Callable[[], Reals]]:
    """A copy as a matrix of rows along the last axis, or the one before, and how to have the tensor back."""
    rows = np.array(np.swapaxes(values, -1, -2) if turned else values, np.float64, order="C", ndmin=1)
    back = np.swapaxes(rows, -1, -2) if turned else rows.reshape(values.shape)
    return rows.reshape(-1, rows.shape[-1]), lambda: back
