"""A block's walk that several blocks share: whatever its threads come to is combined by a second launch."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes, tidy
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task
from evo.spec.variant import Variant

RULE = "split_k"
TASK = """name: best_place
axes: {N: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [N]}
  - {name: place, role: out, dtype: int32, shape: [1]}
tolerance: {rtol: 1e-6, atol: 1e-6, rival_error_factor: 2, because: a place}
check: [{N: 4096}, {N: 1000}, {N: 3}]
bench: {b: {N: 1000000}}
work: {flop: N, bytes: 4 * N}
specials: {x: {infinities: undefined, nan: undefined}}
"""
REFERENCE = """import numpy as np


def inputs(case, rng):
    return {"x": rng.integers(-99, 99, case["N"]).astype(np.float32)}


def expected(inputs):
    return {"place": np.array([inputs["x"].argmax()], np.int32)}
"""
TREE = """// evo: task best_place
// evo: launch best grid (1) block (128)
extern "C" __global__ void best(const float* x, int* place, int N) {
    __shared__ float top[128];
    __shared__ int where[128];
    int t = threadIdx.x, at = 0;
    float v = -INFINITY;
    for (int i = t; i < N; i += 128) {
        if (x[i] > v) { v = x[i]; at = i; }
    }
    top[t] = v;
    where[t] = at;
    __syncthreads();
    for (int s = 64; s > 0; s /= 2) {
        if (t < s && (top[t + s] > top[t] || (top[t + s] == top[t] && where[t + s] < where[t]))) {
            top[t] = top[t + s];
            where[t] = where[t + s];
        }
        __syncthreads();
    }
    if (t == 0) place[0] = where[0];
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), TASK, REFERENCE)


def children(task: Task, *changes: tuple[str, str]) -> list[Variant]:
    return tidy(RULE, changed(TREE, *changes), task)


def test_the_best_place_of_a_whole_array_is_found_by_several_blocks(bench: EvaluationSession, task: Task) -> None:
    """Most of the largest are equal, and the first of them counts; of three elements most parts have none."""
    first, *_ = children(task)
    assert [line.grid[-1].text for line in first.launches] == ["SPLITS", "1"]
    assert [(each.name, each.dtype) for each in first.scratch] == [("v_parts", "float32"), ("at_parts", "int32")]
    walk, _, combine = first.text.partition("best_combine(")
    assert "__shared__" not in walk
    assert "x[i]" not in combine
    assert passes(bench, task, first)


def test_a_pointer_that_walks_along_is_the_element_of_its_turn(bench: EvaluationSession, task: Task) -> None:
    """The loop over the tree's halves, which stays as it is, is no reason not to see that."""
    found = children(
        task,
        ("    float v =", "    const float* p = x + t;\n    float v ="),
        ("if (x[i] > v) { v = x[i]; at = i; }", "if (*p > v) { v = *p; at = i; }\n        p += 128;"),
    )
    assert found
    assert all("*p" not in child.text for child in found)
    assert all(passes(bench, task, child) for child in found)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((("    float v =", "    place[0] = 0;\n    float v ="),), id="a store in front"),
        pytest.param((("at = i; }\n", "at = i; }\n        __syncthreads();\n"),), id="a barrier in the walk"),
        pytest.param((("(x[i] > v)", "(x[i] >= v)"),), id="the last of equal ones"),
        pytest.param((("(128)", "(64, 1, 2)"),), id="threads of three axes"),
    ],
)
def test_a_walk_that_is_more_than_a_choice_stays(task: Task, changes: tuple[tuple[str, str], ...]) -> None:
    assert children(task, *changes) == []


def test_many_blocks_keep_their_walks(task: Task) -> None:
    assert children(task, ("grid (1)", "grid (1024)")) == []


LAGS = (
    TASK.replace("best_place", "lags")
    .replace("axes: {N: int}", "axes: {S: int, N: int}")
    .replace("shape: [N]", "shape: [S, N]")
    .replace(
        "{name: place, role: out, dtype: int32, shape: [1]}", "{name: c, role: out, dtype: float32, shape: [S, 32]}"
    )
)
LAGS = LAGS.replace("rtol: 1e-6, atol: 1e-6, rival_error_factor: 2", "rtol: 1e-4, atol: 1e-3, rival_error_factor: 64")
LAGS = LAGS.replace("[{N: 4096}, {N: 1000}, {N: 3}]", "[{S: 2, N: 512}, {S: 3, N: 101}, {S: 1, N: 20}]")
LAGS = LAGS.replace("{b: {N: 1000000}}", "{b: {S: 256, N: 2048}}").replace("work: {flop: N, bytes: 4 * N}", "work: {}")
LAG_SUMS = """import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["S"], case["N"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    n = x.shape[1]
    return {"c": np.stack([(x[:, : max(n - k, 0)] * x[:, k:]).sum(axis=1) for k in range(32)], axis=1)}
"""
LAG = """// evo: task lags
// evo: launch correlate grid (S) block (32)
extern "C" __global__ void correlate(const float* x, float* c, int S, int N) {
    int lag = threadIdx.x;
    const float* row = x + blockIdx.x * N;
    float sum = 0.0f;
    for (int i = 0; i + lag < N; i++) sum += row[i] * row[i + lag];
    c[blockIdx.x * 32 + lag] = sum;
}
"""


