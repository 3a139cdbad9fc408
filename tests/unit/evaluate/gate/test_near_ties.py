"""Whole numbers by rounding: what float32 decides otherwise at a half is excused, under a law too, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from task_folders import written_task

from evo.evaluate import gate
from evo.evaluate.gate.compare import compare
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import MismatchKind, Status
from evo.spec.honest_errors import HonestErrors
from evo.spec.task import Task
from evo.spec.tensor_arrays import Arrays

KERNELS = Path(__file__).parents[3] / "data" / "row_quantiser"
TASK = """\
name: rowquant
description: Rows in bytes by their largest number.
axes: {R: int, C: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [R, C]}
  - {name: y, role: out, dtype: int8, shape: [R, C]}
tolerance: {rtol: 0, atol: 0, rival_error_factor: 2, because: whole numbers}
laws: [{permute: C}]
check: [{name: even, R: 24, C: 64}, {name: ragged, R: 37, C: 41}]
bench:
  main: {R: 160, C: 64}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    x = rng.standard_normal((case["R"], case["C"]), dtype=np.float32)
    if case["R"] > 100:  # a few near ties
        many = (rng.integers(1, 120, 4096) + 0.5).astype(np.float32) * (np.float32(3.7) / np.float32(127))
        hard = many[np.rint(many * (1 / (np.float32(3.7) / np.float32(127)))) != _rounded(many, np.float32(3.7))]
        x = np.clip(x, -3, 3)
        x[::40, 0], x[::40, 9] = 3.7, rng.choice(hard, len(x[::40]))
    return {"x": x}


def _rounded(x, most):
    return np.rint(x.astype(np.float64) / (most.astype(np.float64) / 127))


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"y": _rounded(x, np.abs(x).max(axis=1, keepdims=True)).astype(np.int64)}


def trusted(inputs):
    x = inputs["x"].astype(np.float32)
    return {"y": np.rint(x / (np.abs(x).max(axis=1, keepdims=True) / np.float32(127))).astype(np.int64)}
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("rowquant"), TASK, REFERENCE)


