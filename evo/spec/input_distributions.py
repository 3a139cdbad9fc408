"""Other values for a task's inputs than its reference draws: what exposes kernels that fit one kind of input only.

Each distribution is made from the drawn tensor, at its scale and inside its domain. Knows arrays, no task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from evo.spec.blocks import BLOCK
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float
from evo.spec.integer_distributions import BOOLEANS, EQUAL, INTEGERS, integer_domain

DRAWN = "drawn"
ENDS = "ends"  # what counts stands where a tail would be dropped
SPECIAL = "special"  # NaN and infinities, for tensors that declare them
FLOATS = ("positive", "large", "outliers", ENDS, "indexed", "tiny", "normal", EQUAL, SPECIAL)
DERIVED = (*FLOATS, *INTEGERS, *BOOLEANS)
MIXED = "mixed"  # rows of all of them, where one run has to do for many
SCALES = "scales"  # stretches, each some powers of two larger or smaller: sums round whatever they are kept in
UNBIASED = (DRAWN, "normal", "positive")  # errors of these are independent enough to average
END_FACTORS = (1.0, 0.5, 0.25)  # of the large values of ENDS
LARGE_FACTORS = (1024.0, 64.0, 8.0)  # the largest that the reference and a trusted implementation can take

# Exponents of 2 of tiny values: subnormals of float16 and float8; small normals, and a few subnormals, of others.
_TINY = {
    "float64": (-60, -30),
    "float32": (-40, -20),
    "float16": (-24, -14),
    "bfloat16": (-40, -20),
    "float8_e4m3": (-9, -6),
    "float8_e5m2": (-16, -14),
}
_SUBNORMAL = {"float64": (-1060, -1023), "float32": (-148, -127), "bfloat16": (-132, -127)}
_FIRST = 16  # rows
_FEW = 8  # elements, which show no structure
_PART = 1 << 20  # elements that are copied at once
_ROOMY = 64  # elements, of which a few may be zeros and denormals
_AT_FIRST, _AT_LAST = 0.3, 0.1  # of special values, along an axis
_GOLDEN = 0.6180339887498949
_OUTLIER = 64.0
_WIDEST_SCALE, _SCALE_SHARE = 30, 3  # exponents of two; and of those of the type, so that squares are finite
_PEAK, _HEAVY, _NEAR = 16.0, 4.0, 8  # of `ends`: one value, the last rows; and how near to the end

Array = NDArray[np.generic]
Reals = NDArray[np.float64]


def suited_to(dtypes: Iterable[str]) -> tuple[str, ...]:
    """The distributions that can change an input of one of these types."""
    found: set[str] = set()
    for dtype in dtypes:
        found.update(FLOATS if is_float(dtype) else BOOLEANS if dtype == "bool" else (*INTEGERS, EQUAL))
    return tuple(name for name in DERIVED if name in found)


def largest(dtype: str) -> float:
    return float(ml_dtypes.finfo(NUMPY[dtype]).max)


def smallest(dtype: str) -> float:
    """The least difference of two numbers; of wide types the least normal number, since they may flush subnormals."""
    info = ml_dtypes.finfo(NUMPY[dtype])
    return float(info.smallest_normal if dtype in _SUBNORMAL else info.smallest_subnormal)


def domain_of(dtype: str, values: Array) -> str:
    """Which other values a drawn tensor may hold: `fixed`, `unit`, `positive` or `real`, for integers `fixed` or `any`.

    In doubt the narrower one.
    """
    if not is_float(dtype):
        return integer_domain(values)
    least, most = math.inf, -math.inf
    flat = values.reshape(-1)
    for at in range(0, flat.size, _PART):
        part = flat[at : at + _PART].astype(np.float64)
        if not np.isfinite(part).all():
            return "fixed"
        least, most = min(least, float(part.min())), max(most, float(part.max()))
    if values.size > _FEW and _is_structured(values.reshape(-1, values.shape[-1])):
        return "fixed"
    if least >= 0:
        return "unit" if most <= 1 else "positive"
    return "real"


def _is_structured(rows: Array) -> bool:
    """Masks, counts, sorted values and distributions: their meaning is more than their size.

    What is none of these shows in the first rows, as a rule.
    """
    first = rows[:_FIRST].astype(np.float64)
    likely = [test for test in (_is_of_two, _is_whole, _is_sorted, _is_distribution) if test(first)]
    if not likely:
        return False
    reals = rows.astype(np.float64)
    return any(test(reals) for test in likely)


def _is_of_two(rows: Reals) -> bool:
    """Whether it has two different values at most."""
    flat = rows.reshape(-1)
    others = flat[flat != flat[0]]
    return not others.size or bool((others == others[0]).all())


def _is_whole(rows: Reals) -> bool:
    return bool((rows == np.rint(rows)).all())


def _is_sorted(rows: Reals) -> bool:
    return rows.shape[1] > 2 and bool((np.diff(rows, axis=1) >= 0).all())


def _is_distribution(rows: Reals) -> bool:
    return rows.shape[1] > 1 and bool((rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) < 1e-2).all())


def derive(name: str, dtype: str, drawn: Array, domain: str, rng: np.random.Generator, *, factor: float = 1.0) -> Array:
    """One tensor under one derived distribution; `fixed` ones come back as drawn."""
    if domain == "fixed" or not is_float(dtype):
        return drawn
    source = drawn.astype(np.float64)
    scale = _scale(source)
    values = _reals(name, dtype, source, scale, rng, factor)
    if domain == "unit":
        top = float(np.abs(values).max(initial=0.0))
        values = source if name == "large" else np.abs(values) / (top if top > 1 else 1)
        values = np.full_like(source, 0.5) if name == "equal" else values
    elif domain == "positive":
        values = np.maximum(np.abs(values), scale / 1024 if name == "outliers" else 0.0)
    limit = largest(dtype) / 4
    np.clip(values, -limit, limit, out=values)  # in place: a large case's values are most of a process's memory
    return np.ascontiguousarray(values.astype(NUMPY[dtype]))


def with_specials(drawn: Array, dtype: str, kinds: Sequence[str], domain: str, rng: np.random.Generator) -> Array:
    """Special values of these kinds at random places: a NaN; of each sign an infinity, two zeros and two denormals.

    The NaN and the infinities often lie first or last along an axis, where bounds are.
    """
    signed = (1.0, -1.0) if domain in ("real", "fixed") else (1.0,)
    found = [np.nan] if "nan" in kinds else []
    found += [sign * np.inf for sign in signed] if "infinities" in kinds and domain != "unit" else []
    not_finite = len(found)
    if drawn.size >= _ROOMY:
        found += [sign * 0.0 for sign in signed * 2] if "zeros" in kinds else []
        if "denormals" in kinds:
            low, high = _SUBNORMAL.get(dtype, _TINY[dtype])
            found += [sign * 2.0 ** rng.uniform(low, high) for sign in signed * 2]
    values = drawn.copy()
    flat = values.reshape(-1)
    places = rng.choice(flat.size, min(flat.size, len(found)), replace=False)
    if flat.size >= _ROOMY:
        places[:not_finite] = _at_ends(drawn.shape, places[:not_finite], rng.spawn(1)[0])
    flat[places] = np.asarray(found[: len(places)], np.float64).astype(values.dtype)
    return with_other_nans(values, rng)


def _at_ends(shape: tuple[int, ...], places: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The places, some of them moved along some axes to the first or the last one."""
    found = []
    for length, along in zip(shape, np.unravel_index(places, shape), strict=True):
        turn = rng.random(len(places))
        found.append(np.where(turn < _AT_FIRST, 0, np.where(turn > 1 - _AT_LAST, length - 1, along)))
    return np.asarray(np.ravel_multi_index(tuple(found), shape), np.int64)


