"""Sums down the strided dimension: idioms do not hide them, and what the rules must not touch they leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, of_example, passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession

THREAD_PER_COLUMN = (
    ("int c = blockIdx", "unsigned int c = blockIdx"),
    ("int c = blockIdx.x * blockDim.x + threadIdx.x;", "int t = threadIdx.x;\n    int c = blockIdx.x * 128 + t;"),
    ("    if (c < C) {\n", "    if (c >= C) return;\n    {\n"),
    ("float sum = 0.0f;", "double sum = 0;"),
    ("float sum = 0.0f;", "float sum = 0.0f, scale = 1.0f;"),
    ("float sum = 0.0f;", "float sum = x[c] - x[c];"),
    ("r < R; r++) sum", "r <= R - 1; ++r) sum"),
    ("float sum = 0.0f;", "typedef float real; real sum = 0;"),
    ("for (int r = 0; r < R; r++) sum += x[r * C + c]", "for (int i = c; i < R * C; i += C) sum += x[i]"),
    (
        "for (int r = 0; r < R; r++) sum += x[r * C + c];",
        "int i = c;\n        while (i < R * C) {\n            sum += x[i];\n            i += C;\n        }",
    ),
)


@pytest.mark.parametrize(("written", "otherwise"), THREAD_PER_COLUMN)
def test_columns_are_shared_however_they_are_written(written: str, otherwise: str) -> None:
    first, *_ = of_example("column_lanes", (written, otherwise))
    assert first.launches[0].block[0].text == "COLUMNS * LANES"
    assert "sum_parts[LANES][COLUMNS]" in first.text


@pytest.mark.parametrize("bound", ["i < R * C - 1", "i < R * C + C", "i <= R * C"])
def test_a_walk_of_another_length_down_a_column_is_no_walk_over_its_rows(bound: str) -> None:
    rows = "for (int r = 0; r < R; r++) sum += x[r * C + c]"
    found = of_example("column_lanes", (rows, f"for (int i = c; {bound}; i += C) sum += x[i]"))
    assert not [child for child in found if "x[c + C * turn]" in child.text]


@pytest.mark.parametrize(
    ("stored", "tests"),
    [
        pytest.param(("        mean[c] = sum;\n", ""), {"is_first": 0, "is_inside": 2}, id="in loops alone"),
        pytest.param(("centred[r * C + c] = x[r * C + c] - sum", "sum += x[r * C + c]"), {"is_first": 2}, id="behind"),
    ],
)
def test_column_lanes_declares_what_its_stores_ask(stored: tuple[str, str], tests: dict[str, int]) -> None:
    """An unused variable is a warning, and a warning is an error."""
    first, *_ = of_example("column_lanes", stored)
    assert {name: first.text.count(name) for name in ("is_first", "is_inside") if name in first.text} == {
        name: count for name, count in tests.items() if count
    }


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
    assert of_example("column_lanes", (written, otherwise)) == []


TREE = """\
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            sums[t] += sums[t + half];
            squares[t] += squares[t + half];
        }
        __syncthreads();
    }
"""
BLOCK_PER_COLUMN = (
    (("int c = blockIdx.x;\n    int t = threadIdx.x;", "const int t = threadIdx.x, c = blockIdx.x;"),),
    (("    int c = blockIdx.x;\n", ""), ("x[r * C + c]", "x[r * C + blockIdx.x]"), ("[c] =", "[blockIdx.x] =")),
    (("R; r += blockDim.x", "R; r += 256"),),
    (("half > 0; half /= 2", "half >= 1; half >>= 1"),),
    (("sums[0] / R", "sums[0] * (1.0f / R)"),),
    (("mean[c] =", "mean[c] +="),),
    (("__shared__ float sums[256];", "extern __shared__ float sums[];"), ("shared 0", "shared 1024")),
    (
        (TREE, ""),
        ("__shared__ float sums[256];", "__shared__ float sums[8];"),
        ("__shared__ float squares[256];", "__shared__ float squares[8];"),
        ("    sums[t] = sum;\n    squares[t] = of_squares;\n", """\
    for (int s = 16; s > 0; s >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, s);
        of_squares += __shfl_down_sync(0xffffffffu, of_squares, s);
    }
    if (t % 32 == 0) { sums[t / 32] = sum; squares[t / 32] = of_squares; }
