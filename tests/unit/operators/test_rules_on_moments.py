"""Two walks of a block with a tree behind each: shared by blocks one after the other, in wide loads, by shuffles."""

from __future__ import annotations

import pytest
from rule_children import built, passes, task_of
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.operators.one_change import clutter
from evo.spec.task import Task
from evo.spec.variant import Variant

TASK = """name: moments
axes: {N: int, C: int, P: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [N, C, P]}
  - {name: mean, role: out, dtype: float32, shape: [C]}
  - {name: var, role: out, dtype: float32, shape: [C]}
tolerance: {rtol: 1e-5, atol: 1e-5, rival_error_factor: 64, because: sums}
check: [{N: 4, C: 3, P: 64}, {N: 3, C: 5, P: 37}]
bench: {b: {N: 16, C: 8, P: 4096}}
work: {flop: N * C * P, bytes: 4 * N * C * P}
specials: {x: {infinities: undefined, nan: undefined}}
"""
REFERENCE = """import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["N"], case["C"], case["P"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"mean": x.mean(axis=(0, 2)), "var": x.var(axis=(0, 2))}
"""
KERNEL = """// evo: task moments
// evo: launch moments grid (C) block (32, 4) shared 0
extern "C" __global__ void moments(const float* x, float* mean, float* var, int N, int C, int P) {
    __shared__ float part[128];
    const int c = blockIdx.x, tid = threadIdx.y * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int n = 0; n < N; n++)
        for (int i = tid; i < P; i += blockDim.x * blockDim.y)
            sum += x[(n * C + c) * P + i];
    part[tid] = sum;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (tid < s) part[tid] += part[tid + s];
        __syncthreads();
    }
    const float m = part[0] / (N * P);
    __syncthreads();
    float squares = 0.0f;
    for (int n = 0; n < N; n++)
        for (int i = tid; i < P; i += blockDim.x * blockDim.y) {
            const float d = x[(n * C + c) * P + i] - m;
            squares += d * d;
        }
    part[tid] = squares;
    __syncthreads();
    for (int s = 1; s < 128; s *= 2) {
        if (tid % (2 * s) == 0) part[tid] += part[tid + s];
        __syncthreads();
    }
    if (tid == 0) {
        mean[c] = m;
        var[c] = part[0] / (N * P);
    }
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), TASK, REFERENCE)


def first(name: str, parent: str, task: Task) -> Variant:
    child, *_ = built(name, parent, task)
    assert clutter(parent, child.text) is None
    return child


def test_blocks_share_one_walk_after_the_other(bench: EvaluationSession, task: Task) -> None:
    """The loop with more turns is dealt out; the second time, launches that stood by name their arguments."""
    once = first("split_k", KERNEL, task)
    assert "i += blockDim.x * blockDim.y * SPLITS" in " ".join(once.text.replace("(", "").replace(")", "").split())
    twice = first("split_k", once.text, task)
    assert [len(line.grid) for line in twice.launches] == [3, 3, 1]
    assert len(twice.scratch) == 2
    assert built("split_k", twice, task) == []
    assert passes(bench, task, twice)


def test_trees_are_shuffles_and_loads_are_wide_however_a_thread_is_numbered(
    bench: EvaluationSession, task: Task
) -> None:
    shuffled = first("block_trees", KERNEL, task)
    assert shuffled.text.count("__syncthreads()") == 5
    wide = first("wide_access", first("wide_access", shuffled.text, task).text, task)
    assert wide.text.count("reinterpret_cast<const") == 2
    assert passes(bench, task, wide)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("tid < s)", "tid < s - 1)", id="one that is left out"),
        pytest.param("part[0] / (N * P);\n    __sync", "part[c % 2] / (N * P);\n    __sync", id="another place"),
        pytest.param("part[tid] = sum;", "part[tid / 2] = sum;", id="two in one place"),
        pytest.param("int s = 64;", "int s = 32;", id="half of it"),
    ],
)
def test_what_is_no_tree_over_all_threads_stays(task: Task, written: str, otherwise: str) -> None:
    assert written in KERNEL
    text = KERNEL.replace(written, otherwise, 1)
    found = built("block_trees", text, task)
    assert all("= sum;\n    __syncthreads" in child.text for child in found)  # the other tree is one


# The mean, and a first guess of the variance about the first element, by two trees in one loop.
BESIDE = """// evo: task moments
// evo: launch moments grid (C) block (128)
extern "C" __global__ void moments(const float* x, float* mean, float* var, int N, int C, int P) {
    __shared__ float first[128], second[128];
    const int c = blockIdx.x, t = threadIdx.x;
    const float about = x[c * P];
    float a = 0.0f, b = 0.0f;
    for (int n = 0; n < N; n++)
        for (int i = t; i < P; i += 128) {
            const float d = x[(n * C + c) * P + i] - about;
            a += d;
            b += d * d;
        }
    first[t] = a;
    second[t] = b;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (t < s) {
            first[t] += first[t + s];
            second[t] += second[t + s];
        }
        __syncthreads();
    }
    if (t == 0) {
        const float m = first[0] / (N * P);
        mean[c] = about + m;
        var[c] = second[0] / (N * P) - m * m;
    }
}
"""


@pytest.mark.parametrize(
    ("written", "otherwise", "trees"),
    [
        pytest.param("first", "first", 2, id="both are shuffles"),
        pytest.param("second[t] += second[t + s];", "second[t] += second[t + s] * 0.5f;", 0, id="one is no tree"),
        pytest.param("second[t] = b;", "second[t] = b;\n    mean[c] = a;", 0, id="another store in between"),
        pytest.param("second[t] += second[t + s];", "var[c] = t;", 0, id="another store in the loop"),
    ],
)
def test_trees_in_one_loop_are_taken_together(
    bench: EvaluationSession, task: Task, written: str, otherwise: str, trees: int
) -> None:
    """A loop that goes takes all with it that stands in it."""
    found = built("block_trees", BESIDE.replace(written, otherwise), task)
    assert [child.text.count("__shfl_xor_sync") for child in found] == [2 * trees] * bool(trees)
    for child in found:
        assert passes(bench, task, child)


# A tree in a function, which each call gives its numbers and maybe an operation.
CALLED = """// evo: task block_trees
// evo: launch short_rows grid (R) block (256)
struct Largest { static __device__ float of(float a, float b) { return fmaxf(a, b); } };
struct Total { static __device__ float of(float a, float b) { return a + b; } };
template <class Operation, int THREADS>
__device__ float over_block(float value) {
    __shared__ float part[THREADS];
    const int t = threadIdx.x;
    part[t] = value;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s /= 2) {
        if (t < s) part[t] = Operation::of(part[t], part[t + s]);
        __syncthreads();
    }
    const float whole = part[0];
    __syncthreads();
    return whole;
}
extern "C" __global__ void short_rows(const float* x, float* y, int R, int C) {
    const float* row = x + blockIdx.x * C;
    float value = -INFINITY, sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 256) value = fmaxf(value, row[c]);
    const float top = over_block<Largest, 256>(value);
    for (int c = threadIdx.x; c < C; c += 256) sum += expf(row[c] - top);
    sum = over_block<Total, 256>(sum);
    for (int c = threadIdx.x; c < C; c += 256) y[blockIdx.x * C + c] = expf(row[c] - top) / sum;
}
"""


@pytest.mark.parametrize(
    ("written", "otherwise", "places"),
    [
        pytest.param("over_block", "over_block", 2, id="an operation of each call"),
        pytest.param("Largest, 256>(value)", "Total, 256>(value) * 0.0f", 2, id="one operation"),
        pytest.param("over_block<Total, 256>(sum)", "x[0]", 2, id="one call"),
        pytest.param("part[t + s])", "part[t + s / 2])", 0, id="no tree"),
    ],
)
def test_a_tree_in_a_function_is_shuffles_there(
    bench: EvaluationSession, written: str, otherwise: str, places: int
) -> None:
    task = task_of("block_trees")
    found = built("block_trees", CALLED.replace(written, otherwise), task)
    assert [child.text.count("__shfl_xor_sync") for child in found] == [places] * bool(places)
    if written == otherwise:
        assert passes(bench, task, found[0])
