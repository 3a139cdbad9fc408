"""Inputs changed by a law of the task, and what becomes of the outputs. Knows a task and arrays, runs no reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float
from evo.spec.input_distributions import domain_of
from evo.spec.laws import APPEND, PERMUTE, REPEAT, SCALE, SPLIT, Law, axis_problem, dimensions_of
from evo.spec.task import Case, Task, Tensor

Arrays = dict[str, NDArray[np.generic]]

_PART = 1 << 20  # elements
_FACTORS = {"real": (-1.0, 0.5), "positive": (0.5,), "unit": (0.5,)}  # exact, and no error becomes larger


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """A case with changed inputs, and what becomes of the outputs of the case before."""

    case: Case
    inputs: Arrays
    outputs: Callable[[Arrays], Arrays]


def possible_laws(task: Task, drawn: Arrays) -> tuple[Law, ...]:
    """What may hold of a task that states no laws. Whole numbers and `fixed` inputs stay as they are.

    drawn: inputs of one case.
    """
    fixed = {
        t.name
        for t in task.inputs
        if not is_float(t.dtype) or (t.domain or domain_of(t.dtype, drawn[t.name])) == "fixed"
    }
    resizable = all(is_float(t.dtype) for t in task.inputs)  # whole numbers may be places along an axis, or its ends
    found: list[Law] = []
    for axis, kind in task.axes.items():
        touched = {t.name for t in task.inputs if axis in dimensions_of(t)}
        if kind != "bool" and touched and not touched & fixed and axis_problem(axis, task.tensors) is None:
            found += [Law(kind=kind, axis=axis) for kind in ((PERMUTE, SPLIT, REPEAT) if resizable else (PERMUTE,))]
            outputs = [t.name for t in task.outputs if axis in dimensions_of(t)]
            fill, gives = dict.fromkeys(sorted(touched), 0.0), dict.fromkeys(outputs, 0.0)
            found += [Law(kind=APPEND, axis=axis, fill=fill, gives=gives)] if resizable else []
    if all(is_float(t.dtype) for t in task.outputs):
        found += [
            Law(kind=SCALE, tensors=(t.name,), power=p) for t in task.inputs if t.name not in fixed for p in (1, 2)
        ]
    return tuple(found)


def changed_case(law: Law, task: Task, case: Case, inputs: Arrays, rng: np.random.Generator) -> ChangedCase | None:
    """What the law says of a case; None where it says nothing. rng: of the order, the part or the factor."""
    if not law.applies(case.axes):
        return None
    if law.kind == SCALE:
        return _multiplied(law, task, case, inputs, rng)
    length = case.axes[law.axis]
    if law.kind == PERMUTE:
        order = rng.permutation(length)
        if (order == np.arange(length)).all():
            order = np.roll(order, 1)  # no change shows nothing
    elif law.kind == SPLIT:
        count = int(rng.integers(1, max(2, length)))
        start = int(rng.integers(0, max(1, length - count + 1)))
        order = np.arange(start, start + count)
    elif law.kind == REPEAT:
        order = np.tile(np.arange(length), 2)
    else:
        order = np.arange(length)
    if length < 2 and law.kind in (PERMUTE, SPLIT):
        return None
    few = int(rng.integers(1, max(2, length // 4 + 1))) if law.kind == APPEND else 0

    def along(arrays: Arrays, tensors: Sequence[Tensor], fill: Mapping[str, float]) -> Arrays:
        return arrays | {
            t.name: _lengthened(arrays[t.name], order, dimensions_of(t).index(law.axis), few, fill.get(t.name, 0.0))
            for t in tensors
            if law.axis in dimensions_of(t) and t.name in arrays
        }

    axes = {**case.axes, law.axis: len(order) + few}
    return ChangedCase(
        replace(case, axes=axes), along(inputs, task.inputs, law.fill), lambda out: along(out, task.outputs, law.gives)
    )


def _lengthened(
    array: NDArray[np.generic], order: NDArray[np.int64], dim: int, few: int, fill: float
) -> NDArray[np.generic]:
    taken = np.take(array, order, axis=dim)
    if few:
        shape = (*taken.shape[:dim], few, *taken.shape[dim + 1 :])
        taken = np.concatenate([taken, np.full(shape, fill).astype(taken.dtype)], axis=dim)
    return np.ascontiguousarray(taken)


def _times(values: NDArray[np.generic], factor: float, dtype: np.dtype[Any]) -> NDArray[np.generic]:
    """Each element times the factor in float64, a part at a time."""
    found, flat = np.empty(values.size, dtype), values.reshape(-1)
    for at in range(0, flat.size, _PART):
        found[at : at + _PART] = (flat[at : at + _PART].astype(np.float64) * factor).astype(dtype)
    return found.reshape(values.shape)


def _multiplied(law: Law, task: Task, case: Case, inputs: Arrays, rng: np.random.Generator) -> ChangedCase | None:
    named = [tensor for tensor in task.inputs if tensor.name in law.tensors]
    domains = [t.domain or domain_of(t.dtype, inputs[t.name]) for t in named]
    allowed = [f for f in _FACTORS["real"] if all(f in _FACTORS.get(d, _FACTORS["real"]) for d in domains)]
    factor = float(rng.choice(allowed))
    given = {t.name: _times(inputs[t.name], factor, NUMPY[t.dtype]) for t in named}
    by = math.pow(factor, law.power)
    return ChangedCase(
        case, inputs | given, lambda out: {name: np.asarray(a.astype(np.float64) * by) for name, a in out.items()}
    )
