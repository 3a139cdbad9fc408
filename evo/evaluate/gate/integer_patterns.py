"""Whole numbers among a task's inputs, dealt out otherwise: ends of groups, numbers of rows, flags.

What they mean is not declared, so what they are is kept: where they begin and end, their order, that none repeats, that
none is outside the drawn ones.
"""

from __future__ import annotations

import enum
import math

import numpy as np
from numpy.typing import NDArray

from evo.evaluate.gate.tensor_rows import some_rows
from evo.spec.integer_distributions import IntegerRange, observed_range, to_and_fro
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor

Integers = NDArray[np.generic]
WAYS = 13  # to deal groups
_LEAST = 3
_NEAR, _LONG = 0.8, 16  # how near to the end of an axis drawn places come, and how long it must be to tell
_MOVED = 0.3  # of the ends of even groups
_TO_AND_FRO = 0.25  # of the draws of other numbers, and of the ways to deal the last ones
_LAST = 3
_BY_TURNS = 0.3  # of the draws of numbers that follow from one another come again by turns ...
_PERIODS, _PART = (2, 2, 3, 4), 0.5  # ... of so many; and are followed by others
_SHUFFLED, _WINDOWS = 0.4, (4, 8, 16, 16, 32)  # of the draws of runs are in no order, each of so many numbers
_RELATED = 0.4  # of the draws of other numbers
_EQUAL = 0.5  # of the draws of even groups are equal but for one
_ROUNDED = 0.5  # of the draws of even groups have ends that are multiples ...
_UNITS = (8, 16, 32, 64)  # ... of one of these
_HALVING = 2, 0  # of the number before: loads that halve are common, and meet a long chain
_FOLLOWING = ((2, 0), (-2, 0), (3, 0), (1, 1), (1, 1), (2, -1), (1, -1), (2, 1))  # of the number before, and before it


class Kind(enum.Enum):
    """What whole numbers are, as far as one draw shows it."""

    ENDS = enum.auto()  # rising, from the first to the last
    DISTINCT = enum.auto()
    NUMBERS = enum.auto()


def kind_of(drawn: Integers) -> Kind | None:
    """None if there is no telling what else they could be."""
    if drawn.size < _LEAST or drawn.dtype.kind not in "iu":
        return None
    values = drawn.reshape(-1).astype(np.int64)
    steps = np.diff(values)
    if (steps == steps[0]).all() and steps[0]:
        return None  # a ramp: places, or strides
    if (steps >= 0).all():
        return Kind.ENDS
    return Kind.DISTINCT if len(np.unique(values)) == len(values) else Kind.NUMBERS


def with_number(given: Integers, place: int, number: int, drawn: Integers) -> Integers | None:
    """The numbers with another at a place, and what has to change with it; None if they are then of another kind than
    the drawn ones.
    """
    kind, values = kind_of(drawn), given.reshape(-1).astype(np.int64)
    if kind is Kind.ENDS:
        least = int(np.diff(drawn.reshape(-1).astype(np.int64)).min())
        before, after = least * np.arange(place, 0, -1), least * np.arange(1, len(values) - place)
        pushed = {
            -1: np.flatnonzero(values[:place] > number - before),
            1: place + 1 + np.flatnonzero(values[place + 1 :] < number + after),
        }
        values[place] = number
        for side, moved in pushed.items():  # to even steps up to the next that stays
            edge = (moved.min() - 1 if side < 0 else moved.max() + 1) if len(moved) else place
            if not 0 <= edge < len(values):
                return None
            low, high = sorted((place, int(edge)))
            values[low : high + 1] = values[low] + np.arange(high - low + 1) * (values[high] - values[low]) // max(
                1, high - low
            )
        if (np.diff(values) < least).any() or (values[0], values[-1]) != (given.flat[0], given.flat[-1]):
            return None
    elif kind is Kind.DISTINCT:
        there = np.flatnonzero(values == number)
        if not len(there):
            return None
        values[there[0]], values[place] = values[place], number
    elif kind is Kind.NUMBERS and drawn.min() <= number <= drawn.max():
        values[place] = number
    else:
        return None
    return np.ascontiguousarray(values.reshape(given.shape).astype(given.dtype))


