"""Walks some turns of which are skipped, structs that say where a walk goes, and functions in which lanes meet."""

from __future__ import annotations

import pytest
from rule_children import DATA, built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task

KERNEL = """\
// evo: launch k grid (ceil_div(B * T, 64)) block (64) shared 0
{top}extern "C" __global__ void k(const float* inp, float* mean, float* out, int B, int T, int C) {{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * T) return;
    const float* x = inp + (size_t)idx * C;
    float m = 0.0f;
    {body}
    mean[idx] = m / C;
    for (int i = 0; i < C; i++) out[idx * C + i] = x[i] - m / C;
}}
"""
ROW = "struct Row { const float *at; int length; };\n"
SUM = ROW + (
    "__device__ float sum_of(Row r) {\n    float s = 0.0f;\n    for (int i = 0; i < r.length; ++i) s += r.at[i];\n"
    "    return s;\n}\n"
)
WALKS = {
    "behind a test": ("", "for (int i = 0; i < C; ++i) { float v = x[i]; if (v != 0.0f) m += v; }"),
    "read behind a test": ("", "for (int i = 0; i < C; ++i) if (i % 3 != 7) m += x[i];"),
    "a turn left early": ("", "for (int i = 0; i < C; ++i) { if (x[i] == 0.0f) continue; m += x[i]; }"),
    "a struct": (ROW, "Row r = {x, C}; for (int i = 0; i < r.length; ++i) m += r.at[i];"),
    "a struct set by fields": (
        ROW,
        "Row r; r.at = x; r.length = C;\n    for (int i = 0; i < r.length; ++i) m += r.at[i];",
    ),
    "a struct handed on": (SUM, "Row r = {x, C}; m = sum_of(r);"),
    "a struct copied": (SUM, "Row all = {x, C}; Row r = all; m = sum_of(r);"),
}


@pytest.fixture(scope="module")
def task() -> Task:
    return read_task(DATA / "rules" / "row_lanes")


@pytest.mark.parametrize("name", WALKS)
def test_lanes_load_such_walks_in_wide_pieces(bench: EvaluationSession, task: Task, name: str) -> None:
    top, body = WALKS[name]
    shared = built("row_lanes", KERNEL.format(top=top, body=body), task)[0]
    wide = built("wide_access", shared, task)
    assert any("x_pack" in child.text or "at_pack" in child.text for child in wide)
    assert passes(bench, task, next(child for child in wide if "m +=" in child.text or "s +=" in child.text))


@pytest.mark.parametrize(
    ("name", "written", "otherwise"),
    [
        ("behind a test", "if (v != 0.0f)", "if (m < 9.0f)"),  # the sum says which elements count
        ("a turn left early", "x[i] == 0.0f", "m > 9.0f"),
    ],
)
def test_a_walk_whose_sum_decides_stays(task: Task, name: str, written: str, otherwise: str) -> None:
    top, body = WALKS[name]
    assert not built("row_lanes", changed(KERNEL.format(top=top, body=body), (written, otherwise)), task)


def test_what_a_test_keeps_within_the_tensor_is_read_behind_it(task: Task) -> None:
    top, body = WALKS["read behind a test"]
    text = changed(KERNEL.format(top=top, body=body), ("if (i % 3 != 7) m += x[i];", "if (i < C - 1) m += x[i + 1];"))
    shared = built("row_lanes", text, task)[0]
    assert "if (i < C - 1) m += x[i + 1];" in shared.text
    assert all("if (i < C - 1) m += x[i + 1];" in child.text for child in built("wide_access", shared, task))


def test_a_function_in_which_lanes_meet_is_called_by_all(bench: EvaluationSession, task: Task) -> None:
    text = KERNEL.format(top=SUM, body="Row r = {x, C}; m = sum_of(r);")
    text = changed(text, ("mean[idx] = m / C;", "mean[idx] = sum_of(r) / C;"))
    found = built("row_lanes", text, task)
    assert found
    assert passes(bench, task, found[0])