"""),
        ("    if (t == 0) {\n", """\
    if (t == 0) {
        for (int w = 1; w < 8; ++w) {
            sums[0] += sums[w];
            squares[0] += squares[w];
        }
"""),
    ),
)  # fmt: skip


@pytest.mark.parametrize("changes", BLOCK_PER_COLUMN)
def test_blocks_get_several_columns_however_they_combine(changes: tuple[tuple[str, str], ...]) -> None:
    first, *_ = of_example("column_blocks", *changes)
    assert first.launches[0].grid[0].text == "ceil_div(C, COLUMNS)"
    assert "threadIdx.x / COLUMNS" in first.text
    assert TREE not in first.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("x[r * C + c]", "x[c * R + r]", id="rows"),
        pytest.param("int r = t;", "int r = t + 1;", id="other turns"),
        pytest.param("sums[t] += sums[t + half]", "sums[t] = 0.5f * (sums[t] + sums[t + half])", id="no sum"),
        pytest.param("mean[c] = sums[0]", "mean[c] = mean[(c + 1) % C] + sums[0]", id="what another block writes"),
        pytest.param("mean[c] =", "mean[t] =", id="a place of the thread"),
        pytest.param("float sum = 0.0f", "float sum = 1.0f", id="a start that counts for each thread"),
        pytest.param("sum += v;", "sum = 0.5f * sum + v;", id="recurrence"),
        pytest.param("float v = x[r * C + c];", "float v = x[r * C + c] + t;", id="the thread's number counts"),
        pytest.param("sums[t] = sum;", "sums[t] = sum + of_squares;", id="one of two"),
    ],
)
def test_column_blocks_leaves_alone_what_it_cannot_prove(written: str, otherwise: str) -> None:
    assert of_example("column_blocks", (written, otherwise)) == []


OVER_CHANNELS = """\
// evo: task over_channels
// evo: launch k grid (ceil_div(H * W, 256), B) block (256) shared 0 args (x, y, C, H * W)
extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, int C, int size) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s < size) {
        const float* in = x + blockIdx.y * C * size + s;
        float* out = y + blockIdx.y * C * size + s;
        float top = -3e38f;
        for (int c = 0; c < C; c++) top = max(top, in[c * size]);
        float sum = 0;
        for (int c = 0; c < C; c++) { out[c * size] = expf(in[c * size] - top); sum += out[c * size]; }
        for (int c = 0; c < C; c++) out[c * size] /= sum;
    }
}
"""
CHANNELS = """\
name: over_channels
axes: {B: int, C: int, H: int, W: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [B, C, H, W]}
  - {name: y, role: out, dtype: float32, shape: [B, C, H, W]}
tolerance: {rtol: 1e-4, atol: 1e-6, rival_error_factor: 4, because: sums over C}
check:
  - {name: whole, B: 2, C: 32, H: 8, W: 8}
  - {name: ragged, B: 3, C: 21, H: 5, W: 7}
bench:
  big: {B: 32, C: 32, H: 32, W: 32}
work: {flop: 4 * B * C * H * W, bytes: 8 * B * C * H * W}
"""
SOFTMAX = """\
import numpy as np


def inputs(shapes, rng):
    return {"x": rng.standard_normal([shapes[axis] for axis in "BCHW"], dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": powers / powers.sum(axis=1, keepdims=True)}
"""


def test_what_a_lane_has_written_it_may_read_again(bench: EvaluationSession, tmp_path: Path) -> None:
    """A column of a few rows, as many columns as two axes say together, and an output that is read between passes."""
    task = written_task(tmp_path, CHANNELS, SOFTMAX)
    first, *others = built("column_lanes", OVER_CHANNELS, task)
    assert {child.knob_values["LANES"] for child in (first, *others)} == {8}  # four turns each
    assert passes(bench, task, first), first.text