def recurrence(
    length: int, most: int, rng: np.random.Generator, law: tuple[int, int] | None = None
) -> NDArray[np.int64]:
    """Whole numbers up to `most`, each a sum of small multiples of the two before, forwards or backwards; as many of
    them as there are, up to a length. law: of how many of each; any if None.
    """
    one, two = law or _FOLLOWING[int(rng.integers(len(_FOLLOWING)))]
    found = [int(rng.integers(1, 4)) * int(rng.choice([-1, 1]))]
    found.append(found[0] * one if not two else found[0] + int(rng.integers(0, 3)))
    while len(found) < length and abs(following := one * found[-1] + two * found[-2]) <= most:
        found.append(following)
    return np.asarray(found[:length][:: int(rng.choice([-1, 1]))], np.int64)


def highest_place(task: Task, reference: Reference, case: Case, tensor: Tensor, seed: int) -> int | None:
    """The last place along an axis, where numbers are places along it as far as check cases show."""
    highest = [(other.axes, int(reference.inputs(other, seed)[tensor.name].max(initial=0))) for other in task.check]
    for axis in task.axes:
        inside = all(value < axes[axis] for axes, value in highest)
        near = sum(value + 1 >= _NEAR * axes[axis] for axes, value in highest)
        if inside and 2 * near >= len(highest) and any(axes[axis] > _LONG for axes, _ in highest):
            return case.axes[axis] - 1
    return None


def varied_integers(
    drawn: Integers, most: int | None, rng: np.random.Generator, turn: int = 0, *, may_repeat: bool = False
) -> Integers | None:
    """Other numbers of the same kind; None if there is no telling what else they could be.

    most: if it is known, the largest that they may be, from 0 on. turn: each has another way to deal, 0 any of them.
    may_repeat: these are all different by chance.
    """
    kind, values = kind_of(drawn), drawn.reshape(-1).astype(np.int64)
    if kind is None:
        return None
    if kind is Kind.ENDS:
        other = _ends(values, np.diff(values), rng, turn)
    elif kind is Kind.DISTINCT and not may_repeat:
        other = rng.permutation(values)  # each of them once, as in a permutation
    elif turn > WAYS - _LAST or (not turn and rng.random() < _TO_AND_FRO):
        within = observed_range(drawn) if most is None else IntegerRange(0, most)
        other = to_and_fro(len(values), within, rng)
    else:
        other = _related(values.reshape(drawn.shape), rng) if rng.random() < _RELATED else _numbers(values, most, rng)
    return np.ascontiguousarray(other.reshape(drawn.shape).astype(drawn.dtype))


