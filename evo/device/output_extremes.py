"""Outputs of one large run, folded over the places along their first axis that were given the same inputs.

What such places hold has to be the same within a tolerance, so the lowest and the highest value of each element say
all that a comparison needs, and take as little room as the few places that were given different inputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.spec.element_types import is_float

Places = NDArray[np.int64]
Array = NDArray[np.generic]
Keys = NDArray[Any]  # signed integers in the order of the values
_CHUNK = 1 << 22  # elements at a time
_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """Of one output: the lowest and highest value of each element of each group of places, flat.

    NaN lies beyond the infinities, so that one among numbers shows, and a number among NaN. seen: whether a block that
    ran wrote that element at a place of the group; elsewhere the values mean nothing.
    """

    low: Array
    high: Array
    seen: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """One value in an `Extremes`: of which output, its flat index there, and on which side."""

    output: str
    at: int
    lowest: bool


def extremes_of(values: Array, written: NDArray[np.bool_] | None, groups: Places | None, dtype: str) -> Extremes:
    """Reduce a flat output. groups: of each place along its first axis, from 0; -1 leaves one out; None: each its own.

    written: which elements were; None is all of them.
    """
    if groups is None:
        return Extremes(low=values, high=values, seen=np.ones(len(values), np.bool_) if written is None else written)
    rows, count = values.reshape(len(groups), -1), int(groups.max()) + 1
    known = None if written is None else written.reshape(rows.shape)
    if known is not None:  # of a sample, few
        some = np.flatnonzero(known.any(axis=1))
        rows, known, groups = rows[some], known[some], groups[some]
    keys, (order, starts) = _keys(rows, dtype), in_order_of_groups(groups)
    limits, met = np.iinfo(keys.dtype), groups[order[starts]]
    low = np.full((count, keys.shape[1]), limits.max, keys.dtype)
    high = np.full_like(low, limits.min)

    def fold(part: slice) -> None:
        held = keys[order, part]
        if known is not None:
            absent = ~known[order, part]
            high[met, part] = np.maximum.reduceat(np.where(absent, limits.min, held), starts, axis=0)
            held[absent] = limits.max
        else:
            high[met, part] = np.maximum.reduceat(held, starts, axis=0)
        low[met, part] = np.minimum.reduceat(held, starts, axis=0)

    step = max(1, _CHUNK // max(1, len(order)))
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as threads:  # NumPy lets others run meanwhile
        columns = range(0, keys.shape[1] if len(met) else 0, step)
        list(threads.map(fold, (slice(first, first + step) for first in columns)))
    return Extremes(
        low=_values(low, values.dtype, dtype).reshape(-1),
        high=_values(high, values.dtype, dtype).reshape(-1),
        seen=np.asarray(low <= high).reshape(-1),
    )


def place_of(
    values: Array, written: NDArray[np.bool_] | None, groups: Places | None, dtype: str, sought: Extreme
) -> int:
    """Flat index in the output of a value that `extremes_of` gave."""
    if groups is None:
        return sought.at
    each = len(values) // len(groups)
    places = np.flatnonzero(groups == sought.at // each) * each + sought.at % each
    places = places if written is None else places[written[places]]
    keys = _keys(values[places], dtype)
    return int(places[keys.argmin() if sought.lowest else keys.argmax()])


def reduced(
    outputs: Mapping[str, Array],
    dtypes: Mapping[str, str],
    written: Mapping[str, NDArray[np.bool_] | None],
    groups: Places | None,
    find: Extreme | None,
) -> tuple[dict[str, Extremes], int | None]:
    """The extremes of all outputs of a run, or (find) the place of one of them."""
    flat = {name: array.reshape(-1) for name, array in outputs.items()}
    if find is not None:
        name = find.output
        return {}, place_of(flat[name], written[name], groups, dtypes[name], find)
    return {name: extremes_of(flat[name], written[name], groups, dtypes[name]) for name in flat}, None


def in_order_of_groups(groups: Places) -> tuple[Places, Places]:
    """The places that count in the order of their groups, and where each group begins. Every group has a place."""
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    return order, np.flatnonzero(np.diff(groups[order], prepend=-1))


def _keys(values: Array, dtype: str) -> Keys:
    """Integers in the order of the values: the bits of a float, with those below the sign turned where it is set."""
    if not is_float(dtype):
        return np.asarray(values.astype(np.int64 if values.dtype.kind != "b" else np.int8, copy=False))
    return _turned(np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}"))


def _values(keys: Keys, kind: np.dtype[np.generic], dtype: str) -> Array:
    return np.asarray(_turned(keys).view(kind) if is_float(dtype) else keys.astype(kind))


def _turned(bits: Keys) -> Keys:
    return np.asarray(bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max))
