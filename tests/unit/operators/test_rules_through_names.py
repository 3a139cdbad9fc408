"""Elements in memory, references, structs, functions that are handed on, loops unrolled by hand, blocks of one thread:
rules find their places behind them, and what they write there is right."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import built, changed, example, passes, task_of

from evo.evaluate.session import EvaluationSession

COLUMN = example("column_lanes")
SUM = """\
        float sum = 0.0f;
        for (int r = 0; r < R; r++) sum += x[r * C + c];
        sum /= R;
"""
BEHIND = ("x[r * C + c] - sum;", "x[r * C + c] - mean[c];")
STORED = ("        mean[c] = sum;\n", "")
COLUMNS = {
    "in memory": changed(COLUMN, (SUM, SUM.replace("float sum", "mean[c]").replace("sum", "mean[c]")), STORED, BEHIND),
    "reference": changed(
        COLUMN,
        (SUM, SUM.replace("float sum = 0.0f", "float& own = mean[c];\n        own = 0.0f").replace("sum", "own")),
        STORED,
        ("x[r * C + c] - sum;", "x[r * C + c] - own;"),
    ),
    "method that changes what it is given": changed(
        COLUMN,
        (
            'extern "C"',
            "struct Sum {\n    float value = 0.0f;\n    __device__ void push(float v) { v *= 2.0f; value += v; }\n};\n"
            'extern "C"',
        ),
        ("float sum = 0.0f;", "Sum all;"),
        ("sum += x[r * C + c];", "all.push(x[r * C + c]);"),
        ("sum /= R;", "float sum = all.value / 2.0f / R;"),
    ),
    "template of a struct": changed(
        COLUMN,
        (
            'extern "C"',
            "template <typename T>\nstruct Sum {\n    T value;\n    __device__ void push(T v) { value += v; }\n};\n"
            'extern "C"',
        ),
        ("float sum = 0.0f;", "Sum<float> all{0.0f};"),
        ("sum += x[r * C + c];", "all.push(x[r * C + c]);"),
        ("sum /= R;", "float sum = all.value / R;"),
    ),
    "function that is handed on": changed(
        COLUMN,
        (
            'extern "C"',
            "template <class Op>\n__device__ float over(const float* p, int n, int stride, Op op) {\n"
            "    float all = 0.0f;\n    for (int i = 0; i < n; i++) all = op(all, p[i * stride]);\n    return all;\n}\n"
            'extern "C"',
        ),
        (SUM, "        float sum = over(x + c, R, C, [](float a, float b) { return a + b; }) / R;\n"),
    ),
    "two steps a turn": changed(
        COLUMN,
        (
            "for (int r = 0; r < R; r++) sum += x[r * C + c];",
            "int k = 0;\n        for (; k < R - 1; k += 2) {\n            sum += x[k * C + c];\n"
            "            sum += x[(k + 1) * C + c];\n        }\n        if (k < R) sum += x[k * C + c];",
        ),
    ),
    "blocks of one thread": changed(
        COLUMN,
        ("grid (ceil_div(C, 128)) block (128)", "grid (C) block (1)"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x"),
    ),
    "an index object": changed(
        COLUMN, ("int c = ", "dim3 at("), ("threadIdx.x;", "threadIdx.x, 1);\n    int c = at.x;")
    ),
}


@pytest.mark.parametrize("idiom", COLUMNS)
def test_columns_are_shared(idiom: str, bench: EvaluationSession) -> None:
    first, *_ = built("column_lanes", COLUMNS[idiom])
    assert passes(bench, task_of("column_lanes"), first)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("sum += x[(k + 1) * C + c];", "sum += x[(k + 2) * C + c];"), id="another step"),
        pytest.param(("k < R - 1", "k < R - 2"), id="another end"),
        pytest.param(("if (k < R) sum", "if (k < R) k++, sum"), id="another rest"),
    ],
)
def test_other_turns_are_no_single_steps(change: tuple[str, str]) -> None:
    found = built("column_lanes", changed(COLUMNS["two steps a turn"], change))
    assert not any("r = lane" in child.text or "k = lane" in child.text for child in found)


def test_lanes_meet_in_a_function_only_where_all_call_it(bench: EvaluationSession) -> None:
    text = changed(
        COLUMN,
        (
            'extern "C"',
            "__device__ __noinline__ float over(const float* p, int n, int stride) {\n    float all = 0.0f;\n"
            '    for (int i = 0; i < n; i++) all += p[i * stride];\n    asm volatile("");\n    return all;\n}\n'
            'extern "C"',
        ),
        (SUM, ""),
        ("        for (int r = 0; r < R; r++) {\n            centred[r * C + c] = x[r * C + c] - sum;\n        }", ""),
        ("mean[c] = sum;", "mean[c] = over(x + c, R, C);"),
    )
    assert not built("column_lanes", text)


MATRIX = """\
// evo: task tile_product
// evo: launch linear grid (ceil_div(M * N, 256)) block (256) shared 0
struct Matrix {
    float* data;
    int rows, cols;
    __device__ float& at(int r, int c) { return data[r * cols + c]; }
};
extern "C" __global__ void linear(float* a, float* b, float* bias, float* c, int M, int N, int K) {
    Matrix A{a, M, K}, B{b, N, K}, C{c, M, N};
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int i = idx / C.cols, j = idx % C.cols;
    if (i >= C.rows) return;
    C.at(i, j) = 0.0f;
    for (int k = 0; k < A.cols; ++k) C.at(i, j) += A.at(i, k) * B.at(j, k);
    C.at(i, j) += bias[j];
}
"""


@pytest.mark.parametrize("rule", ["tile_product", "row_lanes", long("unflatten")])
def test_elements_that_methods_return_are_written_to(rule: str, bench: EvaluationSession) -> None:
    """The sum is kept in memory through a returned reference, which lanes must not share unseen."""
    task = task_of("tile_product")
    found = built(rule, MATRIX, task)
    assert found or rule == "row_lanes"
    assert all(passes(bench, task, child) for child in found[:2])


@pytest.mark.parametrize("rule", ["row_lanes", "row_blocks"])
def test_threads_with_an_index_of_their_own_become_blocks(rule: str, bench: EvaluationSession) -> None:
    text = changed(
        example("row_blocks"),
        ("grid (ceil_div(B * T, 256)) block (256)", "grid (B) block (T)"),
        ("unsigned int idx = blockIdx.x * blockDim.x + threadIdx.x;", "int b = blockIdx.x, t = threadIdx.x;"),
        ("    if (idx < B * T) {", "    int idx = b * T + t;\n    if (t < T) {"),
    )
    child, *_ = built(rule, text, task_of("row_blocks"))
    assert "grid (B, T)" in child.text
    assert "t = blockIdx.y" in child.text
    assert passes(bench, task_of("row_blocks"), child)
