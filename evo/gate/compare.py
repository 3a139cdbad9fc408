"""Numbers against the float64 reference: classes of NaN and Inf, allclose, and an error budget.

The budget is taken from a trusted implementation's own error in the same precision.
Source: the rule of FlashAttention's tests (error at most twice that of the trusted implementation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.device import POISON_NAN, Array, Arrays
from evo.dtypes import ROUNDOFF, is_float
from evo.reference import Expectation
from evo.result import CaseCheck, Status
from evo.task import Task, Tolerance


def compare(task: Task, name: str, outputs: Arrays, expectation: Expectation) -> CaseCheck:
    """Hold one case's outputs to the reference. The status is CORRECT or WRONG."""
    worst: CaseCheck | None = None
    for tensor in task.outputs:
        got, want = outputs[tensor.name], expectation.expected[tensor.name]
        if is_float(tensor.dtype):
            trusted = expectation.trusted[tensor.name] if expectation.trusted else None
            check = _compare_float(name, tensor.name, tensor.dtype, got, want, trusted, task.tolerance)
        else:
            check = _compare_exact(name, tensor.name, got, want)
        if check.status is not Status.CORRECT:
            return check
        if worst is None or (check.max_error or 0.0) > (worst.max_error or 0.0):
            worst = check
    assert worst is not None
    return worst


def _compare_exact(case: str, tensor: str, got: Array, want: Array) -> CaseCheck:
    different = np.argwhere(got != want)
    if len(different):
        where = tuple(int(i) for i in different[0])
        reason = f"{tensor}{list(where)} is {got[where]}, expected {want[where]} ({len(different)} elements differ)"
        return CaseCheck(name=case, status=Status.WRONG, reason=reason)
    return CaseCheck(name=case, status=Status.CORRECT, max_error=0.0, rms_error=0.0)


def _classes(values: NDArray[np.float64]) -> NDArray[np.int8]:
    """0 finite, 1 NaN, 2 +Inf, 3 -Inf."""
    classes = np.zeros(values.shape, np.int8)
    classes[np.isnan(values)] = 1
    classes[np.isposinf(values)] = 2
    classes[np.isneginf(values)] = 3
    return classes


_CLASS_NAMES = ("finite", "NaN", "+Inf", "-Inf")


def _class_problem(tensor: str, got: Array, values: NDArray[np.float64], want: NDArray[np.float64]) -> str | None:
    ours, theirs = _classes(values), _classes(want)
    different = np.argwhere(ours != theirs)
    if not len(different):
        return None
    where = tuple(int(i) for i in different[0])
    element = f"{tensor}{list(where)}"
    if (np.ascontiguousarray(got[where]).view(np.uint8) == POISON_NAN).all():
        return f"unwritten: {element} still holds the poison ({len(different)} elements, not finite)"
    return (
        f"not finite as expected: {element} is {_CLASS_NAMES[ours[where]]}, expected {_CLASS_NAMES[theirs[where]]} "
        f"({len(different)} elements)"
    )


@dataclass(frozen=True, slots=True)
class _Errors:
    """Largest absolute error, and the error's norm over the reference's."""

    largest: float
    relative_rms: float


def _errors(values: NDArray[np.float64], want: NDArray[np.float64], norm: float) -> _Errors:
    error = np.abs(values - want)
    return _Errors(float(error.max(initial=0.0)), float(np.sqrt((error**2).sum())) / norm)


def _compare_float(
    case: str, tensor: str, dtype: str, got: Array, want: Array, trusted: Array | None, tolerance: Tolerance
) -> CaseCheck:
    values, exact = got.astype(np.float64), want.astype(np.float64)
    if problem := _class_problem(tensor, got, values, exact):
        return CaseCheck(name=case, status=Status.WRONG, reason=problem)
    finite = np.isfinite(exact)
    values, exact = np.where(finite, values, 0.0), np.where(finite, exact, 0.0)
    norm = float(np.sqrt((exact**2).sum())) or 1.0
    ours = _errors(values, exact, norm)
    budget = {"rtol": tolerance.rtol, "atol": tolerance.atol}
    reason = None
    beyond = np.abs(values - exact) > tolerance.atol + tolerance.rtol * np.abs(exact)
    if beyond.any():
        where = tuple(int(i) for i in np.argwhere(beyond)[0])
        reason = (
            f"allclose: {tensor}{list(where)} is {values[where]:.6g}, expected {exact[where]:.6g} "
            f"({int(beyond.sum())} of {beyond.size} elements beyond rtol {tolerance.rtol:g}, atol {tolerance.atol:g})"
        )
    if trusted is not None:
        allowed = _budget(trusted, exact, finite, norm, dtype, tolerance)
        budget |= {"max_error": allowed.largest, "rms_error": allowed.relative_rms}
        if reason is None and ours.largest > allowed.largest:
            reason = f"error budget: {tensor} has max error {ours.largest:.3g}, allowed {allowed.largest:.3g}"
        if reason is None and ours.relative_rms > allowed.relative_rms:
            reason = (
                f"error budget: {tensor} has relative RMS error {ours.relative_rms:.3g}, "
                f"allowed {allowed.relative_rms:.3g}"
            )
    return CaseCheck(
        name=case,
        status=Status.CORRECT if reason is None else Status.WRONG,
        reason=reason,
        max_error=ours.largest,
        rms_error=ours.relative_rms,
        budget=budget,
    )


def _budget(
    trusted: Array,
    exact: NDArray[np.float64],
    finite: NDArray[np.bool_],
    norm: float,
    dtype: str,
    tolerance: Tolerance,
) -> _Errors:
    """What a trusted implementation's own error allows: a factor of it, plus one rounding at the output's scale."""
    base = _errors(np.where(finite, trusted.astype(np.float64), 0.0), exact, norm)
    unit = ROUNDOFF[dtype]
    scale = float(np.abs(exact).max(initial=0.0))
    return _Errors(
        tolerance.rival_error_factor * base.largest + 2 * unit * scale,
        tolerance.rival_error_factor * base.relative_rms + 4 * unit,
    )


def first_difference(a: Arrays, b: Arrays) -> str | None:
    """Where two runs on the same inputs differ in a bit, in words; None if they agree."""
    for name, left in a.items():
        right = b[name]
        if left is right:  # a device hands equal outputs over once
            continue
        if left.tobytes() != right.tobytes():
            raw = left.dtype.itemsize
            bits = np.frombuffer(left.tobytes(), np.dtype((np.void, raw)))
            other = np.frombuffer(right.tobytes(), np.dtype((np.void, raw)))
            differs = np.flatnonzero(bits != other)
            where = np.unravel_index(int(differs[0]), left.shape)
            index = [int(i) for i in where]
            return f"{name}{index} was {left[tuple(index)]} and then {right[tuple(index)]} ({len(differs)} elements)"
    return None
