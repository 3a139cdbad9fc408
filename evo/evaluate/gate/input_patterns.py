"""Inputs that have a structure no draw would have: what a kernel may take for granted on drawn values alone.

Rows that begin equal, that are sorted, that repeat, or are far from zero; values that the machine code compares with;
numbers that all point to one place. Every pattern is made from the drawn tensors, and is used only where the reference
and a trusted implementation are accurate on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.evaluate.gate.aligned_inputs import aligned, rising
from evo.evaluate.gate.integer_patterns import WAYS, Kind, highest_place, kind_of, recurrence, varied_integers
from evo.evaluate.gate.outlying_inputs import (
    BALANCED,
    LONG,
    far_apart,
    few_signs,
    outermost,
    peaked,
    sourced,
    special_rows,
    values_of,
    whole_numbers,
)
from evo.evaluate.gate.spliced_inputs import TURNS, spliced
from evo.evaluate.gate.tensor_rows import Reals, Rng, is_turned, one_of, ordered, rows_of, some_rows
from evo.spec import input_distributions as distributions
from evo.spec.derived_inputs import defined
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import largest
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor
from evo.spec.tensor_arrays import Arrays

STRUCTURED, SHIFTED, SOURCED, UNEVEN, ZEROS = "structured", "shifted", "compared", "uneven", "special_zeros"
SPLICED, OUTERMOST, RECIPROCAL, PEAKED, ROWS = "spliced", "outermost", "reciprocal", "peaked", "special_rows"
WHOLE, ALIGNED = "whole", "aligned"
STRUCTURES = 6  # turns of structured inputs
# How often each is drawn on a case before a keep: one draw shows one way to be uneven.
PATTERNS = {
    STRUCTURED: STRUCTURES, SHIFTED: 2, SOURCED: 2, UNEVEN: WAYS + 1, ZEROS: 1, SPLICED: TURNS + 1, OUTERMOST: 3,
    RECIPROCAL: 2, PEAKED: 3, ROWS: 2, WHOLE: 5, ALIGNED: 5,
}  # fmt: skip

BY_CONSTANTS = STRUCTURED, SOURCED, PEAKED, ALIGNED  # patterns that look at what a variant compares with

_Structure = Callable[[Reals, Reals, Rng], None]

_SIGNS, _TWICE = (-1.0, 1.0), (-2.0, 2.0, 2.0)
_SHRINKS = (1.0, 0.25, 0.0625)  # of shifts, until the reference is accurate
_ZERO_SHARE, _NAMED = 0.25, 0.35
_WIDEST = 65504.0  # the largest number of half precision; float32 can still add squares of it up
_TOPMOST, _TOP = 2, (0.3, 0.49)  # the turn, and the share of the largest number, where fast divisions give zero
_EXACT = 1 << 12  # of a recurrence, whose numbers are exact in ten bits
_RISING = 4  # turn
_LONG = 16  # places that the code may name


def is_topmost(pattern: str, turn: int) -> bool:
    """Whether inputs are about as large as their type has numbers."""
    return pattern == OUTERMOST and turn == _TOPMOST


def patterned(
    task: Task,
    reference: Reference,
    case: Case,
    seed: int,
    pattern: str,
    constants: Sequence[int | float] = (),
    *,
    turn: int = 0,
) -> Expectation | None:
    """The case under a pattern; None if the task has no use for it. constants: what the variant compares with.

    turn: the same seed has other inputs in each.
    """
    drawn = reference.inputs(case, seed)
    rng = np.random.default_rng([seed, turn, *case.name.encode(), *pattern.encode()])
    if pattern == UNEVEN:
        return _uneven(task, reference, case, drawn, seed, rng, turn)
    domains = {t.name: t.domain or distributions.domain_of(t.dtype, drawn[t.name]) for t in task.inputs}
    free = [t for t in task.inputs if is_float(t.dtype) and domains[t.name] != "fixed"]
    if not free or reference.has_dependent_inputs() or (pattern == SOURCED and not constants):
        return None
    if pattern in (ZEROS, ROWS):
        return _special(reference, case, drawn, free, rng, beside_zeros=pattern == ZEROS)
    if pattern == SPLICED:
        return _spliced(reference, case, drawn, free, domains, turn, rng)
    if pattern in (OUTERMOST, RECIPROCAL, PEAKED, WHOLE, ALIGNED):
        halves = not all(is_float(tensor.dtype) for tensor in task.outputs)
        if halves != (pattern == WHOLE and (reference.has("trusted") if halves else turn > 1)):
            return None  # full of near ties, and nothing tells which are exact; or nothing is rounded to whole numbers
        tries = _outlying(pattern, drawn, free, domains, constants, rng, turn, halves=halves)
        if is_topmost(pattern, turn):
            tries = (changed for changed in tries if reference.stays_within(case, drawn, changed))
        sound = (reference.sound(case, drawn | changed, pattern, rng) for changed in tries)
        return next((found for found in sound if found is not None), None)
    only = _ALONE.get(turn, ()) if pattern == STRUCTURED else ()
    together = int(rng.integers(1 << 32)) if turn % 2 or (not turn and rng.integers(2)) else None

    def made(tensor: Tensor, shrink: float, together: int | None) -> NDArray[np.generic]:
        own, domain = drawn[tensor.name], domains[tensor.name]
        if pattern == SHIFTED and turn % 2:
            return _all_below(tensor, own, domain, rng, shrink)
        return _of_tensor(pattern, tensor, own, domain, rng, shrink, constants, together, only)

    for shrink in _SHRINKS if pattern == SHIFTED else (1.0, 0.0) if pattern == STRUCTURED else (1.0,):
        changed = {t.name: made(t, shrink, together) for t in free}
        if (found := reference.sound(case, drawn | changed, pattern, rng)) is not None:
            return found
    if pattern == SHIFTED:
        return None
    one = free[int(rng.integers(len(free)))]  # not all at once: equal rows of all of them may cancel
    return reference.sound(case, drawn | {one.name: made(one, 1.0, None)}, pattern, rng)


def _of_tensor(
    pattern: str,
    tensor: Tensor,
    drawn: NDArray[np.generic],
    domain: str,
    rng: Rng,
    shrink: float,
    constants: Sequence[int | float],
    together: int | None,
    only: Sequence[_Structure] = (),
) -> NDArray[np.generic]:
    """together: a seed of what becomes of each row, if equal rows of all tensors are to have one structure.

    only: these structures, if any.
    """
    values = drawn.astype(np.float64)
    length = values.shape[-1] if pattern == STRUCTURED and values.ndim else 0
    named = [int(c) for c in constants if _LONG < c < length and c == int(c)]
    flat, whole = rows_of(values, turned=together is None and not named and is_turned(values, rng))
    scale = _scale(flat)
    likely = values_of(tensor.dtype, constants) if pattern == SOURCED else ()
    if pattern == SOURCED and not likely:
        return drawn
    structures = only or (_STRUCTURES if shrink else _LIVELY)
    kinds = (rng if together is None else np.random.default_rng(together)).integers(0, len(structures), len(flat))
    for number in some_rows(len(flat), rng):
        row = flat[number]
        if pattern == SOURCED:
            sourced(row, likely, rng)
        elif pattern == SHIFTED:
            _SHIFTS[int(rng.integers(len(_SHIFTS)))](row, scale, shrink, rng)
        else:
            before = flat[number - 1] if number else row
            structures[int(kinds[number])](row, before, rng)
            if named and rng.random() < _NAMED:  # a place may be what the code compares
                row[one_of(named, rng)] = one_of(_TWICE, rng) * np.abs(row).max()
    return _within_domain(tensor, whole(), drawn, domain, scale)


def _all_below(tensor: Tensor, drawn: NDArray[np.generic], domain: str, rng: Rng, shrink: float) -> NDArray[np.generic]:
    """Nothing above zero, so that what is small there is not small beside what lies above."""
    values = np.abs(drawn.astype(np.float64))
    scale = _scale(values)
    return _within_domain(tensor, -values - shrink * scale * rng.uniform(0, 3), drawn, domain, scale)


def _outlying(
    pattern: str,
    drawn: Arrays,
    free: Sequence[Tensor],
    domains: dict[str, str],
    constants: Sequence[int | float],
    rng: Rng,
    turn: int,
    *,
    halves: bool,
) -> Iterator[Arrays]:
    """Inputs to try, the hardest first. In odd turns each tensor has one sign, at the ends of its type; few whole
    numbers. In the second even one those that reach far beyond half precision are about as large as sums of two may be.
    """
    odd = turn % 2 == 1
    reals = {t.name: drawn[t.name].astype(np.float64) for t in free}
    scales = {name: _scale(values) for name, values in reals.items()}

    def fitted(tensor: Tensor, values: Reals, part: float = 0.25) -> NDArray[np.generic]:
        name = tensor.name
        return _within_domain(tensor, values, drawn[name], domains[name], scales[name], part)

    one = free[int(rng.integers(len(free)))]
    if pattern == OUTERMOST:
        if turn == _TOPMOST:
            wide = [t for t in free if largest(t.dtype) > _WIDEST]
            for those in filter(None, (wide, [t for t in wide if t is one])):
                sizes = {t.name: largest(t.dtype) * rng.uniform(*_TOP, reals[t.name].shape) for t in those}
                signs = {t.name: rng.choice([-1.0, 1.0], reals[t.name].shape) for t in those}
                yield {t.name: fitted(t, signs[t.name] * sizes[t.name], 1.0) for t in those}
            return
        ends = {t.name: min(largest(t.dtype), _WIDEST) for t in free}
        for part in (1.0, 0.5) if odd else ():
            most = {t.name: rng.choice([-1.0, 1.0]) * part * ends[t.name] for t in free}
            yield {t.name: fitted(t, most[t.name] * rng.uniform(0.5, 1.0, reals[t.name].shape), 1.0) for t in free}
        for part in (1.0, 0.5):
            for some in (free, [free[int(rng.integers(len(free)))]]):
                most = {t.name: part * ends[t.name] for t in some}
                yield {t.name: fitted(t, outermost(reals[t.name], most[t.name], rng), 1.0) for t in some}
    elif pattern == WHOLE:
        made = functools.partial(whole_numbers, rng=rng, turn=turn, halves=halves)
        others = {name: few_signs(drawn[name], rng) for name in drawn if turn == BALANCED and name not in reals}
        yield others | {t.name: fitted(t, made(drawn[t.name].shape), 1.0) for t in free}
    elif pattern == ALIGNED:
        found = rising(free, reals, constants, rng) if turn == _RISING else aligned(free, reals, rng)
        yield {t.name: fitted(t, found[t.name], 1.0) for t in free if t.name in found}
    elif pattern == PEAKED:
        others = {t.name: fitted(t, np.abs(reals[t.name])) for t in free if t is not one}
        for _ in range(2):
            yield others | {one.name: fitted(one, peaked(reals[one.name], scales[one.name], constants, rng))}
    else:
        for other in far_apart(reals, {t.name: t.dtype for t in free}, rng, alone=odd):
            yield {t.name: fitted(t, other[t.name], 1.0) for t in free if t.name in other}


def _scale(values: Reals) -> float:
    """The size of a typical element."""
    return float(np.median(np.abs(values[values != 0]))) / 0.6745 if values.any() else 1.0


def _within_domain(
    tensor: Tensor, values: Reals, drawn: NDArray[np.generic], domain: str, scale: float, part: float = 0.25
) -> NDArray[np.generic]:
    """The values in the type of their tensor, none outside of its domain, or beyond a part of what the type holds."""
    if domain == "positive":
        values = np.maximum(np.abs(values), scale / 1024)
    elif domain == "unit":
        values = np.clip(np.abs(values), 0, 1)
    limit = largest(tensor.dtype) * part
    return defined(tensor, np.ascontiguousarray(np.clip(values, -limit, limit).astype(NUMPY[tensor.dtype])), drawn)


def _spliced(
    reference: Reference,
    case: Case,
    drawn: Arrays,
    free: Sequence[Tensor],
    domains: dict[str, str],
    turn: int,
    rng: Rng,
) -> Expectation | None:
    """Parts of the inputs at other places; of some inputs alone if the reference is not accurate on all of them."""
    for some in (free, [free[int(rng.integers(len(free)))]]):
        found = spliced({t.name: drawn[t.name].astype(np.float64) for t in some}, turn, rng)
        changed = {t.name: _within_domain(t, found[t.name], drawn[t.name], domains[t.name], 1.0) for t in some}
        if (known := reference.sound(case, drawn | changed, SPLICED, rng)) is not None:
            return known
    return None


# Structures: each changes one row in place. ------------------------------------------------------------------------


def _length(row: Reals, rng: Rng) -> int:
    """Of a part of a row: about half of it, nearly all of it, or a few."""
    choices = (len(row) // 2, len(row) - 1, 300, 40, 8, 2)
    fitting = [length for length in choices if 0 < length < len(row)]
    return one_of(fitting, rng) if fitting else len(row)


def _prefix_equal(row: Reals, _before: Reals, rng: Rng) -> None:
    row[: _length(row, rng)] = row[0]


def _prefix_zero(row: Reals, _before: Reals, rng: Rng) -> None:
    row[: _length(row, rng)] = 0


def _suffix_equal(row: Reals, _before: Reals, rng: Rng) -> None:
    length = _length(row, rng)
    row[len(row) - (length // 2 if length == len(row) - 1 > LONG else length) :] = row[-1]


def _all_equal(row: Reals, _before: Reals, _rng: Rng) -> None:
    row[:] = row[0]


def _one_unlike(row: Reals, _before: Reals, rng: Rng) -> None:
    place, value = int(rng.integers(len(row))), row[-1]
    row[:] = row[0]
    row[place] = 6 * value


def _one_hot(row: Reals, _before: Reals, rng: Rng) -> None:
    place = int(rng.integers(len(row)))
    value = row[place]
    row[:] = 0
    row[place] = 8 * value


def _rising(row: Reals, _before: Reals, _rng: Rng) -> None:
    row.sort()


def _ramp(row: Reals, _before: Reals, rng: Rng) -> None:
    """No two equal, as far as a type of ten bits tells them apart."""
    few = row[: one_of((len(row), max(1, len(row) // 2)), rng)][:2000]
    few[:] = (np.arange(len(few)) - len(few) // 2) * 2.0**-6 * one_of(_SIGNS, rng)


def _recurring(row: Reals, _before: Reals, rng: Rng) -> None:
    """A beginning of which each number follows from the two before, exactly: geometric, arithmetic, Fibonacci's, ..."""
    few = recurrence(_length(row, rng), _EXACT, rng)
    few = few[np.cumprod(few.astype(np.float16) == few).astype(bool)]
    row[: len(few)] = few * 2.0 ** int(rng.integers(-9, 1))


