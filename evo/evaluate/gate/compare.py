"""Numbers against the float64 reference: classes of NaN and Inf, allclose, and budgets of error and bias.

The budgets are taken from a trusted implementation's own error in the same precision; a task that has none is held to
what one rounding of the truth would err. Sources: error at most a factor of the trusted one's, from the tests of
FlashAttention; a mean error within four standard errors of the trusted one's, which shows truncation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evo.device import POISON_LARGE, POISON_NAN, Array, Arrays
from evo.device.error_sums import ErrorSums, error_sums, truth_sums
from evo.evaluate.gate.error_budget import (
    STANDARD_ERRORS,
    Base,
    ErrorBudget,
    Errors,
    Problem,
    base_of,
    errors_of,
    without_accumulation,
)
from evo.evaluate.gate.judged import compared_by_judge
from evo.evaluate.gate.mismatches import element_of, is_poison, poisoned, wrong
from evo.results import CaseCheck, MismatchKind, Status
from evo.spec.blocks import over_blocks, sum_of_squares
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.expectation import Expectation
from evo.spec.honest_errors import HonestErrors
from evo.spec.input_distributions import SPECIAL, UNBIASED, largest, smallest
from evo.spec.task import Case, Task
from evo.spec.tolerance import Tolerance

Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ROUNDED_OTHERWISE = 0.01  # of an integer output's elements, with `integers` in the tolerance
_BY_CHANCE = 0.001  # of an output's elements or lines may be beyond the tolerance where honest errors are
_FEW_ALIKE = 1 << 16  # elements, which are soon sorted
_LINES = 8  # fewer say nothing of chance


def compare(task: Task, name: str, outputs: Arrays, expectation: Expectation, accumulated: float = 0.0) -> CaseCheck:
    """Hold one case's outputs to the reference. The status is CORRECT or WRONG.

    A judge may say that large outputs are right; whether they are wrong, and what is, NumPy says.
    accumulated: how many atomics went into an element, on average.
    """
    if expectation.judged is not None:
        right = compared_by_judge(task, name, outputs, expectation.judged, expectation.distribution)
        if right is not None:
            return right
        expectation = expectation.fetched()
    worst: CaseCheck | None = None
    for tensor in task.outputs:
        got, want = outputs[tensor.name], expectation.expected[tensor.name]
        if is_float(tensor.dtype):
            floats = _Floats(tensor.name, tensor.dtype, task.tolerance, expectation)
            check = floats.check(name, got)
            if check.status is not Status.CORRECT and accumulated > 1:
                nearer = without_accumulation(got, floats.want, tensor, expectation, accumulated)
                if (without := floats.check(name, nearer)).status is Status.CORRECT:
                    check = without  # its errors are those that were held to the budget
        else:
            check = _compare_exact(name, tensor.name, got, want, task.tolerance.integers)
            if check.status is not Status.CORRECT and _are_near_ties(task, tensor.name, got, expectation):
                check = CaseCheck(name=name, status=Status.CORRECT, max_error=0.0, rms_error=0.0)
        if check.status is not Status.CORRECT:
            return _with_hint(task, check, expectation)
        if worst is None or (check.max_error or 0.0) > (worst.max_error or 0.0):
            worst = check
    assert worst is not None
    return worst


def terms_of(task: Task, case: Case) -> dict[str, float]:
    """How many elements of its largest float input a case has for each element of an output: about what is summed."""
    most = max((math.prod(t.dims(case)) for t in task.inputs if is_float(t.dtype)), default=0)
    return {tensor.name: max(1.0, most / math.prod(tensor.dims(case))) for tensor in task.outputs}


def _with_hint(task: Task, row: CaseCheck, expectation: Expectation) -> CaseCheck:
    """A refusal, with the place that says what special values mean if it is by them."""
    found = row.mismatch
    special = expectation.distribution == SPECIAL or (
        found is not None
        and found.kind is MismatchKind.NOT_FINITE
        and not np.isfinite(expectation.expected[found.tensor][found.index])
    )
    if not special or not any(is_float(tensor.dtype) for tensor in task.inputs):
        return row
    return replace(row, reason=f"{row.reason}; `specials:` in kernels/{task.name}/task.yaml says what such inputs mean")


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


def _within(got: Array, want: Array, most: int, share: float = _ROUNDED_OTHERWISE) -> bool:
    """Whether integers differ by so much at most, and few of them do: a rounding that fell to the other side."""
    if not most or got.dtype.kind not in "iu":
        return False
    off = np.flatnonzero(got != want)
    ours, theirs = (each.reshape(-1)[off].astype(np.float64) for each in (got, want))
    return len(off) <= max(1, share * got.size) and bool((np.abs(ours - theirs) <= most).all())


def _are_near_ties(task: Task, tensor: str, got: Array, expectation: Expectation) -> bool:
    """Whether integers differ at few places, and all of them are what inputs give that differ by a few roundings.

    The place of the nearest, or a value half-way between two whole numbers: which it is, the precision decides. Of
    inputs in few digits many are half-way, and a trusted implementation differs at as many.
    """
    if expectation.honest is None or got.dtype.kind not in "iu":
        return False
    want, trusted = expectation.expected[tensor], expectation.trusted
    theirs = np.zeros(got.shape, np.bool_) if trusted is None else np.asarray(trusted[tensor] != want)
    where = np.nonzero(got != want)
    ours, right = got[where], want[where]
    lines = where if got.ndim > 1 and len(ours) <= _FEW_ALIKE else ()
    alike = [np.unique([line, ours, right], axis=1).shape[1] for line in lines]  # equal inputs of a row count once
    share = _ROUNDED_OTHERWISE if _within(got, want, task.tolerance.integers, share=1.0) else _BY_CHANCE
    is_few = min(alike, default=got.size) <= max(1.0, share * got.size)
    if not is_few and not _is_few(got != want, theirs, task.tolerance.rival_error_factor):
        return False
    return expectation.honest.are_near_ties(tensor, np.flatnonzero(got != want), ours)


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


_FINITE = 0
_CLASS_NAMES = ("finite", "NaN", "+Inf", "-Inf")


class _Floats:
    """One floating output of one case: the truth, and what may be allowed against it."""

    def __init__(self, tensor: str, dtype: str, tolerance: Tolerance, expectation: Expectation) -> None:
        self.tensor, self.dtype, self.tolerance = tensor, dtype, tolerance
        self.trusted = expectation.trusted[tensor] if expectation.trusted is not None else None
        self.has_trusted = self.trusted is not None
        self.honest = expectation.honest
        self.judges_bias = expectation.distribution in UNBIASED
        most = max((a.size for a in expectation.inputs.values() if a.dtype.kind not in "iub"), default=0)
        self.terms = expectation.terms.get(tensor, max(1.0, most / max(1, expectation.expected[tensor].size)))
        self.want: Reals = np.ascontiguousarray(expectation.expected[tensor], np.float64)
        self.exact: Reals = self.want
        rounding = (expectation.rounding or {}).get(tensor)
        self.rounding: Reals | None = None if rounding is None else np.ascontiguousarray(rounding, np.float64)
        self.overflowing: Mask | None = None
        self.counted: Mask | None = None  # None: all of them
        known = expectation.memo.get(tensor)
        if not isinstance(known, Base) or not known.ordinary:
            self._set_masks()
        if not isinstance(known, Base):
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

    def _work_out(self, expectation: Expectation) -> Base:
        norm = math.sqrt(sum_of_squares(self.exact)) or 1.0
        trusted = expectation.trusted[self.tensor] if expectation.trusted else self.exact.astype(NUMPY[self.dtype])
        spread: tuple[float, float] | None = None
        if expectation.spread is not None and self.tensor in expectation.spread:
            moved = self._finite(expectation.spread[self.tensor])
            spread = float(moved.max(initial=0.0)), math.sqrt(sum_of_squares(moved))
        flat = self.exact.reshape(-1)
        sizes = over_blocks(lambda part: truth_sums(flat[part], math.inf), flat.size)
        errors, ordinary = self._measured(trusted, norm), self.counted is None
        return base_of(sizes, norm, errors, flat.size, ordinary=ordinary, spread=spread)

    def allowed(self) -> ErrorBudget:
        """The budgets for this output."""
        return ErrorBudget(
            tensor=self.tensor,
            dtype=self.dtype,
            tolerance=self.tolerance,
            base=self.base,
            shape=self.exact.shape,
            has_trusted=self.has_trusted,
            judges_bias=self.judges_bias,
            terms=self.terms,
        )

    def check(self, case: str, got: Array) -> CaseCheck:
        ours = self._measured(got, self.base.norm)
        problem = None
        if ours.beyond or self.counted is not None:
            problem = self._class_problem(got) or self._poison_problem(got)
            if problem is not None:
                return wrong(case, *problem)
        allowed = self.allowed()
        budget, limits = allowed.limits(ours)
        if ours.beyond:
            problem = self._allclose_problem(got, limits.get("max_error", math.inf))
        problem = problem or allowed.problem(ours, limits)
        if problem is not None and problem[0].kind in (MismatchKind.MAX_ERROR, MismatchKind.RMS_ERROR):
            problem, allowed_now = self._problem_by_redrawn(got, ours, problem)
            budget |= allowed_now
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
        flat = np.ascontiguousarray(got).reshape(-1)
        if self.counted is None and all(over_blocks(lambda part: bool(np.isfinite(flat[part]).all()), flat.size)):
            return None
        values = got.astype(np.float64)
        ours, theirs = _classes(values), _classes(self.want)
        same = ours == theirs
        if self.trusted is not None and not same.all():
            # Zero times infinity: whether a difference is zero or tiny, the precision decides.
            same |= (theirs != _FINITE) & (ours == _classes(self.trusted.astype(np.float64)))
        if self.honest is not None and not same.all():
            same |= (ours != _FINITE) & (theirs != _FINITE) & self._is_undetermined(theirs, self.honest)
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

    def _is_undetermined(self, theirs: NDArray[np.int8], honest: HonestErrors) -> Mask:
        """Where inputs a rounding away give something else that is not finite: a difference of nothing times infinity,
        which is an infinity of either sign or none.
        """
        near = [_classes(outputs[self.tensor].astype(np.float64).reshape(self.want.shape)) for outputs in honest.near()]
        return np.asarray(np.any([(classes != theirs) & (classes != _FINITE) for classes in near], axis=0))

    def _poison_problem(self, got: Array) -> Problem | None:
        """The finite poison, where it is beyond the tolerance: better words than its value."""
        held = poisoned(got, POISON_LARGE)
        if held.any() and (held & self._beyond(self._finite(got))).any():
            count = int(held.sum())
            found = element_of(MismatchKind.UNWRITTEN, self.tensor, np.argwhere(held)[0], count)
            return found, f"unwritten: {found.element} still holds the poison ({count} elements)"
        return None

    def _measured(self, got: Array, norm: float) -> Errors:
        """The errors of `got` where the truth counts."""
        values, exact = np.ascontiguousarray(got).reshape(-1), self.exact.reshape(-1)
        counted = None if self.counted is None else self.counted.reshape(-1)
        rounding = None if self.rounding is None else self.rounding.reshape(-1)

        def sums(part: slice) -> ErrorSums:
            return error_sums(
                values[part],
                exact[part],
                self.tolerance.rtol,
                self.tolerance.atol,
                None if counted is None else counted[part],
                None if rounding is None else rounding[part],
            )

        with np.errstate(invalid="ignore", over="ignore"):
            return errors_of(over_blocks(sums, exact.size), exact.size, norm)

    def _beyond(self, values: Reals) -> Mask:
        allowed = self.tolerance.atol + self.tolerance.rtol * np.abs(self.exact)
        if self.rounding is not None:
            allowed += self.rounding
        return np.asarray(np.abs(values - self.exact) > allowed)

    def _allclose_problem(self, got: Array, most: float) -> Problem | None:
        """What is beyond the tolerance, and is no honest error. most: what the budget allows of any element."""
        if self.has_trusted and not self.base.close:
            return None  # where the trusted implementation misses the tolerance, the budgets decide
        values = self._finite(got)
        beyond = self._beyond(values)
        if not self._is_honest(values, beyond, most):
            return self._tolerance_problem(values, beyond)
        return None

    def _is_honest(self, values: Reals, beyond: Mask, most: float) -> bool:
        """Whether what is beyond the tolerance is little, and no more than honest implementations err there.

        A distribution is used if a trusted implementation stays within half of the tolerance once. Where sums cancel,
        it may stay there by luck, so its errors are drawn again before a variant is called wrong.
        """
        error = np.abs(values - self.exact)[beyond]
        if self.honest is None or self.rounding is None or float(error.max(initial=0.0)) > most or not _is_few(beyond):
            return False
        drawn = self.honest.at_each()
        if drawn is None:
            return False
        usual = drawn[self.tensor].reshape(self.exact.shape)[beyond]
        return bool((error <= STANDARD_ERRORS * self.tolerance.rival_error_factor * usual).all())

    def _problem_by_redrawn(
        self, got: Array, ours: Errors, problem: Problem
    ) -> tuple[Problem | None, Mapping[str, float]]:
        """What is wrong by budgets from redrawn errors, and these: where few elements carry them, one run's are chance.

        A largest error that each element is held to by itself is shown beside the largest that one may have.
        """
        if self.honest is None or not self.has_trusted or (drawn := self.honest.at_each()) is None:
            return problem, {}
        usual = self._finite(drawn[self.tensor].reshape(self.exact.shape))
        squares = sum_of_squares(usual)
        if not squares:
            return problem, {}
        # How many errors there are that do not depend on one another (Kish): what is computed alike errs alike.
        alike = np.unique(self.exact, return_inverse=True)[1].reshape(-1)
        carrying = squares**2 / sum_of_squares(np.bincount(alike, np.square(usual).reshape(-1)).astype(np.float64))
        rms = (1 + STANDARD_ERRORS / math.sqrt(2 * carrying)) * math.sqrt(squares) / self.base.norm
        allowed = replace(self.allowed(), base=replace(self.base, relative_rms=max(self.base.relative_rms, rms)))
        shown, most = allowed.limits(ours)
        factor, unit = STANDARD_ERRORS * self.tolerance.rival_error_factor, ROUNDOFF[self.dtype]
        within = factor * usual + 2 * unit * np.abs(self.exact) + smallest(self.dtype)
        if (np.abs(self._finite(got) - self.exact) <= np.maximum(within, most["max_error"])).all():
            shown["max_error"] = max(most.pop("max_error"), float(within.max()))
        return allowed.problem(ours, most), shown

    def _tolerance_problem(self, values: Reals, beyond: Mask) -> Problem:
        where = tuple(int(i) for i in np.argwhere(beyond)[0])
        count = int(beyond.sum())
        found = element_of(MismatchKind.TOLERANCE, self.tensor, where, count, values[where], self.exact[where])
        return found, (
            f"allclose: {found.element} is {values[where]:.6g}, expected {self.exact[where]:.6g} "
            f"({count} of {beyond.size} elements beyond rtol {self.tolerance.rtol:g}, "
            f"atol {self.tolerance.atol:g})"
        )


def _is_few(beyond: Mask, theirs: Mask | None = None, factor: float = 0.0) -> bool:
    """Whether so little is beyond the tolerance by chance, or not much more than of a trusted implementation:
    elements, or lines of which one number is a part of each.
    """
    errors = 0.0 if theirs is None else STANDARD_ERRORS  # of a count of ties: near a half are numbers by chance
    others = np.zeros_like(beyond) if theirs is None else theirs
    axes = range(beyond.ndim if beyond.ndim > 1 else 0)
    lines = [(ours, others.any(axis=axis)) for axis in axes if (ours := beyond.any(axis=axis)).size >= _LINES]
    usual = [(ours, max(_BY_CHANCE * ours.size, factor * known.sum())) for ours, known in ((beyond, others), *lines)]
    return any(ours.sum() <= max(1.0, count + errors * math.sqrt(count)) for ours, count in usual)