def with_other_nans(values: Array, rng: np.random.Generator) -> Array:
    """The values with NaN of either sign and, half of them, of other bits: code that knows one by its bits knows one.

    All are quiet (IEEE 754-2019, 6.2.1), so that nothing converts them to others on the way.
    """
    raw = values.reshape(-1).view(f"u{values.dtype.itemsize}").copy()
    places = np.flatnonzero(np.isnan(values.reshape(-1).astype(np.float64)))
    sign = np.uint64(1) << np.uint64(8 * values.dtype.itemsize - 1)
    payload = (1 << (ml_dtypes.finfo(values.dtype).nmant - 1)) - 1
    bits = rng.integers(0, payload + 1, len(places)).astype(np.uint64) * (rng.random(len(places)) < 0.5)
    raw[places] |= (bits | sign * (rng.random(len(places)) < 0.5)).astype(raw.dtype)
    return raw.view(values.dtype).reshape(values.shape)


def without(values: Array, drawn: Array, dtype: str, *, zeros: bool, denormals: bool) -> Array:
    """The values with what has no meaning in this input, zeros or denormals, as drawn instead."""
    size = np.abs(values.astype(np.float64))
    least = float(ml_dtypes.finfo(NUMPY[dtype]).smallest_normal)
    amiss = np.zeros(size.shape, np.bool_)
    if zeros:
        amiss |= size == 0
    if denormals:
        amiss |= (size > 0) & (size < least)
    return np.where(amiss, drawn, values) if amiss.any() else values


def perturbed(drawn: Array, relative: float, rng: np.random.Generator) -> Reals:
    """The tensor in float64 with every element changed by about one rounding."""
    moved = np.empty(drawn.shape)
    given, flat = np.ascontiguousarray(drawn).reshape(-1), moved.reshape(-1)
    for at in range(0, flat.size, BLOCK):
        part = given[at : at + BLOCK].astype(np.float64)
        flat[at : at + BLOCK] = part * (1 + relative * rng.choice([-1.0, 1.0], part.size))
    return moved


