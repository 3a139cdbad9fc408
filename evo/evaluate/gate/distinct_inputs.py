"""Inputs whose elements differ from one another, so that a number in a register tells which element it is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.evaluate.gate.integer_patterns import Kind, kind_of, with_number
from evo.results.coverage import MEMORY, CoveragePoint, Operand
from evo.sim.bit_arithmetic import TESTS
from evo.spec.derived_inputs import tensor_domain, tensor_range
from evo.spec.element_types import is_float
from evo.spec.input_distributions import largest
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor

Setting = tuple[str, int, np.generic]  # an input, a place in it, and the element that it is to hold

PLACES = 8  # where a logged number may lie
_SETP = re.compile(r"set[p]?\.(?P<how>[a-z]+)")
_SPARE = 8  # numbers are drawn for each element, of which most are equal in a narrow type
_FIXED = "fixed"
_PART = 0.25  # of what a type holds
_DRAWS = 8
_ALIKE = 0.4  # of what is placed in company
_EVENED = 12  # elements at most that take up what another has lost


@dataclass(frozen=True, slots=True)
class InputSpace:
    """The inputs of a case, and what may lie in those that are free: whole numbers up to their bounds, and reals."""

    task: Task
    drawn: Arrays
    domains: dict[str, str]  # of those that may change
    bounds: dict[str, tuple[int, int]]  # of whole numbers

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(self.domains)

    def is_dealt(self, name: str) -> bool:
        """Whether its whole numbers mean something together, as ends of groups do."""
        return self.domains[name] == _FIXED

    def placed(
        self, inputs: Arrays, name: str, place: int, value: np.generic, company: np.random.Generator | None = None
    ) -> Arrays | None:
        """The inputs with another element; None if it cannot be another. company: others change with it, so that what
        conditions met before stays met: those that hold the same, or some of a row, whose sum is kept.
        """
        if self.is_dealt(name):
            array = with_number(inputs[name], place, int(value), self.drawn[name])
            return None if array is None else {**inputs, name: array}
        array = inputs[name].copy()
        flat = array.reshape(-1)
        before = flat[place]
        if company is not None and company.random() < _ALIKE:
            flat[flat == before] = value
        elif company is not None:
            self._even(name, array, place, float(before) - float(value), company)
        flat[place] = value
        return {**inputs, name: array}

    def _even(self, name: str, array: NDArray[np.generic], place: int, over: float, rng: np.random.Generator) -> None:
        """Add what is over to other elements of a row of the place, along any axis."""
        axis = int(rng.integers(array.ndim))
        step = math.prod(array.shape[axis + 1 :])
        first = place - place // step % array.shape[axis] * step
        low, high = self.bounds.get(name, (-math.inf, math.inf))
        flat = array.reshape(-1)
        for other in first + step * rng.permutation(array.shape[axis])[:_EVENED]:
            if other != place and over:
                number = min(max(float(flat[other]) + over, low), high)
                over -= number - float(flat[other])
                flat[other] = number

    @staticmethod
    def of(task: Task, case: Case, reference: Reference, seed: int) -> InputSpace:
        drawn = reference.inputs(case, seed)
        domains: dict[str, str] = {}
        bounds: dict[str, tuple[int, int]] = {}
        for tensor in task.inputs if not reference.has_dependent_inputs() else ():
            values = drawn[tensor.name]
            if values.size == 0 or tensor.dtype == "bool":
                continue
            domain = tensor_domain(tensor, values)
            if domain == _FIXED and kind_of(values) is None:
                continue
            domains[tensor.name] = domain
            if domain == _FIXED:
                bounds[tensor.name] = int(values.min()), int(values.max())
            elif not is_float(tensor.dtype):
                bounds[tensor.name] = _bounds(tensor, case, reference, seed)
        return InputSpace(task, drawn, domains, bounds)

    def distinct(self, rng: np.random.Generator) -> Arrays:
        """The drawn inputs, with other elements where some are equal and their type has enough others."""
        return {name: self._distinct(name, array, rng) for name, array in self.drawn.items()}

    def fitted(self, name: str, value: float) -> np.generic | None:
        """The value as this input can hold it; None if it cannot."""
        number, bits = (round(value) if name in self.bounds else value), 8 * self.drawn[name].dtype.itemsize
        if name in self.bounds and 2 ** (bits - 1) <= number < 2**bits > 2 * self.bounds[name][1]:
            number -= 2**bits  # as it was loaded without its sign
        return self.drawn[name].dtype.type(number) if self.fits(name, np.asarray([number]))[0] else None

    def fits(self, name: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of these numbers the input may hold."""
        if name in self.bounds:
            low, high = (float(bound) for bound in self.bounds[name])
        else:
            limit = largest(_dtype_of(self.task, name)) * _PART
            low, high = {"positive": (5e-324, limit), "unit": (0.0, 1.0)}.get(self.domains[name], (-limit, limit))
        return np.asarray((low <= values) & (values <= high), np.bool_)

    def _distinct(self, name: str, array: NDArray[np.generic], rng: np.random.Generator) -> NDArray[np.generic]:
        if name not in self.domains or np.unique(array).size == array.size:
            return array
        if self.is_dealt(name):
            return _spread(array, rng) if kind_of(array) is Kind.ENDS else array
        if name in self.bounds:
            low, high = self.bounds[name]
            if high - low + 1 < array.size:
                return array
            values = low + rng.choice(min(high - low + 1, _SPARE * array.size), array.size, replace=False)
            return values.astype(array.dtype).reshape(array.shape)
        scale = float(np.abs(array.astype(np.float64)).max()) or 1.0
        others = np.unique(rng.uniform(0, scale, _SPARE * array.size).astype(array.dtype))
        if self.domains[name] == "real":
            others = np.unique(np.concatenate([others, -others[others != 0]]))
        if others.size < array.size:
            return array
        return rng.choice(others, array.size, replace=False).reshape(array.shape)


