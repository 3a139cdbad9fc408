"""What a variant's launches are given at many sizes at once: grids, blocks and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.device import Argument, BoundLaunch
from evo.errors import SyntaxInvalid
from evo.evaluate.gate.scaled_cases import Sizes
from evo.sim.register_values import Launches
from evo.spec.chips import Chip
from evo.spec.expr import Expression, Number, parse
from evo.spec.task import Task
from evo.spec.variant import Variant

_GRIDS = 1500  # sizes whose grids are computed, for conditions on the grid
_KEPT = 6  # sets of launches
_POINTER = 0x7F00_0000_0000


class LaunchesAtSizes:
    """Of one binary of a variant. bound: its launches, as they are bound at any size."""

    def __init__(self, task: Task, variant: Variant, chip: Chip, bound: Sequence[BoundLaunch]) -> None:
        self._task, self._variant, self._bound = task, variant, bound
        self._names = {**variant.integer_knobs, **{f"chip.{name}": value for name, value in chip.names().items()}}
        self._asked: dict[tuple[int, int, bool, bool], tuple[Sizes, Launches]] = {}

    def launches(
        self, number: int, sizes: Sizes, *, grids: bool, rehearsed: bool = False, sure: bool = False
    ) -> Launches:
        """The launches at some sizes; the last ones are kept, since one condition after the other asks for them."""
        key = (number, id(sizes), grids, rehearsed)
        if key not in self._asked:
            while len(self._asked) > _KEPT:
                self._asked.pop(next(iter(self._asked)))
            self._asked[key] = (sizes, self._made(number, sizes, grids=grids, rehearsed=rehearsed, sure=sure))
        return self._asked[key][1]

    def _made(self, number: int, sizes: Sizes, *, grids: bool, rehearsed: bool, sure: bool) -> Launches:
        count = len(next(iter(sizes.values())))
        bound = self._bound[number]
        grid = np.repeat(np.asarray(bound.launch.grid)[:, None], count, axis=1)
        block = np.repeat(np.asarray(bound.launch.block)[:, None], count, axis=1)
        unknown = np.zeros(count, bool)
        if grids:
            line = self._variant.launches[number]
            most = count if rehearsed or sure else min(count, _GRIDS)
            unknown[most:] = True
            for to, expressions in ((grid, line.grid), (block, line.block)):
                for place, expression in enumerate(expressions):
                    to[place, :most], failed = self._values(expression, sizes, most)
                    unknown[:most] |= failed
        parameters: dict[int, NDArray[np.generic]] = {}
        for at, argument in enumerate(bound.arguments):
            if argument.is_buffer:
                parameters[at] = np.asarray(_POINTER + (at << 30), np.uint64)
            elif argument.name in sizes:
                parameters[at] = sizes[argument.name]
            else:
                parameters[at] = _scalars_at(self._task, argument, self._names, sizes, count)
        return Launches(parameters=parameters, grid=grid, block=block, unknown=unknown if grids else None, sure=sure)

    def _values(self, expression: Expression, sizes: Sizes, most: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """An expression at the first sizes, once for all that it cannot tell apart; where it has no value."""
        axes = sorted(expression.names & sizes.keys())
        table = np.stack([sizes[name][:most] for name in axes]) if axes else np.zeros((0, most), np.int64)
        alike, which = np.unique(table, axis=1, return_inverse=True)
        values, failed = np.zeros(alike.shape[1], np.int64), np.zeros(alike.shape[1], bool)
        for at, column in enumerate(alike.T.tolist()):
            try:
                values[at] = int(expression.value({**self._names, **dict(zip(axes, column, strict=True))}))
            except SyntaxInvalid:  # it names what only the chip knows, or divides by zero there
                failed[at] = True
        return values[which.reshape(-1)], failed[which.reshape(-1)]


def _scalars_at(
    task: Task, argument: Argument, names: Mapping[str, Number], sizes: Sizes, count: int
) -> NDArray[np.generic]:
    """A scalar of the task, or a value that a launch line names, at each size. names: knobs, and what a chip has."""
    own = {scalar.name: scalar.value for scalar in task.scalars}
    value = own[argument.name] if argument.name in own else parse(argument.name, real=True)
    constants = {**names, **{n: own[n].value({}) for n in value.names & set(own) if not own[n].names}}
    if not value.names & set(sizes):
        return np.full(count, float(value.value(constants))).astype(argument.dtype)
    known: dict[tuple[int, ...], float] = {}
    axes = sorted(value.names & set(sizes))
    for row in set(zip(*(sizes[axis].tolist() for axis in axes), strict=True)):
        known[row] = float(value.value({**constants, **dict(zip(axes, row, strict=True))}))
    rows = zip(*(sizes[axis].tolist() for axis in axes), strict=True)
    return np.asarray([known[row] for row in rows], argument.dtype)
