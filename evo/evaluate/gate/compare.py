"""Numbers against the float64 reference: classes of NaN and Inf, allclose, and budgets of error and bias.

The budgets are taken from a trusted implementation's own error in the same precision; a task that has none is held to
what one rounding of the truth would err. Sources: error at most a factor of the trusted one's, from the tests of
FlashAttention; a mean error within four standard errors of the trusted one's, which shows truncation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evo.device import POISON_LARGE, POISON_NAN, Array, Arrays
from evo.evaluate.gate.blocks import exact_sum, over_blocks, same_bits, sum_of_squares
from evo.evaluate.gate.mismatches import element_of, is_poison, poisoned, wrong
from evo.results import CaseCheck, Mismatch, MismatchKind, Status
from evo.spec.conditioning import SUMMATION
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.input_distributions import UNBIASED, largest, smallest
from evo.spec.reference import Expectation
from evo.spec.task import Task
from evo.spec.tolerance import Tolerance

Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]
Problem = tuple[Mismatch, str]  # what is wrong, and in words

# Without a trusted implementation: the relative RMS error that no honest kernel of that precision comes near.
_UNTRUSTED_RMS = {"float64": 2.0**-26, "float32": 2.0**-10}
_BIAS_SAMPLES = 256  # fewer elements say nothing about a mean
_STANDARD_ERRORS = 4.0
_ROUNDED_OTHERWISE = 0.01  # of an integer output's elements, with `integers` in the tolerance


def compare(task: Task, name: str, outputs: Arrays, expectation: Expectation) -> CaseCheck:
    """Hold one case's outputs to the reference. The status is CORRECT or WRONG."""
    worst: CaseCheck | None = None
    for tensor in task.outputs:
        got, want = outputs[tensor.name], expectation.expected[tensor.name]
        if is_float(tensor.dtype):
            check = _Floats(tensor.name, tensor.dtype, task.tolerance, expectation).check(name, got)
        else:
            check = _compare_exact(name, tensor.name, got, want, task.tolerance.integers)
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
            if not np.array_equal(got, want) and not _within(got, want, task.tolerance.integers):
                return False
        elif not _Floats(tensor.name, tensor.dtype, task.tolerance, expectation).is_close(got):
            return False
    return True


def _within(got: Array, want: Array, most: int) -> bool:
    """Whether integers differ by so much at most, and few of them do: a rounding that fell to the other side."""
    if not most or got.dtype.kind not in "iu":
        return False
    off = np.flatnonzero(got != want)
    ours, theirs = (each.reshape(-1)[off].astype(np.float64) for each in (got, want))
    return len(off) <= max(1, _ROUNDED_OTHERWISE * got.size) and bool((np.abs(ours - theirs) <= most).all())


def _compare_exact(case: str, tensor: str, got: Array, want: Array, most: int) -> CaseCheck:
    different = np.argwhere(got != want)
    if len(different) and _within(got, want, most):
        return CaseCheck(name=case, status=Status.CORRECT, max_error=float(most), rms_error=0.0)
    if len(different):
        where = tuple(int(i) for i in different[0])
        for poison in (POISON_NAN, POISON_LARGE):  # one value of many: only where all that differs holds it
            if poisoned(got, poison)[got != want].all():
                found = element_of(MismatchKind.UNWRITTEN, tensor, where, len(different))
                return wrong(
                    case, found, f"unwritten: {found.element} still holds the poison ({len(different)} elements)"
                )
        found = element_of(MismatchKind.DIFFERENT, tensor, where, len(different), got[where], want[where])
        words = f"{found.element} is {got[where]}, expected {want[where]} ({len(different)} elements differ)"
        return wrong(case, found, words)
    return CaseCheck(name=case, status=Status.CORRECT, max_error=0.0, rms_error=0.0)


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
    """Largest absolute error, the error's norm over the reference's, and the mean errors (plain, and outwards).

    The first two are infinite if a value is not finite. beyond: whether a value misses the tolerance.
    """

    largest: float
    relative_rms: float
    mean: float
    outward: float
    variance: float
    beyond: bool


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


class _Sums(NamedTuple):
    """Of one block of errors: the largest, the sum of squares, the sum, the sum outwards; whether one is beyond the
    tolerance.
    """

    largest: float
    squares: float
    total: float
    outward: float
    beyond: bool


