"""Outputs of one large run, folded over the places along their first axis that were given the same inputs.

What such places hold has to be the same within a tolerance, so the lowest and the highest value of each element say
all that a comparison needs, and take as little room as the few places that were given different inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.spec.dtypes import is_float

Places = NDArray[np.int64]
Array = NDArray[np.generic]
Keys = NDArray[Any]  # signed integers in the order of the values
_CHUNK = 1 << 22  # elements at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Of one output: the lowest and highest value of each element of each kind of place, flat.

    NaN lies beyond the infinities, so that one among numbers shows, and a number among NaN. seen: whether a block that
    ran wrote that element at a place of the kind; elsewhere the values mean nothing.
    """

    low: Array
    high: Array
    seen: NDArray[np.bool_]


def fold(values: Array, written: NDArray[np.bool_] | None, kinds: Places | None, dtype: str) -> Folded:
    """Fold a flat output. kinds: of each place along its first axis, from 0; -1 leaves one out; None: each its own.

    written: which elements were; None is all of them.
    """
    if kinds is None:
        return Folded(low=values, high=values, seen=np.ones(len(values), np.bool_) if written is None else written)
    keys, order, starts = _keys(values, dtype).reshape(len(kinds), -1), *_sorted(kinds)
    limits = np.iinfo(keys.dtype)
    low = np.empty((len(starts), keys.shape[1]), keys.dtype)
    high = np.empty_like(low)
    known = None if written is None else written.reshape(keys.shape)
    step = max(1, _CHUNK // len(order))
    for first in range(0, keys.shape[1], step):
        part = slice(first, first + step)
        held = keys[order, part]
        if known is not None:
            absent = ~known[order, part]
            high[:, part] = np.maximum.reduceat(np.where(absent, limits.min, held), starts, axis=0)
            held[absent] = limits.max
        else:
            high[:, part] = np.maximum.reduceat(held, starts, axis=0)
        low[:, part] = np.minimum.reduceat(held, starts, axis=0)
    return Folded(
        low=_values(low, values.dtype, dtype).reshape(-1),
        high=_values(high, values.dtype, dtype).reshape(-1),
        seen=np.asarray(low <= high).reshape(-1),
    )


def place_of(values: Array, written: NDArray[np.bool_] | None, kinds: Places | None, dtype: str, at: int) -> int:
    """Flat index in the output of a value that `fold` found lowest or highest: the sought one is `at` in what it gave.

    The lowest is negative: -1 - at.
    """
    lowest, at = (True, -1 - at) if at < 0 else (False, at)
    if kinds is None:
        return at
    each = len(values) // len(kinds)
    places = np.flatnonzero(kinds == at // each) * each + at % each
    places = places if written is None else places[written[places]]
    keys = _keys(values[places], dtype)
    return int(places[keys.argmin() if lowest else keys.argmax()])


def _sorted(kinds: Places) -> tuple[Places, Places]:
    """The places that count in the order of their kinds, and where each kind begins. Every kind has a place."""
    order = np.argsort(kinds, kind="stable")
    order = order[kinds[order] >= 0]
    return order, np.flatnonzero(np.diff(kinds[order], prepend=-1))


def _keys(values: Array, dtype: str) -> Keys:
    """Integers in the order of the values: the bits of a float, with those below the sign turned where it is set."""
    if not is_float(dtype):
        return np.asarray(values.astype(np.int64 if values.dtype.kind != "b" else np.int8, copy=False))
    return _turned(np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}"))


def _values(keys: Keys, kind: np.dtype[np.generic], dtype: str) -> Array:
    return np.asarray(_turned(keys).view(kind) if is_float(dtype) else keys.astype(kind))


def _turned(bits: Keys) -> Keys:
    return np.asarray(bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max))
