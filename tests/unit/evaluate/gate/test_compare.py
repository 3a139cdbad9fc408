"""What may be allowed against the truth: the budgets by their formulas, values at their limits, and several outputs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from task_folders import bare_task

from evo.device import POISON_LARGE, POISON_NAN
from evo.evaluate.gate.compare import allclose, compare
from evo.evaluate.gate.mismatches import first_difference
from evo.results import Mismatch, MismatchKind, Status
from evo.spec.dtypes import NUMPY
from evo.spec.expectation import Expectation
from evo.spec.expr import parse
from evo.spec.honest_errors import HonestErrors, rounding_of
from evo.spec.task import Task, Tensor
from evo.spec.tensor_arrays import Arrays
from evo.spec.tolerance import Tolerance

ROUNDOFF = {"float16": 2.0**-11, "float32": 2.0**-24}
STEP = {"float16": 2.0**-24, "float32": 2.0**-126}  # the least subnormal; of float32, which may flush, the least normal
LOOSE = {"rtol": 1.0, "atol": 1.0}  # leaves the verdict to the budgets


def task(dtype: str = "float16", outputs: tuple[str, ...] = ("o",), rtol: float = 1e-2, atol: float = 1e-3) -> Task:
    return bare_task(
        tensors=tuple(Tensor(name=name, role="out", dtype=dtype, shape=(parse("1"),)) for name in outputs),
        tolerance=Tolerance(rtol=rtol, atol=atol, rival_error_factor=2, because="a test"),
    )


def truth(exact: np.ndarray, trusted: np.ndarray | None = None, **more: Any) -> Expectation:
    return Expectation({}, {"o": exact}, None if trusted is None else {"o": trusted}, **more)


def drawn(size: int, scale: float = 1.0, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size) * scale


def limits(dtype: str, exact: np.ndarray, trusted: np.ndarray, got: np.ndarray) -> dict[str, float]:
    """The formulas of docs/proof.md, written once more."""
    theirs, ours = (values.astype(np.float64) - exact for values in (trusted, got))
    unit, step, norm = ROUNDOFF[dtype], STEP[dtype], math.sqrt((exact**2).sum()) or 1.0
    shared = unit / (4 if math.prod(exact.shape[:-1]) >= 8 else 2)
    return {
        "max_error": 2 * np.abs(theirs).max() + 2 * unit * np.abs(exact).max() + step,
        "rms_error": 2 * math.sqrt((theirs**2).sum()) / norm + 4 * unit + step * math.sqrt(exact.size) / norm,
        "bias": 4 * math.sqrt((theirs.var() + ours.var()) / exact.size) + shared * np.abs(exact).mean(),
    }


# --- budgets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 0.01, 2.0**-18])
def test_the_budget_is_the_trusted_implementations_error_and_some_roundings(scale: float) -> None:
    exact = drawn(512, scale)
    trusted = (exact * (1 + drawn(512, 1e-3, seed=2))).astype(np.float16)
    got = exact.astype(np.float16)
    row = compare(task(), "case", {"o": got}, truth(exact, trusted))
    assert (row.name, row.status, row.reason) == ("case", Status.CORRECT, None)
    assert row.budget == pytest.approx({"rtol": 1e-2, "atol": 1e-3, **limits("float16", exact, trusted, got)}, rel=1e-9)
    error = got.astype(np.float64) - exact
    assert row.max_error == pytest.approx(np.abs(error).max(), rel=1e-12)
    assert row.rms_error == pytest.approx(math.sqrt((error**2).sum() / (exact**2).sum()), rel=1e-12)


def test_the_largest_error_counts_to_either_side() -> None:
    exact = np.ones(4)
    for error in (0.5, -0.5):
        got = exact + np.array([0.0, error, 0.25, -0.25])
        row = compare(task("float32", **LOOSE), "c", {"o": got.astype(np.float32)}, truth(exact, got))
        assert row.max_error == 0.5


def test_a_truth_of_zeros_has_a_budget_too() -> None:
    exact = np.zeros(512)
    row = compare(task(), "c", {"o": exact.astype(np.float16)}, truth(exact, exact))
    found = {name: value for name, value in row.budget.items() if name not in ("rtol", "atol")}
    assert found == pytest.approx(limits("float16", exact, exact, exact), rel=1e-9)


@pytest.mark.parametrize(
    ("dtype", "size", "distribution", "judged"),
    [
        ("float16", 256, "normal", True),
        ("float16", 255, "normal", False),  # fewer elements say nothing about a mean
        ("float32", 256, "normal", False),
        ("float16", 256, "outliers", False),
    ],
)
def test_a_bias_is_judged_over_enough_independent_errors(
    dtype: str, size: int, distribution: str, judged: bool
) -> None:
    exact = drawn(size)
    got = exact.astype(NUMPY[dtype])
    row = compare(task(dtype), "c", {"o": got}, truth(exact, got, distribution=distribution))
    assert ("bias" in row.budget) is judged


@pytest.mark.parametrize(
    ("dtype", "rms"),
    [("float64", 2.0**-26), ("float32", 2.0**-10), ("float16", None)],
)
def test_without_a_trusted_implementation_the_budget_is_one_rounding_or_the_types_floor(
    dtype: str, rms: float | None
) -> None:
    exact = drawn(100)
    got = exact.astype(NUMPY[dtype])
    row = compare(task(dtype), "c", {"o": got}, truth(exact))
    assert "max_error" not in row.budget
    expected = limits("float16", exact, got, got)["rms_error"] if rms is None else rms
    assert row.budget["rms_error"] == pytest.approx(expected, rel=1e-6)


def test_with_a_trusted_implementation_singles_have_no_floor() -> None:
    exact = drawn(100)
    got = exact.astype(np.float32)
    row = compare(task("float32"), "c", {"o": got}, truth(exact, got))
    assert row.budget["rms_error"] == pytest.approx(limits("float32", exact, got, got)["rms_error"], rel=1e-6)


def test_what_the_inputs_make_uncertain_raises_both_budgets() -> None:
    exact = drawn(64)
    spread = np.abs(drawn(64, 1e-3, seed=5))
    got = exact.astype(np.float16)
    row = compare(task(), "c", {"o": got}, truth(exact, got, distribution="equal", spread={"o": spread}))
    own = limits("float16", exact, exact, got)
    norm = math.sqrt((exact**2).sum())
    assert row.budget["max_error"] == pytest.approx(own["max_error"] + 2 * 16 * spread.max(), rel=1e-9)
    assert row.budget["rms_error"] == pytest.approx(
        own["rms_error"] + 2 * 16 * math.sqrt((spread**2).sum()) / norm, rel=1e-9
    )
    other = truth(exact, got, distribution="equal", spread={"another": spread})
    assert compare(task(), "c", {"o": got}, other).budget["max_error"] < row.budget["max_error"]


def test_one_element_past_the_largest_error_is_refused_and_at_it_is_not() -> None:
    exact = np.ones(64)
    trusted = exact + 2.0**-10
    limit = 2 * 2.0**-10 + 2 * 2.0**-24
    for error, verdict in ((limit, Status.CORRECT), (limit + 2.0**-23, Status.WRONG)):
        got = exact.astype(np.float32)
        got[5] = np.float32(1 + error)
        assert got[5] == 1 + error
        row = compare(task("float32", **LOOSE), "c", {"o": got}, truth(exact, trusted))
        assert row.status is verdict
        assert (row.reason is None) is (verdict is Status.CORRECT)


def test_many_errors_past_the_rms_are_refused_though_none_is_large() -> None:
    exact = np.ones(64)
    trusted = exact.copy()
    trusted[0] += 2.0**-10  # alone: the largest error of all elements may be this, but not of each
    got = (exact + 2.0**-11).astype(np.float32)
    row = compare(task("float32", **LOOSE), "c", {"o": got}, truth(exact, trusted))
    assert row.status is Status.WRONG
    assert row.max_error is not None
    assert row.max_error < row.budget["max_error"]
    assert row.rms_error is not None
    assert row.rms_error > row.budget["rms_error"]


@pytest.mark.parametrize(("rows", "verdict"), [(1, Status.CORRECT), (7, Status.CORRECT), (8, Status.WRONG)])
def test_what_one_row_errs_as_a_whole_may_lean_where_rows_are_few(rows: int, verdict: Status) -> None:
    """A float32 sum of thousands of positive values errs by a third of half's roundoff, in all elements of its row."""
    exact = np.abs(drawn(rows * 4096)).reshape(rows, 4096) + 0.5
    leaning = (exact * (1 + ROUNDOFF["float16"] / 3)).astype(np.float16)
    want = truth(exact, exact.astype(np.float16))
    assert compare(task(**LOOSE), "c", {"o": leaning}, want).status is verdict
    towards_zero = np.where(
        exact < exact.astype(np.float16), np.nextafter(exact.astype(np.float16), np.float16(0)), exact
    )
    cut = compare(task(**LOOSE), "c", {"o": towards_zero.astype(np.float16)}, want)
    assert cut.mismatch is not None
    assert cut.mismatch.kind is MismatchKind.BIAS


