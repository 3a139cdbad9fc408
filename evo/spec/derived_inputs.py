"""The inputs of a case under another distribution: which tensors may change, to what, what to try instead, and whether
what the reference gives for them may be asked of a variant.

Knows a task and arrays, runs no reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.spec import input_distributions as distributions
from evo.spec.blocks import over_blocks
from evo.spec.declared_values import UNDEFINED, Specials
from evo.spec.element_types import is_float
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import END_FACTORS, ENDS, LARGE_FACTORS, MIXED, Array
from evo.spec.integer_distributions import (
    ANY,
    BOOLEANS,
    EQUAL,
    FIXED,
    INTEGER_FACTORS,
    INTEGERS,
    IntegerRange,
    derive_integers,
    fits,
    integer_domain,
    observed_range,
)
from evo.spec.task import Case, Task, Tensor
from evo.spec.tensor_arrays import Arrays

_FACTORS = {"large": LARGE_FACTORS, ENDS: END_FACTORS, MIXED: LARGE_FACTORS[-1:]}  # tried in turn
_NARROW = 8  # a range of fewer values tells little
_TIES = 0.001  # of whole numbers a trusted implementation may have others
_MULTIPLES = (3, 5, 7, 11, 13, 19)  # no powers of two, which round alike
_FEW_STEPS = 64


def candidates(
    task: Task, case: Case, drawn: Arrays, distribution: str, generator: Callable[[], np.random.Generator]
) -> Iterator[tuple[Arrays, np.random.Generator]]:
    """Inputs to try in turn, the most telling first; none if the distribution can change no input."""
    domains = {t.name: tensor_domain(t, drawn[t.name]) for t in task.inputs}
    reals, wholes = _free_reals(task, domains), _free_integers(task, domains)
    if distribution in (*INTEGERS, *BOOLEANS):
        reals = []
    if distribution not in (*INTEGERS, *BOOLEANS, EQUAL, MIXED):
        wholes = []
    wholes = [t for t in wholes if distribution in (EQUAL, MIXED) or (distribution in BOOLEANS) == (t.dtype == "bool")]
    if distribution == EQUAL:
        wholes = [t for t in wholes if t.dtype != "bool"]  # `all` and `none`
    if not reals and not wholes:
        return
    attempts = [(reals, factor) for factor in _FACTORS.get(distribution, (1.0,))] if reals else []
    # Products of tiny values vanish: then one tensor alone is tiny.
    attempts += [([tensor], 1.0) for tensor in reals[:1] if distribution == "tiny" and len(reals) > 1]
    parts = _range_factors(wholes, case, drawn)
    for tensors, factor in attempts or [([], 1.0)]:
        for part in parts:
            rng = generator()
            changed = {
                t.name: defined(
                    t,
                    distributions.derive(distribution, t.dtype, drawn[t.name], domains[t.name], rng, factor=factor),
                    drawn[t.name],
                )
                for t in tensors
            }
            for t in wholes:
                within = tensor_range(t, drawn[t.name], case)
                changed[t.name] = derive_integers(
                    distribution, drawn[t.name], within, domains[t.name], rng, factor=part
                )
            if distribution == "normal" and (related := _related(tensors, changed, domains, rng)):
                yield drawn | changed | related, rng
            yield drawn | changed, rng


def _related(tensors: list[Tensor], changed: Arrays, domains: Mapping[str, str], rng: np.random.Generator) -> Arrays:
    """Tensors that hold, at some places, what another of their shape holds or its negative: differences, sums of 0."""
    found: Arrays = {}
    for place, tensor in enumerate(tensors):
        own, domain = changed[tensor.name], domains[tensor.name]
        same = (t for t in tensors[:place] if (t.dtype, domains[t.name]) == (tensor.dtype, domain))
        other = next((changed[t.name] for t in same if changed[t.name].shape == own.shape), None)
        if other is not None:
            opposite = np.negative(other) if domain == "real" else other
            which = rng.integers(0, 4, own.shape)
            found[tensor.name] = np.where(which == 0, other, np.where(which == 1, opposite, own)).astype(own.dtype)
    return found


def defined(tensor: Tensor, values: NDArray[np.generic], drawn: NDArray[np.generic]) -> NDArray[np.generic]:
    """The values, with what the task leaves undefined in this input as drawn instead."""
    stated = tensor.specials
    if stated is None or UNDEFINED not in (stated.zeros, stated.denormals):
        return values
    zeros, denormals = stated.zeros == UNDEFINED, stated.denormals == UNDEFINED
    return distributions.without(values, drawn, tensor.dtype, zeros=zeros, denormals=denormals)


def special_inputs(task: Task, drawn: Arrays, rng: np.random.Generator, *, unstated: bool) -> Arrays | None:
    """The drawn inputs with special values that have a meaning; None if none has.

    unstated: also in inputs of which the task says nothing, but for those whose values mean more than their size.
    """
    changed: Arrays = {}
    for tensor in task.inputs:
        domain = tensor_domain(tensor, drawn[tensor.name]) if is_float(tensor.dtype) else FIXED
        if not is_float(tensor.dtype) or (tensor.specials is None and (not unstated or domain == FIXED)):
            continue
        kinds = (tensor.specials or Specials.of(tensor.dtype)).asked
        if kinds:
            changed[tensor.name] = distributions.with_specials(drawn[tensor.name], tensor.dtype, kinds, domain, rng)
    return drawn | changed if changed else None


def _free_reals(task: Task, domains: Mapping[str, str]) -> list[Tensor]:
    """Float inputs that may change: none if all results are whole numbers: an index of a maximum depends on ties."""
    if not any(is_float(tensor.dtype) for tensor in task.outputs):
        return []
    return [t for t in task.inputs if is_float(t.dtype) and domains[t.name] != FIXED]


def _free_integers(task: Task, domains: Mapping[str, str]) -> list[Tensor]:
    return [t for t in task.inputs if not is_float(t.dtype) and domains[t.name] != FIXED]


def tensor_domain(tensor: Tensor, drawn: NDArray[np.generic]) -> str:
    if tensor.domain is not None:
        return tensor.domain
    if is_float(tensor.dtype):
        return distributions.domain_of(tensor.dtype, drawn)
    return ANY if tensor.range is not None else integer_domain(drawn)


def tensor_range(tensor: Tensor, drawn: NDArray[np.generic], case: Case) -> IntegerRange:
    """The declared range; else what is drawn, which is all that is known to be allowed."""
    if tensor.range is not None:
        return tensor.range.at(case.axes)
    return observed_range(drawn)


def _range_factors(wholes: list[Tensor], case: Case, drawn: Arrays) -> tuple[float, ...]:
    """Parts of the ranges to try: the whole first, then less, for references whose results would not fit their type."""
    widths = [found.high - found.low for t in wholes for found in (tensor_range(t, drawn[t.name], case),)]
    return tuple(factor for factor in INTEGER_FACTORS if factor == 1 or max(widths, default=0) * factor >= _NARROW)


def float_outputs(task: Task) -> list[Tensor]:
    return [tensor for tensor in task.outputs if is_float(tensor.dtype)]


def is_accurate(task: Task, found: Expectation) -> bool:
    """Whether the trusted implementation errs no more than half of what is allowed, at every element, and what is
    rounded before (the spread) too, once that is known. Of whole numbers it has nearly all: others hang on last bits.
    """
    tolerance = task.tolerance
    for name, ours in (found.trusted or {}).items() if not tolerance.integers else ():
        off = ours != found.expected[name]
        if ours.dtype.kind in "biu" and np.count_nonzero(off) > _TIES * off.size:
            return False
    if tolerance.rtol == tolerance.atol == 0:
        return True  # the task asks for the exact result, as a copy gives it, and says so of any input
    given = [found.expected] + [arrays for arrays in (found.trusted, found.spread) if arrays is not None]
    for tensor in float_outputs(task):
        exact, *others = (np.ascontiguousarray(arrays[tensor.name]).reshape(-1) for arrays in given)

        def is_within(part: slice, exact: Array = exact, others: Sequence[Array] = others) -> bool:
            want, errors = exact[part].astype(np.float64), [each[part].astype(np.float64) for each in others]
            with np.errstate(all="ignore"):  # another thread's
                if found.trusted is not None:
                    errors[0] = np.abs(errors[0] - want)
                most = 0.5 * (tolerance.atol + tolerance.rtol * np.abs(want))
            return all(bool((error <= most).all()) for error in errors or [np.zeros(())])

        if not all(over_blocks(is_within, exact.size)):
            return False
    return True


def multiples(task: Task, inputs: Arrays) -> Iterator[Arrays]:
    """All floats a few times as large, where whole numbers follow: near ties taken rightly by luck are not there."""
    floats = [tensor.name for tensor in task.inputs if is_float(tensor.dtype)]
    for factor in () if len(float_outputs(task)) == len(task.outputs) else _MULTIPLES:
        yield inputs | {name: (inputs[name] * np.asarray(factor, inputs[name].dtype)) for name in floats}


def representable(task: Task, expected: Arrays) -> bool:
    """Whether all outputs fit their types, with room for the errors of intermediate results."""
    for tensor in task.outputs:
        values = expected[tensor.name]
        if is_float(tensor.dtype):
            flat, most = values.reshape(-1), distributions.largest(tensor.dtype) / 2

            def fits_half(part: slice, flat: Array = flat, most: float = most) -> bool:
                return bool((np.abs(flat[part]) <= most).all())

            if not all(over_blocks(fits_half, flat.size)):
                return False
        elif not fits(values, tensor.dtype):
            return False
    return True


def vanishes(task: Task, expected: Arrays) -> bool:
    """Whether all outputs are within a few steps of zero."""
    steps = (np.abs(expected[t.name]).max() / distributions.smallest(t.dtype) for t in float_outputs(task))
    return all(step < _FEW_STEPS for step in steps)


def is_defined(task: Task, found: Expectation) -> bool:
    """Whether a trusted implementation gives NaN, infinities and accurate numbers where the reference does."""
    tolerance = task.tolerance
    if found.trusted is None:
        return False
    for tensor in task.outputs:
        if not is_float(tensor.dtype):
            return False  # NaN on the way to an integer becomes any number
        ours, truth = found.trusted[tensor.name].astype(np.float64), found.expected[tensor.name].astype(np.float64)
        finite = np.isfinite(truth)
        if not np.array_equal(ours[~finite], truth[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
            return False
        allowed = tolerance.atol + tolerance.rtol * np.abs(truth[finite])
        if not (np.abs(ours[finite] - truth[finite]) <= 0.5 * allowed).all():
            return False
    return True
