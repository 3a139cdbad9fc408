"""Numbers against the float64 reference: classes of NaN and Inf, allclose, and budgets of error and bias.

The budgets are taken from a trusted implementation's own error in the same precision; a task that has none is held to
what one rounding of the truth would err. Sources: error at most a factor of the trusted one's, from the tests of
FlashAttention; a mean error within four standard errors of the trusted one's, which shows truncation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.device import POISON_LARGE, POISON_NAN, Array, Arrays
from evo.results import CaseCheck, Status
from evo.spec.dtypes import NUMPY, ROUNDOFF, is_float
from evo.spec.input_distributions import UNBIASED, largest, smallest
from evo.spec.reference import Expectation
from evo.spec.task import Task, Tolerance

Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Without a trusted implementation: the relative RMS error that no honest kernel of that precision comes near.
_UNTRUSTED_RMS = {"float64": 2.0**-26, "float32": 2.0**-10}
_BIAS_SAMPLES = 256  # fewer elements say nothing about a mean
_STANDARD_ERRORS = 4.0
_SUMMATION = 16.0  # roundings that the order of a sum may cost, where the inputs make each of them count


def compare(task: Task, name: str, outputs: Arrays, expectation: Expectation) -> CaseCheck:
    """Hold one case's outputs to the reference. The status is CORRECT or WRONG."""
    worst: CaseCheck | None = None
    for tensor in task.outputs:
        got, want = outputs[tensor.name], expectation.expected[tensor.name]
        if is_float(tensor.dtype):
            check = _Floats(tensor.name, tensor.dtype, task.tolerance, expectation).check(name, got)
        else:
            check = _compare_exact(name, tensor.name, got, want)
        if check.status is not Status.CORRECT:
            return check
        if worst is None or (check.max_error or 0.0) > (worst.max_error or 0.0):
            worst = check
    assert worst is not None
    return worst


def allclose(task: Task, outputs: Arrays, expectation: Expectation) -> bool:
    """The declared tolerance alone, no budgets: what a careless harness would ask."""
    for tensor in task.outputs:
        got, want = outputs[tensor.name], expectation.expected[tensor.name]
        if not is_float(tensor.dtype):
            if not np.array_equal(got, want):
                return False
        elif not _Floats(tensor.name, tensor.dtype, task.tolerance, expectation).is_close(got):
            return False
    return True


def _compare_exact(case: str, tensor: str, got: Array, want: Array) -> CaseCheck:
    different = np.argwhere(got != want)
    if len(different):
        where = tuple(int(i) for i in different[0])
        for poison in (POISON_NAN, POISON_LARGE):  # one value of many: only where all that differs holds it
            if _poisoned(got, poison)[got != want].all():
                reason = f"unwritten: {tensor}{list(where)} still holds the poison ({len(different)} elements)"
                return CaseCheck(name=case, status=Status.WRONG, reason=reason)
        reason = f"{tensor}{list(where)} is {got[where]}, expected {want[where]} ({len(different)} elements differ)"
        return CaseCheck(name=case, status=Status.WRONG, reason=reason)
    return CaseCheck(name=case, status=Status.CORRECT, max_error=0.0, rms_error=0.0)


def _poisoned(values: Array, poison: int) -> Mask:
    """Which elements hold the poison in every byte."""
    raw = np.ascontiguousarray(values)
    pattern = np.frombuffer(bytes([poison]) * raw.itemsize, f"V{raw.itemsize}")[0]
    return np.asarray(raw.view(f"V{raw.itemsize}") == pattern, np.bool_)


def _is_poison(value: np.generic) -> bool:
    return value.tobytes() == bytes([POISON_NAN]) * value.itemsize


def _classes(values: Reals) -> NDArray[np.int8]:
    """0 finite, 1 NaN, 2 +Inf, 3 -Inf."""
    classes = np.zeros(values.shape, np.int8)
    classes[np.isnan(values)] = 1
    classes[np.isposinf(values)] = 2
    classes[np.isneginf(values)] = 3
    return classes


_CLASS_NAMES = ("finite", "NaN", "+Inf", "-Inf")


@dataclass(frozen=True, slots=True)
class _Errors:
    """Largest absolute error, the error's norm over the reference's, and the mean errors (plain, and outwards)."""

    largest: float
    relative_rms: float
    mean: float
    outward: float
    variance: float


