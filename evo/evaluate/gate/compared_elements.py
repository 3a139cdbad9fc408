"""Elements of inputs that a comparison compares as they lie there, and what they would have to be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.evaluate.gate.distinct_inputs import InputSpace
from evo.evaluate.gate.solved_conditions import Setting
from evo.results.coverage import MEMORY, CoveragePoint, Operand
from evo.sim.bit_arithmetic import TESTS

_PLACES = 8  # elements that a logged number may be
_SETP = re.compile(r"set[p]?\.(?P<how>[a-z]+)")


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
        places: NDArray[np.intp] = np.flatnonzero(inputs[name].reshape(-1).astype(np.float64) == value)
        found += [(name, int(place)) for place in places[: _PLACES + 1]]
    return found if len(found) <= _PLACES else []
