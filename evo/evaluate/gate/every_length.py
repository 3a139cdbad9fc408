"""Every short length of each axis, the others a few: residues of a length, wherever a kernel gets the length from.

What a launch computes from a size is followed in its machine code. What comes out of a workspace, or stands among the
inputs as the end of the last group, is data there, so a condition on it is met by running the sizes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from evo.device import Program
from evo.evaluate.gate.scaled_cases import named_case
from evo.evaluate.gate.threshold_cases import AxisSpace, cost_of
from evo.spec.element_types import is_float
from evo.spec.task import Case, Task

_LENGTHS = 256
_FEW = 5  # of the other axes, at most


def may_hold_sizes(task: Task, program: Program) -> bool:
    """Whether a launch may have a size from memory: a workspace, what an earlier launch wrote, whole numbers given."""
    given = any(not is_float(tensor.dtype) for tensor in task.inputs)
    return given or bool(program.scratch) or len(program.launches) > 1


def every_length(task: Task, compiled: Collection[str], seed: int, most: float) -> Iterator[Case]:
    """Allowed sizes of at most so many flops and bytes each. compiled: axes of which each length is another binary."""
    space = AxisSpace.of(task)
    rng = np.random.default_rng([seed, 89])
    for axis in space.free:
        if axis in compiled:
            continue
        low, high = space.spans[axis]
        step = max(1, space.steps[axis])
        for length in range(max(low, step), min(high, low + _LENGTHS * step) + 1, step):
            tried = (
                beside_others(task, space, axis, length, int(base), few=few)
                for few in (True, False)
                for base in rng.permutation(len(task.check))
            )
            case = next((c for c in tried if c is not None and cost_of(task, c) <= most), None)
            if case is not None:
                yield case


def beside_others(
    task: Task, space: AxisSpace, axis: str, length: int, base: int, *, few: bool = True, turn: int | None = None
) -> Case | None:
    """A check case with this length, the other axes short; None if it is not allowed.

    turn: which of the short ones (by default, others for each length).
    """
    axes = {**task.check[base].axes, axis: length}
    for other in space.free if few else ():
        short = [value for value in space.small[other] if 1 < value <= _FEW]
        if other != axis and short:
            axes[other] = short[(length if turn is None else turn) % len(short)]
    space.settle(axes, {axis: length})
    return named_case(axes) if space.allows(task, axes) else None