@pytest.mark.parametrize(("got", "verdict"), [(math.nan, Status.CORRECT), (-math.inf, Status.CORRECT),
                                              (math.inf, Status.WRONG), (1.0, Status.WRONG)])  # fmt: skip
def test_what_is_not_finite_may_be_as_in_the_precision_of_the_kernel(got: float, verdict: Status) -> None:
    """A tiny difference times an infinity: in float32 the difference is zero, and the product is NaN."""
    exact, trusted, values = (np.asarray([1.0, value, 3.0]) for value in (-math.inf, math.nan, got))
    row = compare(task("float32"), "c", {"o": values.astype(np.float32)}, truth(exact, trusted))
    assert row.status is verdict


@pytest.mark.parametrize(
    ("difference", "got", "verdict"),
    [
        (2.0**-26, math.nan, Status.CORRECT),
        (2.0**-26, math.inf, Status.CORRECT),
        (2.0**-26, 1.0, Status.WRONG),
        (0.125, math.nan, Status.WRONG),
        (0.125, math.inf, Status.WRONG),
        (0.125, -math.inf, Status.CORRECT),
    ],
)
def test_a_sign_that_one_rounding_of_the_inputs_decides_is_none(difference: float, got: float, verdict: Status) -> None:
    """A difference that is nothing but rounding, times an infinity: whether it is zero depends on the order of sums."""

    def exact(inputs: Arrays) -> Arrays:
        centred = inputs["x"].astype(np.float64) - np.mean(inputs["x"])
        with np.errstate(invalid="ignore"):
            return {"o": np.append(centred[:2] * -math.inf, 3.0)[None]}  # outputs may be compared as one list

    x = np.asarray([1.0 + difference, 1.0, *[1.0] * 11], np.float32)
    honest = HonestErrors({"x": x}, exact, [exact], {"x": "float32"}, ["o"], ROUNDOFF["float32"])
    want = truth(exact({"x": x})["o"][0], exact({"x": x})["o"][0], honest=honest)
    values = np.asarray([got, want.expected["o"][1], 3.0], np.float32)
    assert compare(task("float32"), "c", {"o": values}, want).status is verdict


