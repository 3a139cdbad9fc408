"""What is run at the sizes that a variant's source suggests: under which inputs each of them, and every short one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evo.device import Program
from evo.device.remote_device import RemoteDevice, RemoteSimulator
from evo.evaluate.gate.every_length import every_length, may_hold_sizes
from evo.evaluate.gate.input_patterns import PEAKED, SPLICED, STRUCTURED, UNEVEN, WHOLE
from evo.evaluate.gate.integer_patterns import WAYS
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step
from evo.evaluate.gate.scaled_cases import named_case
from evo.evaluate.gate.sought_lengths import sought_lengths
from evo.evaluate.gate.threshold_cases import AxisLimits, AxisSpace, cost_of
from evo.spec.element_types import is_float
from evo.spec.input_distributions import DRAWN, ENDS, suited_to
from evo.spec.integer_distributions import EXTREME
from evo.spec.reference import Reference
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

_ENDS = (ENDS, EXTREME)  # what a thorough look adds to the drawn inputs
_DEALT = 6  # hunted sizes at which whole numbers are dealt in every way
_SOME = 7  # whole numbers
_WIDE = 2  # sizes
_EACH_WHOLE = 2  # of so many sizes one meets floats that are whole numbers
_SHORT, _SOUGHT = 4e6, 4e7  # flops and bytes of sizes that take a hundredth and a tenth of a second


def dealt_steps(
    task: Task, cases: Sequence[Case], device: RemoteDevice, seed: int, *, thorough: bool
) -> Iterator[Step]:
    """In a trial each case once, drawn or not. Before a keep all of them drawn, and then each under other inputs."""
    rng = np.random.default_rng([seed, 78])
    suited = suited_to(tensor.dtype for tensor in task.inputs)
    others = [str(rng.choice(suited)) if suited else DRAWN for _ in cases]
    for case, other in zip(cases, others, strict=True):
        distribution = DRAWN if thorough or rng.integers(2) else other
        yield Step(case, device, check_races=True, distribution=distribution, budget=CHECK_BUDGET)
    ends = [name for name in _ENDS if name in suited]
    for case, other in zip(cases, others, strict=True) if thorough else ():
        for distribution in dict.fromkeys((*ends, other)):
            yield Step(case, device, distribution=distribution, budget=CHECK_BUDGET)
    for at, case in enumerate(cases[::_EACH_WHOLE] if thorough else ()):
        yield Step(case, device, distribution=WHOLE, turn=(at + 1) % 2, budget=CHECK_BUDGET)


def short_steps(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    bind: Bind,
    reference: Reference,
    seed: int,
    device: RemoteSimulator,
) -> tuple[list[Step], Mapping[str, Program]]:
    """Every short length, where a size may come from memory, longer ones that comparisons lead to; their programs."""
    if not any(may_hold_sizes(task, program) for program in programs.values()):
        return [], {}
    short = [*every_length(task, variant.macros, seed, _SHORT)]
    known = {case.name for case in short}
    sought = sought_lengths(task, variant.macros, bind, reference, device, seed, _SOUGHT)
    short += [case for case in sought if case.name not in known]
    bound = bind(short)
    return [Step(case, device, budget=CHECK_BUDGET) for case in short if case.name in bound], bound


def patterned_steps(
    task: Task, allowed: Sequence[Case], longest: Sequence[Case], counted: Sequence[Case], device: RemoteDevice
) -> Iterator[Step]:
    """The longest sizes with peaks over many equal numbers, and with structures far apart; whole numbers dealt in every
    way where there are most.
    """
    for case in (case for case in allowed if case in longest):
        for distribution in (PEAKED, STRUCTURED, SPLICED):
            yield Step(case, device, distribution=distribution, budget=CHECK_BUDGET)
    most = sorted(allowed, key=lambda case: (case in counted, _numbers(task, case)), reverse=True)
    some = [case for case in allowed if _numbers(task, case) >= _SOME]
    roomy = sorted(some, key=lambda case: _numbers(task, case) / max(case.axes.values()))  # groups of many each
    wide = sorted(some, key=lambda case: max(case.axes.values()))[-_WIDE:]  # numbers of many values, perhaps
    for case in {case.name: case for case in (*most[:_DEALT], *roomy[: _DEALT // 2], *wide)}.values():
        for turn in range(1, WAYS + 1) if _numbers(task, case) else ():
            yield Step(case, device, distribution=UNEVEN, turn=turn, budget=CHECK_BUDGET)


def many_numbers(task: Task, limits: AxisLimits) -> tuple[Case, ...]:
    """The check case of most whole numbers, with one axis as long as any: what they count is largest there."""
    base = max(task.check, key=lambda case: _numbers(task, case))
    if not _numbers(task, base):
        return ()
    space = AxisSpace.of(task)
    found = (named_case({**base.axes, axis: space.spans[axis][1]}) for axis in space.free)
    return tuple(c for c in found if space.allows(task, c.axes) and cost_of(task, c) <= limits.each)


def _numbers(task: Task, case: Case) -> int:
    """How many whole numbers its inputs are."""
    return sum(math.prod(tensor.dims(case)) for tensor in task.inputs if not is_float(tensor.dtype))
