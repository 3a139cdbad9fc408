"""What lies beside inputs that turn a comparison: the other tensors at the ends of their types, or with special values.

A kernel that leaves a tile of zeros out is right until it stands beside an infinity; one that rescales its sums only if
a score is far above the maximum is right until such scores meet large values. Neither shows while one tensor changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.evaluate.gate.distinct_inputs import InputSpace
from evo.results.coverage import Coverage, CoveragePoint, PointKind
from evo.spec.derived_inputs import tensor_domain
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float
from evo.spec.input_distributions import largest, with_specials
from evo.spec.task import Task, Tensor

_FACTORS = (4.0, 16.0, 64.0)  # powers of two: comparisons of numbers that grow together come out as before
_HALVINGS = 9
_LARGE = 0.25, 0.49  # what an output is asked to hold is half of its type
_SHARE = 0.25  # of the elements are special where many are
_KINDS = ("nan", "infinities")


def others_extreme(
    task: Task, inputs: Arrays, changed: Collection[str], rng: np.random.Generator
) -> Iterator[tuple[Arrays, bool]]:
    """The inputs with one other tensor large, then with one that holds special values; and whether they are special.

    changed: the tensors that are to stay.
    """
    others = [t for t in task.inputs if is_float(t.dtype) and t.name not in changed]
    for tensor in others:
        if tensor.domain != "fixed":
            yield {**inputs, tensor.name: _large(tensor, inputs[tensor.name], rng)}, False
    for tensor in others:
        array = inputs[tensor.name]
        kinds = [kind for kind in _KINDS if tensor.specials is not None and kind in tensor.specials.asked]
        if kinds:
            few = with_specials(array, tensor.dtype, kinds, tensor_domain(tensor, array), rng)
            yield {**inputs, tensor.name: few}, True
            yield {**inputs, tensor.name: _many(array, few, rng)}, True


def _many(array: NDArray[np.generic], few: NDArray[np.generic], rng: np.random.Generator) -> NDArray[np.generic]:
    """The special values of the few at many places: what is left out of one row of many meets one, too."""
    kinds = few.reshape(-1)[~np.isfinite(few.reshape(-1).astype(np.float64))]
    if not kinds.size:
        return few
    return np.where(rng.random(array.shape) < _SHARE, rng.choice(kinds, array.shape), array)


def _large(tensor: Tensor, array: NDArray[np.generic], rng: np.random.Generator) -> NDArray[np.generic]:
    """Numbers of a quarter to a half of what the type holds, of one sign: where they cancel, all are far off."""
    kind, domain = NUMPY[tensor.dtype], tensor_domain(tensor, array)
    most = 1.0 if domain == "unit" else min(largest(tensor.dtype), 1e30)
    sign = rng.choice([-1.0, 1.0]) if domain == "real" else 1.0
    return np.asarray(sign * most * rng.uniform(*_LARGE, array.shape)).astype(kind)


def edges(space: InputSpace, start: Arrays, run: Callable[[Arrays], Coverage | None]) -> Iterator[tuple[str, Arrays]]:
    """A tensor times a factor just below the one from which on comparisons of data come out otherwise: their edge.

    Numbers that are only compared with one another come out as before. So what is found compares with a constant, or
    with a sum that holds one.
    """
    if (seen := run(start)) is None:
        return
    base = _counts(seen)
    if not base:
        return

    def turned(name: str, factor: float) -> set[int] | None:
        """Comparisons that other threads decide otherwise; None if nothing can be said."""
        scaled = _scaled(start[name], factor)
        found = None if scaled is None else run({**start, name: scaled})
        return None if found is None else {at for at, count in _counts(found).items() if count != base.get(at)}

    for name in (name for name in space.free if name not in space.bounds):
        low = 1.0
        for factor in _FACTORS:
            amiss = turned(name, factor)
            if amiss is None:
                break
            if amiss:
                if (edge := _edge(low, factor, amiss, lambda by, name=name: turned(name, by))) > 1.0:  # type: ignore[misc]
                    scaled = _scaled(start[name], edge)
                    assert scaled is not None
                    yield name, {**start, name: scaled}
                break
            low = factor


def _edge(low: float, high: float, amiss: set[int], turned: Callable[[float], set[int] | None]) -> float:
    """The largest factor found at which none of these comparisons has come out otherwise."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = turned(middle)
        if found is None or found & amiss:
            high = middle
        else:
            low = middle
    return low


def _scaled(array: NDArray[np.generic], factor: float) -> NDArray[np.generic] | None:
    values = array.astype(np.float64) * factor
    with np.errstate(over="ignore"):
        found = values.astype(array.dtype)
    return found if np.isfinite(found.astype(np.float64)).all() else None


def tells_of_edges(coverage: Coverage) -> int:
    """Whether data are compared, and whether they come out both ways: a case of one element shows little."""
    met = (sum(map(bool, point.outcomes.values())) for point in coverage.points if _is_named(point))
    return max(met, default=0)


def _counts(coverage: Coverage) -> dict[int, int]:
    """How many threads each comparison of data held for, by place."""
    compared = ((at, point) for at, point in enumerate(coverage.points) if _is_named(point))
    return {at: point.outcomes.get("true", 0) for at, point in compared if point.reached}


def _is_named(point: CoveragePoint) -> bool:
    return point.kind is PointKind.COMPARISON and not point.implied and point.compares_data
