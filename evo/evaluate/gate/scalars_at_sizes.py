"""Scalar arguments of a launch at many sizes at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evo.device import Argument
from evo.evaluate.gate.scaled_cases import Sizes
from evo.spec.expr import Number, parse
from evo.spec.task import Task


def scalars_at(
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
