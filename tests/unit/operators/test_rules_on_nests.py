"""Loops in loops that walk one stretch of memory, places that a loop names first, and blocks of one thread that ask
how many they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task

TASK = """\
name: channels
axes: {B: int, C: int, H: int, W: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [B, C, H, W], domain: fixed}
  - {name: y, role: out, dtype: float32, shape: [C]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 16, because: sums of float32}
check: [{B: 2, C: 3, H: 8, W: 12}, {B: 3, C: 2, H: 5, W: 7}]
bench: {b: {B: 8, C: 64, H: 28, W: 28}}
work: {flop: B * C * H * W, bytes: 4 * B * C * H * W}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.random([case[axis] for axis in "BCHW"]).astype(np.float32)}


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64).sum(axis=(0, 2, 3))}
"""
HEAD = """\
// evo: task channels
// evo: launch sums grid (ceil_div(C, 64)) block (64) shared 0
extern "C" __global__ void sums(const float* x, float* y, int B, int C, int H, int W) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float s = 0.0f;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int w = 0; w < W; w++) """
TAIL = "    y[c] = s;\n}\n"
NESTS = {
    "products": "s += x[b * C * H * W + c * H * W + h * W + w];\n",
    "Horner's way": "s += x[((b * C + c) * H + h) * W + w];\n",
    "a place": "{\n const int at = w + W * (h + H * (c + C * b));\n s += x[at];\n }\n",
}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("channels") / "channels", TASK, REFERENCE)


@pytest.mark.parametrize("nest", NESTS)
def test_a_nest_over_one_stretch_is_walked_as_one_loop(bench: EvaluationSession, task: Task, nest: str) -> None:
    """Its two inner loops are too short for the threads of a block, and long enough as one."""
    (child,) = built("row_blocks", HEAD + NESTS[nest] + TAIL, task)
    assert "for (int hw = threadIdx.x; hw < H * W; hw += LANES)" in child.text
    assert child.text.count("__shared__") == 1
    assert passes(bench, task, child)


@pytest.mark.parametrize(
    "inner",
    [
        "s += x[((b * C + c) * H + h) * W + w] * (w > 0);\n",  # a variable is asked for beside the place
        "s += x[((b * C + c) * H + h) * W + W - 1 - w];\n",  # backwards in each row
        "{ if (w > h) break; s += x[((b * C + c) * H + h) * W + w]; }\n",
    ],
)
def test_a_nest_that_is_no_stretch_stays_two_loops(task: Task, inner: str) -> None:
    assert not any("hw" in child.text for child in built("row_blocks", HEAD + inner + TAIL, task))


NAMED = """\
// evo: task channels
// evo: launch sums grid (C) block (64) shared 0
extern "C" __global__ void sums(const float* x, float* y, int B, int C, int H, int W) {
    __shared__ float part[64];
    float s = 0.0f;
    for (int b = 0; b < B; b++) {
        for (int i = threadIdx.x; i < H * W; i += blockDim.x) {
            int at = (b * C + blockIdx.x) * H * W + i;
            s += x[at]USE;
        }
    }
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = 0.0f;
        for (int t = 0; t < 64; t++) s += part[t];
        y[blockIdx.x] = s;
    }
}
"""


def test_a_place_that_a_loop_names_is_seen_where_it_is_used(bench: EvaluationSession, task: Task) -> None:
    children = built("wide_access", NAMED.replace("USE", ""), task)
    assert any("x_pack" in child.text and " at;" not in child.text for child in children)
    assert all(passes(bench, task, child) for child in children)


def test_a_place_that_is_a_number_too_stays(task: Task) -> None:
    assert not any("x_pack" in child.text for child in built("wide_access", NAMED.replace("USE", " + 0 * at"), task))


LONE = """\
name: lone
axes: {H: int, W: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [H, W]}
  - {name: y, role: out, dtype: float32, shape: [H, W]}
tolerance: {rtol: 1e-6, atol: 1e-6, rival_error_factor: 2, because: one sum}
check: [{H: 6, W: 40}, {H: 5, W: 33}]
bench: {b: {H: 256, W: 512}}
work: {flop: H * W, bytes: 8 * H * W}
"""
LONE_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.random((case["H"], case["W"]), dtype=np.float32)}


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64) + 1}
"""
LONE_KERNEL = """\
// evo: task lone
// evo: launch more grid (W, H) block (1) shared 0
extern "C" __global__ void more(const float* x, float* y{}) {{
    int col = blockIdx.x, row = blockIdx.y;
    int at = {};
    y[at] = x[at] + 1.0f;
}}
"""


@pytest.mark.parametrize(
    ("sizes", "place", "needed"),
    [
        (", int H, int W", "col + row * gridDim.x", "col + row * W"),
        ("", "col + row * gridDim.x", "int H, int W) {"),
        (", int H, int W", "col + gridDim.x * row + (col < gridDim.x ? 0 : 1)", "(unsigned)W ?"),
    ],
)
def test_blocks_of_one_thread_may_ask_how_many_they_are(
    bench: EvaluationSession, tmp_path: Path, sizes: str, place: str, needed: str
) -> None:
    lone = written_task(tmp_path / "lone", LONE, LONE_REFERENCE)
    children = built("pack_blocks", LONE_KERNEL.format(sizes, place), lone)
    assert len(children) > 1
    assert all(needed in child.text and "gridDim" not in child.text for child in children)
    assert passes(bench, lone, children[0])


def test_blocks_of_one_thread_whose_function_asks_stay(tmp_path: Path) -> None:
    lone = written_task(tmp_path / "lone", LONE, LONE_REFERENCE)
    text = LONE_KERNEL.format(", int H, int W", "place()")
    asks = "__device__ int place() { return blockIdx.x + blockIdx.y * gridDim.x; }\n"
    assert not built("pack_blocks", text.replace('extern "C"', f'{asks}extern "C"'), lone)


def test_a_size_of_shared_memory_says_nothing_of_the_grid(tmp_path: Path) -> None:
    """A row has as many elements as its block has threads, whatever else of the launch line has that number."""
    same = LONE.replace("W: 40", "W: 64").replace("W: 33", "W: 64").replace("W: 512", "W: 64")
    rows = written_task(tmp_path / "rows", same, LONE_REFERENCE)
    text = """\
// evo: task lone
// evo: launch more grid (H) block (64) shared 2 * 64 * 4
extern "C" __global__ void more(const float* x, float* y) {
    extern __shared__ float row[];
    const int n = 64;
    row[threadIdx.x] = x[blockIdx.x * n + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * n + threadIdx.x] = row[threadIdx.x] + 1.0f;
}
"""
    assert not built("block_size", text, rows)
    assert not built("block_size", text.replace("2 * 64 * 4", "512"), rows)
