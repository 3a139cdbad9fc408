"""Outcomes of a kernel's decisions that an execution has seen, and the operands that it last compared."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

MEMORY, BRANCHES = "memory", "branches"  # origins of a value: it was loaded; branches decide which one it is

# What follows are named tuples, since processes send each other thousands of them: nothing else is restored as fast.


class PointKind(enum.StrEnum):
    """A kind of instruction whose result depends on a condition. Its outcomes stand behind it."""

    BRANCH = "branch"  # taken, not_taken
    LOOP = "loop"  # a branch that leaves a loop or stays in it: taken, not_taken
    SWITCH = "switch"  # a branch through a table: 0, 1, ...
    PREDICATED = "predicated"  # executed, skipped
    SELECT = "select"  # first, second: the operand that was chosen
    MINIMUM = "minimum"  # first, second; equal operands count as second
    MAXIMUM = "maximum"  # first, second; equal operands count as second
    COMPARISON = "comparison"  # true, false


_COMPARED = (PointKind.COMPARISON, PointKind.MINIMUM, PointKind.MAXIMUM)


class Operand(NamedTuple):
    """One side of a comparison."""

    value: int | float | None = None  # of one thread, in the last execution by any thread; None: never executed
    constant: bool = False  # it is written in the instruction
    # What it is computed from: `param N` (of the kernel, from 0), special registers such as `tid.x`, `memory`.
    origins: tuple[str, ...] = ()


class ConditionSource(NamedTuple):
    """A register that a condition is computed from. is_data: what it holds comes from memory."""

    register: str
    bits: int
    is_data: bool


class CoveragePoint(NamedTuple):
    """One instruction with a condition in the compiled kernel. One line of source may have several."""

    kernel: str
    kind: PointKind
    instruction: str  # its PTX text
    ptx_line: int
    source_line: int | None  # None if the compiler named none
    outcomes: Mapping[str, int]  # outcome -> how many threads have seen it, summed over executions
    left: Operand | None = None  # of comparisons, minima and maxima of numbers; None if there is nothing to log
    right: Operand | None = None
    # What decides the condition, `branches` among it; of a comparison, whose operands have their own, only these.
    origins: tuple[str, ...] = ()
    leaves: tuple[ConditionSource, ...] = ()  # what it is computed from, in one thread
    implied: bool = False  # another instruction implies the comparison, as a clamped sum does

    @property
    def reached(self) -> bool:
        return any(self.outcomes.values())

    @property
    def unexercised(self) -> tuple[str, ...]:
        """Outcomes that no thread has seen."""
        return tuple(name for name, threads in self.outcomes.items() if not threads)

    @property
    def compares_data(self) -> bool:
        """Whether it compares, or chooses the smaller or larger of, numbers of which one was loaded."""
        sides = [side for side in (self.left, self.right) if side is not None]
        return self.kind in _COMPARED and any(MEMORY in side.origins for side in sides)

    @property
    def is_of_data(self) -> bool:
        """Whether data decide it, or may."""
        return self.compares_data or not {MEMORY, BRANCHES}.isdisjoint(self.origins)

    @property
    def is_open(self) -> bool:
        """Whether it has an outcome that no thread has seen and that data may decide."""
        return bool(self.unexercised) and self.is_of_data

    def joined(self, later: CoveragePoint) -> CoveragePoint:
        """Both taken together; the operands are the later ones. Raises ValueError for another instruction."""
        mine = (self.kernel, self.kind, self.instruction, self.ptx_line)
        if mine != (later.kernel, later.kind, later.instruction, later.ptx_line):
            raise ValueError(f"coverage of two binaries: {self.instruction!r} and {later.instruction!r}")
        outcomes = {name: threads + later.outcomes[name] for name, threads in self.outcomes.items()}
        last = later if later.reached else self
        return self._replace(outcomes=outcomes, left=last.left, right=last.right, leaves=last.leaves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The points of every kernel that was launched, in the order of the compiled code."""

    points: tuple[CoveragePoint, ...] = ()

    @classmethod
    def merged(cls, parts: Iterable[Coverage]) -> Coverage:
        """What launches of one binary have seen together. Raises ValueError if the parts are of several binaries."""
        kernels: dict[str, list[CoveragePoint]] = {}
        for part in parts:
            found: dict[str, list[CoveragePoint]] = {}
            for point in part.points:
                found.setdefault(point.kernel, []).append(point)
            for kernel, points in found.items():
                before = kernels.get(kernel)
                both = zip(before, points, strict=True) if before else ()
                kernels[kernel] = [one.joined(later) for one, later in both] if before else points
        return cls(points=tuple(point for points in kernels.values() for point in points))

    def unexercised(self) -> tuple[CoveragePoint, ...]:
        """Points with an outcome that was never seen."""
        return tuple(point for point in self.points if point.unexercised)

    def goes_further(self, before: Coverage) -> bool:
        """Whether comparisons of data are met more often than in another run: a loop over such goes on for longer."""
        pairs = zip(before.points, self.points, strict=True)
        more = [(sum(b.outcomes.values()), sum(a.outcomes.values())) for b, a in pairs if b.compares_data]
        return any(a > b for b, a in more) and not any(a < b for b, a in more)

    def outcomes(self) -> tuple[int, int]:
        """How many outcomes were seen, and how many there are."""
        seen = [bool(threads) for point in self.points for threads in point.outcomes.values()]
        return sum(seen), len(seen)

    def by_line(self) -> dict[int, list[CoveragePoint]]:
        """Points by source line, in rising order; 0 if the line is unknown."""
        out: dict[int, list[CoveragePoint]] = {}
        for point in sorted(self.points, key=lambda point: point.source_line or 0):
            out.setdefault(point.source_line or 0, []).append(point)
        return out
