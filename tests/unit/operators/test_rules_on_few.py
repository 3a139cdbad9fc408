"""The few largest elements of a row, in order: whichever way a thread keeps them, lanes combine what they kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from long_cases import long
from rule_children import built, changed, passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task
from evo.spec.variant import Variant

TASK = """name: best_two
axes: {R: int, C: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [R, C]}
  - {name: y, role: out, dtype: float32, shape: [R, 2]}
  - {name: place, role: out, dtype: int32, shape: [R, 2]}
tolerance: {rtol: 1e-6, atol: 1e-6, rival_error_factor: 2, because: copies}
check: [{R: 64, C: 96}, {R: 33, C: 65}]
bench: {b: {R: 512, C: 512}}
work: {flop: R * C, bytes: 4 * R * C}
specials: {x: {infinities: undefined, nan: undefined}}
"""
REFERENCE = """import numpy as np


def inputs(case, rng):
    return {"x": rng.integers(-9, 9, (case["R"], case["C"])).astype(np.float32)}


def expected(inputs):
    place = np.argsort(-inputs["x"], axis=1, kind="stable")[:, :2]
    return {"y": np.take_along_axis(inputs["x"], place, 1), "place": place.astype(np.int32)}
"""
HEAD = """// evo: task best_two
// evo: launch best grid (ceil_div(R, 64)) block (64)
extern "C" __global__ void best(const float* x, float* y, int* place, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
"""
VARIABLES = """    float a = -INFINITY, b = -INFINITY;
    int i = -1, j = -1;
    for (int c = 0; c < C; c++) {
        float v = x[r * C + c];
        if (v > a) { b = a; j = i; a = v; i = c; }
        else if (v > b) { b = v; j = c; }
    }
    y[2 * r] = a; y[2 * r + 1] = b;
    place[2 * r] = i; place[2 * r + 1] = j;
}
"""
ARRAYS = """    float kept[2] = {-INFINITY, -INFINITY};
    int at[2] = {-1, -1};
    for (int c = 0; c < C; c++) {
        float v = x[r * C + c];
        for (int k = 1; k >= 0; k--) {
            if (v > kept[k]) {
                if (k < 1) { kept[k + 1] = kept[k]; at[k + 1] = at[k]; }
                kept[k] = v;
                at[k] = c;
            }
        }
    }
    for (int k = 0; k < 2; k++) { y[2 * r + k] = kept[k]; place[2 * r + k] = at[k]; }
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), TASK, REFERENCE)


def lanes(rule: str, task: Task, text: str, *changes: tuple[str, str]) -> list[Variant]:
    text = changed(text, *changes)
    return built(rule, HEAD + text, task)


SHIFT = "for (int j = 1; j > k; j--) { kept[j] = kept[j - 1]; at[j] = at[j - 1]; }"
ENDED = (
    ("int k = 1; k >= 0; k--", "int k = 0; k < 2; k++"),
    ("if (k < 1) { kept[k + 1] = kept[k]; at[k + 1] = at[k]; }", SHIFT),
    ("at[k] = c;", "at[k] = c; break;"),
)
RECORD = (
    ("float a = -INFINITY, b = -INFINITY;", "float2 s = {-INFINITY, -INFINITY};"),
    ("if (v > a) { b = a; j = i; a = v; i = c; }", "if (v > s.x) { s.y = s.x; j = i; s.x = v; i = c; }"),
    ("else if (v > b) { b = v; j = c; }", "else if (v > s.y) { s.y = v; j = c; }"),
    ("= a; y[2 * r + 1] = b;", "= s.x; y[2 * r + 1] = s.y;"),
)
INNER = ARRAYS[ARRAYS.index("        for (int k = 1") : ARRAYS.index("    }\n    for (int k = 0")]
LEFT = (
    (
        INNER,
        """        if (v <= kept[1]) continue;
        if (v > kept[0]) { kept[1] = kept[0]; at[1] = at[0]; kept[0] = v; at[0] = c; }
        else { kept[1] = v; at[1] = c; }
""",
    ),
)
SORTED = (
    ("if (v > a) { b = a; j = i; a = v; i = c; }", "if (v > b) { b = v; j = c; }"),
    ("else if (v > b) { b = v; j = c; }", "if (b > a) { float t = a; a = b; b = t; int k = i; i = j; j = k; }"),
)