@pytest.mark.parametrize(
    ("bias", "got", "verdict"),
    [
        (
            -math.inf,
            -math.inf,
            Status.CORRECT,
        ),  # where the difference is below zero, as an infinity of that sign is added
        (-math.inf, 1.0, Status.WRONG),
        (math.nan, -math.inf, Status.WRONG),
    ],
)
def test_what_one_rounding_makes_an_infinity_may_be_one(bias: float, got: float, verdict: Status) -> None:
    """The truth is NaN, as the difference is zero to the last bit: a sum in another order has it beside zero."""

    def exact(inputs: Arrays) -> Arrays:
        with np.errstate(invalid="ignore"):
            differs = (inputs["x"].astype(np.float64) - np.mean(inputs["x"].astype(np.float64)))[:2]
            return {"o": np.append(differs * math.inf + bias, 3.0)[None]}

    x = np.ones(13, np.float32)
    honest = HonestErrors({"x": x}, exact, [exact], {"x": "float32"}, ["o"], ROUNDOFF["float32"])
    want = truth(exact({"x": x})["o"][0], exact({"x": x})["o"][0], honest=honest)
    assert np.isnan(want.expected["o"][0])
    values = np.asarray([got, math.nan, 3.0], np.float32)
    assert compare(task("float32"), "c", {"o": values}, want).status is verdict


