"""Runs of a kernel with what they have covered, and of each comparison those that met it most often."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evo.device import Arrays
from evo.results.coverage import Coverage, CoveragePoint

PointKey = tuple[str, int, str]
Outcome = tuple[str, int, str, str]  # kernel, line of the PTX, kind and instruction, outcome

_ANOTHER = 0.5  # of the draws
_ALIKE = 7  # runs that met a comparison as often are kept, and one more


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run and what it has covered."""

    inputs: Arrays
    coverage: Coverage


@dataclass(slots=True)
class FurthestRuns:
    """For each comparison the runs that met it most often: a loop over a chain of conditions goes on for longest there.

    Several, since what meets one condition of a chain may leave no way to meet the next.
    """

    rng: np.random.Generator
    most: dict[PointKey, int] = field(default_factory=dict)
    runs: dict[PointKey, list[SeenRun]] = field(default_factory=dict)

    def add(self, seen: SeenRun) -> bool:
        """Whether it has met a comparison of data more often than all before."""
        is_more = False
        for point in seen.coverage.points:
            if not (point.compares_data and point.reached):
                continue
            key, times = key_of(point), sum(point.outcomes.values())
            if times > self.most.get(key, 0):
                is_more |= key in self.most
                self.most[key], self.runs[key] = times, []
            if times == self.most[key]:
                self.runs[key] = [*self.runs[key][-_ALIKE:], seen]
        return is_more

    def drawn(self, other: SeenRun) -> SeenRun:
        """One of them, or the other one; always that if there is none, as where no numbers are compared."""
        runs = list(self.runs.values())
        if not runs or self.rng.random() >= _ANOTHER:
            return other
        some = runs[int(self.rng.integers(len(runs)))]
        return some[int(self.rng.integers(len(some)))]


def key_of(point: CoveragePoint) -> PointKey:
    """A line of assembly may have several instructions."""
    return point.kernel, point.ptx_line, f"{point.kind} {point.instruction}"


def outcomes_of(coverage: Coverage) -> set[Outcome]:
    """All that any thread has seen."""
    return {(*key_of(point), name) for point in coverage.points for name, threads in point.outcomes.items() if threads}
