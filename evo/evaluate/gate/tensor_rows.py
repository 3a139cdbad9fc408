"""Rows of a tensor, to be changed one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Rng = np.random.Generator
Option = TypeVar("Option")

_MOST = 4096
_WHOLE = 0.5  # of the rows have an order from end to end
_WAYS = 5  # to order sizes
_SUMS, _SHORT, _EVEN = (0, 0, 1, 2), (16, 64), (1, 1, 8)
_EXACT = 1 << 11  # whole numbers up to it are exact in half precision


def one_of(options: Sequence[Option], rng: Rng) -> Option:
    """As `rng.choice`, which takes ten times as long for a few."""
    return options[int(rng.integers(len(options)))]


def some_rows(count: int, rng: Rng) -> list[int]:
    """All of so many rows, or as many as take a moment."""
    if count <= _MOST:
        return [*range(count)]
    return np.sort(rng.choice(count, _MOST, replace=False)).tolist()  # type: ignore[no-any-return]


def _first(true: NDArray[np.bool_]) -> int:
    """The place of the first that is true, or behind the last."""
    place = int(true.argmax())
    return place if true[place] else len(true)


def by_turns(count: int) -> Reals:
    """Signs that alternate."""
    signs = np.full(count, 1.0)
    signs[1::2] = -1.0
    return signs


def ordered(row: Reals, _before: Reals, rng: Rng) -> None:
    """Sizes in one order and signs in another, from the start on. The row may be their running sums, or the sums of
    these: a zigzag that grows, a slope that does.
    """
    if not (sums := one_of(_SUMS, rng)):
        count = len(row) if rng.random() < _WHOLE else max(1, int(len(row) ** rng.uniform(0.5, 1.0)))
        row[:count] = _signed(np.sort(np.abs(row[:count])), rng)
        return
    steps = np.arange(1.0, min(len(row), int(rng.integers(*_SHORT))) + 1)  # whole numbers, of which sums are exact
    found = _signed(np.ceil(steps / one_of(_EVEN, rng)), rng)
    for _ in range(sums):
        found = np.cumsum(found)
    found = found[: _first(np.abs(found) > _EXACT)]
    row[: len(found)] = found * 2.0 ** np.rint(np.log2((np.abs(row).max() or 1.0) / (np.abs(found).max() or 1.0)))


def _signed(rising: Reals, rng: Rng) -> Reals:
    """All alike, rising, falling, up to a peak or down to a dip; of one sign, by turns, by halves, as many of each."""
    count, way = len(rising), int(rng.integers(_WAYS))
    few = int(count ** rng.random())  # more often short
    mixed, sign, kind = rng.permutation(count), 1.0 if rng.integers(0, 2) else -1.0, int(rng.integers(_WAYS))
    sizes = rising
    if way == 0:
        sizes = np.full(count, rising[count // 2])
    elif way == 2:
        sizes = rising[::-1]
    elif way > 2:
        is_up = np.zeros(count, bool)
        is_up[np.linspace(0, count - 1, few).astype(np.intp)] = True
        sizes = np.concatenate([rising[is_up], rising[~is_up][::-1]])
        sizes = sizes if way == 3 else rising[-1] + rising[0] - sizes
    if kind == 0:
        return sign * sizes
    if kind == 3:
        return sign * sizes * np.where(np.arange(count) < count // 2, -1.0, 1.0)
    turns = by_turns(count)
    return sign * sizes * (turns[mixed] if kind == 4 else turns)


def is_turned(values: Reals, rng: Rng) -> bool:
    """Whether the rows run along the last axis but one, as they do now and then."""
    return values.ndim > 1 and bool(rng.random() < 0.25)


def rows_of(values: Reals, *, turned: bool) -> tuple[Reals, Callable[[], Reals]]:
    """A copy as a matrix of rows along the last axis, or the one before, and how to have the tensor back."""
    rows = np.array(np.swapaxes(values, -1, -2) if turned else values, np.float64, order="C", ndmin=1)
    back = np.swapaxes(rows, -1, -2) if turned else rows.reshape(values.shape)
    return rows.reshape(-1, rows.shape[-1]), lambda: back
