"""Rows of a tensor, to be changed one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Rng = np.random.Generator

_MOST = 4096
_WHOLE = 0.5  # of the rows have an order from end to end
_WAYS = 5  # to order sizes
_SUMS, _SHORT, _EVEN = (0, 0, 1, 2), (16, 64), (1, 1, 8)
_EXACT = 1 << 11  # whole numbers up to it are exact in half precision


def some_rows(count: int, rng: Rng) -> list[int]:
    """All of so many rows, or as many as take a moment."""
    if count <= _MOST:
        return [*range(count)]
    return np.sort(rng.choice(count, _MOST, replace=False)).tolist()  # type: ignore[no-any-return]


def by_turns(count: int) -> Reals:
    """Signs that alternate."""
    return np.where(np.arange(count) % 2, -1.0, 1.0)


def ordered(row: Reals, _before: Reals, rng: Rng) -> None:
    """Sizes in one order and signs in another, from the start on. The row may be their running sums, or the sums of
    these: a zigzag that grows, a slope that does.
    """
    if not (sums := int(rng.choice(_SUMS))):
        count = len(row) if rng.random() < _WHOLE else max(1, int(len(row) ** rng.uniform(0.5, 1.0)))
        row[:count] = _signed(np.sort(np.abs(row[:count])), rng)
        return
    steps = np.arange(1.0, min(len(row), int(rng.integers(*_SHORT))) + 1)  # whole numbers, of which sums are exact
    found = _signed(np.ceil(steps / int(rng.choice(_EVEN))), rng)
    for _ in range(sums):
        found = np.cumsum(found)
    found = found[np.cumprod(np.abs(found) <= _EXACT).astype(bool)]
    row[: len(found)] = found * 2.0 ** np.rint(np.log2((np.abs(row).max() or 1.0) / (np.abs(found).max() or 1.0)))


def _signed(rising: Reals, rng: Rng) -> Reals:
    """All alike, rising, falling, up to a peak or down to a dip; of one sign, by turns, by halves, as many of each."""
    count, way = len(rising), int(rng.integers(_WAYS))
    if way == 0:
        rising[:] = rising[count // 2]
    up = np.unique(np.linspace(0, count - 1, int(count ** rng.random())).astype(np.intp))  # more often short
    peaked = np.concatenate([rising[up], np.delete(rising, up)[::-1]])
    sizes = (rising, rising, rising[::-1], peaked, rising[-1] + rising[0] - peaked)[way]
    halves = np.where(np.arange(count) < count // 2, -1.0, 1.0)
    signs = (np.ones(count), by_turns(count), by_turns(count), halves, rng.permutation(by_turns(count)))
    return np.asarray(rng.choice([-1.0, 1.0]) * sizes * signs[int(rng.integers(len(signs)))])


def is_turned(values: Reals, rng: Rng) -> bool:
    """Whether the rows run along the last axis but one, as they do now and then."""
    return values.ndim > 1 and bool(rng.random() < 0.25)


def rows_of(values: Reals, *, turned: bool) -> tuple[Reals, Callable[[], Reals]]:
    """A copy as a matrix of rows along the last axis, or the one before, and how to have the tensor back."""
    rows = np.array(np.swapaxes(values, -1, -2) if turned else values, np.float64, order="C", ndmin=1)
    back = np.swapaxes(rows, -1, -2) if turned else rows.reshape(values.shape)
    return rows.reshape(-1, rows.shape[-1]), lambda: back