def test_what_is_finite_has_to_be_whatever_the_trusted_implementation_gives() -> None:
    exact, trusted = np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, math.nan, 3.0])
    row = compare(task("float32"), "c", {"o": trusted.astype(np.float32)}, truth(exact, trusted))
    assert row.mismatch is not None
    assert row.mismatch.kind is MismatchKind.NOT_FINITE


@pytest.mark.parametrize("lean", [0.002, -0.002])
def test_a_bias_is_held_to_the_trusted_implementations_own(lean: float) -> None:
    exact = drawn(2048)
    own = np.ones(2048), np.sign(exact)  # all to one side; away from zero
    for side in own:
        want = truth(exact, (exact + lean * side).astype(np.float16))
        same, mirrored = ((exact + share * side).astype(np.float16) for share in (lean, -lean))
        assert compare(task(**LOOSE), "c", {"o": same}, want).status is Status.CORRECT
        row = compare(task(**LOOSE), "c", {"o": mirrored}, want)
        assert row.status is Status.WRONG
        assert row.rms_error is not None
        assert row.rms_error < row.budget["rms_error"]


def test_where_the_trusted_implementation_meets_the_tolerance_it_holds_for_all() -> None:
    exact = np.ones(8)
    trusted = exact + 0.009
    got = exact.astype(np.float32)
    got[[3, 6]] = 1.013  # within twice the trusted error, beyond rtol + atol
    row = compare(task("float32"), "c", {"o": got}, truth(exact, trusted))
    assert row.status is Status.WRONG
    assert row.mismatch is not None
    assert (row.mismatch.kind, row.mismatch.index) == (MismatchKind.TOLERANCE, (3,))


# --- several outputs, cases and types -------------------------------------------------------------------------------


def test_of_several_outputs_the_row_is_the_first_wrong_one_or_that_of_the_largest_error() -> None:
    exact = {name: np.ones(4) for name in "abc"}
    want = Expectation({}, exact, {name: values.astype(np.float32) for name, values in exact.items()})
    errors = {"a": 2.0**-23, "b": 2.0**-22, "c": 0.0}
    tight = Tolerance(rtol=1e-3, atol=0, rival_error_factor=2, because="a test")
    several = task("float32", ("a", "b", "c"))
    object.__setattr__(several, "tolerance", tight)
    got = {name: (values + errors[name]).astype(np.float32) for name, values in exact.items()}
    got["b"][1:] = 1.0
    row = compare(several, "c", got, want)
    assert (row.status, row.max_error) == (Status.WRONG, 2.0**-22)  # past 2 x 2^-24
    got["b"][0] = 1.0
    got["a"][1:] = 1.0
    row = compare(several, "c", got, want)
    assert (row.status, row.max_error) == (Status.CORRECT, 2.0**-23)


def test_the_row_is_that_of_the_largest_error_wherever_it_stands() -> None:
    exact = {name: np.ones(4) for name in "abc"}
    outputs = {name: np.full(4, 1 + error, np.float32) for name, error in zip("abc", (0.0, 0.25, 0.125), strict=True)}
    loose = task("float32", ("a", "b", "c"), **LOOSE)
    row = compare(loose, "case", outputs, Expectation({}, exact, {name: exact[name] + 0.5 for name in "abc"}))
    assert (row.status, row.max_error) == (Status.CORRECT, pytest.approx(0.25))