def _falling(row: Reals, _before: Reals, _rng: Rng) -> None:
    row[:] = np.sort(row)[::-1]


def _few_values(row: Reals, _before: Reals, rng: Rng) -> None:
    row[:] = rng.choice(row[: min(3, len(row))], len(row))


def _stretches(row: Reals, _before: Reals, _rng: Rng) -> None:
    row[:] = np.repeat(row, 3)[: len(row)]


def _one_sign(row: Reals, _before: Reals, rng: Rng) -> None:
    row[:] = np.abs(row) * one_of(_SIGNS, rng)


def _as_before(row: Reals, before: Reals, _rng: Rng) -> None:
    row[:] = before


_STRUCTURES: tuple[_Structure, ...] = (
    _prefix_equal, _prefix_equal, _prefix_zero, _prefix_zero, _suffix_equal, _all_equal, _one_unlike, _one_hot,
    _rising, _falling, _ramp, _recurring, ordered, ordered, _few_values, _stretches, _one_sign, _as_before,
)  # fmt: skip

_ALONE = {2: (_recurring,), 3: (ordered,), 4: (ordered,), 5: (ordered,)}  # in which turns of structured inputs

# Rows that keep their spread, where others are beyond what a reference is accurate on.
_LIVELY = (_rising, ordered, _falling, _stretches, _one_sign, _as_before, _few_values)


