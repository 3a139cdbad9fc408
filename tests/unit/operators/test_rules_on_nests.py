"""Loops in loops that walk one stretch of memory, places that a loop names first, and blocks of one thread that ask
how many they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes
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


@pytest.mark.parametrize("declared", ["int b, h, w;", "int b;\n    int h, w;", "unsigned int b, h, w;"])
def test_counters_may_be_declared_before_all_loops(bench: EvaluationSession, task: Task, declared: str) -> None:
    """By a thread of the one block there is, for each channel."""
    text = changed(
        HEAD + NESTS["products"] + TAIL,
        ("grid (ceil_div(C, 64)) block (64)", "grid (1) block (C)"),
        ("blockIdx.x * blockDim.x + ", ""),
        ("    float s = 0.0f;\n", f"    float s = 0.0f;\n    {declared}\n"),
        ("for (int ", "for ("),
    )
    (child,) = built("row_blocks", text, task)
    assert "hw = threadIdx.x; hw < H * W; hw += LANES)" in child.text
    assert declared not in child.text
    assert passes(bench, task, child)


def test_a_counter_that_is_read_behind_its_loop_stays_where_it_is_declared(task: Task) -> None:
    text = changed(
        HEAD + NESTS["products"] + TAIL,
        ("    float s = 0.0f;\n", "    float s = 0.0f;\n    int b, h, w;\n"),
        ("for (int ", "for ("),
        ("y[c] = s;", "y[c] = s + 0.0f * w;"),
    )
    assert not any("hw" in child.text for child in built("row_blocks", text, task))


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


PLACE = "x[((b * C + c) * H + h) * W + w]"
AT = "__device__ int at(int b, int c, int h, int w, int C, int H, int W) { return ((b * C + c) * H + h) * W + w; }\n"
INNER = "            for (int w = 0; w < W; w++) "
OUTER = "        for (int h = 0; h < H; h++)\n"
HIDDEN = {
    "a sum in memory": (
        ("float s = 0.0f;", "y[c] = 0.0f;"),
        (f"s += {PLACE}", f"y[c] += {PLACE}"),
        ("    y[c] = s;\n", ""),
    ),
    "a function": (('extern "C"', f'{AT}extern "C"'), (PLACE, "x[at(b, c, h, w, C, H, W)]")),
    "a line": (
        (INNER, f"        {{ const float* line = &x[((b * C + c) * H + h) * W];\n{INNER}"),
        (f"s += {PLACE};", "s += line[w]; }"),
    ),
    "put together": (
        (OUTER + INNER, "        for (int hw = 0; hw < H * W; hw++) "),
        (PLACE, "x[((b * C + c) * H + hw / W) * W + hw % W]"),
    ),
}


@pytest.mark.parametrize("way", HIDDEN)
def test_what_hides_a_nest_is_shown_first(bench: EvaluationSession, task: Task, way: str) -> None:
    """The walk is shared as one loop, and is in wide pieces then."""
    parent = changed(HEAD + NESTS["Horner's way"] + TAIL, *HIDDEN[way])
    (shared,) = built("row_blocks", parent, task)
    assert "hw < H * W; hw += LANES" in shared.text
    wide = next(child for child in built("wide_access", shared, task) if "Float4" in child.text)
    assert passes(bench, task, wide)


PAIRS = """\
name: pairs
axes: {R: int, N: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [R, 3 * N]}
  - {name: w, role: in, dtype: float32, shape: [N]}
  - {name: y, role: out, dtype: float32, shape: [R]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 16, because: sums of float32}
check: [{R: 3, N: 64}, {R: 2, N: 45}]
bench: {b: {R: 256, N: 512}}
work: {flop: 6 * R * N, bytes: 12 * R * N}
"""
PAIRS_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.random((case["R"], 3 * case["N"]), dtype=np.float32), "w": rng.random(case["N"], dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64).reshape(len(inputs["x"]), -1, 3)
    return {"y": ((x[..., 0] * x[..., 1] - x[..., 2]) * inputs["w"]).sum(1)}
"""
PAIRS_KERNEL = """\
// evo: task pairs
// evo: launch dots grid (ceil_div(R, 32)) block (32) shared 0
extern "C" __global__ void dots(const float* x, const float* w, float* y, int R, int N) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    float s = 0.0f;
    for (int i = 0; i < N; i++) {
        s += (x[r * N * 3 + 3 * i] * x[r * N * 3 + i * 3 + 1] - x[r * N * 3 + 3 * i + 2]) * w[i];
    }
    y[r] = s;
}
"""


def test_short_records_are_loaded_with_what_a_loop_walks(bench: EvaluationSession, tmp_path: Path) -> None:
    pairs = written_task(tmp_path / "pairs", PAIRS, PAIRS_REFERENCE)
    wide, *_ = built("wide_access", PAIRS_KERNEL, pairs)
    assert "const Float12 x_pack = *reinterpret_cast<const Float12*>(&x[r * N * 3 + 3 * i_done]);" in wide.text
    assert all(f"x_pack.at[3 * e + {at}]" in wide.text for at in range(3))
    assert passes(bench, pairs, wide)


def test_records_that_move_in_a_loop_are_left(tmp_path: Path) -> None:
    pairs = written_task(tmp_path / "pairs", PAIRS, PAIRS_REFERENCE)
    moved = changed(PAIRS_KERNEL, ("x[r * N * 3 + 3 * i]", "x[r * N * 3 + 3 * i * 1]"), ("i * 3 + 1]", "i * 3 + 3]"))
    assert not any("x_pack.at[3 * e]" in child.text for child in built("wide_access", moved, pairs))


TREE = """\
// evo: task pairs
// evo: launch dots grid (R) block (64) shared 0
extern "C" __global__ void dots(const float* x, const float* w, float* y, int R, int N) {
    __shared__ float part[64];
    int at = threadIdx.x;
    float s = 0.0f;
    while (at < N) {
        const float* p = x + (blockIdx.x * N + at) * 3;
        s += (p[0] * p[1] - p[2]) * w[at];
        at += blockDim.x;
    }
    part[threadIdx.x] = s;
    __syncthreads();
    int i = blockDim.x / 2;
    while (i != 0) {
        if (threadIdx.x < i) part[threadIdx.x] += part[threadIdx.x + i];
        __syncthreads();
        i /= 2;
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0]USED;
}
"""


def test_the_counter_of_a_tree_may_stand_in_front_of_it(bench: EvaluationSession, tmp_path: Path) -> None:
    pairs = written_task(tmp_path / "pairs", PAIRS, PAIRS_REFERENCE)
    (child,) = built("block_trees", TREE.replace("USED", ""), pairs)
    assert "while (i" not in child.text
    assert "int i " not in child.text
    assert passes(bench, pairs, child)
    assert built("block_trees", TREE.replace("USED", " + i"), pairs) == []
