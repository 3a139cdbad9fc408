"""The interface of search strategies, and points drawn at random, which every strategy starts with."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from evo.search.knobs.space import Point, Space

_LISTED = 2_000_000
_TRIES = 1000


class SearchStrategy(Protocol):
    """A search strategy: `ask` gives a point, `tell` takes its time. Deterministic by its seed; no point repeats."""

    def ask(self) -> Point | None:
        """The next point; None when every one was tried."""
        ...

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        """The point's time: None if it failed; `legal=False` if it is outside the space."""
        ...


class Draws:
    """Points at random, none twice. Of a space too large to list, those that were not drawn before."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self.seen: set[Point] = set()
        self._order: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
        if space.legal is not None:
            self._order = rng.permutation(len(space.legal))
        elif space.product <= _LISTED:
            self._order = rng.permutation(space.product)
        self._next = 0

    def draw(self) -> Point | None:
        """A point not seen yet; None when there is none left."""
        if self._order is None:
            for _ in range(_TRIES):
                point = tuple(int(value) for value in self._space.drawn(1, self._rng)[0])
                if point not in self.seen:
                    return point
            return None
        while self._next < len(self._order):
            row = int(self._order[self._next])
            self._next += 1
            point = self._at(row)
            if point not in self.seen:
                return point
        return None

    def _at(self, row: int) -> Point:
        if self._space.legal is not None:
            return tuple(int(value) for value in self._space.legal[row])
        return tuple(int(value) for value in np.unravel_index(row, self._space.sizes))