def _offset(row: Reals, scale: float, shrink: float, rng: Rng) -> None:
    row += one_of(_SIGNS, rng) * shrink * scale * 2.0 ** rng.uniform(0, 6)


def _scaled(row: Reals, _scale: float, shrink: float, rng: Rng) -> None:
    row *= 2.0 ** (rng.uniform(-8, 8) * min(1.0, 2 * shrink))


def _peak(row: Reals, scale: float, shrink: float, rng: Rng) -> None:
    row[int(rng.integers(len(row)))] = one_of(_SIGNS, rng) * shrink * scale * 2.0 ** rng.uniform(2, 8)


def _peak_over_equals(row: Reals, scale: float, shrink: float, rng: Rng) -> None:
    row[:] = row[0]
    _peak(row, scale, shrink, rng)


def _far_side(row: Reals, scale: float, shrink: float, rng: Rng) -> None:
    row[:] = -np.abs(row) - shrink * scale * 2.0 ** rng.uniform(0, 7)


_SHIFTS: tuple[Callable[[Reals, float, float, Rng], None], ...] = (
    _offset, _scaled, _peak, _peak_over_equals, _far_side,
)  # fmt: skip


# Whole numbers, and special values beside zeros -------------------------------------------------------------------


def _uneven(
    task: Task, reference: Reference, case: Case, drawn: Arrays, seed: int, rng: Rng, turn: int
) -> Expectation | None:
    changed: Arrays = {}
    for tensor in task.inputs:
        if not is_float(tensor.dtype):
            most = highest_place(task, reference, case, tensor, seed)
            kinds = [kind_of(reference.inputs(other, seed)[tensor.name]) for other in task.check]
            other = varied_integers(drawn[tensor.name], most, rng, turn, may_repeat=Kind.NUMBERS in kinds)
            if other is not None:
                changed[tensor.name] = other
    return reference.sound(case, drawn | changed, UNEVEN, rng) if changed else None