@pytest.mark.parametrize("rule", ["row_lanes", long("row_blocks")])
@pytest.mark.parametrize(
    ("text", "changes"),
    [
        long(VARIABLES, (), id="variables"),
        pytest.param(ARRAYS, (), id="arrays"),
        long(ARRAYS, ENDED, id="a loop that ends"),
        long(VARIABLES, RECORD, id="a record"),
        long(VARIABLES, SORTED, id="sorted behind"),
        long(VARIABLES, (("if (v > a)", "if (!(v <= a))"),), id="not less or equal"),
    ],
)
def test_the_few_largest_are_shared_with_their_places(
    bench: EvaluationSession, task: Task, text: str, changes: tuple[tuple[str, str], ...], rule: str
) -> None:
    """The inputs are few whole numbers, so most of the largest are equal, and the first of them counts."""
    (child,) = lanes(rule, task, text, *changes)
    assert passes(bench, task, child)


WALKED = (
    ("        for (int k = 1; k >= 0; k--) {\n            if (v > kept[k]) {\n", "        if (v > kept[2]) {\n"),
    (
        "                if (k < 1) { kept[k + 1] = kept[k]; at[k + 1] = at[k]; }\n",
        "            int k = 2;\n"
        "            while (k > 0 && kept[k - 1] < v) { kept[k] = kept[k - 1]; at[k] = at[k - 1]; k--; }\n",
    ),
    ("                at[k] = c;\n            }\n        }\n", "                at[k] = c;\n        }\n"),
)


@pytest.mark.parametrize("changes", [WALKED, long(WALKED[:0], id="arrays")])
def test_three_are_kept_at_fixed_places(
    bench: EvaluationSession, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    """Of equal elements the first one stays in front, and what moves on goes to the next place, be it equal or not."""
    three = written_task(tmp_path, TASK.replace("R, 2]", "R, 3]"), REFERENCE.replace(":2]", ":3]"))
    wide = changed(
        ARRAYS,
        ("kept[2] = {-INFINITY, -INFINITY}", "kept[3] = {-INFINITY, -INFINITY, -INFINITY}"),
        ("at[2] = {-1, -1}", "at[3] = {-1, -1, -1}"),
        ("int k = 1;", "int k = 2;"),
        ("k < 1", "k < 2"),
        (
            "k < 2; k++) { y[2 * r + k] = kept[k]; place[2 * r + k]",
            "k < 3; k++) { y[3 * r + k] = kept[k]; place[3 * r + k]",
        ),
    )
    back = tuple((old.replace("k = 1", "k = 2").replace("k < 1", "k < 2"), new) for old, new in changes)
    parent = HEAD + changed(wide, *back)
    (alone,) = built("sort_network", parent, three)
    (shared,) = built("row_lanes", parent, three)
    (both,) = built("sort_network", shared, three)
    for child in (alone, both):
        assert "kept[k]" not in child.text.partition("for (int c")[2].partition("#pragma unroll")[0]
        assert passes(bench, three, child)


@pytest.mark.parametrize(
    ("text", "changes"), [(ARRAYS, ENDED), (ARRAYS, LEFT), (VARIABLES, RECORD), (VARIABLES, SORTED)]
)
def test_the_few_largest_are_found_however_a_turn_is_written(
    task: Task, text: str, changes: tuple[tuple[str, str], ...]
) -> None:
    assert len(lanes("row_lanes", task, text, *changes)) == 1


@pytest.mark.parametrize(
    ("text", "change"),
    [
        pytest.param(VARIABLES, ("if (v > a)", "if (v >= a)"), id="the last of equal ones"),
        pytest.param(VARIABLES, ("b = a; j = i;", "j = i;"), id="the second is lost"),
        pytest.param(VARIABLES, ("else if (v > b)", "else if (v > 0.5f * b)"), id="a number made of what is kept"),
        pytest.param(VARIABLES, ("b = -INFINITY;", "b = x[r * C];"), id="lanes would begin with an element each"),
        pytest.param(ARRAYS, ("v > kept[k]", "v > kept[1 - k]"), id="another order"),
        pytest.param(ARRAYS, ("k = 1; k >= 0; k--", "k = 0; k < 2; k++"), id="an element twice"),
        pytest.param(ARRAYS, ("at[k] = c;", "at[k] = r;"), id="no place in the walk"),
    ],
)
def test_what_is_no_choice_of_the_largest_stays(task: Task, text: str, change: tuple[str, str]) -> None:
    assert lanes("row_lanes", task, text, change) == []
