"""Loops whose lengths are data: lanes share those whose end is known when they begin."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import DATA, built, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import read_task

TASK = read_task(DATA / "idioms" / "given_lengths")
HEAD = "for (int i = first[r]; i < first[r + 1]; ++i)"
KERNEL = TASK.ladder()[0].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "head",
    [
        long(HEAD, id="read in each turn"),
        long(
            "const int begin = first[r], end = first[r + 1];\n    for (int i = begin; i < end; i++)", id="read before"
        ),
        pytest.param("int left = first[r + 1] - first[r];\n    for (int i = 0; i < left; ++i)", id="a length"),
    ],
)
def test_lanes_share_a_row_that_ends_where_data_says(bench: EvaluationSession, head: str) -> None:
    text = KERNEL.replace(HEAD, head)
    text = text.replace("value[i]", "value[first[r] + i]") if "left" in head else text
    (child,) = built("row_lanes", text, TASK)
    assert passes(bench, TASK, child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param(HEAD, f"int end = first[r + 1];\n    {HEAD.replace('first[r + 1]', 'end')}", id="moves"),
        pytest.param("i < first[r + 1]", "i < first[i % R + 1]", id="another in each turn"),
    ],
)
def test_an_end_that_moves_on_the_way_is_left_alone(written: str, otherwise: str) -> None:
    text = KERNEL.replace(written, otherwise)
    if "int end" in text:
        text = text.replace("total += value[i];", "{ total += value[i]; if (value[i] < 0.0f) --end; }")
    for name in ("row_lanes", "row_blocks"):
        assert built(name, text, TASK) == []