def text_of(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text()


def test_a_near_tie_is_excused_under_a_law(rows: Task, bench: EvaluationSession) -> None:
    prepared = bench.prepare(rows, text_of("reciprocal"))
    for seed in range(10):
        seen = gate.timed_sizes(rows, prepared.programs, bench.reference(rows), bench.checker, seed)
        assert seen.status is Status.CORRECT, (seed, seen.reason)
        assert seen.unseen is None


@pytest.mark.parametrize("name", ["half_away", "cut_off", "scale_of_another_row"])
def test_what_is_no_tie_or_rounds_another_way_is_wrong(rows: Task, bench: EvaluationSession, name: str) -> None:
    for seed in (7, 8):
        found = evaluate(Job(task=rows, text=text_of(name), seed=seed, upto="check"), bench)
        assert found.status is Status.WRONG


def compared(rows: Task, bench: EvaluationSession, x: np.ndarray, y: np.ndarray) -> Status:
    case = rows.check[0]
    expectation = bench.reference(rows).special_expectation({"x": x}, case)
    return compare(rows, case.name, {"y": y.astype(np.int8)}, expectation).status


def test_equal_numbers_half_way_in_a_row_are_one_tie(rows: Task, bench: EvaluationSession) -> None:
    """Half of the largest number is 63.5 of its steps, which the product with a reciprocal takes to either side."""
    single, rng = np.float32, np.random.default_rng(3)
    x = rng.standard_normal((24, 64), dtype=single)
    most = rng.uniform(4, 8, 4096).astype(single)
    by = 1 / (most / single(127))
    most = most[np.rint(most / 2 * by) != np.rint(most / 2 / (most.astype(np.float64) / 127))]
    x[::11, :32], x[::11, 32] = most[:3, None] / 2, most[:3]
    steps = x * (1 / (np.abs(x).max(axis=1, keepdims=True) / single(127)))
    assert compared(rows, bench, x, np.rint(steps)) is Status.CORRECT
    far = np.rint(steps)
    far[3, 5] += 1
    assert compared(rows, bench, x, far) is Status.WRONG


def test_halves_away_from_zero_are_too_many_ties(rows: Task, bench: EvaluationSession) -> None:
    x = np.random.default_rng(4).integers(-120, 120, (24, 64)).astype(np.float32) + np.float32(0.5)
    x[:, 0] = 127
    assert compared(rows, bench, x, np.rint(x)) is Status.CORRECT
    assert compared(rows, bench, x, np.copysign(np.floor(np.abs(x) + 0.5), x)) is Status.WRONG


def test_a_tie_between_numbers_that_are_nearly_equal_is_one() -> None:
    x = np.asarray([1, 1 + 2.0**-23, 1 + 2.0**-22], np.float32)

    def exact(inputs: Arrays) -> Arrays:
        above = (inputs["x"] - inputs["x"].min()).astype(np.float64)
        return {"y": np.rint(above / (above.max() / 255))}

    honest = HonestErrors({"x": x}, exact, (), {"x": "float32"}, (), 2.0**-24)
    assert [honest.are_near_ties("y", np.asarray([1]), np.asarray([step])) for step in (126, 127, 128)] == [
        False,
        True,
        True,
    ]


def test_a_zero_point_at_a_tie_takes_the_end_of_its_row_along() -> None:
    x = np.random.default_rng(6).uniform(-2.4, 2.4, (1, 64)).astype(np.float32)
    x[0, 0], x[0, -1] = -2.5184393, 2.5184393

    def exact(inputs: Arrays) -> Arrays:
        given = inputs["x"].astype(np.float64)
        low, high = (np.full(1, end) for end in (given.min(), given.max()))
        return {"y": np.clip(np.rint(given * 255 / (high - low)) + np.rint(-low * 255 / (high - low)), 0, 255)}

    lower = exact({"x": x * np.r_[1 - 1e-6, np.ones(63)]})["y"]  # its zero falls to 127
    honest = HonestErrors({"x": x}, exact, (), {"x": "float32"}, (), 2.0**-24)
    differ = np.arange(1, 64)
    assert set((exact({"x": x})["y"] - lower)[0, 1:-1]) == {1}
    lower[0, -1] = 254  # a length that is rounded up moves the last one, too
    assert honest.are_near_ties("y", differ, lower[0, 1:])
    for place, off in ((63, -1), (20, 2)):  # two steps off; another by more than one
        wrong = lower.copy()
        wrong[0, place] += off
        assert not honest.are_near_ties("y", differ, wrong[0, 1:])
    wrong = lower.copy()
    wrong[0, [20, 30]] += 1  # three of a row
    assert not honest.are_near_ties("y", differ, wrong[0, 1:])


BETWEEN = """\
name: between
description: Rows in bytes between their ends.
axes: {R: int, C: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [R, C]}
  - {name: y, role: out, dtype: uint8, shape: [R, C]}
tolerance: {rtol: 0, atol: 0, integers: 1, rival_error_factor: 2, because: whole numbers}
check: [{name: even, R: 24, C: 64}, {name: ragged, R: 37, C: 41}]
bench:
  main: {R: 160, C: 64}
"""
BETWEEN_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["R"], case["C"]), dtype=np.float32)}


def _rounded(x):
    low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    return {"y": np.clip(np.rint((x - low) / ((high - low) / 255)), 0, 255).astype(np.int64)}


def expected(inputs):
    return _rounded(inputs["x"].astype(np.float64))


def trusted(inputs):
    return _rounded(inputs["x"].astype(np.float32))
"""


@pytest.mark.parametrize(("name", "is_right"), [("half_away", False), ("reciprocal", True)])
def test_half_way_between_round_ends_is_exact(
    tmp_path: Path, bench: EvaluationSession, name: str, *, is_right: bool
) -> None:
    task = written_task(tmp_path, BETWEEN, BETWEEN_REFERENCE)
    programs = bench.prepare(task, (KERNELS.parent / "row_between_ends" / f"{name}.cu").read_text()).programs
    for seed in (1, 2):
        found = gate.patterns(task, programs, bench.reference(task), [bench.checker], seed, share=gate.THOROUGH)
        assert (found is None) == is_right, found


def test_one_byte_that_equals_the_poison_is_called_what_it_is(tmp_path: Path, bench: EvaluationSession) -> None:
    """All that is wrong holds 255, the poison, whether it was written or not; another poison tells."""
    task = written_task(tmp_path, BETWEEN, BETWEEN_REFERENCE)
    text = (KERNELS.parent / "row_between_ends" / "reciprocal.cu").read_text()
    assert "rintf((" in text
    place, kinds = "blockIdx.x == 3 && i == 5", []
    for before, after in (("rintf((", f"{place} ? 255.0f : rintf(("), ("        y[", f"        if (!({place})) y[")):
        found = evaluate(Job(task=task, text=text.replace(before, after), seed=3, upto="check"), bench)
        assert found.status is Status.WRONG
        assert found.check is not None
        kinds.append(next(case.mismatch.kind for case in found.check.cases if case.mismatch is not None))
    assert kinds == [MismatchKind.DIFFERENT, MismatchKind.UNWRITTEN]
