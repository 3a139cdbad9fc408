"""Threads that each work a row out of tiles in shared memory: a few lanes share one, and meet where they have to."""

from __future__ import annotations

import pytest
from rule_children import built, changed, passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task

RULE = "row_lanes"
TASK = """name: pulls
axes: {N: int}
tensors:
  - {name: at, role: in, dtype: float32, shape: [N], domain: fixed}
  - {name: w, role: in, dtype: float32, shape: [N]}
  - {name: pull, role: out, dtype: float32, shape: [N]}
  - {name: near, role: out, dtype: float32, shape: [N]}
tolerance: {rtol: 1e-4, atol: 1e-4, rival_error_factor: 64, because: sums}
check: [{N: 64}, {N: 45}]
bench: {b: {N: 2048}}
work: {flop: 6 * N * N, bytes: 16 * N}
"""
REFERENCE = """import numpy as np


def inputs(case, rng):
    return {name: rng.standard_normal(case["N"], dtype=np.float32) for name in ("at", "w")}


def expected(inputs):
    at, w = (inputs[name].astype(np.float64) for name in ("at", "w"))
    apart = np.abs(at[None, :] - at[:, None])
    return {"pull": (w[None, :] / (1 + apart)).sum(axis=1), "near": 1 + (w[None, :] - apart).max(axis=1)}
"""
# A tile's elements are set one a thread, behind a test whose other side sets them too.
PULLS = """// evo: task pulls
// evo: launch pulls grid (ceil_div(N, 32)) block (32)
extern "C" __global__ void pulls(const float* at, const float* w, float* pull, float* near, int N) {
    __shared__ float place[32], weight[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own = i < N ? at[i] : 0.0f, sum = 0.0f, best = -INFINITY;
    for (int j0 = 0; j0 < N; j0 += 32) {
        if (j0 + threadIdx.x < N) place[threadIdx.x] = at[j0 + threadIdx.x];
        else place[threadIdx.x] = 0.0f;
        weight[threadIdx.x] = j0 + threadIdx.x < N ? w[j0 + threadIdx.x] : 0.0f;
        __syncthreads();
        int count = min(32, N - j0);
        for (int j = 0; j < count; j++) {
            float apart = fabsf(place[j] - own);
            sum += weight[j] / (1.0f + apart);
            best = fmaxf(best, weight[j] - apart);
        }
        __syncthreads();
    }
    if (i < N) {
        pull[i] = sum;
        near[i] = 1.0f + best;
    }
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), TASK, REFERENCE)


def test_a_few_lanes_share_a_row(bench: EvaluationSession, task: Task) -> None:
    """Every store outside of the walk is one lane's; what the others read of it, they read behind a barrier."""
    first, *_ = built(RULE, PULLS, task)
    assert first.launches[0].block[0].text == "32 * 8"
    assert "for (int j = lane; j < count; j += 8)" in first.text
    assert first.text.count("if (lane == 0)") == 5
    assert "if (lane > 0) sum = 0;" in first.text
    assert passes(bench, task, first)


def test_rows_in_shared_memory_are_seen_by_all_lanes(bench: EvaluationSession, task: Task) -> None:
    """What lanes leave in one walk, each of them may read in the next one."""
    kept = changed(
        PULLS,
        ("weight[32];", "weight[32], pulled[32][33];"),
        (
            "            sum += weight[j] / (1.0f + apart);\n",
            "            pulled[threadIdx.x][j] = weight[j] / (1.0f + apart);\n",
        ),
        (
            "        __syncthreads();\n    }\n",
            "        for (int j = 0; j < count; j++) sum += pulled[threadIdx.x][count - 1 - j];\n"
            "        __syncthreads();\n    }\n",
        ),
    )
    first, *_ = built(RULE, kept, task)
    assert first.text.count("__syncwarp") == 5
    assert passes(bench, task, first)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("sum += weight[j] / (1.0f + apart);", "sum = sum * apart + weight[j];"), id="turns in order"),
        pytest.param(("int count =", "__syncwarp();\n        int count ="), id="lanes that meet"),
        pytest.param(("(ceil_div(N, 32))", "(ceil_div(N, 32) * 32)"), id="enough threads"),
        pytest.param(("block (32)", "block (32, 1, 2)"), id="threads of other axes"),
    ],
)
def test_other_rows_stay(task: Task, change: tuple[str, str]) -> None:
    assert built(RULE, changed(PULLS, change), task) == []
