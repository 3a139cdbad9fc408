"""Products of float32 on tensor cores: each number as two of tf32, on chips where that pays."""

import numpy as np
import pytest
from rule_children import BY_NAME, DATA

from evo.device import DeviceName, RunRequest
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.operators.rules.rule import Application
from evo.spec.chips import chip
from evo.spec.task import read_task
from evo.spec.variant import read_variant

FOLDER = DATA / "tf32_product"
RULE = BY_NAME["tile_mma"]


def found_on(slug: str) -> list[Application]:
    task, before = read_task(FOLDER), read_variant(FOLDER / "ladder" / "before.cu")
    return list(RULE.applications(before, flags=task.flags, axes=tuple(task.axes), task=task, chip=chip(slug)))


@pytest.mark.parametrize(("slug", "is_offered"), [("h200", True), ("a100-80", True), ("l4", False), ("t4", False)])
def test_it_is_offered_if_three_products_are_faster_than_one(slug: str, is_offered: bool) -> None:
    assert bool(found_on(slug)) == is_offered


@pytest.mark.long
def test_infinities_count_once_and_the_last_bits_are_those_of_float32() -> None:
    task, before = read_task(FOLDER), read_variant(FOLDER / "ladder" / "before.cu")
    child = RULE.build(before, found_on("h200")[0])
    assert child is not None
    with EvaluationSession(DeviceName("sim", "h200")) as session:
        prepared = session.prepare(task, child.text)
        assert isinstance(prepared, Prepared)
        case = task.check[0]
        given = dict(session.reference(task).fixed_inputs(case, 3))
        rows, weights = given["inp"].copy(), given["weight"].copy()
        rows[0, 0], rows[1, 3], rows[2, 5] = np.inf, -np.inf, np.nan
        weights[:, 0], weights[:, 3] = 0.5, np.linspace(-1, 1, len(weights)) + 1e-3
        given |= {"inp": rows, "weight": weights}
        ran = session.checker.run(RunRequest(program=prepared.programs[case.name], inputs=given))
    assert not ran.faults
    got = ran.outputs[0]["out"]
    sums = rows.astype(np.float64) @ weights.T.astype(np.float64) + given["bias"]
    expected = np.where(sums > 0, sums, 0.0)  # as the kernel says it: a NaN is not above 0
    assert np.array_equal(np.isposinf(expected), np.isposinf(got))
    scale = np.abs(rows[3:]).astype(np.float64) @ np.abs(weights.T) + np.abs(given["bias"])
    assert (np.abs(got[3:] - expected[3:]) <= 2e-6 * scale).all()
