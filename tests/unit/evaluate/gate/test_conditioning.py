"""The tolerance follows the conditioning of the inputs: sums that cancel may err more, wrong precision may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from evo.evaluate.gate.compare import compare
from evo.results import CaseCheck, MismatchKind, Status
from evo.spec.expectation import Expectation
from evo.spec.expr import parse
from evo.spec.honest_errors import HonestErrors
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Case, Task, Tensor, read_task

Reals = NDArray[np.float32]
Sum = Callable[[Reals], Reals]
TASK = Path(__file__).parents[3] / "data" / "rules" / "tile_product"
ATTENTION = Path(__file__).parents[4] / "kernels" / "attention"
SEEDS = (91, 238, 249, 281)  # a product cancels to a ten-thousandth of its terms at an element whose spread is small


@pytest.fixture(scope="module")
def product() -> tuple[Task, Reference]:
    task = read_task(TASK)
    return task, load_reference(task)


def in_order(terms: Reals) -> Reals:
    return np.asarray(np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1])


def in_halves(terms: Reals) -> Reals:
    middle = terms.shape[-1] // 2
    return in_order(terms[..., middle:]) + in_order(terms[..., :middle])


def verdicts(product: tuple[Task, Reference], added: Sum, factors: type = np.float32) -> set[Status]:
    task, reference = product
    found = set()
    for seed in SEEDS:
        case = Case(name=f"odd{seed}", axes={"M": 32, "N": 96, "K": 127})
        expectation = reference.derived(case, seed, "large")
        assert expectation is not None
        a, b, bias = (expectation.inputs[name] for name in ("a", "b", "bias"))
        a = a.astype(factors).astype(np.float32)
        c = added(a[:, None, :] * b[None, :, :]) + bias
        found.add(compare(task, case.name, {"c": c}, expectation).status)
    return found


@pytest.mark.parametrize("added", [in_order, in_halves])
def test_single_precision_sums_in_any_order_pass(product: tuple[Task, Reference], added: Sum) -> None:
    assert verdicts(product, added) == {Status.CORRECT}


def test_factors_of_half_the_bits_do_not(product: tuple[Task, Reference]) -> None:
    assert verdicts(product, in_order, ml_dtypes.bfloat16) == {Status.WRONG}


# Sums that cancel by luck --------------------------------------------------------------------------------------------


def weighted(inputs: dict[str, NDArray[np.generic]], weights: type, sums: type) -> dict[str, NDArray[np.generic]]:
    scores, values = (inputs[name].astype(sums) for name in ("q", "k"))
    return {"o": (np.exp(scores).astype(weights).astype(sums) * values).sum(axis=-1)}


@pytest.fixture(scope="module")
def cancelling() -> tuple[Task, Expectation]:
    """Sums of terms far above the tolerance, of which the trusted implementation errs little at these very inputs."""
    rng = np.random.default_rng(5)
    inputs = {
        "q": rng.uniform(-1, 0, (4000, 4)).astype(np.float16),
        "k": (rng.standard_normal((4000, 4)) * np.array([1, 1, 1, 1e-3])).astype(np.float16),
    }
    inputs["k"][0] *= 8

    def exact(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return weighted(given, np.float64, np.float64)

    def trusted(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return weighted(given, np.float16, np.float32)

    truth = exact(inputs)
    honest = HonestErrors(inputs, exact, [trusted], {"q": "float16", "k": "float16"}, ("o",), 2.0**-11)
    none = {"o": np.zeros(4000)}
    return read_task(ATTENTION), Expectation(inputs, truth, trusted(inputs), "outliers", None, none, honest=honest)


@pytest.mark.parametrize(("times", "status"), [(4.0, Status.CORRECT), (30.0, Status.WRONG)])
def test_an_element_beyond_the_tolerance_may_err_what_honest_implementations_err_there(
    cancelling: tuple[Task, Expectation], times: float, status: Status
) -> None:
    task, expectation = cancelling
    assert expectation.honest is not None
    usual = expectation.honest.at_each()
    assert usual is not None
    output = expectation.expected["o"].astype(np.float64)
    allowed = task.tolerance.atol + task.tolerance.rtol * np.abs(output)
    element = int(np.argmax(usual["o"] / allowed))
    assert 4 * usual["o"][element] > allowed[element]  # the tolerance alone would refuse it
    output[element] += times * usual["o"][element]
    assert compare(task, "case", {"o": output}, expectation).status is status


@pytest.mark.parametrize(("columns", "times", "status"), [(1, 3.0, True), (1, 300.0, False), (3, 3.0, False)])
def test_what_one_number_is_a_part_of_may_err_together(columns: int, times: float, status: bool) -> None:
    """Scores of a column err as its deviation does, which cancels in some column of three rows."""

    def scored(given: dict[str, NDArray[np.generic]], dtype: type) -> dict[str, NDArray[np.generic]]:
        x = given["q"].astype(dtype)
        mean = (x.sum(axis=0) / dtype(3)).astype(dtype)
        return {"o": ((x - mean) / np.sqrt((x * x).sum(axis=0) / dtype(3) - mean * mean)).astype(dtype)}

    inputs = {"q": np.random.default_rng(2).uniform(-1, 1, (3, 142)).astype(np.float32)}
    inputs["q"][:, :columns] = 1 + inputs["q"][:, :columns] / 64
    rounding = {"o": np.zeros((3, 142))}
    honest = HonestErrors(
        inputs, lambda g: scored(g, np.float64), [lambda g: scored(g, np.float32)], {"q": "float32"}, ("o",), 2.0**-24
    )
    usual = honest.at_each()
    assert usual is not None
    truth = scored(inputs, np.float64)
    near = truth["o"] + usual["o"] / 16  # the trusted one, where it is right by luck
    expectation = Expectation(inputs, truth, {"o": near}, "normal", usual, rounding, honest=honest)
    output = truth["o"].copy()
    output[:, :columns] += times * usual["o"][:, :columns]
    task = read_task(ATTENTION)
    task = replace(task, tolerance=replace(task.tolerance, rtol=1e-6, atol=float(usual["o"][:, :columns].max())))
    found = compare(task, "case", {"o": output}, expectation)
    assert (found.status is Status.CORRECT) == status, found.reason


@pytest.mark.filterwarnings("error")
def test_the_largest_number_has_no_neighbour_above_it() -> None:
    inputs = {"q": np.full(64, 65504, np.float16)}
    honest = HonestErrors(
        inputs,
        lambda given: {"o": given["q"].astype(np.float64) / 4},
        [lambda given: {"o": (given["q"].astype(np.float32) / 4).astype(np.float16)}],
        {"q": "float16"},
        ("o",),
        2.0**-11,
    )
    errors = honest.at_each()
    assert errors is not None
    assert np.isfinite(errors["o"]).all()


def test_many_elements_beyond_the_tolerance_are_no_chance(cancelling: tuple[Task, Expectation]) -> None:
    task, expectation = cancelling
    output = expectation.expected["o"].astype(np.float64)
    output += 1.1 * (task.tolerance.atol + task.tolerance.rtol * np.abs(output))
    found = compare(task, "case", {"o": output}, expectation)
    assert found.mismatch is not None
    assert found.mismatch.kind is MismatchKind.TOLERANCE


def assert_shown_errors_are_allowed(found: CaseCheck) -> None:
    """A table that says `correct` shows no error beside a smaller one that is allowed."""
    if found.status is Status.CORRECT:
        assert found.max_error is not None
        assert found.rms_error is not None
        assert found.max_error <= found.budget["max_error"]
        assert found.rms_error <= found.budget["rms_error"]


@pytest.mark.parametrize("rows", [1, 800])  # all alike: they say no more than one
@pytest.mark.parametrize(("times", "status"), [(3.0, Status.CORRECT), (30.0, Status.WRONG)])
def test_one_element_is_held_to_redrawn_errors_since_one_run_is_chance(times: float, status: Status, rows: int) -> None:
    def exact(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return weighted(given, np.float64, np.float64)

    def trusted(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return weighted(given, np.float16, np.float32)

    rng = np.random.default_rng(4)
    q, k = rng.uniform(-1, 1, (1, 32)), rng.uniform(-1, 1, (1, 32)) / 64
    inputs = {
        "q": np.tile(np.hstack([q, q]).astype(np.float16), (rows, 1)),
        "k": np.tile(np.hstack([k, -k]).astype(np.float16), (rows, 1)),
    }
    truth, lucky = exact(inputs), trusted(inputs)
    assert abs(lucky["o"][0] - truth["o"][0]) < 1e-8  # every error has its opposite, in this one run
    honest = HonestErrors(inputs, exact, [trusted], {"q": "float16", "k": "float16"}, ("o",), 2.0**-11)
    usual = (honest.at_each() or {})["o"][0]
    expectation = Expectation(inputs, truth, lucky, "equal", honest=honest)
    output = truth["o"].astype(np.float64) + times * usual
    found = compare(read_task(ATTENTION), "case", {"o": output}, expectation)
    assert found.status is status
    assert_shown_errors_are_allowed(found)


@pytest.mark.parametrize(
    ("place", "times", "status"), [(0, 3.0, Status.CORRECT), (0, 30.0, Status.WRONG), (1, 1e3, Status.WRONG)]
)
def test_where_few_elements_carry_the_errors_those_of_one_run_are_chance(
    place: int, times: float, status: Status
) -> None:
    """Element 0 is 200 times the others, and all that is allowed follows from it."""

    def exact(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return weighted(given, np.float64, np.float64)

    def trusted(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return weighted(given, np.float16, np.float32)

    rng = np.random.default_rng(4)
    q = np.tile(rng.uniform(-1, 0, (1, 32)), 2)  # each error of element 0 has its opposite, in this one run
    k = np.hstack([rng.uniform(0.5, 1, (300, 32)), rng.uniform(-1, -0.5, (300, 32))]) / 64
    k[0, 32:] = -k[0, :32]
    k[0] *= 200
    inputs = {"q": np.repeat(q, 300, axis=0).astype(np.float16), "k": k.astype(np.float16)}
    truth, lucky = exact(inputs), trusted(inputs)
    honest = HonestErrors(inputs, exact, [trusted], {"q": "float16", "k": "float16"}, ("o",), 2.0**-11)
    usual = (honest.at_each() or {})["o"]
    assert usual[0] > 50 * usual[1:].max()
    assert abs(lucky["o"][0] - truth["o"][0]) < usual[0] / 50
    output = truth["o"].astype(np.float64)
    output[place] += times * usual[place]
    roomy = replace(read_task(ATTENTION).tolerance, rtol=1.0, atol=1.0)  # the budgets decide
    task = replace(read_task(ATTENTION), tolerance=roomy)
    found = compare(task, "case", {"o": output}, Expectation(inputs, truth, lucky, honest=honest))
    assert found.status is status
    assert_shown_errors_are_allowed(found)


@pytest.mark.parametrize(("place", "status"), [(3, Status.CORRECT), (9, Status.WRONG)])
def test_which_of_two_equally_near_places_it_is_the_precision_decides(place: int, status: Status) -> None:
    """Point 3 lies half-way between two centres but for a billionth, point 9 does not."""
    points, centres = np.arange(10, dtype=np.float32) + np.float32(0.1), np.arange(10, dtype=np.float32)
    points[3] = 3.5

    def exact(given: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        away = np.abs(given["points"].astype(np.float64)[:, None] - given["centres"].astype(np.float64))
        return {"nearest": (away + 1e-9 * np.arange(10)).argmin(axis=1).astype(np.int32)}

    inputs = {"points": points, "centres": centres}
    honest = HonestErrors(inputs, exact, [], dict.fromkeys(inputs, "float32"), (), 0.0)
    tensor = Tensor(name="nearest", role="out", dtype="int32", shape=(parse("10"),))
    task = replace(read_task(ATTENTION), tensors=(tensor,))
    found = exact(inputs)["nearest"]
    found[place] = 4 if place == 3 else 8
    expectation = Expectation(inputs, exact(inputs), None, honest=honest)
    assert compare(task, "case", {"nearest": found}, expectation).status is status


def test_an_element_may_err_as_an_implementation_that_rounds_in_between_does() -> None:
    """A normalised value below the smallest half, times a large weight: as common model code has it."""
    task = read_task(ATTENTION.parent / "rmsnorm")
    reference = load_reference(task)
    case = Case(name="row", axes={"ROWS": 1, "COLS": 4000})
    x, w = np.ones((1, 4000), np.float16), np.ones(4000, np.float16)
    x[0, 0], x[0, 1], w[0] = np.float16(3e-6), 2000, 60000
    found = reference.sound(case, {"x": x, "w": w}, "outermost", np.random.default_rng(1))
    assert found is not None
    plain = (x / np.sqrt(np.square(x.astype(np.float32)).mean() + np.float32(1e-5))).astype(np.float16)
    limit = task.tolerance.atol + task.tolerance.rtol * abs(found.expected["y"][0, 0])
    assert abs(float((plain * w)[0, 0]) - found.expected["y"][0, 0]) > limit
    assert compare(task, "row", {"y": plain * w}, found).status is Status.CORRECT
    assert compare(task, "row", {"y": (plain * w) * np.float16(1.03)}, found).status is Status.WRONG