def test_integers_that_differ_are_wrong_and_equal_ones_have_no_error() -> None:
    want = np.arange(6).reshape(2, 3)
    row = compare(task("int32"), "case", {"o": want.astype(np.int32)}, truth(want))
    assert (row.name, row.status, row.reason, row.max_error, row.rms_error) == ("case", Status.CORRECT, None, 0.0, 0.0)
    got = want.astype(np.int32)
    got[1, 1] = 9
    row = compare(task("int32"), "case", {"o": got}, truth(want))
    assert (row.name, row.status, row.max_error) == ("case", Status.WRONG, None)
    assert row.mismatch == Mismatch(
        kind=MismatchKind.DIFFERENT, tensor="o", index=(1, 1), got=9, expected=int(want[1, 1]), elements=1
    )


@pytest.mark.parametrize("poison", [POISON_NAN, POISON_LARGE])
def test_integers_are_unwritten_where_all_that_differs_holds_the_poison(poison: int) -> None:
    want = np.arange(6)
    got = want.astype(np.int32)
    got[2:4] = np.frombuffer(bytes([poison]) * 8, np.int32)
    row = compare(task("int32"), "case", {"o": got}, truth(want))
    assert (row.name, row.status) == ("case", Status.WRONG)
    assert row.mismatch == Mismatch(kind=MismatchKind.UNWRITTEN, tensor="o", index=(2,), elements=2)
    got[5] = 7
    row = compare(task("int32"), "case", {"o": got}, truth(want))
    assert row.status is Status.WRONG
    assert row.mismatch is not None
    assert row.mismatch.kind is MismatchKind.DIFFERENT


def test_the_finite_poison_is_named_only_where_it_is_wrong() -> None:
    poison = np.frombuffer(bytes([POISON_LARGE]) * 2, np.float16)[0]
    exact = np.ones(4)
    exact[0] = float(poison)
    want = truth(exact, exact.astype(np.float16))
    got = exact.astype(np.float16)
    assert compare(task(), "c", {"o": got}, want).status is Status.CORRECT
    got[3] = 2.0
    row = compare(task(), "c", {"o": got}, want)
    assert row.status is Status.WRONG
    assert row.mismatch is not None
    assert row.mismatch.kind is MismatchKind.TOLERANCE
    got[2:] = poison
    row = compare(task(), "c", {"o": got}, truth(np.ones(4), np.ones(4)))
    assert (row.name, row.status) == ("c", Status.WRONG)
    assert row.mismatch == Mismatch(kind=MismatchKind.UNWRITTEN, tensor="o", index=(0,), elements=3)


# --- not finite -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("expected", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("found", [np.nan, np.inf, -np.inf, 5.0])
def test_a_value_that_is_not_finite_has_to_be_the_one_expected(expected: float, found: float) -> None:
    exact = np.ones(8)
    exact[2] = expected
    got = exact.astype(np.float32) + np.float32(2.0**-23)
    got[2] = found
    row = compare(task("float32", **LOOSE), "c", {"o": got}, truth(exact, (exact + 2.0**-22).astype(np.float32)))
    same = np.array_equal(expected, found, equal_nan=True)
    assert row.name == "c"
    assert row.status is (Status.CORRECT if same else Status.WRONG)
    if same:  # the other elements are judged as ever
        assert row.max_error == 2.0**-23
        assert row.budget["max_error"] == pytest.approx(2 * 2.0**-22 + 2 * 2.0**-24)
        assert row.rms_error == pytest.approx(2.0**-23)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("expected", "found", "verdict"),
    [
        (65450.0, np.inf, Status.CORRECT),  # within two roundings of the largest number
        (65430.0, np.inf, Status.WRONG),
        (-70000.0, -np.inf, Status.CORRECT),
        (-70000.0, 65504.0, Status.WRONG),
        (70000.0, 60000.0, Status.CORRECT),
        (70000.0, 58000.0, Status.WRONG),  # less than 0.9 of the largest number
        (70000.0, np.nan, Status.WRONG),
    ],
)
def test_a_truth_that_overflows_allows_the_largest_numbers_of_its_sign(
    expected: float, found: float, verdict: Status
) -> None:
    exact = np.ones(8)
    exact[4] = expected
    got = exact.astype(np.float16)
    got[4] = found
    trusted = exact.astype(np.float16)
    row = compare(task(**LOOSE), "c", {"o": got}, truth(exact, trusted))
    assert row.status is verdict
    if verdict is Status.CORRECT:
        assert (row.max_error, row.rms_error) == (0.0, 0.0)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_type_without_infinities_may_overflow_to_nan() -> None:
    exact = np.ones(8)
    exact[4] = 1000.0
    got = exact.astype(NUMPY["float8_e4m3"])
    got[4] = np.nan
    assert compare(task("float8_e4m3"), "c", {"o": got}, truth(exact)).status is Status.CORRECT