def test_a_walk_that_ends_elsewhere_for_each_thread_is_one_too(bench: EvaluationSession, tmp_path: Path) -> None:
    """Some threads have nothing to walk at all; as many threads as there are lags stay."""
    task = written_task(tmp_path, LAGS, LAG_SUMS)
    first, *_ = built(RULE, LAG, task)
    assert passes(bench, task, first)
    assert built("block_size", LAG, task) == []


ONE_QUERY = """name: one_query
axes: {S: int}
tensors:
  - {name: q, role: in, dtype: float32, shape: [2, 32]}
  - {name: k, role: in, dtype: float32, shape: [2, S, 32]}
  - {name: v, role: in, dtype: float32, shape: [2, S, 32]}
  - {name: o, role: out, dtype: float32, shape: [2, 32]}
tolerance: {rtol: 1e-3, atol: 1e-4, rival_error_factor: 8, because: sums of float32}
check: [{S: 64}, {S: 19}, {S: 1}]
bench: {b: {S: 4096}}
work: {}
"""
ONE_QUERY_REFERENCE = """import numpy as np


def inputs(case, rng):
    shapes = {"q": (2, 32), "k": (2, case["S"], 32), "v": (2, case["S"], 32)}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def expected(inputs):
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    scores = np.einsum("hd,hsd->hs", q, k) / 2
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return {"o": np.einsum("hs,hsd->hd", weights, v) / weights.sum(axis=1, keepdims=True)}
"""
BLOCK_QUERY = """// evo: task one_query
// evo: launch attend grid (2) block (32)
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int S) {
    __shared__ float part[32];
    int h = blockIdx.x, d = threadIdx.x;
    float m = -1e30f, l = 0.0f, acc = 0.0f;
    for (int s = 0; s < S; ++s) {
        part[d] = q[h * 32 + d] * k[(h * S + s) * 32 + d];
        __syncthreads();
        float score = 0.0f;
        for (int i = 0; i < 32; ++i) score += part[i];
        score *= 0.5f;
        __syncthreads();
        float top = fmaxf(m, score);
        float keep = expf(m - top), p = expf(score - top);
        l = l * keep + p;
        acc = acc * keep + p * v[(h * S + s) * 32 + d];
        m = top;
    }
    o[h * 32 + d] = acc / l;
}
"""
ARRAY_QUERY = """// evo: task one_query
// evo: launch attend grid (2) block (32)
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int S) {
    int h = blockIdx.x, e = threadIdx.x % 8;
    float x[4], acc[4];
    for (int i = 0; i < 4; ++i) { x[i] = q[h * 32 + e + 8 * i]; acc[i] = 0.0f; }
    float m = -INFINITY, l = 0.0f;
    for (int s = 0; s < S; ++s) {
        float dot = 0.0f;
        for (int i = 0; i < 4; ++i) dot += x[i] * k[(h * S + s) * 32 + e + 8 * i];
        for (int j = 4; j > 0; j /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, j);
        float top = fmaxf(m, dot * 0.5f), keep = expf(m - top), p = expf(dot * 0.5f - top);
        l = l * keep + p;
        for (int i = 0; i < 4; ++i) acc[i] = acc[i] * keep + p * v[(h * S + s) * 32 + e + 8 * i];
        m = top;
    }
    if (threadIdx.x < 8) {
        for (int i = 0; i < 4; ++i) o[h * 32 + e + 8 * i] = acc[i] / l;
    }
}
"""


@pytest.fixture(scope="module")
def one_query(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), ONE_QUERY, ONE_QUERY_REFERENCE)


def test_the_keys_of_one_query_are_shared_by_blocks(bench: EvaluationSession, one_query: Task) -> None:
    """A maximum and the sums scaled with it are combined, behind barriers too; of one key most parts have none."""
    first, *_ = tidy(RULE, BLOCK_QUERY, one_query)
    assert [each.name for each in first.scratch] == ["m_parts", "l_parts", "acc_parts"]
    assert "__syncthreads" not in first.text.partition("attend_combine(")[2]
    assert passes(bench, one_query, first)