def _special(
    reference: Reference, case: Case, drawn: Arrays, free: Sequence[Tensor], rng: Rng, *, beside_zeros: bool
) -> Expectation | None:
    """NaN and infinities where the task declares them, throughout rows or in pairs; or beside many zeros: zero times
    infinity is not zero.
    """
    named = [tensor for tensor in free if tensor.specials is not None and tensor.specials.not_finite]
    if not named:
        return None
    changed: Arrays = {}
    for tensor in free if beside_zeros else ():
        values = drawn[tensor.name].copy()
        values[rng.random(values.shape) < _ZERO_SHARE] = 0
        changed[tensor.name] = defined(tensor, values, drawn[tensor.name])
    one = named[int(rng.integers(len(named)))]
    assert one.specials is not None
    domain = one.domain or distributions.domain_of(one.dtype, drawn[one.name])
    if beside_zeros:
        asked = [kind for kind in one.specials.asked if kind in ("nan", "infinities")]
        changed[one.name] = distributions.with_specials(changed[one.name], one.dtype, asked, domain, rng)
        return reference.special_expectation(drawn | changed, case)
    kinds = [np.nan] if "nan" in one.specials.asked else []
    if "infinities" in one.specials.asked and domain != "unit":
        kinds += [np.inf, -np.inf] if domain == "real" else [np.inf]
    if not kinds:
        return None
    values = special_rows(drawn[one.name].astype(np.float64), kinds, rng).astype(NUMPY[one.dtype])
    changed[one.name] = distributions.with_other_nans(np.ascontiguousarray(values), rng)
    return reference.special_expectation(drawn | changed, case)
