"""Pairs that lanes combine: an online maximum and its sum, maybe in a record, and the best element and its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_children import built
from simulator import simulator

from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.operators import RULES
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant, read_variant

DATA = Path(__file__).parents[2] / "data"
BY_NAME = {rule.name: rule for rule in RULES}
ONLINE = DATA / "foreign" / "kernels" / "softmax_online_rows"


@pytest.fixture(scope="module")
def session() -> Iterator[EvaluationSession]:
    with simulator() as session:
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
    assert "> 0) maxval = -3.402823466e+38f, sum = 0;" in child.text
    assert passes(session, task, child)


def test_an_online_sum_may_be_scaled_first_where_the_maximum_grows(session: EvaluationSession) -> None:
    task = read_task(ONLINE)
    text = read_variant(task.ladder()[0]).text
    head, _, rest = text.partition("            float maxval_prev")
    once = "            if (x[j] > maxval) { sum *= expf(maxval - x[j]); maxval = x[j]; }\n"
    body = f"{once}            sum += expf(x[j] - maxval);\n        }}\n        for{rest.rpartition('        for')[2]}"
    (child,) = built(BY_NAME["row_lanes"], parse_variant(head + body), task)
    assert passes(session, task, child)
    twice = body.replace("sum *=", "sum = 2.0f + sum *")
    assert built(BY_NAME["row_lanes"], parse_variant(head + twice), task) == []


def test_an_online_sum_that_starts_with_nothing_starts_so_in_every_lane() -> None:
    """A maximum that starts as no number is the lowest one in lanes whose first element may be -INFINITY."""
    task = read_task(ONLINE)
    text = read_variant(task.ladder()[0]).text
    (child,) = built(BY_NAME["row_lanes"], parse_variant(text), task)
    assert "> 0) maxval = -3.402823466e+38f;" in child.text
    (child,) = built(BY_NAME["row_lanes"], parse_variant(changed(text, ("= -INFINITY", "= -1e30f"))), task)
    assert "> 0)" not in child.text


IN_A_STRUCT = """\
// evo: task softmax_online_rows
// evo: launch online grid (ceil_div(N, 128)) block (16, 8) shared 0
struct State { float top, sum; };
__device__ float at(const float* m, int row, int col, int ld) { return m[row * ld + col]; }
__device__ State update(State old, float v) {
    float now = max(old.top, v);
    State next;
    next.sum = old.sum * expf(old.top - now) + expf(v - now);
    next.top = now;
    return next;
}
extern "C" __global__ void online(const float* inp, float* out, int N, int C) {
    const int row = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    if (!(row < N)) return;
    State s;
    s.top = at(inp, row, 0, C);
    s.sum = 1.0f;
    for (int j = 1; j < C; ++j)
        s = update(s, at(inp, row, j, C));
    for (int j = 0; j < C; j++) out[row * C + j] = expf(inp[row * C + j] - s.top) / s.sum;
}
"""


@pytest.mark.parametrize("rule", ["row_lanes", pytest.param("row_blocks", marks=pytest.mark.long)])
def test_lanes_combine_the_fields_of_a_struct(session: EvaluationSession, rule: str) -> None:
    task = read_task(ONLINE)
    (child,) = built(BY_NAME[rule], parse_variant(IN_A_STRUCT), task)
    assert "> 0) s.top = -3.402823466e+38f, s.sum = 0;" in child.text
    assert ("float s_sum_parts[" in child.text) == (rule == "row_blocks")
    assert passes(session, task, child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("float top, sum;", "float top; union { float sum; int bits; };"),
        ("State s;", "State all[1]; State& s = all[0];"),
        ("s = update(s, at(inp, row, j, C));", "{ s = update(s, at(inp, row, j, C)); out[row * C + j] = s.sum; }"),
    ],
)
def test_a_struct_that_is_not_known_stays(written: str, otherwise: str) -> None:
    text = changed(IN_A_STRUCT, (written, otherwise))
    assert built(BY_NAME["row_lanes"], parse_variant(text), read_task(ONLINE)) == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            (
                (
                    "State s;\n    s.top = at(inp, row, 0, C);\n    s.sum = 1.0f;",
                    "State s = {at(inp, row, 0, C), 1.0f};",
                ),
            ),
            marks=pytest.mark.long,
        ),
        pytest.param(
            (("struct State { float top, sum; };\n", ""), ("State", "float2"), (".top", ".x"), (".sum", ".y")),
            marks=pytest.mark.long,
        ),
        (
            ("State update(State old", "void update(State& old"),
            ("    State next;\n", ""),
            ("next.", "old."),
            ("    return next;\n", ""),
            ("s = update(", "update("),
        ),
    ],
)
def test_a_record_of_another_kind_is_combined_by_its_fields(
    session: EvaluationSession, changes: tuple[tuple[str, str], ...]
) -> None:
    task = read_task(ONLINE)
    (child,) = built(BY_NAME["row_lanes"], parse_variant(changed(IN_A_STRUCT, *changes)), task)
    assert passes(session, task, child)


@pytest.mark.parametrize(
    ("test", "places"), [("v > best", 1), ("v >= best", 0), ("!(v < best)", 0), ("!(v <= best)", 1)]
)
def test_of_equal_ones_the_first_is_found_or_the_search_stays(test: str, places: int) -> None:
    """Lanes that found equal ones take the smaller place."""
    task = read_task(DATA / "foreign" / "kernels" / "argmax_rows")
    text = changed(read_variant(task.ladder()[0]).text, ("v > best", test))
    assert len(built(BY_NAME["row_lanes"], parse_variant(text), task)) == places
