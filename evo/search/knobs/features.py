"""The model's coordinates of a knob space: some per knob, and a few derived quantities that matter for kernels.

A coordinate is a column of integer codes with a small table of distances between them, so that a kernel matrix over
many points is one matrix product over one-hot rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.search.knobs.space import Floats, Points, Space, SpaceKnob

# Names by which tuners call the sides of a thread block, and the work of one thread.
_BLOCK = re.compile(
    r"^(block_?(size|dim)?_?[xyz]|wg_?(size)?_?[xyz]|local_?size_?[xyz]?|[mn]dim_?c|threads?(_[xyz])?)$", re.I
)
_THREADS = re.compile(r"^(threads?|block_?size|num_?threads|threads_?per_?block|work_?group_?size)$", re.I)
_WARPS = re.compile(r"^(num_?|n_?)?warps?(_[a-z])?$", re.I)
_WORK = re.compile(r"^(tile_?(size)?_?[xyz]|work_?per_?thread_?[xyz]?|wpt_?[xyz]?|items_?per_?thread)$", re.I)
_FIRST_SIDE = re.compile(r"(x|size|mdim_?c)$", re.I)
_WARP_LANES = 32.0
_MOST_PRODUCTS = 400
_CELLS = 512  # that a knob of more values is seen in: tables are quadratic
_LONG = 6  # values from which on a knob may hold powers of two among others


@dataclass(frozen=True)
class Coordinate:
    """A knob, or the product of some: `codes` of points index `positions` [codes, parts], which lie in about 0..1."""

    name: str
    positions: Floats
    knobs: tuple[int, ...]
    products: Floats | None = None  # sorted distinct products; None if the code is the knob's own index
    categorical: bool = False
    cells: NDArray[np.int32] | None = None  # where several values share a code: the code of each


def numeric(knob: SpaceKnob) -> Floats | None:
    """A knob's values as numbers; None if one is a word."""
    if any(isinstance(value, str) for value in knob.values):
        return None
    return np.array([float(value) for value in knob.values])


def is_whole(values: Floats) -> bool:
    return bool(np.all(np.isfinite(values)) and np.all(values == np.floor(values)) and np.all(np.abs(values) < 2**31))


def trailing_zeros(value: int) -> int:
    """How often 2 divides it, at most 8: relevant for alignment, coalescing and warps."""
    return 8 if value == 0 else min(8, (value & -value).bit_length() - 1)


