"""All numbers of a large case for the price of a few: inputs repeat, so that a cut of the reference knows them.

Independent places along an axis get the inputs of a few distinct ones, in a secret order that the seed decides. The
variant's output at each place is then compared with the truth of the distinct one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays, OutputExtremes
from evo.evaluate.gate.compare import compare, terms_of
from evo.evaluate.gate.error_budget import per_element
from evo.results import CaseCheck, Status
from evo.spec.blocks import same_bits
from evo.spec.element_types import is_float
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import MIXED, SPECIAL
from evo.spec.integer_distributions import EQUAL, SATURATED
from evo.spec.reference import Reference
from evo.spec.shared_arrays import shared_empty
from evo.spec.task import Case, Task, Tensor

Places = NDArray[np.int64]
_FLOP = 6e9  # of a reference under another distribution, which takes seconds
_ELEMENTS = 24 << 20  # of its inputs and outputs
_HARD = ("large", "outliers")  # asked for where a mixture is beyond what a trusted implementation can do
VARIED = (MIXED, SPECIAL, SATURATED)  # kinds of other inputs at a timed size
REPEATED = "repeated"  # errors of equal inputs are no independent samples, so nothing is said of their bias


def cut_inputs(task: Task, axis: str, inputs: Arrays, where: Places) -> Arrays:
    """The inputs, of those that the axis leads only what lies at these places."""
    return inputs | {tensor.name: inputs[tensor.name][where] for tensor in _led(task, axis)}


def repeated(
    task: Task, case: Case, axis: str, inputs: Arrays, where: Places, seed: int, *, cut: Arrays | None = None
) -> tuple[Arrays, Places]:
    """The inputs with those at `where` everywhere along the axis, and of each place, which of them it has.

    Of a single one, its own place is given another's inputs instead and left out (-1): a variant that hands out one
    place's results everywhere would be right otherwise. cut: what the places have in place of the inputs there.
    """
    length = case.axes[axis]
    rng = np.random.default_rng([seed, length, len(where)])
    led = _led(task, axis)
    cut = cut if cut is not None else cut_inputs(task, axis, inputs, where)
    groups = _dealt(len(where), length, rng, led)
    given = cut | {tensor.name: _taken(cut[tensor.name], groups) for tensor in led}
    if len(where) == 1 and length > 1:
        for tensor in led:
            given[tensor.name][where[0]] = inputs[tensor.name][(where[0] + 1) % length]
        groups[where[0]] = -1
    for tensor in led:
        given[tensor.name].flags.writeable = False  # such an array is mapped by a device, others are sent
    return given, np.asarray(groups, np.int64)


def _taken(distinct: NDArray[np.generic], groups: Places) -> NDArray[np.generic]:
    """Of each place what its group has, where a device maps it."""
    found = shared_empty((len(groups), *distinct.shape[1:]), distinct.dtype)
    return np.take(distinct, groups, axis=0, out=found, mode="clip")


@dataclass(frozen=True, slots=True)
class VariedInputs:
    """Inputs of a large case under another distribution, of each place along the axis which it has, and the truth."""

    inputs: Arrays
    groups: Places | None
    truth: Expectation


def varied(
    task: Task, case: Case, reference: Reference, axis: str | None, count: int, seed: int, kind: str = MIXED
) -> VariedInputs | None:
    """Other values for a timed size than its reference draws; None if the task has none, or they cost too much.

    count: how many places along the axis differ. kind: of VARIED. SPECIAL: drawn ones, with NaN, infinities and zeros
    among them; one whole number everywhere if the task has integers and no such values, since counts are largest then.
    SATURATED: whole numbers at the ends of their range that agree along rows, since sums are largest then.
    """
    part = case if axis is None else Case(name=f"{count} places of {case.name}", axes={**case.axes, axis: count})
    size = sum(math.prod(tensor.dims(part)) for tensor in task.tensors)
    if task.work_of(part).get("flop", 0.0) > _FLOP or size > _ELEMENTS:  # without flop, its elements alone tell
        return None
    drawn = np.random.default_rng([seed, *case.name.encode()])
    integers = any(not is_float(tensor.dtype) and tensor.dtype != "bool" for tensor in task.inputs)
    tried: dict[str, tuple[str, ...]] = {
        MIXED: (MIXED, *drawn.permutation(_HARD), "positive"),
        SPECIAL: (SPECIAL, EQUAL) if integers else (SPECIAL,),
        SATURATED: (SATURATED,) if integers else (),
    }
    for name in tried[kind]:
        found = reference.derived(part, seed, name)
        if found is None:
            continue
        if axis is None or count == case.axes[axis]:
            return VariedInputs(found.inputs, None, found)
        led = _led(task, axis)
        groups = _dealt(count, case.axes[axis], drawn, led)
        inputs = found.inputs | {t.name: _taken(found.inputs[t.name], groups) for t in led}
        return VariedInputs(inputs, groups, found)
    return None


def _led(task: Task, axis: str) -> list[Tensor]:
    return [tensor for tensor in task.inputs if tensor.shape and tensor.shape[0].text == axis]


def _dealt(count: int, length: int, rng: np.random.Generator, led: Sequence[Tensor]) -> Places:
    """The group of each place; every group is there. Whole numbers among the inputs may have to rise."""
    groups = np.r_[np.arange(count), rng.integers(0, count, length - count)]
    in_order = not all(is_float(tensor.dtype) for tensor in led)
    return np.asarray(np.sort(groups) if in_order else rng.permutation(groups), np.int64)


def held_to_truth(task: Task, case: Case, found: OutputExtremes, truth: Expectation) -> tuple[CaseCheck, bool] | None:
    """The first thing that is wrong with the lowest (True) or the highest (False) values; None if nothing."""
    expected = {name: values.reshape(-1) for name, values in truth.expected.items()}
    trusted = {n: v.reshape(-1) for n, v in truth.trusted.items()} if truth.trusted is not None else None
    spread = {n: v.reshape(-1) for n, v in truth.spread.items()} if truth.spread is not None else None
    rounding = {n: v.reshape(-1) for n, v in truth.rounding.items()} if truth.rounding is not None else None
    kind = SPECIAL if truth.distribution == SPECIAL else REPEATED
    terms = terms_of(task, case)
    flat = Expectation({}, expected, trusted, kind, spread, rounding, honest=truth.honest, terms=terms)
    adds = per_element(task, found.atomics, sum(math.prod(tensor.dims(case)) for tensor in task.outputs))
    lows: Arrays = {}
    for lowest in (True, False):
        outputs: Arrays = {}
        for name, extremes in found.extremes.items():
            values = extremes.low if lowest else extremes.high
            with np.errstate(all="ignore"):  # the truth itself if no block that ran has written
                outputs[name] = np.where(extremes.seen, values, expected[name].astype(values.dtype))
        if not lowest and all(same_bits(outputs[name], values) for name, values in lows.items()):
            break  # nothing differs between places of equal inputs, as a rule
        lows = outputs
        row = compare(task, case.name, outputs, flat, adds)
        if row.status is not Status.CORRECT:
            return row, lowest
    return None