@dataclass(frozen=True, slots=True)
class _Base:
    """What holds for every variant: the errors of the trusted implementation, and the sizes of the truth.

    ordinary: the truth is finite and within the type everywhere. close: the trusted implementation meets the tolerance.
    """

    ordinary: bool
    norm: float
    scale: float
    typical: float
    errors: _Errors
    largest: float
    relative_rms: float
    close: bool


class _Floats:
    """One floating output of one case: the truth, and what may be allowed against it."""

    def __init__(self, tensor: str, dtype: str, tolerance: Tolerance, expectation: Expectation) -> None:
        self.tensor, self.dtype, self.tolerance = tensor, dtype, tolerance
        self.has_trusted = expectation.trusted is not None
        self.judges_bias = expectation.distribution in UNBIASED
        self.want: Reals = expectation.expected[tensor].astype(np.float64, copy=False)
        self.exact: Reals = self.want
        self.overflowing: Mask | None = None
        self.counted: Mask | None = None  # None: all of them
        known = expectation.memo.get(tensor)
        if not isinstance(known, _Base) or not known.ordinary:
            self._set_masks()
        if not isinstance(known, _Base):
            known = self._work_out(expectation)
            expectation.memo[tensor] = known
        self.base = known

    def _set_masks(self) -> None:
        finite = np.isfinite(self.want)
        # A truth that is too large for the type may come out as the largest number or as an infinity.
        with np.errstate(invalid="ignore"):
            over = finite & (np.abs(self.want) > largest(self.dtype) * (1 - 2 * ROUNDOFF[self.dtype]))
        if over.any() or not finite.all():
            self.overflowing, self.counted = over, finite & ~over
            self.exact = np.where(self.counted, self.want, 0.0)

    def _work_out(self, expectation: Expectation) -> _Base:
        norm = float(np.sqrt((self.exact**2).sum())) or 1.0
        trusted = expectation.trusted[self.tensor] if expectation.trusted else self.exact.astype(NUMPY[self.dtype])
        values = self._finite(trusted)
        errors = self._errors(values, norm)
        size, rms = errors.largest, errors.relative_rms
        if expectation.spread is not None and self.tensor in expectation.spread:
            spread = self._finite(expectation.spread[self.tensor])
            size = max(size, _SUMMATION * float(spread.max(initial=0.0)))
            rms = max(rms, _SUMMATION * float(np.sqrt((spread**2).sum())) / norm)
        sizes = np.abs(self.exact)
        return _Base(
            ordinary=self.counted is None,
            norm=norm,
            scale=float(sizes.max(initial=0.0)),
            typical=float(sizes.mean()),
            errors=errors,
            largest=size,
            relative_rms=rms,
            close=not self._beyond(values).any(),
        )

    def check(self, case: str, got: Array) -> CaseCheck:
        if problem := self._class_problem(got) or self._poison_problem(got):
            return CaseCheck(name=case, status=Status.WRONG, reason=problem)
        values = self._finite(got)
        ours = self._errors(values, self.base.norm)
        budget, limits = self._budget(ours)
        reason = self._allclose_problem(values) or self._budget_problem(ours, limits)
        return CaseCheck(
            name=case,
            status=Status.CORRECT if reason is None else Status.WRONG,
            reason=reason,
            max_error=ours.largest,
            rms_error=ours.relative_rms,
            budget=budget,
        )

    def is_close(self, got: Array) -> bool:
        return self._class_problem(got) is None and not self._beyond(self._finite(got)).any()

    def _finite(self, values: Array) -> Reals:
        reals = values.astype(np.float64)
        return reals if self.counted is None else np.where(self.counted, reals, 0.0)

    def _class_problem(self, got: Array) -> str | None:
        values = got.astype(np.float64)
        if self.counted is None and np.isfinite(values).all():
            return None
        ours, theirs = _classes(values), _classes(self.want)
        same = ours == theirs
        if self.overflowing is not None:
            outward = np.where(np.isnan(values), self.dtype == "float8_e4m3", values * np.sign(self.want) > 0)
            far = ~(np.abs(values) < 0.9 * largest(self.dtype))
            same = np.where(self.overflowing, outward.astype(np.bool_) & far, same)
        different = np.argwhere(~same)
        if not len(different):
            return None
        where = tuple(int(i) for i in different[0])
        element = f"{self.tensor}{list(where)}"
        if _is_poison(got[where]):
            return f"unwritten: {element} still holds the poison ({len(different)} elements, not finite)"
        if self.overflowing is not None and self.overflowing[where]:
            return f"{element} is {values[where]:.6g}, expected {self.want[where]:.6g}, which overflows {self.dtype}"
        return (
            f"not finite as expected: {element} is {_CLASS_NAMES[ours[where]]}, expected {_CLASS_NAMES[theirs[where]]} "
            f"({len(different)} elements)"
        )

    def _poison_problem(self, got: Array) -> str | None:
        """The finite poison, where it is beyond the tolerance: better words than its value."""
        held = _poisoned(got, POISON_LARGE)
        if held.any() and (held & self._beyond(self._finite(got))).any():
            where = [int(i) for i in np.argwhere(held)[0]]
            return f"unwritten: {self.tensor}{where} still holds the poison ({int(held.sum())} elements)"
        return None

    def _errors(self, values: Reals, norm: float) -> _Errors:
        error = values - self.exact
        squares, mean = float((error**2).sum()), float(error.mean())
        return _Errors(
            max(float(error.max(initial=0.0)), -float(error.min(initial=0.0))),
            math.sqrt(squares) / norm,
            mean,
            float((error * np.sign(self.exact)).mean()),
            max(squares / error.size - mean**2, 0.0),
        )

    def _beyond(self, values: Reals) -> Mask:
        allowed = self.tolerance.atol + self.tolerance.rtol * np.abs(self.exact)
        return np.asarray(np.abs(values - self.exact) > allowed)

    def _allclose_problem(self, values: Reals) -> str | None:
        beyond = self._beyond(values)
        if not beyond.any() or (self.has_trusted and not self.base.close):
            return None  # where the trusted implementation misses the tolerance, the budgets decide
        where = tuple(int(i) for i in np.argwhere(beyond)[0])
        return (
            f"allclose: {self.tensor}{list(where)} is {values[where]:.6g}, expected {self.exact[where]:.6g} "
            f"({int(beyond.sum())} of {beyond.size} elements beyond rtol {self.tolerance.rtol:g}, "
            f"atol {self.tolerance.atol:g})"
        )

    def _budget(self, ours: _Errors) -> tuple[dict[str, float], dict[str, float]]:
        """What the record shows, and the limits themselves, of which an absent one is no limit."""
        base, unit = self.base, ROUNDOFF[self.dtype]
        factor, floor = self.tolerance.rival_error_factor, smallest(self.dtype)
        limits: dict[str, float] = {}
        if self.has_trusted:
            limits["max_error"] = factor * base.largest + 2 * unit * base.scale + floor
        quantum = floor * math.sqrt(self.exact.size) / base.norm
        untrusted = 0.0 if self.has_trusted else _UNTRUSTED_RMS.get(self.dtype, 0.0)
        limits["rms_error"] = max(factor * base.relative_rms + 4 * unit + quantum, untrusted)
        if self.judges_bias and self.dtype not in _UNTRUSTED_RMS and self.exact.size >= _BIAS_SAMPLES:
            deviation = math.sqrt((base.errors.variance + ours.variance) / self.exact.size)
            limits["bias"] = _STANDARD_ERRORS * deviation + unit / 4 * base.typical
            limits["bias_mean"], limits["bias_outward"] = base.errors.mean, base.errors.outward
        shown = {"rtol": self.tolerance.rtol, "atol": self.tolerance.atol}
        shown |= {name: limits[name] for name in limits if not name.startswith("bias_")}
        return shown, limits

    def _budget_problem(self, ours: _Errors, limits: dict[str, float]) -> str | None:
        largest_allowed = limits.get("max_error")
        if largest_allowed is not None and ours.largest > largest_allowed:
            return f"error budget: {self.tensor} has max error {ours.largest:.3g}, allowed {largest_allowed:.3g}"
        if ours.relative_rms > limits["rms_error"]:
            return (
                f"error budget: {self.tensor} has relative RMS error {ours.relative_rms:.3g}, "
                f"allowed {limits['rms_error']:.3g}"
            )
        if "bias" in limits:
            for found, base, what in (
                (ours.mean, limits["bias_mean"], "all to one side"),
                (ours.outward, limits["bias_outward"], "towards or away from zero"),
            ):
                if abs(found - base) > limits["bias"]:
                    return (
                        f"error budget: {self.tensor} is biased, its errors lean {what} by {found - base:.3g} on "
                        f"average, allowed {limits['bias']:.3g}"
                    )
        return None


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