def test_sums_in_an_array_of_a_thread_are_combined_by_elements(bench: EvaluationSession, one_query: Task) -> None:
    """What only the walk asks for is gone from the second kernel; no part begins with an infinite maximum."""
    first, *_ = tidy(RULE, ARRAY_QUERY, one_query)
    walk, _, combine = first.text.partition("attend_combine(")
    assert "acc_3_parts" in walk
    assert "x[" not in combine
    assert "m = -3.402823466e+38f, acc[0] = 0, acc[1] = 0, acc[2] = 0, acc[3] = 0;" in walk
    assert passes(bench, one_query, first)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        pytest.param(BLOCK_QUERY, ("keep = expf(m - top)", "keep = expf(0.5f * (m - top))"), id="another scale"),
        pytest.param(ARRAY_QUERY, ("acc[i] * keep", "acc[i] * p"), id="an array that is scaled otherwise"),
        pytest.param(ARRAY_QUERY, ("acc[i] * keep", "acc[i] * 0.5f"), id="an array that fades"),
        pytest.param(BLOCK_QUERY, ("acc / l", "acc / l + part[0]"), id="what the last turn leaves"),
        pytest.param(BLOCK_QUERY, ("part[d] = q", "part[d] += q"), id="what the turn before has left"),
    ],
)
def test_walks_that_come_to_something_else_stay(one_query: Task, text: str, change: tuple[str, str]) -> None:
    assert tidy(RULE, changed(text, change), one_query) == []


def test_a_sum_that_begins_with_a_number_counts_it_once(bench: EvaluationSession, tmp_path: Path) -> None:
    task = written_task(tmp_path, LAGS, changed(LAG_SUMS, ("range(32)], axis=1)", "range(32)], axis=1) + x[:, :1]")))
    first, *_ = built(RULE, changed(LAG, ("sum = 0.0f", "sum = row[0]")), task)
    assert "sum = 0;" in first.text
    assert passes(bench, task, first)


def test_what_is_stored_through_a_pointer_of_the_kernel_stays(bench: EvaluationSession, tmp_path: Path) -> None:
    """A pointer that is only stored through is not an array that nobody reads."""
    through = ("    float sum", "    float* out = c + blockIdx.x * 32;\n    float sum")
    task = written_task(tmp_path, LAGS, LAG_SUMS)
    first, *_ = built(RULE, changed(LAG, through, ("c[blockIdx.x * 32 + lag]", "out[lag]")), task)
    assert passes(bench, task, first)


PRODUCT = """name: tall_product
axes: {N: int, K: int}
tensors:
  - {name: a, role: in, dtype: float32, shape: [K, N]}
  - {name: b, role: in, dtype: float32, shape: [K, N]}
  - {name: c, role: out, dtype: float32, shape: [N, N]}
tolerance: {rtol: 1e-4, atol: 1e-3, rival_error_factor: 64, because: sums}
check: [{N: 16, K: 64}, {N: 13, K: 45}]
bench: {b: {N: 64, K: 4096}}
work: {flop: 2 * N * N * K, bytes: 8 * N * K}
"""
PRODUCTS = """import numpy as np


def inputs(case, rng):
    return {name: rng.standard_normal((case["K"], case["N"]), dtype=np.float32) for name in "ab"}


def expected(inputs):
    return {"c": inputs["a"].astype(np.float64).T @ inputs["b"]}
"""
FOUR_EACH = """// evo: task tall_product
// evo: launch product grid (ceil_div(N, 16), ceil_div(N, 16)) block (8, 8)
#define PER 2
extern "C" __global__ void product(const float* a, const float* b, float* c, int N, int K) {
    __shared__ float left[8][16], right[8][16];
    int row = blockIdx.y * 16 + threadIdx.y * PER, col = blockIdx.x * 16 + threadIdx.x * PER;
    float sum[PER][PER] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int e = threadIdx.y * 8 + threadIdx.x; e < 128; e += 64) {
            int k = k0 + e / 16, m = blockIdx.y * 16 + e % 16, n = blockIdx.x * 16 + e % 16;
            left[e / 16][e % 16] = k < K && m < N ? a[k * N + m] : 0.0f;
            right[e / 16][e % 16] = k < K && n < N ? b[k * N + n] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < PER; ++i)
                for (int j = 0; j < PER; ++j)
                    sum[i][j] += left[k][threadIdx.y * PER + i] * right[k][threadIdx.x * PER + j];
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i)
        for (int j = 0; j < PER; ++j)
            if (row + i < N && col + j < N) c[(row + i) * N + col + j] = sum[i][j];
}
"""


def test_sums_in_a_threads_array_are_shared_too(bench: EvaluationSession, tmp_path: Path) -> None:
    """Of tiles: each part fills its own, and the second launch, which fills none, stores as the first one did."""
    task = written_task(tmp_path, PRODUCT, PRODUCTS)
    first, *_ = built(RULE, FOUR_EACH, task)
    assert [each.name for each in first.scratch] == ["sum_parts"]
    walk, _, combine = first.text.partition("product_combine(")
    assert "c[" not in walk
    assert "left" not in combine
    assert passes(bench, task, first)
    again = changed(FOUR_EACH, ("sum[PER][PER] = {}", "sum[PER][PER] = {{1.0f, 0.0f}, {0.0f, 0.0f}}"))
    assert built(RULE, again, task) == []  # each part would begin with it
    faded = changed(FOUR_EACH, ("sum[i][j] += ", "sum[i][j] = sum[i][j] * 0.5f + "))
    assert built(RULE, faded, task) == []