def _ends(values: NDArray[np.int64], steps: NDArray[np.int64], rng: np.random.Generator, way: int) -> NDArray[np.int64]:
    """Groups of other sizes between the same ends: one has all, the first have none, all are uneven; or all are even,
    but for a few perhaps; or they rise, or fall, one after the other, or follow from one another.
    """
    least = int(steps.min())
    free = int(values[-1] - values[0]) - least * len(steps)
    shares = np.zeros(len(steps), np.int64)
    turn = (way - 1) % WAYS if way else int(rng.integers(WAYS))
    if turn == 0:
        shares[int(rng.integers(len(steps)))] = free
    elif turn == 1:
        shares[-1] = free
    elif turn == 2:
        late = int(rng.integers(1, len(steps)))
        shares[-late:] = rng.multinomial(free, np.full(late, 1 / late))
    elif turn >= 7:
        total = int(values[-1] - values[0])
        law = _HALVING if turn == 9 else None
        made = _ramp(free, len(steps), rng) if turn < 9 else _following(total, len(steps), least, law, rng) - least
        shares[:] = made[:: -1 if turn in (8, 12) else 1]
    elif turn >= 4:
        ends = (np.arange(1, len(steps) + 1) * free) // len(steps)
        if rng.random() < _EQUAL:  # to a number, and one group has what is over
            ends = np.arange(1, len(steps) + 1) * (free // len(steps))
            ends[int(rng.integers(len(steps))) :] += free % len(steps)
        unit = int(rng.choice(_UNITS))
        if turn > 4 and rng.random() < _ROUNDED and free >= 2 * unit:
            ends[:-1] -= ends[:-1] % unit  # as groups are padded to tiles
        if turn > 4:
            beside = rng.integers(-(free // len(steps) // 2), free // len(steps) // 2 + 1, len(ends))
            moved = rng.random(len(ends)) < _MOVED if turn == 5 else np.arange(len(ends)) == rng.integers(len(ends))
            ends[:-1] += np.where(moved, beside, 0)[:-1]
        shares[:] = np.diff(np.maximum.accumulate(ends.clip(0)), prepend=0)
    else:
        weights = rng.exponential(size=len(steps)) ** 3 + 1e-9
        shares[:] = rng.multinomial(free, weights / weights.sum())
    return np.concatenate([values[:1], values[0] + np.cumsum(shares + least)])


def _ramp(free: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Groups of which the first ones rise one after another; the others have what is left."""
    shares = np.zeros(count, np.int64)
    most = min(count, (1 + math.isqrt(1 + 8 * free)) // 2)
    rising = most if rng.random() < 0.5 else int(rng.integers(min(most, _LEAST), most + 1))
    steps = np.arange(rising) * (max(1, free * 2 // max(1, rising * (rising - 1))) if rising == count else 1)
    shares[:rising] = steps
    left = int(free - steps.sum())
    if rising < count:
        shares[rising:] = rng.multinomial(left, np.full(count - rising, 1 / (count - rising)))
    else:
        shares[-1] += left
    return shares


def _following(
    total: int, count: int, least: int, law: tuple[int, int] | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Groups of which the first follow from the two before, or come again by turns; the others have what is left.

    law: this one, falling, as far as it goes.
    """
    if law is None and rng.random() < _BY_TURNS:
        some = rng.integers(least, 2 * total // count + 2, int(rng.choice(_PERIODS)))
        few = np.resize(np.where(rng.permutation(np.arange(len(some)) > 0), some, least), count)
    else:
        few = np.abs(recurrence(count, total, rng, law))
        few = few[:: 1 if few[0] <= few[-1] else -1] * max(1, -(-least // max(1, int(few.min()))))
    few = np.maximum(few, least)
    few = few[np.cumsum(few) + least * (count - 1 - np.arange(len(few))) <= total]
    if law is None and rng.random() < _PART:
        few = few[: int(rng.integers(min(len(few), _LEAST), len(few) + 1))]
    if few.any():
        few = few[:: -1 if law else int(rng.choice([-1, 1]))]
        few *= int(rng.integers(1, (total - least * (count - len(few))) // int(few.sum()) + 1))
    loads, left = np.full(count, least, np.int64), int(total - few.sum() - least * (count - len(few)))
    loads[: len(few)] = few
    if others := count - len(few):
        loads[len(few) :] += rng.multinomial(left, np.full(others, 1 / others))
    else:  # who has none stays so
        loads[np.flatnonzero(loads > least)[-1] if (loads > least).any() else -1] += left
    return loads


def _numbers(values: NDArray[np.int64], most: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """The drawn numbers with neighbours alike, in stretches, and the extreme ones often; or in runs, up or down by
    one.
    """
    lowest, highest = (values.min(), values.max()) if most is None else (0, most)
    in_runs = rng.random() < 0.5  # numbers that follow on one another, up or down
    is_shuffled = in_runs and rng.random() < _SHUFFLED
    lengths = rng.integers(1, 12 if in_runs else 6, len(values))  # more than are needed
    if is_shuffled:
        lengths[:] = rng.choice(_WINDOWS)
    stretch = np.repeat(np.arange(len(values)), lengths)[: len(values)]
    begun = np.repeat(np.cumsum(lengths) - lengths, lengths)[: len(values)]
    first = rng.choice(values, len(values))
    if in_runs:
        at = np.arange(len(values)) - begun
        steps = rng.choice([-1, 1], len(values))[stretch] * at
        found = np.asarray(np.clip(first[stretch] + steps, lowest, highest))
        return found[np.lexsort((rng.random(len(found)), stretch))] if is_shuffled else found
    ends = rng.choice([lowest, highest], len(values))
    return np.asarray(np.where(rng.random(len(values)) < 2 / 3, ends, first)[stretch])


def _related(values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of which the first numbers follow from one another or come again, none beyond the drawn ones; of many rows
    some.
    """
    rows = values.reshape(-1, values.shape[-1]).copy()
    low, high = int(values.min()), int(values.max())
    for row in (rows[number] for number in some_rows(len(rows), rng)):
        if rng.random() < _BY_TURNS:
            count = len(row) if rng.random() < _PART else int(rng.integers(min(len(row), _LEAST), len(row) + 1))
            row[:count] = np.resize(rng.choice(row, int(rng.choice(_PERIODS))), count)
            continue
        few = recurrence(len(row) - 1, high - low, rng)
        fitting = few[np.cumprod((few >= low) & (few <= high)).astype(bool)]
        row[: len(fitting)] = fitting
    return rows
