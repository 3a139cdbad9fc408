"""Plain strategies that evo's is compared with, and the names of all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from evo.errors import UsageError, known_words
from evo.search.knobs.draws import Draws, SearchStrategy
from evo.search.knobs.space import Point, Space


class Random:
    """Every legal point equally likely, none twice."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self._draws = Draws(space, np.random.default_rng(seed))

    def ask(self) -> Point | None:
        return self._draws.draw()

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        del cost, legal
        self._draws.seen.add(point)


class Exhaustive:
    """Every legal point in order; the results do not matter."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        del seed
        self._space, self._row = space, 0
        self._seen: set[Point] = set()

    def ask(self) -> Point | None:
        while self._row < self._space.count:
            point = tuple(int(v) for v in np.unravel_index(self._row, self._space.sizes))
            if self._space.legal is not None:
                point = tuple(int(v) for v in self._space.legal[self._row])
            self._row += 1
            if point not in self._seen:
                return point
        return None

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        del cost, legal
        self._seen.add(point)


class Annealing:
    """Simulated annealing over single knobs with restarts; a worse point is taken by its ratio to the present one."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)
        self._draws = Draws(space, self._rng)
        self._at: Point | None = None
        self._cost = math.inf
        self._temperature, self._stale = _HOTTEST, 0

    def ask(self) -> Point | None:
        if self._at is None or self._stale > _PATIENCE:
            self._at, self._cost, self._stale = None, math.inf, 0
            return self._draws.draw()
        near = self._space.neighbours(self._at)
        for row in self._rng.permutation(len(near)):
            point = tuple(int(value) for value in near[row])
            if point not in self._draws.seen:
                return point
        self._at = None
        return self._draws.draw()

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        del legal
        self._draws.seen.add(point)
        self._temperature = max(self._temperature * _COOLING, 0.01)
        self._stale += 1
        if cost is None:
            return
        if cost <= self._cost or self._rng.random() < math.exp(-_worse(cost, self._cost) / self._temperature):
            self._stale = 0 if cost < self._cost else self._stale
            self._at, self._cost = point, cost


def _worse(cost: float, least: float) -> float:
    """The difference in logarithms; as a share of the larger one if one of them has no logarithm."""
    return math.log(cost) - math.log(least) if least > 0 else (cost - least) / max(abs(cost), abs(least))


_HOTTEST, _COOLING, _PATIENCE = 0.5, 0.98, 25


class Genetic:
    """A steady population of the best points: uniform crossover of two drawn by tournament, one mutation in three."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)
        self._draws = Draws(space, self._rng)
        self._alive: list[tuple[float, Point]] = []

    def ask(self) -> Point | None:
        if len(self._draws.seen) < _POPULATION or len(self._alive) < 2:
            return self._draws.draw()
        for _ in range(_BRED):
            mother, father = self._parent(), self._parent()
            mask = self._rng.random(len(mother)) < 0.5
            child = np.where(mask, mother, father).astype(np.int16)
            if self._rng.random() < 1 / 3:
                column = int(self._rng.integers(len(child)))
                child[column] = self._rng.integers(self._space.sizes[column])
            point = tuple(int(value) for value in child)
            if point not in self._draws.seen and self._space.are_legal(child[None, :])[0]:
                return point
        return self._draws.draw()

    def _parent(self) -> Point:
        drawn = self._rng.integers(len(self._alive), size=2)
        return self._alive[int(drawn.min())][1]

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        del legal
        self._draws.seen.add(point)
        if cost is not None:
            self._alive = sorted([*self._alive, (cost, point)])[:_POPULATION]


_POPULATION = 20
_BRED = 100  # children, until one of them is new


def _evo(space: Space, *, seed: int = 0) -> SearchStrategy:
    from evo.search.knobs.searcher import Searcher

    return Searcher(space, seed=seed)


STRATEGIES: Mapping[str, Callable[..., SearchStrategy]] = {
    "evo": _evo,
    "random": Random,
    "genetic": Genetic,
    "annealing": Annealing,
    "all": Exhaustive,
}


def known_strategy(name: str) -> str:
    """The name. Raises UsageError for an unknown one."""
    if name not in STRATEGIES:
        raise UsageError(f"--strategy {name}: no such strategy", hint=known_words("strategies", name, STRATEGIES))
    return name


def strategy(name: str, space: Space, *, seed: int = 0) -> SearchStrategy:
    """Make a strategy by name. Raises UsageError for an unknown one."""
    return STRATEGIES[known_strategy(name)](space, seed=seed)
