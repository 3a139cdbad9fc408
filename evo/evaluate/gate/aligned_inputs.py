"""Inputs that all point one way: along an axis that tensors share, every row is a multiple of one row.

Their products are then as large as the sizes of the rows allow, with either sign. A bound by norms in place of a
maximum, an exponential that vanishes, or a threshold on a product of two tensors is met so, and by no independent draw.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from evo.evaluate.gate.tensor_rows import Reals, Rng, by_turns
from evo.spec.task import Tensor

_EVEN, _UNEVEN = (-1.0, 2.0), (-2.0, 3.0)  # powers of two: of all rows of a tensor, and of each of them
_BOTH = 0.7  # of the tensors have rows of both signs ...
_BY_TURNS = 0.25  # ... one after the other; of the rows, too, whose signs alternate
_DRIFTING, _MOST = 0.25, 8.0  # of the tensors have rows that grow little by little, up to so many times
_DRIFT = -16.0, -4.0  # powers of two, by which they do
_SLOW = -4.0, -1.5  # powers of ten, by which products rise from row to row where the code names no small number
_AS_DRAWN = 0.5  # of the draws leave one of three tensors as it is
_LAST = 3.0  # times more likely is an axis for each tensor whose last one it is: products mostly run along it


def aligned(tensors: Sequence[Tensor], drawn: Mapping[str, Reals], rng: Rng) -> dict[str, Reals]:
    """The tensors that have the chosen axis, each of the shape of what was drawn; nothing if all of them are short.

    In one of several, all rows are of one size.
    """
    along = {
        tensor.name: {dim.text: at for at, dim in enumerate(tensor.shape) if drawn[tensor.name].shape[at] > 1}
        for tensor in tensors
    }
    likely: defaultdict[str, float] = defaultdict(float)
    for tensor in tensors:
        for text, at in along[tensor.name].items():
            likely[text] += 1.0 + _LAST * (at == len(tensor.shape) - 1)
    if not likely:
        return {}
    weights = np.array([likely[text] * sum(text in places for places in along.values()) for text in likely])
    text = list(likely)[int(rng.choice(len(weights), p=weights / weights.sum()))]
    those = [tensor for tensor in tensors if text in along[tensor.name]]
    if len(those) > 2 and rng.random() < _AS_DRAWN:  # or all that a third one weighs would be alike
        del those[int(rng.integers(len(those)))]
    even = those[int(rng.integers(len(those)))].name if len(those) > 1 else ""
    way = _row(drawn[those[0].name], along[those[0].name][text])
    if rng.random() < 2 * _BY_TURNS:
        way = np.abs(way) * by_turns(len(way))
    return {
        tensor.name: _multiples(way, drawn[tensor.name], along[tensor.name][text], tensor.name == even, rng)
        for tensor in those
    }


def rising(
    tensors: Sequence[Tensor], drawn: Mapping[str, Reals], constants: Sequence[int | float], rng: Rng
) -> dict[str, Reals]:
    """The last axis that two tensors share: all rows of the first are one row, and those of the second multiples that
    grow one after the other, so that products rise by a little less than a number that the code compares with.
    """
    ends = [(tensor.name, tensor.shape[-1].text) for tensor in tensors if len(tensor.shape) > 1]
    shared = [pair for pair in itertools.combinations(ends, 2) if pair[0][1] == pair[1][1]]
    if not shared:
        return {}
    (first, _), (second, _) = shared[0]
    way, rows = drawn[first].reshape(-1, drawn[first].shape[-1])[0], drawn[second].shape[-2]
    small = [size for size in constants if isinstance(size, float) and 0 < size < 1]
    step = rng.choice(small) * rng.uniform(0.5, 1.0) if small else 10.0 ** rng.uniform(*_SLOW)
    scaled = step * np.sqrt(len(way))  # as products mostly are
    size = scaled * rows / _MOST / max(float(np.square(way).sum()), 1e-9)
    factors = np.arange(1.0, rows + 1)[:, None] * _MOST / rows
    return {
        first: np.broadcast_to(way * size, drawn[first].shape),
        second: np.broadcast_to(way * factors, drawn[second].shape),
    }


def _row(values: Reals, axis: int) -> Reals:
    """The first along an axis, of the size of what was drawn."""
    rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
    whole = np.sqrt(np.mean(np.square(rows)))
    own = np.sqrt(np.mean(np.square(rows[0])))
    return rows[0] / own if own and whole else np.ones(values.shape[axis])


def _multiples(way: Reals, values: Reals, axis: int, is_even: bool, rng: Rng) -> Reals:
    shape = [*values.shape[:axis], *values.shape[axis + 1 :]]
    size = np.sqrt(np.mean(np.square(values))) or 1.0
    factors = np.full(shape, 2.0 ** rng.uniform(*_EVEN)) if is_even else 2.0 ** rng.uniform(*_UNEVEN, shape)
    against = rng.random(shape) < 0.5 if rng.random() < _BOTH else np.ones(shape, bool)  # rows that point away
    signs = np.where(against & (not is_even), -1.0, 1.0)
    if shape and not is_even and (turn := rng.random()) < _BY_TURNS + _DRIFTING:
        signs[:] = by_turns(shape[-1]) if turn < _BY_TURNS else rng.choice([-1.0, 1.0])
        if turn >= _BY_TURNS:
            factors[:] = np.minimum(factors.flat[0] * (1 + np.arange(shape[-1]) * 2.0 ** rng.uniform(*_DRIFT)), _MOST)
    return np.ascontiguousarray(np.moveaxis((size * factors * signs)[..., None] * way, -1, axis))
