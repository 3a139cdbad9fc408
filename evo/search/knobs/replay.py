"""Replay of a strategy on a space whose every legal point was measured: evaluations, curve and loss.

A distinct legal point is one evaluation, failed or not. The loss of a run is 1 - mean over its evaluations of
optimum / best so far (0 before the first success).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from evo.search.knobs.draws import SearchStrategy
from evo.search.knobs.space import Floats, MeasuredSpace

BUDGET = 220
_RESAMPLES = 2000


@dataclass(frozen=True)
class ReplayRun:
    """One replay: optimum / best so far after each evaluation."""

    seed: int
    curve: Floats

    @property
    def loss(self) -> float:
        return float(1 - self.curve.mean())

    def within(self, share: float) -> int | None:
        """Evaluations until the best is within this share of the optimum; None if it never was."""
        reached = np.flatnonzero(self.curve >= 1 / (1 + share) - 1e-12)
        return int(reached[0]) + 1 if len(reached) else None


def replay(measured: MeasuredSpace, searcher: SearchStrategy, *, budget: int = BUDGET, seed: int = 0) -> ReplayRun:
    """Let a strategy search a measured space. A space that is exhausted early stays at its optimum."""
    best, curve = np.inf, np.zeros(budget)
    for index in range(budget):
        point = searcher.ask()
        if point is None:
            curve[index:] = measured.optimum / best
            break
        cost = measured.cost(point)
        searcher.tell(point, cost)
        best = min(best, np.inf if cost is None else cost)
        curve[index] = measured.optimum / best
    return ReplayRun(seed, curve)


@dataclass(frozen=True)
class Summary:
    """What several runs of one strategy on one space come to; intervals are 95 %, by bootstrap over the runs."""

    runs: tuple[ReplayRun, ...]

    @property
    def losses(self) -> Floats:
        return np.array([run.loss for run in self.runs])

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    @property
    def loss_interval(self) -> tuple[float, float]:
        return interval(self.losses)

    @property
    def curve(self) -> Floats:
        mean: Floats = np.mean([run.curve for run in self.runs], axis=0)
        return mean

    def within(self, share: float) -> list[int | None]:
        return [run.within(share) for run in self.runs]

    def quantile_within(self, share: float, quantile: float) -> int | None:
        """Evaluations after which this part of the runs is within the share; None if fewer ever were."""
        reached = sorted(found for found in self.within(share) if found is not None)
        needed = int(np.ceil(quantile * len(self.runs)))
        return reached[needed - 1] if 0 < needed <= len(reached) else None


def replays(
    measured: MeasuredSpace, make: Callable[[int], SearchStrategy], seeds: Iterable[int], *, budget: int = BUDGET
) -> Summary:
    """Replay once per seed."""
    return Summary(tuple(replay(measured, make(seed), budget=budget, seed=seed) for seed in seeds))


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
