"""Error budgets of one output: from the errors of a trusted implementation, or from one rounding.

A budget knows sums of errors and no arrays, so that the sums may come from where the arrays are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.device import Array
from evo.device.error_sums import ErrorSums, TruthSums
from evo.evaluate.gate.mismatches import element_of
from evo.results import Mismatch, MismatchKind
from evo.spec.blocks import exact_sum
from evo.spec.element_types import ROUNDOFF
from evo.spec.expectation import Expectation
from evo.spec.honest_errors import SUMMATION
from evo.spec.input_distributions import UNBIASED, smallest
from evo.spec.task import Task, Tensor
from evo.spec.tolerance import Tolerance

Problem = tuple[Mismatch, str]  # what is wrong, and in words

# Without a trusted implementation: the relative RMS error that no honest kernel of that precision comes near.
_UNTRUSTED_RMS = {"float64": 2.0**-26, "float32": 2.0**-10}
FEW_ELEMENTS = 256  # fewer say nothing about a mean, and one run of them little about errors
STANDARD_ERRORS = 4.0
_FEW_ROUNDINGS = 4
_DEVIATIONS = 2  # roundings of a sum are errors to either side: so many times the root of their number, by chance
_FEW_ROWS = 8  # what a row's sum errs is in all of its elements: in fewer rows such errors do not cancel


@dataclass(frozen=True, slots=True)
class Errors:
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
class Base:
    """What holds for every variant: the errors of the trusted implementation, and the sizes of the truth.

    ordinary: the truth is finite and within the type everywhere. close: the trusted implementation meets the tolerance.
    """

    ordinary: bool
    norm: float
    scale: float
    typical: float
    errors: Errors
    largest: float
    relative_rms: float
    close: bool


def errors_of(found: Sequence[ErrorSums], size: int, norm: float) -> Errors:
    """The errors of an output of so many elements, from the sums of its blocks. norm: of the truth."""
    beyond = any(block.beyond for block in found)
    if not all(math.isfinite(block.largest) for block in found):
        return Errors(math.inf, math.inf, 0.0, 0.0, math.inf, beyond)
    squares, total, outward = (exact_sum(column) for column in zip(*(block[1:4] for block in found), strict=True))
    mean = total / size
    variance = max(squares / size - mean**2, 0.0)
    return Errors(
        max(block.largest for block in found), math.sqrt(squares) / norm, mean, outward / size, variance, beyond
    )


def base_of(
    truth: Sequence[TruthSums],
    norm: float,
    trusted: Errors,
    size: int,
    *,
    ordinary: bool,
    spread: tuple[float, float] | None = None,
) -> Base:
    """What holds for every variant. spread: the largest distance of moved outputs, and the root of its squares' sum."""
    largest, rms = trusted.largest, trusted.relative_rms
    if spread is not None:
        largest = max(largest, SUMMATION * spread[0])
        rms = max(rms, SUMMATION * spread[1] / norm)
    return Base(
        ordinary=ordinary,
        norm=norm,
        scale=max(block.largest for block in truth),
        typical=exact_sum(block.total for block in truth) / size,
        errors=trusted,
        largest=largest,
        relative_rms=rms,
        close=not trusted.beyond,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBudget:
    """What is allowed for one output of that shape. judges_bias: whether errors may be told to lean."""

    tensor: str
    dtype: str
    tolerance: Tolerance
    base: Base
    shape: tuple[int, ...]
    has_trusted: bool
    judges_bias: bool
    terms: float = 1.0  # inputs for each output: about how many numbers an output is a sum of

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def limits(self, ours: Errors) -> tuple[dict[str, float], dict[str, float]]:
        """What the record shows, and the limits themselves, of which an absent one is no limit."""
        base, unit = self.base, ROUNDOFF[self.dtype]
        factor, floor = self.tolerance.rival_error_factor, smallest(self.dtype)
        limits: dict[str, float] = {}
        if self.has_trusted:
            limits["max_error"] = factor * base.largest + 2 * unit * base.scale + floor
        quantum = floor * math.sqrt(self.size) / base.norm
        untrusted = 0.0 if self.has_trusted else _UNTRUSTED_RMS.get(self.dtype, 0.0)
        limits["rms_error"] = max(factor * base.relative_rms + 4 * unit + quantum, untrusted)
        if self.has_trusted and (drawn := self.tolerance.sizes.get(self.tensor)):
            # Its errors are chance where there are few, where terms cancel, and where its order happens to be exact.
            typical = base.norm / math.sqrt(self.size)
            limits["max_error"] = max(limits["max_error"], self._by_chance(base.scale, drawn))
            limits["rms_error"] = max(limits["rms_error"], self._by_chance(typical, drawn) / typical)
        if self.judges_bias and self.dtype not in _UNTRUSTED_RMS and self.size >= FEW_ELEMENTS:
            deviation = math.sqrt((base.errors.variance + ours.variance) / self.size)
            shared = unit / 2 if math.prod(self.shape[:-1]) < _FEW_ROWS else unit / 4  # truncation leans by 0.69 units
            limits["bias"] = STANDARD_ERRORS * deviation + shared * base.typical
            limits["bias_mean"], limits["bias_outward"] = base.errors.mean, base.errors.outward
        shown = {"rtol": self.tolerance.rtol, "atol": self.tolerance.atol}
        shown |= {name: limits[name] for name in limits if not name.startswith("bias_")}
        return shown, limits

    def _by_chance(self, truth: float, drawn: float) -> float:
        """Few roundings of a result, and of what is summed for it; those of a sum grow as the root of its length.

        Partial sums of independent values are no larger than their total, those of sorted or equal ones are.
        """
        unit, fine = ROUNDOFF[self.dtype], min(ROUNDOFF[self.dtype], ROUNDOFF["float32"])
        partial = truth if self.judges_bias else max(truth, drawn)
        return _FEW_ROUNDINGS * (unit * truth + fine * drawn) + _DEVIATIONS * math.sqrt(self.terms) * fine * partial

    def problem(self, ours: Errors, limits: dict[str, float]) -> Problem | None:
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


def per_element(task: Task, atomics: int, elements: int) -> float:
    """How many atomics went into an element on average, if the task allows them; a GPU does not count them."""
    return atomics / max(1, elements) if task.nondeterministic is not None else 0.0


def without_accumulation(
    got: Array, want: NDArray[np.float64], tensor: Tensor, expectation: Expectation, accumulated: float
) -> Array:
    """An output, nearer to the truth by what so many atomics into each element may have erred.

    A trusted implementation adds up in pairs or in float64. A sum of many atomics takes as many roundings as it has
    terms: they add up like a random walk, and equal terms may all be rounded to one side. Each rounds what the sum is
    by then: about the result, or, where terms cancel, what so many terms of either sign come to.
    """
    moved = expectation.honest.at_each() if expectation.honest is not None else None
    rounding = ROUNDOFF[tensor.dtype] * np.abs(want)
    if moved is not None and tensor.name in moved:  # what moves if each term is rounded: a rounding of their norm
        rounding = rounding + moved[tensor.name].reshape(want.shape)
    steps = STANDARD_ERRORS * math.sqrt(accumulated)
    if expectation.distribution not in UNBIASED:
        steps = max(steps, accumulated)
    allowed = steps * rounding
    values: NDArray[np.float64] = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = values - want
        nearer = values - np.clip(error, -allowed, allowed)
    return np.where(np.isfinite(error), nearer, values)
