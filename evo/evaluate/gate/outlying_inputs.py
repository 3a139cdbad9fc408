"""Inputs at the ends of what a type holds, one tensor against another, a peak over many, whole rows of special values.

What is skipped, narrowed or cut off for speed is often right for all numbers of a usual size: a difference in half
precision, a threshold below which terms are left out, an infinity that ends a sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.evaluate.gate.tensor_rows import Reals, Rng, is_turned, rows_of, some_rows
from evo.spec.dtypes import NUMPY
from evo.spec.input_distributions import smallest

LONG = 1024  # elements of a row, of which a sum one after the other keeps few digits if they are equal
_SHARE, _LATE = 0.5, 0.4  # of the rows; of long ones
_TIED = (0.5, 0.1, 0.03)  # of the numbers of a row: among many the largest come first
_JITTER = 2.0**-9  # equal numbers in a row would all be rounded to one side, in a sum of one after the other
_GAPS = (5.0, 18.0)  # between a peak and the rest: exponentials of them are from a hundredth to a hundred-millionth
_BEYOND = 1.06  # times a number that the code compares with, at most
_LOG_LARGEST, _OVER = math.log(3.4028235e38), (0.05, 0.8)  # of what a sum of exponentials holds; its excess
_SPREAD = 0.25  # of late numbers
_MEAN_POWER = (1 - math.exp(-_SPREAD)) / _SPREAD  # of e, over the spread
_OCTAVES = (4.0, 16.0)  # ... where they are factors
_EXPONENTS = (3.0, 13.0)
_SUBNORMAL = (4.0, 3.0, 2.0)  # below what has the least normal number as its square, in powers of two
_AT_ENDS, _AT_ZERO = 0.1, 0.3
BALANCED, _FROM_END_TO_END = 4, (2, 3)  # turns
_GROUP, _UNITS = 8, (-4, 5)  # elements that hold both ends; powers of two
_LEVELS, _NEARLY = (7, 8, 15, 127, 128, 255), 1e-3  # that numbers are rounded to
_PLACES = 64  # whole numbers up to it are no values


def outermost(values: Reals, most: float, rng: Rng) -> Reals:
    """Some numbers of a half to the whole of `most`: alone, first, side by side with one sign or with both."""
    flat, whole = rows_of(values, turned=is_turned(values, rng))
    for row in (flat[number] for number in some_rows(len(flat), rng)):
        if rng.random() >= _SHARE:
            continue
        size, sign = most * rng.uniform(0.5, 1.0), rng.choice([-1.0, 1.0])
        place = 0 if rng.random() < 0.4 else int(rng.integers(len(row)))
        row[place] = sign * size
        if len(row) > 1 and rng.random() < 0.6:
            other = (place + 1) % len(row) if rng.random() < 0.5 else int(rng.integers(len(row)))
            row[other] = rng.choice([-1.0, 1.0]) * size
    return whole()


def near_ties(values: Reals, dtype: str, rng: Rng) -> Reals:
    """Rows of which many numbers are the largest or the least, or next to it in their type; zeros of either sign."""
    flat, whole = rows_of(values, turned=is_turned(values, rng))
    for row in (flat[number] for number in some_rows(len(flat), rng)):
        row[:] = -np.abs(row) if (at_zero := rng.random() < _AT_ZERO) else row
        end = np.asarray(0 if at_zero else rng.choice([row.max(), row.min()]), NUMPY[dtype])
        beside = [-end] if at_zero else [np.nextafter(end, end.dtype.type(far)) for far in (np.inf, -np.inf)]
        places = rng.random(len(row)) < rng.choice(_TIED)
        row[places] = rng.choice(np.asarray([end, *beside], np.float64), int(places.sum()))
    return whole()


def far_apart(
    reals: Mapping[str, Reals], dtypes: Mapping[str, str], rng: Rng, *, alone: bool
) -> Iterator[dict[str, Reals]]:
    """One tensor some powers of two larger and another as much smaller, less each time; or one alone so small that its
    squares are subnormal, which some instructions flush. A single one is always that, and once is enough.
    """
    names = [list(reals)[int(at)] for at in rng.permutation(len(reals))[:2]]
    if alone and len(reals) == 1:
        return
    if alone or len(names) == 1:
        least = math.log2(smallest(dtypes[names[0]])) / 2
        yield from ({names[0]: reals[names[0]] * 2.0 ** (least - by)} for by in _SUBNORMAL)
        return
    first = rng.choice([-1.0, 1.0]) * rng.uniform(*_EXPONENTS)
    yield from (
        {names[0]: reals[names[0]] * 2.0**by, names[1]: reals[names[1]] * 2.0**-by} for by in (first, first / 2)
    )


def peaked(values: Reals, scale: float, constants: Sequence[int | float], rng: Rng) -> Reals:
    """Each row is one number, and a peak above it by a difference or by a factor; or all that comes late is above it,
    so far that the exponentials of the differences are numbers, and their sum is none.

    constants: what a variant compares with, perhaps as an exponent of two; half of the differences lie just beyond one.
    """
    flat, whole = rows_of(values, turned=is_turned(values, rng))
    sizes = [abs(by) * unit for by in constants if isinstance(by, float) for unit in (1.0, math.log(2))]
    likely = [size for size in sizes if _GAPS[0] <= size <= _GAPS[1]]
    for row in (flat[number] for number in some_rows(len(flat), rng)):
        # Sums about the first number are good practice, and poor if a long row's first is unlike all others.
        is_first = rng.random() < 0.3 and len(row) < LONG
        place = 0 if is_first or len(row) == 1 else int(rng.integers(1, len(row)))
        if rng.random() < (_LATE if len(row) >= LONG else 0.1):
            late = int(rng.integers(len(row) // 64, len(row) // 2 + 1))
            # Numbers that are equal, in few digits too, lean: an honest sum of them errs.
            row[:late] = rng.uniform(-1.0, 0.0, late)
            row[late:] = _LOG_LARGEST - math.log((len(row) - late) * _MEAN_POWER) + rng.uniform(*_OVER)
            row[late:] -= rng.uniform(0.0, _SPREAD, len(row) - late)
            continue
        if rng.random() < 0.5:
            gap = rng.uniform(*_GAPS)
            if likely and rng.random() < 0.5:
                gap = float(rng.choice(likely)) * rng.uniform(1.0, _BEYOND)
            low = scale / 8  # far from zero, a sum of so many would keep few digits
            peak = low + gap
        else:
            peak = scale * 2.0 ** rng.uniform(0, 6)
            low = peak * 2.0 ** -rng.uniform(*_OCTAVES)
        row[:] = low * (1 + _JITTER * rng.uniform(-1, 1, len(row)))
        row[place] = peak
    return whole()


def special_rows(values: Reals, kinds: Sequence[float], rng: Rng) -> Reals:
    """Rows of special values throughout, but for one, from the start, up to the end; or two that are far apart."""
    flat, whole = rows_of(values, turned=is_turned(values, rng))
    for row in (flat[number] for number in some_rows(len(flat), rng)):
        if rng.random() >= _SHARE:
            continue
        one, other = (kinds[int(at)] for at in np.resize(rng.permutation(len(kinds)), 2))
        turn, part = int(rng.integers(8)), int(rng.integers(len(row) + 1))
        if turn == 0:
            row[:] = one
        elif turn == 1:
            kept = int(rng.integers(len(row)))
            row[np.arange(len(row)) != kept] = one
        elif turn == 2:
            row[:part] = one
        elif turn == 3:
            row[part:] = one
        else:  # the first soon, the second behind it, mostly far
            early = int(rng.integers(min(16, len(row))))
            late = len(row) // 2 if turn > 4 else 0
            row[early], row[int(rng.integers(max(early, late), len(row)))] = one, other
    return whole()


def whole_numbers(shape: tuple[int, ...], rng: Rng, *, turn: int, halves: bool) -> Reals:
    """Whole numbers, as quantised tensors and counts hold: of bytes with both ends and one beyond, or few beside zeros.

    Sums of few of them are whole numbers near zero, and exact in any order. halves: or half-way between two of them, as
    rounding to bytes meets them.
    """
    of_bytes = turn % 2 == 0
    if halves and turn in _FROM_END_TO_END:
        return _between_ends(shape, rng, 255 if of_bytes else 15)
    if halves and turn == BALANCED:
        return _balanced(shape, rng)
    if halves:
        most = 254 if of_bytes else 6
        values, ends = rng.integers(-most, most + 1, shape), rng.choice([-most, most], shape)
        return np.where(rng.random(shape) < _AT_ENDS, ends, values) / 2
    if of_bytes:
        values, ends = rng.integers(-128, 129, shape), rng.choice([-128.0, -127.0, 127.0, 128.0], shape)
        return np.where(rng.random(shape) < _AT_ENDS, ends, values)
    most, share = int(rng.integers(1, 4)), 2.0 ** -rng.integers(0, 5)
    return np.where(rng.random(shape) < share, rng.integers(-most, most + 1, shape), 0).astype(np.float64)


def few_signs(array: NDArray[np.generic], rng: Rng) -> NDArray[np.generic]:
    """The signs of some whole numbers, where they have both: their products with halves are near zero."""
    is_signed = array.dtype.kind == "i" and array.size > 0 and int(array.min()) < 0 < int(array.max())
    kept = rng.random(array.shape) < 2.0 ** -rng.integers(0, 5)
    return np.where(kept, np.sign(array), 0).astype(array.dtype) if is_signed else array


def _between_ends(shape: tuple[int, ...], rng: Rng, steps: int) -> Reals:
    """Halves of whole numbers. All groups of a row hold both ends, and so do columns, as many steps apart as bytes or
    half-bytes have: what they are scaled by and where their zero lies are round, and half-way stays half-way.

    Scaled by the larger end alone, some would be half-way as well, but not to the last bit: they are moved off.
    """
    low, count, length = int(rng.integers(-steps, 1)), math.prod(shape[:-1]), shape[-1]
    rows = low + rng.integers(0, 2 * steps + 1, (count, length)) / 2
    for levels in _LEVELS:
        rows += np.where(np.abs(2 * levels * rows / max(-low, low + steps) % 2 - 1) < _NEARLY, 0.25, 0.0)
    by_turns = low + steps * ((np.arange(count)[:, None] + np.arange(length)) % 2)
    ranks = rng.permuted(np.tile(np.arange(_GROUP), (count, -(-length // _GROUP), 1)), axis=2).reshape(count, -1)
    rows = np.choose(np.clip(ranks[:, :length], 0, 2), [np.full_like(rows, low), np.full_like(rows, low + steps), rows])
    rows[:, length - length % _GROUP :] = by_turns[:, length - length % _GROUP :]
    rows[: 2 if count > 2 else 0] = by_turns[: 2 if count > 2 else 0]
    return np.asarray(rows * 2.0 ** rng.integers(*_UNITS)).reshape(shape)


def _balanced(shape: tuple[int, ...], rng: Rng) -> Reals:
    """Rows of halves and three halves of a unit, of either sign, equally often: the mean of their sizes is the unit."""
    length = shape[-1]
    sizes = np.resize([0.5, 1.5], length)
    sizes[length - length % 2 :] = 1.0
    rows = rng.permuted(np.tile(sizes, (math.prod(shape[:-1]), 1)), axis=1) * 2.0 ** rng.integers(*_UNITS)
    return np.asarray(rows.reshape(shape) * rng.choice([-1.0, 1.0], shape))


def values_of(dtype: str, constants: Sequence[int | float]) -> tuple[Reals, ...]:
    """The constants as values of a type, and as its bits, in the order of the code; those that it cannot hold left out.

    Small whole numbers are sizes of tiles, and places.
    """
    kind = np.dtype(NUMPY[dtype])
    whole = [constant for constant in constants if isinstance(constant, int) and constant > _PLACES]
    floats = [constant for constant in constants if isinstance(constant, float)]
    fitting = [constant for constant in whole if constant < 1 << (8 * kind.itemsize)]
    with np.errstate(all="ignore"):
        as_values = np.asarray([*floats, *whole], np.float64).astype(kind).astype(np.float64)
    as_bits = np.asarray(fitting, f"u{kind.itemsize}").view(kind).astype(np.float64)
    found = (values[np.isfinite(values)] for values in (as_bits, as_values))
    return tuple(values for values in found if len(values))


def sourced(row: Reals, likely: Sequence[Reals], rng: Rng) -> None:
    """Some values of a row are constants, changed in place: in the order of the code, or what lies beside them."""
    exact = likely[int(rng.integers(len(likely)))]
    turn = int(rng.integers(5))
    few = min(len(row), int(rng.integers(1, 5)))
    if turn <= 1:  # one after the other, as they are compared
        start = int(rng.integers(len(exact))) if turn else 0
        row[:few] = np.roll(exact, -start)[np.arange(few) % len(exact)]
    elif turn == 2:
        row[:few] = rng.choice(exact, few)
    elif turn == 3:  # and what lies on both sides of them
        beside = rng.choice(exact, len(row)) * (1 + rng.choice([-1.0, 0.0, 1.0], len(row)) * 2.0**-9)
        row[:] = np.where(rng.random(len(row)) < 0.1, beside, row)
    else:
        row[:] = rng.choice(exact, len(row))
