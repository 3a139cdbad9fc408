"""Values for integer, index and boolean inputs beyond what a reference draws: what exposes a kernel that fits those.

Each distribution stays within a tensor's range, and both ends of the range are among its values wherever it has two
places for them; those of `sorted` and `repeated` are the ends of a half. Knows arrays, no task.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from evo.spec.dtypes import NUMPY

ANY, RISING, DISTINCT, FIXED = "any", "sorted", "distinct", "fixed"
INTEGER_DOMAINS = (ANY, RISING, DISTINCT, FIXED)
WHOLE = "whole"  # all of the range: large and small sizes, of either sign
EXTREME = "extreme"  # the ends, and the values beside which a narrower type, a mask or a sign goes wrong
SORTED, PERMUTED, REPEATED, EQUAL = "sorted", "permuted", "repeated", "equal"
SATURATED = "saturated"  # one end nearly everywhere, the other in the last rows: what sums are largest on
INTEGERS = (WHOLE, EXTREME, SORTED, PERMUTED, REPEATED, SATURATED)
BOOLEANS = ("all", "none", "alternating", "one")
INTEGER_FACTORS = (1.0, 2.0**-4, 2.0**-8, 2.0**-16, 2.0**-24)  # of the range: the largest that the reference can take
_KINDS = (WHOLE, EXTREME, SORTED, PERMUTED, REPEATED, EQUAL)
_ALIASED = "aliased"  # neighbours a power of two apart: what a mask or a narrow tag takes for equal
_OTHERS = 16  # of so many rows one is at the other end
_TELLING = 9  # with so few values or fewer, order and repetition say nothing
_MOST_PARTS = 4096  # which take a moment
_MIXED_PART = 64  # elements of a tensor of one axis that get one distribution each, where they are mixed

Array = NDArray[np.generic]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """Which values an integer tensor may hold: low to high, both allowed."""

    low: int
    high: int

    def half(self, name: str) -> IntegerRange:
        """The lower half for `repeated`, the upper one for `sorted`: what holds no zero, and no largest or no least."""
        middle = self.low + (self.high - self.low) // 2
        if name not in (REPEATED, SORTED) or self.high - self.low < _TELLING:
            return self
        return IntegerRange(self.low, middle) if name == REPEATED else IntegerRange(middle + 1, self.high)

    def narrowed(self, factor: float) -> IntegerRange:
        """A part of the range, around zero or from the end that is nearer to it."""
        if factor >= 1:
            return self
        if self.low > 0:
            return IntegerRange(self.low, self.low + int((self.high - self.low) * factor))
        if self.high < 0:
            return IntegerRange(self.high - int((self.high - self.low) * factor), self.high)
        return IntegerRange(-int(-self.low * factor), int(self.high * factor))


def range_of_dtype(dtype: str) -> IntegerRange:
    if dtype == "bool":
        return IntegerRange(0, 1)
    info = ml_dtypes.iinfo(NUMPY[dtype])
    return IntegerRange(int(info.min), min(int(info.max), 2**63 - 1))  # what int64 holds, of uint64 the lower half


def fits(values: Array, dtype: str) -> bool:
    """Whether a type holds these whole numbers, however wide the ones that they are kept in."""
    own = range_of_dtype(dtype)
    return values.dtype.kind == "b" or not values.size or (own.low <= values.min() and values.max() <= own.high)


def beyond(values: Array, within: IntegerRange) -> str | None:
    """The first value outside the range, in words; None if all are inside."""
    outside = values[np.less(values, within.low) | np.greater(values, within.high)]
    return f"{outside.reshape(-1)[0]}, outside {within.low} to {within.high}," if outside.size else None


def observed_range(drawn: Array) -> IntegerRange:
    """What a reference drew: all that is known of a tensor whose task states no range."""
    return IntegerRange(int(drawn.min()), int(drawn.max())) if drawn.size else IntegerRange(0, 0)


def integer_domain(drawn: Array) -> str:
    """`any` or, in doubt, `fixed`: what is sorted, constant, all different or a few values has a meaning in that."""
    flat = drawn.reshape(-1)
    if flat.size < _TELLING or (flat == flat[0]).all():
        return FIXED
    rows = drawn.reshape(-1, drawn.shape[-1])
    if rows.shape[1] > 2 and _is_sorted(rows[:1]) and _is_sorted(rows):  # the first row tells it of most
        return FIXED
    within = observed_range(flat)
    span = within.high - within.low
    if not flat.size <= span + 1 <= 4 * flat.size:  # too few numbers to be all different, or far apart
        return ANY
    return FIXED if len(np.unique(flat)) == flat.size else ANY


def _is_sorted(rows: Array) -> bool:
    """Whether each row rises, or each falls."""
    steps = np.diff(rows.astype(np.int64), axis=1)
    return bool((steps >= 0).all() or (steps <= 0).all())


def derive_integers(
    name: str, drawn: Array, within: IntegerRange, domain: str, rng: np.random.Generator, *, factor: float = 1.0
) -> Array:
    """One integer or boolean tensor under one distribution; as drawn if that distribution is for other types."""
    if domain == FIXED or drawn.size == 0:
        return drawn
    if drawn.dtype == np.bool_:
        return _booleans(name, drawn, rng)
    if name not in (*_KINDS, SATURATED, "mixed"):
        return drawn
    part = within.narrowed(factor)
    if domain == DISTINCT:
        return _distinct(name, drawn, within, rng)
    values = _mixed(drawn.shape, part, rng) if name == "mixed" else _values(name, drawn.shape, part, rng)
    if domain == RISING:
        values = np.sort(values.reshape(-1)).reshape(drawn.shape)
    return np.ascontiguousarray(values.astype(drawn.dtype))


def _values(name: str, shape: tuple[int, ...], within: IntegerRange, rng: np.random.Generator) -> Ints:
    size, within = int(np.prod(shape)), within.half(name)
    if name == EQUAL:
        some = int(_whole(1, within, rng)[0])
        zero = 0 if within.low <= 0 <= within.high else some
        return np.full(shape, (within.low, within.high, some, zero)[rng.integers(4)], np.int64)
    if name == _ALIASED:
        return to_and_fro(size, within, rng).reshape(shape)
    if name == SATURATED:
        most, others = rng.permutation([within.low, within.high])
        rows = shape[0] if len(shape) > 1 else 1
        late = np.arange(rows) >= rows - max(1, rows // _OTHERS) if rows > 1 else np.zeros(1, bool)
        ends = np.where(late, others, most).reshape(-1, *[1] * (len(shape) - 1))
        return np.broadcast_to(ends, shape).astype(np.int64)
    if name == EXTREME:
        values = _extreme(size, within, rng)
    elif name == PERMUTED:
        values = _permuted(size, within, rng)
    elif name == REPEATED:
        few = np.r_[_landed(_whole(6, within, rng), within, rng)]
        values = np.repeat(few[rng.integers(0, len(few), size // 3 + 1)], 3)[:size]  # neighbours are equal
    else:
        values = _whole(size, within, rng)
    values = _landed(values, within, rng)
    return (np.sort(values) if name == SORTED else values).reshape(shape)


def _landed(values: Ints, within: IntegerRange, rng: np.random.Generator) -> Ints:
    """With the first and the last allowed value at two places."""
    if values.size > 1:
        values[rng.choice(values.size, 2, replace=False)] = within.low, within.high
    return values


def _whole(size: int, within: IntegerRange, rng: np.random.Generator) -> Ints:
    """Half of it spread evenly over the range, half evenly over the sizes of numbers, as far as the range has them."""
    even = rng.integers(within.low, within.high, size, dtype=np.int64, endpoint=True)
    most = float(max(abs(within.low), abs(within.high), 1))
    sizes = np.minimum(np.exp2(rng.uniform(0, np.log2(most + 1), size)), 2.0**62).astype(np.int64)
    signed = sizes * rng.choice([-1, 1], size)
    for candidate in (signed, -signed):
        small = (candidate >= within.low) & (candidate <= within.high) & (rng.random(size) < 0.5)
        even = np.where(small, candidate, even)
    return even


def landmarks(within: IntegerRange) -> Ints:
    """Values beside which a mask, a narrower type, a lost sign or a float goes wrong: ends, zero, powers of two."""
    near = {within.low, within.low + 1, within.high - 1, within.high, -1, 0, 1}
    for bit in range(1, 63):
        near |= {sign * (1 << bit) + off for sign in (1, -1) for off in (-1, 0, 1)}
    return np.array(sorted(v for v in near if within.low <= v <= within.high), np.int64)


def _extreme(size: int, within: IntegerRange, rng: np.random.Generator) -> Ints:
    ends = np.array([within.low, within.high], np.int64)
    telling = landmarks(within)
    chosen = np.where(rng.random(size) < 0.5, rng.choice(ends, size), rng.choice(telling, size))
    runs = rng.random((size + 15) // 16) < 0.25  # stretches of one end: what adds up to most
    return np.where(np.repeat(runs, 16)[:size], rng.choice(ends), chosen)


def _permuted(size: int, within: IntegerRange, rng: np.random.Generator) -> Ints:
    """All different, as far as the range goes; then all of them again in another order."""
    count = within.high - within.low + 1
    if count >= 4 * size:
        step = count // size
        return within.low + (rng.permutation(size) * step + rng.integers(0, step, size)).astype(np.int64)
    rounds = [within.low + rng.permutation(count) for _ in range(-(-size // count))]
    return np.concatenate(rounds)[:size].astype(np.int64)


def _distinct(name: str, drawn: Array, within: IntegerRange, rng: np.random.Generator) -> Array:
    """The same promise in other orders: no value twice."""
    if within.high - within.low + 1 < drawn.size:
        return drawn
    values = _permuted(drawn.size, within, rng)
    missing = [end for end in (within.low, within.high) if end not in values]
    for end in missing:  # in place of the value that is nearest to it
        values[np.argmin(np.abs(values - end))] = end
    values = np.sort(values) if name in (SORTED, REPEATED) else values
    values = values[::-1] if name == REPEATED else values
    return np.ascontiguousarray(values.reshape(drawn.shape).astype(drawn.dtype))


def to_and_fro(size: int, within: IntegerRange, rng: np.random.Generator) -> Ints:
    """Short stretches of two values in turn that are a power of two apart, one power after another."""
    powers = max(1, (within.high - within.low).bit_length())
    rounds = np.tile(np.arange(powers), (size // (3 * powers) + 1, 1))
    steps = 1 << rng.permuted(rounds, axis=1).reshape(-1)
    first = rng.integers(within.low, np.maximum(within.high - steps, within.low), endpoint=True)
    stretch = np.repeat(np.arange(len(steps)), rng.integers(3, 6, len(steps)))[:size]
    return np.asarray(np.minimum(first[stretch] + steps[stretch] * (np.arange(size) % 2), within.high), np.int64)


def _mixed(shape: tuple[int, ...], within: IntegerRange, rng: np.random.Generator) -> Ints:
    """Each row, or stretch of one axis, as one of the distributions would have it; of very many rows, some together."""
    size = int(np.prod(shape))
    length = shape[-1] if len(shape) > 1 else _MIXED_PART
    length *= max(1, -(-size // (length * _MOST_PARTS)))
    sizes = [min(length, size - at) for at in range(0, size, length)]
    parts = [_values(str(rng.choice((*_KINDS, _ALIASED))), (part,), within, rng) for part in sizes]
    return np.concatenate(parts).reshape(shape)


def _booleans(name: str, drawn: Array, rng: np.random.Generator) -> Array:
    size = drawn.size
    flat = drawn.reshape(-1).copy()
    if name in ("all", "none"):
        flat[:] = name == "all"
    elif name == "alternating":
        flat[:] = (np.arange(size) + rng.integers(2)) % 2 == 0
    elif name == "one":
        flat[:] = False
        flat[(0, size - 1, int(rng.integers(size)))[rng.integers(3)]] = True
    elif name == "mixed":
        flat[:] = rng.random(size) < np.repeat(rng.random(-(-size // _MIXED_PART)), _MIXED_PART)[:size]
    return np.ascontiguousarray(flat.reshape(drawn.shape))
