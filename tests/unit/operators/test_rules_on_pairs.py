"""Pairs that lanes combine: an online maximum and its sum, maybe in a record, and the best element and its place."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import DATA, built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import read_task
from evo.spec.variant import read_variant

ONLINE = DATA / "foreign" / "kernels" / "softmax_online_rows"


FROM_THE_FIRST = (
    ("float maxval = -INFINITY;", "float maxval = x[0];"),
    ("float sum = 0.0f;", "float sum = 1.0f;"),
    ("for (int j = 0; j < C; j++) {", "for (int j = 1; j < C; j++) {"),
)


@pytest.mark.parametrize("rule", ["row_lanes", long("row_blocks")])
def test_an_online_sum_that_starts_with_the_first_element_has_it_once(bench: EvaluationSession, rule: str) -> None:
    """The maximum may start with it in every lane, the sum in one."""
    task = read_task(ONLINE)
    text = changed(read_variant(task.ladder()[0]).text, *FROM_THE_FIRST)
    (child,) = built(rule, text, task)
    assert "> 0) maxval = -3.402823466e+38f, sum = 0;" in child.text
    assert passes(bench, task, child)


def test_an_online_sum_may_be_scaled_first_where_the_maximum_grows(bench: EvaluationSession) -> None:
    task = read_task(ONLINE)
    text = read_variant(task.ladder()[0]).text
    head, _, rest = text.partition("            float maxval_prev")
    once = "            if (x[j] > maxval) { sum *= expf(maxval - x[j]); maxval = x[j]; }\n"
    body = f"{once}            sum += expf(x[j] - maxval);\n        }}\n        for{rest.rpartition('        for')[2]}"
    (child,) = built("row_lanes", head + body, task)
    assert passes(bench, task, child)
    twice = body.replace("sum *=", "sum = 2.0f + sum *")
    assert built("row_lanes", head + twice, task) == []


def test_an_online_sum_that_starts_with_nothing_starts_so_in_every_lane() -> None:
    """A maximum that starts as no number is the lowest one in lanes whose first element may be -INFINITY."""
    task = read_task(ONLINE)
    text = read_variant(task.ladder()[0]).text
    (child,) = built("row_lanes", text, task)
    assert "> 0) maxval = -3.402823466e+38f;" in child.text
    (child,) = built("row_lanes", changed(text, ("= -INFINITY", "= -1e30f")), task)
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


@pytest.mark.parametrize("rule", ["row_lanes", long("row_blocks")])
def test_lanes_combine_the_fields_of_a_struct(bench: EvaluationSession, rule: str) -> None:
    task = read_task(ONLINE)
    (child,) = built(rule, IN_A_STRUCT, task)
    assert "> 0) s.top = -3.402823466e+38f, s.sum = 0;" in child.text
    assert ("float s_sum_parts[" in child.text) == (rule == "row_blocks")
    assert passes(bench, task, child)


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
    assert built("row_lanes", text, read_task(ONLINE)) == []


@pytest.mark.parametrize(
    "changes",
    [
        long(
            (
                (
                    "State s;\n    s.top = at(inp, row, 0, C);\n    s.sum = 1.0f;",
                    "State s = {at(inp, row, 0, C), 1.0f};",
                ),
            )
        ),
        long((("struct State { float top, sum; };\n", ""), ("State", "float2"), (".top", ".x"), (".sum", ".y"))),
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
    bench: EvaluationSession, changes: tuple[tuple[str, str], ...]
) -> None:
    task = read_task(ONLINE)
    (child,) = built("row_lanes", changed(IN_A_STRUCT, *changes), task)
    assert passes(bench, task, child)


@pytest.mark.parametrize(
    ("test", "places"), [("v > best", 1), ("v >= best", 0), ("!(v < best)", 0), ("!(v <= best)", 1)]
)
def test_of_equal_ones_the_first_is_found_or_the_search_stays(test: str, places: int) -> None:
    """Lanes that found equal ones take the smaller place."""
    task = read_task(DATA / "foreign" / "kernels" / "argmax_rows")
    text = changed(read_variant(task.ladder()[0]).text, ("v > best", test))
    assert len(built("row_lanes", text, task)) == places


def test_a_function_that_is_given_addresses_keeps_the_best_and_its_place(bench: EvaluationSession) -> None:
    """`*where = c` in a function that a loop stands in changes from turn to turn, and is the kernel's variable."""
    task = read_task(DATA / "foreign" / "kernels" / "argmax_rows")
    text = """\
// evo: task argmax_rows
// evo: launch argmax grid (ceil_div(N, 256)) block (256) shared 0
__device__ void best_of(const float* row, int count, float* best, int* where) {
    *best = row[0];
    *where = 0;
    for (int c = 1; c < count; c++) {
        if (row[c] > *best) { *best = row[c]; *where = c; }
    }
}
extern "C" __global__ void argmax(const float* x, int* idx, int N, int C) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float best;
    int at;
    best_of(x + n * C, C, &best, &at);
    idx[n] = at;
}
"""
    (child,) = built("row_lanes", text, task)
    assert "best = theirs, at = their_other;" in child.text
    assert passes(bench, task, child)


SKIPPED = """\
// evo: task argmax_rows
// evo: launch argmax grid (ceil_div(N, 256)) block (256) shared 0
__device__ void place_of(const float* p, int count, int* where) {
    float best = *p;
    *where = 0;
    for (int c = 1; c < count; ++c) {
        const float v = p[c];
        if (v <= best) continue;
        best = v;
        *where = c;
    }
}
extern "C" __global__ void argmax(const float* x, int* idx, int N, int C) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < N) place_of(x + n * C, C, idx + n);
}
"""


def test_turns_that_are_skipped_and_an_element_by_its_address_hide_no_search(bench: EvaluationSession) -> None:
    task = read_task(DATA / "foreign" / "kernels" / "argmax_rows")
    (child,) = built("row_lanes", SKIPPED, task)
    assert "int own_idx = 0;" in child.text
    assert passes(bench, task, child)


def test_two_elements_that_are_kept_in_memory_have_a_name_each(bench: EvaluationSession) -> None:
    task = read_task(DATA / "idioms" / "best_in_memory")
    (child,) = built("row_lanes", task.ladder()[0].read_text(), task)
    assert "own_top = theirs, own_idx = their_other;" in child.text
    assert passes(bench, task, child)