def _scale(values: Reals) -> float:
    """The size of a typical element, whatever a few large rows do."""
    sizes = np.abs(values[values != 0])
    return float(np.median(sizes, overwrite_input=True)) / 0.6745 if sizes.size else 1.0


def _reals(name: str, dtype: str, drawn: Reals, scale: float, rng: np.random.Generator, factor: float) -> Reals:
    shape = drawn.shape
    wide = scale * math.sqrt(3)  # half the width of a uniform draw of that size
    if name == "positive":
        return np.multiply(wide, rng.random(shape))
    if name == "large":
        return drawn * factor
    if name == "outliers":
        return _outliers(shape, scale, rng)
    if name == ENDS:
        return _ends(shape, scale, rng, factor)
    if name == "indexed":
        place = np.arange(1, drawn.size + 1, dtype=np.float64).reshape(shape)
        return wide * np.asarray(2 * np.modf(place * _GOLDEN + rng.random())[0] - 1)
    if name == "tiny":
        return _tiny(shape, dtype, rng)
    if name == "equal":
        return np.full(shape, scale)
    if name == SCALES:
        return _scales(dtype, drawn, rng)
    if name == MIXED:
        return _mixed(dtype, drawn, scale, rng, factor)
    assert name == "normal", name
    return scale * rng.standard_normal(shape)


def _scales(dtype: str, drawn: Reals, rng: np.random.Generator) -> Reals:
    """Stretches of one scale each, short ones and as long as a block takes them."""
    most = min(_WIDEST_SCALE, int(math.log2(largest(dtype))) // _SCALE_SHARE)
    lengths = 2 ** rng.integers(0, 11, drawn.size // 4 + 2)
    exponents = np.repeat(rng.integers(-most, most + 1, len(lengths)), lengths)
    return drawn * 2.0 ** np.resize(exponents, drawn.size).reshape(drawn.shape)


def _mixed(dtype: str, drawn: Reals, scale: float, rng: np.random.Generator, factor: float) -> Reals:
    """Each row as one of the others would have it."""
    names = ("positive", "large", "outliers", "tiny", "equal", "normal")
    rows = drawn.reshape(-1, drawn.shape[-1]).copy()
    chosen = rng.integers(0, len(names), len(rows))
    for number, name in enumerate(names):
        at = np.flatnonzero(chosen == number)
        if len(at):
            rows[at] = _reals(name, dtype, rows[at], scale, rng, factor)
    return rows.reshape(drawn.shape)


def _outliers(shape: tuple[int, ...], scale: float, rng: np.random.Generator) -> Reals:
    """Mostly zeros; half of the rows hold one value that is far larger than all others."""
    values = scale * rng.standard_normal(shape) * (rng.random(shape) < 0.125)
    rows = values.reshape(-1, shape[-1])
    chosen = np.flatnonzero(rng.random(len(rows)) < 0.5) if len(rows) > 1 else np.arange(1)
    places = rng.integers(0, shape[-1], len(chosen))
    rows[chosen, places] = _OUTLIER * scale * rng.choice([-1.0, 1.0], len(chosen))
    return rows.reshape(shape)


def _ends(shape: tuple[int, ...], scale: float, rng: np.random.Generator, factor: float) -> Reals:
    """What counts stands at the end: half of the rows have one large value among their last ones, or their first."""
    values = scale * rng.standard_normal(shape)
    rows = values.reshape(-1, shape[-1])
    chosen = np.flatnonzero(rng.random(len(rows)) < 0.5) if len(rows) > 1 else np.arange(1)
    near = rng.integers(0, min(_NEAR, shape[-1]), len(chosen))
    at_end = rng.random(len(chosen)) < 0.75
    rows[chosen, np.where(at_end, shape[-1] - 1 - near, near)] = (
        factor * _PEAK * scale * rng.choice([-1.0, 1.0], len(chosen))
    )
    if len(shape) > 1:  # and where a sum runs over the rows, the last of them count
        few = min(_NEAR // 2, shape[-2])
        values[..., shape[-2] - few :, :] *= 1 + factor * (_HEAVY - 1)
    return values


def _tiny(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Reals:
    low, high = _TINY[dtype]
    values = 2.0 ** rng.uniform(low, high, shape)
    if dtype in _SUBNORMAL:
        few = rng.random(shape) < 1 / 64
        values = np.where(few, 2.0 ** rng.uniform(*_SUBNORMAL[dtype], shape), values)
    return np.asarray(values * rng.choice([-1.0, 1.0], shape))


def turned(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Other values in another order, so that no sum stays; whole numbers between the least and the largest."""
    flat = array.reshape(-1)[::-1].reshape(array.shape)
    if array.dtype == np.bool_:
        return np.ascontiguousarray(~flat.astype(np.bool_))
    other = flat.astype(np.float64) * 0.75
    if array.dtype.kind in "iu":
        other = np.clip(other, float(array.min()), float(array.max()))
    return np.ascontiguousarray(other.astype(array.dtype))