class _Floats:
    """One floating output of one case: the truth, and what may be allowed against it."""

    def __init__(self, tensor: str, dtype: str, tolerance: Tolerance, expectation: Expectation) -> None:
        self.tensor, self.dtype, self.tolerance = tensor, dtype, tolerance
        self.has_trusted = expectation.trusted is not None
        self.judges_bias = expectation.distribution in UNBIASED
        self.want: Reals = np.ascontiguousarray(expectation.expected[tensor], np.float64)
        self.exact: Reals = self.want
        rounding = (expectation.rounding or {}).get(tensor)
        self.rounding: Reals | None = None if rounding is None else np.ascontiguousarray(rounding, np.float64)
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
        # A truth that is too large for the type may come out as the largest number or as an infinity.
        most = largest(self.dtype) * (1 - 2 * ROUNDOFF[self.dtype])
        want = self.want.reshape(-1)
        if all(over_blocks(lambda part: bool((np.abs(want[part]) <= most).all()), want.size)):
            return
        finite = np.isfinite(self.want)
        self.overflowing = finite & (np.abs(self.want) > most)
        self.counted = finite & ~self.overflowing
        self.exact = np.where(self.counted, self.want, 0.0)

    def _work_out(self, expectation: Expectation) -> _Base:
        norm = math.sqrt(sum_of_squares(self.exact)) or 1.0
        trusted = expectation.trusted[self.tensor] if expectation.trusted else self.exact.astype(NUMPY[self.dtype])
        errors = self._measured(trusted, norm)
        size, rms = errors.largest, errors.relative_rms
        if expectation.spread is not None and self.tensor in expectation.spread:
            spread = self._finite(expectation.spread[self.tensor])
            size = max(size, SUMMATION * float(spread.max(initial=0.0)))
            rms = max(rms, SUMMATION * math.sqrt(sum_of_squares(spread)) / norm)
        sizes = over_blocks(self._size_of_block, self.exact.size)
        return _Base(
            ordinary=self.counted is None,
            norm=norm,
            scale=max(largest for largest, _ in sizes),
            typical=exact_sum(total for _, total in sizes) / self.exact.size,
            errors=errors,
            largest=size,
            relative_rms=rms,
            close=not errors.beyond,
        )

    def _size_of_block(self, part: slice) -> tuple[float, float]:
        size = np.abs(self.exact.reshape(-1)[part])
        return float(size.max()), float(size.sum())

    def check(self, case: str, got: Array) -> CaseCheck:
        ours = self._measured(got, self.base.norm)
        problem = None
        if ours.beyond or self.counted is not None:
            problem = self._class_problem(got) or self._poison_problem(got)
            if problem is not None:
                return wrong(case, *problem)
            problem = self._allclose_problem(got) if ours.beyond else None
        budget, limits = self._budget(ours)
        problem = problem or self._budget_problem(ours, limits)
        mismatch, reason = problem or (None, None)
        return CaseCheck(
            name=case,
            status=Status.CORRECT if reason is None else Status.WRONG,
            reason=reason,
            max_error=ours.largest,
            rms_error=ours.relative_rms,
            budget=budget,
            mismatch=mismatch,
        )

    def is_close(self, got: Array) -> bool:
        return self._class_problem(got) is None and not self._beyond(self._finite(got)).any()

    def _finite(self, values: Array) -> Reals:
        reals = values.astype(np.float64)
        return reals if self.counted is None else np.where(self.counted, reals, 0.0)

    def _class_problem(self, got: Array) -> Problem | None:
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
        count, both = len(different), (values[where], self.want[where])
        if is_poison(got[where]):
            found = element_of(MismatchKind.UNWRITTEN, self.tensor, where, count)
            return found, f"unwritten: {found.element} still holds the poison ({count} elements, not finite)"
        if self.overflowing is not None and self.overflowing[where]:
            found = element_of(MismatchKind.OVERFLOW, self.tensor, where, count, *both)
            return found, f"{found.element} is {both[0]:.6g}, expected {both[1]:.6g}, which overflows {self.dtype}"
        found = element_of(MismatchKind.NOT_FINITE, self.tensor, where, count, *both)
        names = _CLASS_NAMES[ours[where]], _CLASS_NAMES[theirs[where]]
        return (
            found,
            f"not finite as expected: {found.element} is {names[0]}, expected {names[1]} ({count} elements)",
        )

    def _poison_problem(self, got: Array) -> Problem | None:
        """The finite poison, where it is beyond the tolerance: better words than its value."""
        held = poisoned(got, POISON_LARGE)
        if held.any() and (held & self._beyond(self._finite(got))).any():
            count = int(held.sum())
            found = element_of(MismatchKind.UNWRITTEN, self.tensor, np.argwhere(held)[0], count)
            return found, f"unwritten: {found.element} still holds the poison ({count} elements)"
        return None

    def _measured(self, got: Array, norm: float) -> _Errors:
        """The errors of `got` where the truth counts."""
        values, exact = np.ascontiguousarray(got).reshape(-1), self.exact.reshape(-1)
        counted = None if self.counted is None else self.counted.reshape(-1)
        rounding = None if self.rounding is None else self.rounding.reshape(-1)

        def sums(part: slice) -> _Sums:
            truth = exact[part]
            error = values[part].astype(np.float64)
            if counted is not None:
                error = np.where(counted[part], error, 0.0)
            error -= truth
            size = np.abs(error)
            outward = float((error * np.sign(truth)).sum())
            largest = float(size.max(initial=0.0))
            allowed = np.abs(truth)
            allowed *= self.tolerance.rtol
            allowed += self.tolerance.atol
            if rounding is not None:
                allowed += rounding[part]
            beyond = not (size <= allowed).all()
            size *= size
            return _Sums(largest, float(size.sum()), float(error.sum()), outward, beyond)

        with np.errstate(invalid="ignore", over="ignore"):
            found = over_blocks(sums, exact.size)
        beyond = any(block.beyond for block in found)
        if not all(math.isfinite(block.largest) for block in found):
            return _Errors(math.inf, math.inf, 0.0, 0.0, math.inf, beyond)
        squares, total, outward = (exact_sum(column) for column in zip(*(block[1:4] for block in found), strict=True))
        mean = total / exact.size
        variance = max(squares / exact.size - mean**2, 0.0)
        largest = max(block.largest for block in found)
        return _Errors(largest, math.sqrt(squares) / norm, mean, outward / exact.size, variance, beyond)

    def _beyond(self, values: Reals) -> Mask:
        allowed = self.tolerance.atol + self.tolerance.rtol * np.abs(self.exact)
        if self.rounding is not None:
            allowed += self.rounding
        return np.asarray(np.abs(values - self.exact) > allowed)

    def _allclose_problem(self, got: Array) -> Problem | None:
        if self.has_trusted and not self.base.close:
            return None  # where the trusted implementation misses the tolerance, the budgets decide
        values = self._finite(got)
        beyond = self._beyond(values)
        where = tuple(int(i) for i in np.argwhere(beyond)[0])
        count = int(beyond.sum())
        found = element_of(MismatchKind.TOLERANCE, self.tensor, where, count, values[where], self.exact[where])
        return found, (
            f"allclose: {found.element} is {values[where]:.6g}, expected {self.exact[where]:.6g} "
            f"({count} of {beyond.size} elements beyond rtol {self.tolerance.rtol:g}, "
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

    def _budget_problem(self, ours: _Errors, limits: dict[str, float]) -> Problem | None:
        def beyond(kind: MismatchKind, got: float, allowed: float, words: str) -> Problem:
            found = element_of(kind, self.tensor, (), None, got, allowed)
            return found, f"error budget: {self.tensor} {words}, allowed {allowed:.3g}"

        largest_allowed = limits.get("max_error")
        if largest_allowed is not None and ours.largest > largest_allowed:
            words = f"has max error {ours.largest:.3g}"
            return beyond(MismatchKind.MAX_ERROR, ours.largest, largest_allowed, words)
        if ours.relative_rms > limits["rms_error"]:
            words = f"has relative RMS error {ours.relative_rms:.3g}"
            return beyond(MismatchKind.RMS_ERROR, ours.relative_rms, limits["rms_error"], words)
        if "bias" in limits:
            for found, base, what in (
                (ours.mean, limits["bias_mean"], "all to one side"),
                (ours.outward, limits["bias_outward"], "towards or away from zero"),
            ):
                if abs(found - base) > limits["bias"]:
                    words = f"is biased, its errors lean {what} by {found - base:.3g} on average"
                    return beyond(MismatchKind.BIAS, found - base, limits["bias"], words)
        return None


def first_difference(a: Arrays, b: Arrays) -> Mismatch | None:
    """Where two runs on the same inputs differ in a bit; None if they agree."""
    for name, left in a.items():
        right = b[name]
        if left is right:  # a device hands equal outputs over once
            continue
        if not same_bits(left, right):
            raw = left.dtype.itemsize
            bits = np.frombuffer(left.tobytes(), np.dtype((np.void, raw)))
            other = np.frombuffer(right.tobytes(), np.dtype((np.void, raw)))
            differs = np.flatnonzero(bits != other)
            where = np.unravel_index(int(differs[0]), left.shape)
            return element_of(MismatchKind.UNREPEATABLE, name, where, len(differs), right[where], left[where])
    return None