def scaled(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros(len(values))


def positions_of(knob: SpaceKnob) -> tuple[Floats, bool]:
    """Where a knob's values lie: between rank and logarithm; long integer knobs also by their power of two."""
    values = numeric(knob)
    count = len(knob.values)
    if values is None or not np.all(np.isfinite(values)):
        return np.arange(count, dtype=float)[:, None], True
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    place = order / max(count - 1, 1)
    if count > 2 and values.min() >= 0:
        place = 0.5 * (place + scaled(np.log2(values + (1 if values.min() == 0 else 0))))
    columns = [place]
    if count >= _LONG and is_whole(values):
        powers = np.array([trailing_zeros(int(value)) for value in values], float)
        if (
            not all(value > 0 and int(value) & (int(value) - 1) == 0 for value in values)
            and powers.max() > powers.min()
        ):
            columns.append(0.5 * scaled(powers))
    return np.stack(columns, axis=1), False


def in_cells(knob: SpaceKnob, positions: Floats) -> tuple[Floats, NDArray[np.int32]]:
    """Cells of equally many consecutive values: the position of each cell, and the cell of each value."""
    values = numeric(knob)
    order = np.arange(len(positions)) if values is None else np.argsort(values, kind="stable")
    cells = np.empty(len(positions), np.int32)
    cells[order] = np.arange(len(positions)) * _CELLS // len(positions)
    sums = np.stack([np.bincount(cells, weights=part, minlength=_CELLS) for part in positions.T], axis=1)
    return sums / np.bincount(cells, minlength=_CELLS)[:, None], cells


def group(space: Space, pattern: re.Pattern[str]) -> tuple[int, ...]:
    """The numeric knobs whose names match."""
    found = []
    for index, knob in enumerate(space.knobs):
        values = numeric(knob)
        if pattern.match(knob.name) and values is not None and is_whole(values) and values.min() >= 1:
            found.append(index)
    return tuple(found)


def block_group(space: Space) -> tuple[int, ...]:
    """The knobs whose product is the number of threads of a block."""
    return group(space, _THREADS) or group(space, _BLOCK)


def warp_group(space: Space) -> tuple[int, ...]:
    """The knobs whose product is the number of warps of a block."""
    return group(space, _WARPS)


def work_group(space: Space) -> tuple[int, ...]:
    return group(space, _WORK)


def product_of(space: Space, group_: Sequence[int], points: Points) -> Floats:
    total = np.ones(len(points))
    for index in group_:
        values = numeric(space.knobs[index])
        assert values is not None
        total = total * values[points[:, index]]
    return total


def coordinates(space: Space) -> list[Coordinate]:
    """All coordinates of a space. Knobs with one value have none."""
    found = []
    for index, knob in enumerate(space.knobs):
        if len(knob.values) > 1:
            positions, categorical = positions_of(knob)
            cells = None
            if len(positions) > _CELLS:
                positions, cells = in_cells(knob, positions)
            found.append(Coordinate(knob.name, positions, (index,), categorical=categorical, cells=cells))
    for name, group_ in (("threads", block_group(space)), ("warps", warp_group(space)), ("work", work_group(space))):
        varied = tuple(index for index in group_ if len(space.knobs[index].values) > 1)
        if len(varied) > 1:
            products = np.ones(1)
            for index in varied:
                values = numeric(space.knobs[index])
                assert values is not None
                products = np.unique(np.outer(products[: _MOST_PRODUCTS + 1], values))
            if len(products) <= _MOST_PRODUCTS:
                positions = scaled(np.log2(products))[:, None]
                found.append(Coordinate(name, positions, varied, products=products))
    return found


def codes(space: Space, coordinates_: Sequence[Coordinate], points: Points) -> NDArray[np.int32]:
    """[points, coordinates]: where each point lies in each coordinate's table."""
    columns = []
    for coordinate in coordinates_:
        if coordinate.products is None:
            column = points[:, coordinate.knobs[0]]
            columns.append(column.astype(np.int32) if coordinate.cells is None else coordinate.cells[column])
        else:
            product = product_of(space, coordinate.knobs, points)
            columns.append(np.searchsorted(coordinate.products, product).astype(np.int32))
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 0), np.int32)


def expected(space: Space, points: Points) -> Floats:
    """About log(time / good time) per point: what an engineer expects before any measurement. 0 if no name is known.

    Rules of thumb: a block of 128 to 256 threads in whole warps whose rows are at least a warp wide, and a few outputs
    per thread. The model weighs them by what it sees, so a wrong one costs a few evaluations.
    """
    cost = np.zeros(len(points))
    block, warps = block_group(space), warp_group(space)
    if block or warps:
        threads = product_of(space, block, points) if block else _WARP_LANES * product_of(space, warps, points)
        cost += 0.30 * np.maximum(0, np.log2(128 / threads)) + 0.15 * np.maximum(0, np.log2(threads / 256))
        cost += np.log(np.ceil(threads / _WARP_LANES) * _WARP_LANES / threads)
        side = next((index for index in block if _FIRST_SIDE.search(space.knobs[index].name)), None)
        if side is not None and len(block) > 1:
            width = numeric(space.knobs[side])
            assert width is not None
            width = width[points[:, side]]
            cost += 0.12 * np.maximum(0, np.log2(_WARP_LANES / width)) + 0.05 * (width % _WARP_LANES != 0)
    work = work_group(space)
    if work:
        outputs = product_of(space, work, points)
        cost += 0.12 * np.maximum(0, np.log2(4 / outputs)) + 0.15 * np.maximum(0, np.log2(outputs / 16))
    return cost
