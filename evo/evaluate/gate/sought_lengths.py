"""Lengths at which a number from memory meets what it is compared with, though no short length does.

A kernel may have a size from a workspace or from whole numbers among its inputs. Then the operand of a comparison is
data, and yet it follows from the sizes: a residue, a count of tiles. Neighbouring lengths tell by how much it grows and
where it wraps around, and so at which length it is due.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evo.device.remote_device import RemoteSimulator
from evo.evaluate.gate.every_length import beside_others
from evo.evaluate.gate.run_cases import Bind, covered_run
from evo.evaluate.gate.threshold_cases import AxisSpace, cost_of
from evo.results.coverage import MEMORY, Coverage, CoveragePoint, PointKind
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_STARTS = 5  # lengths of an axis
_LONGEST = 1 << 16
_MOST = 48  # sizes

_Key = tuple[str, int]  # kernel and line of a comparison
_Operands = Mapping[_Key, tuple[int, int]]  # what came from memory, and the number that it is compared with


def sought_lengths(
    task: Task,
    compiled: Collection[str],
    bind: Bind,
    reference: Reference,
    device: RemoteSimulator,
    seed: int,
    most: float,
) -> list[Case]:
    """Sizes of at most so many flops and bytes, for each comparison some near different lengths.

    compiled: axes of which each length is another binary.
    """
    space = AxisSpace.of(task)
    search = _Search(task, space, bind, reference, device, seed, most)
    found: dict[str, Case] = {}
    for axis in (axis for axis in space.free if axis not in compiled):
        lengths = [*_starts(space, axis, np.random.default_rng([seed, 90]))]
        for case in search.along(axis, lengths):
            found.setdefault(case.name, case)
    return [*found.values()][:_MOST]


def _starts(space: AxisSpace, axis: str, rng: np.random.Generator) -> Iterator[int]:
    """Lengths beyond those that are all tried, as many long ones as short ones."""
    low, high = space.spans[axis]
    step = max(1, space.steps[axis])
    least = min(max(low, step), high)
    for _ in range(_STARTS):
        yield max(least, int(math.exp(rng.uniform(math.log(least), math.log(high)))) // step * step)


@dataclass(slots=True)
class _Search:
    task: Task
    space: AxisSpace
    bind: Bind
    reference: Reference
    device: RemoteSimulator
    seed: int
    most: float
    met: dict[_Key, set[str]] = field(default_factory=dict)
    open: set[_Key] = field(default_factory=set)  # comparisons that no run has had both outcomes of

    def along(self, axis: str, lengths: Sequence[int]) -> Iterator[Case]:
        """Sizes at which comparisons are due, by what they compare at these lengths and beside them."""
        step = max(1, self.space.steps[axis])
        seen = {length: self._seen(axis, length) for start in lengths for length in (start, start + step)}
        for key in sorted(self.open):
            values = {at: found[key] for at, found in seen.items() if found is not None and key in found}
            pairs = [(values[at][0], values[at + step][0]) for at in lengths if at in values and at + step in values]
            if not pairs:
                continue
            growth = Counter(later - earlier for earlier, later in pairs).most_common(1)[0][0]
            for at in lengths:
                turns = _turns(growth, _modulus(values, growth, step), *values[at]) if at in values else None
                case = None if turns is None else self._case(axis, at + step * turns)
                if case is not None:
                    yield case

    def _case(self, axis: str, length: int) -> Case | None:
        low, high = self.space.spans[axis]
        if not low <= length <= high:
            return None
        # The same surroundings for all lengths: what is compared may follow from them too.
        found = beside_others(self.task, self.space, axis, length, 0, turn=0)
        return found if found is not None and cost_of(self.task, found) <= self.most else None

    def _seen(self, axis: str, length: int) -> _Operands | None:
        case = self._case(axis, length)
        program = None if case is None else self.bind([case]).get(case.name)
        if case is None or program is None:
            return None
        seen = covered_run(self.device, program, self.reference.inputs(case, self.seed), case)
        return None if seen is None else self._operands(seen)

    def _operands(self, seen: Coverage) -> _Operands:
        found: dict[_Key, tuple[int, int]] = {}
        for point in seen.points:
            key = (point.kernel, point.ptx_line)
            operands = _whole_numbers(point)
            if operands is None:
                continue
            met = self.met.setdefault(key, set())
            met |= {name for name, threads in point.outcomes.items() if threads}
            self.open.discard(key)
            if len(met) < len(point.outcomes):
                self.open.add(key)
            found[key] = operands
        return found


def _modulus(values: Mapping[int, tuple[int, int]], growth: int, step: int) -> int:
    """By what the numbers at some lengths wrap around if each step adds so much; 0 if they do not."""
    first = min(values)
    start = values[first][0]
    return math.gcd(*(start + growth * ((at - first) // step) - value for at, (value, _) in values.items()))


def _turns(growth: int, modulus: int, value: int, wanted: int) -> int | None:
    """How many steps make this number the wanted one; None if none do."""
    due = wanted - value
    if modulus == 0:
        return due // growth if growth and due % growth == 0 else None
    if not 1 < modulus <= _LONGEST:
        return None
    turns = np.arange(-modulus, modulus + 1)
    found = turns[(turns * growth - due) % modulus == 0]
    return int(found[np.abs(found).argmin()]) if found.size else None


def _whole_numbers(point: CoveragePoint) -> tuple[int, int] | None:
    """What came from memory, and what it was compared with, where both are whole numbers."""
    if point.kind is not PointKind.COMPARISON or not point.reached or point.left is None or point.right is None:
        return None
    for own, other in ((point.left, point.right), (point.right, point.left)):
        if MEMORY in own.origins and isinstance(own.value, int) and isinstance(other.value, int):
            return own.value, other.value
    return None
