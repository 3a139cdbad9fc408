"""Sums down the strided dimension: idioms do not hide them, and what the rules must not touch they leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.operators import RULES
from evo.operators.one_change import clutter
from evo.operators.rules.operator import integers_of
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant

TASKS = Path(__file__).parents[2] / "data" / "rules"
BY_NAME = {rule.name: rule for rule in RULES}


def children(name: str, *changes: tuple[str, str]) -> list[Variant]:
    """What a rule makes of its example after some replacements, each of which has to find its text."""
    task, rule = read_task(TASKS / name), BY_NAME[name]
    text = rule.examples[0].before
    for written, otherwise in changes:
        assert written in text
        text = text.replace(written, otherwise)
    return made(name, text, task)


def made(name: str, text: str, task: Task) -> list[Variant]:
    variant = parse_variant(text)
    places = BY_NAME[name].applications(variant, flags=task.flags, axes=integers_of(task), task=task)
    found = [child for each in places if (child := BY_NAME[name].build(variant, each)) is not None]
    assert all(clutter(text, child.text) is None for child in found)
    return found


THREAD_PER_COLUMN = (
    ("int c = blockIdx", "unsigned int c = blockIdx"),
    ("int c = blockIdx.x * blockDim.x + threadIdx.x;", "int t = threadIdx.x;\n    int c = blockIdx.x * 128 + t;"),
    ("    if (c < C) {\n", "    if (c >= C) return;\n    {\n"),
    ("float sum = 0.0f;", "double sum = 0;"),
    ("float sum = 0.0f;", "float sum = x[c] - x[c];"),
    ("r < R; r++) sum", "r <= R - 1; ++r) sum"),
    ("float sum = 0.0f;", "typedef float real; real sum = 0;"),
)


@pytest.mark.parametrize(("written", "otherwise"), THREAD_PER_COLUMN)
def test_columns_are_shared_however_they_are_written(written: str, otherwise: str) -> None:
    first, *_ = children("column_lanes", (written, otherwise))
    assert first.launches[0].block[0].text == "COLUMNS * LANES"
    assert "sum_parts[LANES][COLUMNS]" in first.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("sum += x[r * C + c];", "centred[r * C + c] = sum += x[r * C + c];", id="scan"),
        pytest.param("sum += x[r * C + c];", "sum = 0.5f * sum + x[r * C + c];", id="recurrence"),
        pytest.param("x[r * C + c]", "x[c * R + r]", id="rows"),
        pytest.param("if (c < C)", "if (c < C && c > 3)", id="another guard"),
        pytest.param("if (c < C)", "if (c < C - 1)", id="a column less"),
        pytest.param("sum /= R;", "sum /= R; __syncwarp();", id="lanes that meet already"),
        pytest.param("centred[r * C + c] = x", "atomicAdd(&mean[c], 0.0f); centred[r * C + c] = x", id="atomics"),
        pytest.param("= x[r * C + c] - sum;", "= centred[0] + x[r * C + c] - sum;", id="its own output"),
    ],
)
def test_column_lanes_leaves_alone_what_it_cannot_prove(written: str, otherwise: str) -> None:
    assert children("column_lanes", (written, otherwise)) == []
