"""All of a tensor changed at once, for conditions that many elements decide together; and parts of a tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.evaluate.gate.distinct_inputs import InputSpace
from evo.results.coverage import MEMORY, Coverage

Way = Callable[[NDArray[np.generic]], NDArray[np.generic]]  # to change a whole tensor

_SHARES = (0.5, 0.25, 0.125, 0.03)
_FEW = (0.0, 1.0)  # numbers that any condition may ask for
_NUMBERS = 14  # that are tried of a tensor


def alike(
    inputs: Arrays, coverage: Coverage, space: InputSpace, most: int
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Names of tensors, and what they may be: another one of their shape or its negative, of one number, sorted, of one
    sign, with equal rows or columns.
    """
    ways = {
        name: [*_others(name, inputs, space), *_numbers(name, coverage, space), *_STRUCTURES]
        for name in space.free
        if not space.is_dealt(name)
    }
    for turn in range(min(most, max(map(len, ways.values()), default=0))):
        for name in (name for name in ways if turn < len(ways[name])):
            way = ways[name][turn]
            yield name, np.ascontiguousarray(way(inputs[name])).astype(inputs[name].dtype, copy=False)


def _others(name: str, inputs: Arrays, space: InputSpace) -> Iterator[Way]:
    """What another tensor is that may hold the same, and its negative: sums and differences of the two vanish."""
    own = inputs[name]
    for other in (other for other in space.free if other != name and inputs[other].shape == own.shape):
        array = inputs[other]
        if array.dtype != own.dtype or not space.fits(name, array.astype(np.float64)).all():
            continue
        if space.domains[name] == "real":
            yield lambda _, array=array: -array  # type: ignore[misc]
        yield lambda _, array=array: array  # type: ignore[misc]


def _numbers(name: str, coverage: Coverage, space: InputSpace) -> Iterator[Way]:
    """Zero, one, and the numbers that data are compared with or what lies beside them."""
    wanted = dict.fromkeys(_FEW)
    for point in coverage.points:
        sides = [side for side in (point.left, point.right) if side is not None]
        if not any(MEMORY in side.origins for side in sides):
            continue
        for value in (side.value for side in sides if side.constant and side.value is not None):
            if isinstance(value, float) == (name not in space.bounds) and np.isfinite(value):
                step = max(1.0, abs(value) / 64)
                wanted |= dict.fromkeys((value, value + step, value - step))
    for value in list(wanted)[:_NUMBERS]:
        if (fitting := space.fitted(name, value)) is not None:
            yield functools.partial(np.full_like, fill_value=fitting)


_STRUCTURES: tuple[Way, ...] = (
    lambda array: np.sort(array, axis=-1),
    lambda array: np.sort(array, axis=-1)[..., ::-1],
    np.abs,
    lambda array: -np.abs(array),
    lambda array: np.broadcast_to(array[..., :1], array.shape),
    lambda array: np.broadcast_to(array[:1], array.shape),
)


def some_places(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Some elements of a tensor: single ones, or a stretch or some places along an axis."""
    share = rng.choice(_SHARES)
    axis = int(rng.integers(len(shape) + 1)) - 1
    if axis < 0:
        return np.asarray(rng.random(shape) < share)
    length = shape[axis]
    if rng.random() < 0.5:
        start = int(rng.integers(length))
        chosen = (np.arange(length) >= start) == (rng.random() < 0.7)
    else:
        chosen = rng.random(length) < share
    return np.broadcast_to(chosen.reshape(-1, *[1] * (len(shape) - axis - 1)), shape)