# --- what is remembered, the careless comparison, and runs that differ ----------------------------------------------


def test_what_holds_for_every_variant_is_worked_out_once() -> None:
    exact = drawn(32)
    want = truth(exact, exact.astype(np.float16))
    assert compare(task(), "c", {"o": exact.astype(np.float16)}, want).status is Status.CORRECT
    known = want.memo["o"]
    assert known is not None
    assert compare(task(), "c", {"o": (exact * 2).astype(np.float16)}, want).status is Status.WRONG
    assert want.memo["o"] is known


def test_the_declared_tolerance_alone_knows_no_budget() -> None:
    exact = drawn(512)
    want = Expectation({}, {"o": exact, "p": exact}, {"o": exact, "p": exact})
    two = task(outputs=("o", "p"))
    fine = (exact * 1.008).astype(np.float16)
    far = fine.copy()
    far[7] = 9.0
    assert compare(two, "c", {"o": fine, "p": fine}, want).status is Status.WRONG
    assert allclose(two, {"o": fine, "p": fine}, want)
    assert not allclose(two, {"o": fine, "p": far}, want)
    assert not allclose(two, {"o": far, "p": fine}, want)
    assert not allclose(two, {"o": fine, "p": np.where(exact > 2, np.nan, fine)}, want)


def test_the_declared_tolerance_of_integers_is_equality() -> None:
    want = Expectation({}, {"o": np.arange(4), "p": np.arange(4)}, None)
    two = task("int32", ("o", "p"))
    same, other = np.arange(4, dtype=np.int32), np.array([0, 1, 2, 4], np.int32)
    assert allclose(two, {"o": same, "p": same}, want)
    assert not allclose(two, {"o": same, "p": other}, want)
    assert not allclose(two, {"o": other, "p": same}, want)


def test_two_runs_are_compared_over_all_outputs() -> None:
    shared, values = np.ones(2), np.zeros((2, 3), np.float32)
    other = values.copy()
    other[1, 0], other[1, 2] = -0.0, 1.0  # a zero of the other sign is another bit
    assert first_difference({"a": shared, "b": values}, {"a": shared, "b": values.copy()}) is None
    found = first_difference({"a": shared, "b": values}, {"a": shared, "b": other})
    assert found is not None
    assert (found.tensor, found.index) == ("b", (1, 0))
    assert found.elements == 2


def test_integers_that_may_round_otherwise_differ_in_few_elements_by_a_step_at_most() -> None:
    given = task("int8")
    given = replace(given, tolerance=replace(given.tolerance, integers=1))
    want = np.zeros(1000, np.int64)
    for count, step, status in ((10, 1, Status.CORRECT), (11, 1, Status.WRONG), (1, 2, Status.WRONG)):
        got = want.astype(np.int8)
        got[:count] = step
        assert compare(given, "case", {"o": got}, truth(want)).status is status
        assert allclose(given, {"o": got}, truth(want)) is (status is Status.CORRECT)


def test_squares_that_overflow_leave_a_finite_budget() -> None:
    """Of float64 above 1e154; an infinite one would allow any error in the row."""
    spread = np.array([[1e200, 1.0], [3.0, 4.0]])
    allowed = rounding_of(spread)
    assert np.isfinite(allowed).all()
    assert allowed[0, 0] / allowed[1, 1] == pytest.approx(1e200 / 4)
