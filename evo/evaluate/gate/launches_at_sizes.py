"""What a variant's launches are given at many sizes at once: grids, blocks and parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evo.device import BoundLaunch
from evo.errors import SyntaxInvalid
from evo.evaluate.gate.scalars_at_sizes import scalars_at
from evo.evaluate.gate.scaled_cases import Sizes
from evo.sim.launch_conditions import Launches
from evo.spec.chips import Chip
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
            asked = np.arange(count if rehearsed or sure else min(count, _GRIDS))
            unknown[:] = True
            unknown[asked] = False
            for at in asked.tolist():
                names = {**self._names, **{name: int(values[at]) for name, values in sizes.items()}}
                try:
                    for to, expressions in ((grid, line.grid), (block, line.block)):
                        for place, expression in enumerate(expressions):
                            to[place, at] = int(expression.value(names))
                except SyntaxInvalid:  # it names what only the chip knows, or divides by zero there
                    unknown[at] = True
        parameters: dict[int, NDArray[np.generic]] = {}
        for at, argument in enumerate(bound.arguments):
            if argument.is_buffer:
                parameters[at] = np.asarray(_POINTER + (at << 30), np.uint64)
            elif argument.name in sizes:
                parameters[at] = sizes[argument.name]
            else:
                parameters[at] = scalars_at(self._task, argument, self._names, sizes, count)
        return Launches(parameters=parameters, grid=grid, block=block, unknown=unknown if grids else None, sure=sure)
