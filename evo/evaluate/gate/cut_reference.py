"""A large reference at a few places along an axis whose places do not depend on one another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.spec.expectation import Expectation
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

Places = NDArray[np.int64]  # indices along an axis
_TRIED = 3  # check cases on which an axis has to prove that it can be cut


def cut_expectation(task: Task, reference: Reference, case: Case, seed: int, axis: str, where: Places) -> Expectation:
    """The expectation for some places along an axis, without inputs; every champion of a run is held to the same."""

    def work() -> Expectation:
        part = Case(name=case.name, axes={**case.axes, axis: len(where)})
        led = {t.name for t in task.inputs if t.shape and t.shape[0].text == axis}
        inputs = reference.inputs(case, seed)
        given = {name: np.ascontiguousarray(a[where]) if name in led else a for name, a in inputs.items()}
        return replace(reference.expectation_of(given, part, ties=True), inputs={})

    return reference.once((case.name, seed, axis, where.tobytes()), work)


def cut_axis(task: Task, reference: Reference) -> str | None:
    """An axis that leads every output and whose places do not depend on one another, as check cases show; or None."""
    for axis in task.axes:
        if _leads(task, axis) and _is_independent(task, reference, axis):
            return axis
    return None


def _leads(task: Task, axis: str) -> bool:
    def first(shape: tuple[str, ...]) -> bool:
        return bool(shape) and shape[0] == axis

    for tensor in task.tensors:
        led = first(tuple(dim.text for dim in tensor.shape))
        others = tensor.shape[1:] if led else tensor.shape
        if any(axis in dim.names for dim in others) or (tensor.role != "in" and not led):
            return False
    return not any(axis in scalar.value.names for scalar in task.scalars)


def _is_independent(task: Task, reference: Reference, axis: str) -> bool:
    cases = [case for case in task.check if case.axes[axis] > 1][:_TRIED]
    try:
        for case in cases:
            whole = reference.expectation(case, 0)
            length = case.axes[axis]
            where = np.unique([0, length // 2, length - 1])[1:]
            part = cut_expectation(task, reference, case, 0, axis, where)
            for name, values in part.expected.items():
                rows = whole.expected[name][where]
                if values.shape != rows.shape or not np.allclose(values, rows, rtol=1e-9, atol=1e-12, equal_nan=True):
                    return False
    except TaskInvalid:  # it holds its inputs to a condition that a part of them breaks
        return False
    return bool(cases)
