"""A knob space: names, values, and which combinations are legal. A point is a tuple of indices into the values.

Spaces with a list of legal points hold it as one integer matrix; without one every combination is legal as far as is
known, and nothing is enumerated.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid

KnobValue = int | float | str | bool
Point = tuple[int, ...]
Points = NDArray[np.int16]
Floats = NDArray[np.float64]

MOST_VALUES = 30_000  # of one knob: indices are 16 bits
_LARGEST_NUMBER = sys.float_info.max  # integers have no end of their own
_MOST_BITS, _MOST_SHOWN = 256, 60
_ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: keys of unlike points differ in spaces of any size


@dataclass(frozen=True, slots=True)
class SpaceKnob:
    """A named choice between values, in their declared order."""

    name: str
    values: tuple[KnobValue, ...]


@dataclass(frozen=True)
class Space:
    """Knobs and their legal combinations: `legal` is [N, knobs] of value indices, None for the whole product."""

    name: str
    knobs: tuple[SpaceKnob, ...]
    legal: Points | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        hint = f"a space has at least one knob, and every knob 1 to {MOST_VALUES:,} distinct values"
        if not self.knobs:
            raise TaskInvalid(f"{self.name}: no knobs", hint=hint)
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise TaskInvalid(f"{self.name}: knob {twice!r} is declared twice", hint=hint)
        for knob in self.knobs:
            if not 0 < len(knob.values) <= MOST_VALUES:
                count = len(knob.values)
                raise TaskInvalid(f"{self.name}: knob {knob.name!r} has {count} values", hint=hint)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(knob.values) for knob in self.knobs)

    @property
    def product(self) -> int:
        """Combinations, legal or not."""
        return math.prod(self.sizes)

    @property
    def count(self) -> int:
        """Legal combinations as far as is known."""
        return self.product if self.legal is None else len(self.legal)

    def values(self, point: Sequence[int]) -> tuple[KnobValue, ...]:
        return tuple(knob.values[index] for knob, index in zip(self.knobs, point, strict=True))

    def point(self, values: Sequence[KnobValue]) -> Point | None:
        """The point of these values; None if one of them is not in its knob's domain."""
        if len(values) != len(self.knobs):
            return None
        found = [look_up(table, value) for table, value in zip(self._tables, values, strict=True)]
        return None if None in found else tuple(index for index in found if index is not None)

    @cached_property
    def _tables(self) -> list[dict[tuple[str, Any], int]]:
        return [index_of(knob.values) for knob in self.knobs]

    @cached_property
    def _factors(self) -> NDArray[np.uint64]:
        factors, factor = [], 1
        exact = self.product < 2**63
        for index, size in enumerate(self.sizes):
            factors.append(factor if exact else pow(_ODD, index + 1, 2**64) | 1)
            factor *= size
        return np.array(factors, np.uint64)

    def keys(self, points: Points) -> NDArray[np.uint64]:
        """A key per point."""
        with np.errstate(over="ignore"):
            made: NDArray[np.uint64] = (points.astype(np.uint64) * self._factors).sum(axis=1, dtype=np.uint64)
        return made

    @cached_property
    def _sorted_keys(self) -> NDArray[np.uint64] | None:
        return None if self.legal is None else np.sort(self.keys(self.legal))

    def are_legal(self, points: Points) -> NDArray[np.bool_]:
        """Which points are in the list; all of them if there is none."""
        known = self._sorted_keys
        if known is None:
            return np.ones(len(points), bool)
        if not len(known):
            return np.zeros(len(points), bool)
        keys = self.keys(points)
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        found: NDArray[np.bool_] = known[at] == keys
        return found

    def drawn(self, count: int, rng: np.random.Generator) -> Points:
        """Up to `count` legal points at random, without repeats if there is a list."""
        if self.legal is None:
            columns = [rng.integers(0, size, count, dtype=np.int16) for size in self.sizes]
            return np.stack(columns, axis=1)
        if count >= len(self.legal):
            return self.legal
        return self.legal[np.sort(rng.choice(len(self.legal), count, replace=False))]

    def neighbours(self, point: Point) -> Points:
        """Legal points that differ in one knob."""
        base = np.array(point, np.int16)
        rows = []
        for index, size in enumerate(self.sizes):
            others = np.array([value for value in range(size) if value != point[index]], np.int16)
            block = np.repeat(base[None, :], len(others), axis=0)
            block[:, index] = others
            rows.append(block)
        points = np.concatenate(rows)
        return points[self.are_legal(points)]

    def mutated(self, point: Point, count: int, rng: np.random.Generator) -> Points:
        """Legal points that differ from this one in two or three knobs, drawn at random."""
        base = np.repeat(np.array(point, np.int16)[None, :], count, axis=0)
        for _ in range(3):
            column = rng.integers(0, len(self.knobs), count)
            fresh = (rng.random(count) * np.array(self.sizes)[column]).astype(np.int16)
            base[np.arange(count), column] = fresh
        return base[self.are_legal(base)]


def is_value(value: object) -> bool:
    """Whether a knob can have it: a word, a truth value, or a number that a float can hold."""
    return isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER)


def shown(value: object) -> str:
    """A value in a message: not too long, and safe where an integer has more digits than Python prints."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"an integer of {value.bit_length():,} bits"
    return repr(value)[:_MOST_SHOWN]


def index_of(values: Sequence[KnobValue]) -> dict[tuple[str, Any], int]:
    """Where each value stands, by its type and value; and by the value alone for those who write 1 for 1.0 or true."""
    table: dict[tuple[str, Any], int] = {}
    for index, value in enumerate(values):
        table.setdefault(("", value), index)
        table[(type(value).__name__, value)] = index
    return table


def look_up(table: dict[tuple[str, Any], int], value: Any) -> int | None:
    """The index of a value; None if it is not in the knob's domain."""
    try:
        exact = table.get((type(value).__name__, value))
        return table.get(("", value)) if exact is None else exact
    except TypeError:  # a list or an object
        return None


@dataclass(frozen=True)
class MeasuredSpace:
    """A space with a result for every legal point: `times` in order of `space.legal`, NaN for a failure."""

    space: Space
    times: Floats = field(repr=False)
    minimise: bool = True
    unit: str = ""

    @cached_property
    def costs(self) -> Floats:
        """What is minimised: the time, or the reciprocal of a rate that is to be large."""
        return self.times if self.minimise else 1.0 / self.times

    @cached_property
    def optimum(self) -> float:
        """The least cost of all."""
        return float(np.nanmin(self.costs))

    @cached_property
    def rows(self) -> dict[int, int]:
        """Key of a point to its row."""
        assert self.space.legal is not None
        return {int(key): row for row, key in enumerate(self.space.keys(self.space.legal))}

    def cost(self, point: Point) -> float | None:
        """The cost at a legal point; None if it failed. Raises KeyError if it is not legal."""
        found = float(self.costs[self.rows[int(self.space.keys(np.array([point], np.int16))[0])]])
        return None if np.isnan(found) else found


def distinct(values: Sequence[KnobValue]) -> tuple[KnobValue, ...]:
    """The values without repeats, in order; 1 and True are repeats only of themselves."""
    return tuple({(type(value).__name__, value): value for value in values}.values())
