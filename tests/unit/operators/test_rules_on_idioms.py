"""Idioms that hid a row from its rules: first elements as start values, blocks of two dimensions, several additions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_children import built

from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.operators import RULES
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant, read_variant

DATA = Path(__file__).parents[2] / "data"
BY_NAME = {rule.name: rule for rule in RULES}
ONLINE = DATA / "foreign" / "kernels" / "softmax_online_rows"


@pytest.fixture(scope="module")
def session() -> Iterator[EvaluationSession]:
    with EvaluationSession(DeviceName("sim", "l4")) as session:
        yield session


def passes(session: EvaluationSession, task: Task, child: Variant) -> bool:
    return evaluate(Job(task=task, text=child.text, path="child.cu", upto="check"), session).status.passed


def changed(text: str, *changes: tuple[str, str]) -> str:
    for written, otherwise in changes:
        assert written in text
        text = text.replace(written, otherwise)
    return text


FROM_THE_FIRST = (
    ("float maxval = -INFINITY;", "float maxval = x[0];"),
    ("float sum = 0.0f;", "float sum = 1.0f;"),
    ("for (int j = 0; j < C; j++) {", "for (int j = 1; j < C; j++) {"),
)


@pytest.mark.parametrize("rule", ["row_lanes", pytest.param("row_blocks", marks=pytest.mark.long)])
def test_an_online_sum_that_starts_with_the_first_element_has_it_once(session: EvaluationSession, rule: str) -> None:
    """The maximum may start with it in every lane, the sum in one."""
    task = read_task(ONLINE)
    text = changed(read_variant(task.ladder()[0]).text, *FROM_THE_FIRST)
    (child,) = built(BY_NAME[rule], parse_variant(text), task)
    assert "> 0) sum = 0;" in child.text
    assert "> 0) maxval" not in child.text
    assert passes(session, task, child)


def test_an_online_sum_that_starts_with_nothing_starts_so_in_every_lane() -> None:
    task = read_task(ONLINE)
    (child,) = built(BY_NAME["row_lanes"], read_variant(task.ladder()[0]), task)
    assert "> 0) sum" not in child.text