def _spread(array: NDArray[np.generic], rng: np.random.Generator) -> NDArray[np.generic]:
    """Ends between the same first and last, no two alike if there is room."""
    values = array.reshape(-1).astype(np.int64)
    between = np.arange(values[0] + 1, values[-1])
    if len(between) < len(values) - 2:
        return array
    values[1:-1] = np.sort(rng.choice(between, len(values) - 2, replace=False))
    return values.astype(array.dtype).reshape(array.shape)


def _bounds(tensor: Tensor, case: Case, reference: Reference, seed: int) -> tuple[int, int]:
    """The stated range; else what some draws of the reference reach."""
    draws = 1 if tensor.range is not None else _DRAWS
    ranges = [tensor_range(tensor, reference.inputs(case, seed + turn)[tensor.name], case) for turn in range(draws)]
    return min(found.low for found in ranges), max(found.high for found in ranges)


def _dtype_of(task: Task, name: str) -> str:
    return next(tensor.dtype for tensor in task.inputs if tensor.name == name)


def element_turning(
    point: CoveragePoint, inputs: Arrays, space: InputSpace, rng: np.random.Generator
) -> Setting | None:
    """An element of an input, and what makes the comparison come out otherwise than it did last."""
    assert point.left is not None
    assert point.right is not None
    left, right = point.left.value, point.right.value
    if left is None or right is None or not all(math.isfinite(value) for value in (left, right)):
        return None
    holds = _relation(point)
    if holds is None:
        return None
    sides: list[tuple[Operand, float, float, Callable[[float], object]]] = [
        (point.left, left, right, lambda value: holds(value, right)),
        (point.right, right, left, lambda value: holds(left, value)),
    ]
    known = [side for side in sides if MEMORY in side[0].origins]
    for at in rng.permutation(len(known)):
        _, own, other, holds_for = known[int(at)]
        found = _found(own, _is_real(point), inputs, space)
        if not found:
            continue
        name, place = found[int(rng.integers(len(found)))]
        value = _value(own, other, holds_for)
        if value is not None and (fitting := space.fitted(name, value)) is not None:
            return name, place, fitting
    return None


def _relation(point: CoveragePoint) -> Callable[[float, float], object] | None:
    """What a comparison asks of numbers; None for one of what is no number."""
    match = _SETP.search(point.instruction)
    name = match["how"].removesuffix("u") if match else "lt"  # of a minimum or a maximum
    return TESTS.get(name)


def _value(own: float, other: float, holds: Callable[[float], object]) -> float | None:
    """What `own` has to be for the relation to come out otherwise."""
    wanted = not bool(holds(own))
    step = max(1.0, abs(other) / 64) if float(other).is_integer() else max(abs(other) / 64, 2.0**-10)
    return next((value for value in (other, other + step, other - step) if bool(holds(value)) == wanted), None)


def _is_real(point: CoveragePoint) -> bool:
    """Whether it compares numbers of a floating-point type."""
    return point.instruction.split(" ")[0].rpartition(".")[2].startswith(("f", "bf"))


def _found(value: float, real: bool, inputs: Arrays, space: InputSpace) -> list[tuple[str, int]]:
    """Where it lies in the inputs that may change; nothing if it lies in many places, or is no element at all."""
    found: list[tuple[str, int]] = []
    for name in space.free:
        if real == (name in space.bounds):
            continue
        flat = inputs[name].reshape(-1)
        is_held = flat.astype(np.float64) == value
        if not real and value > 0:  # a load may leave the sign to those who read what it has loaded
            is_held |= flat.view(f"u{flat.dtype.itemsize}") == value
        places: NDArray[np.intp] = np.flatnonzero(is_held)
        found += [(name, int(place)) for place in places[: PLACES + 1]]
    return found if len(found) <= PLACES else []
