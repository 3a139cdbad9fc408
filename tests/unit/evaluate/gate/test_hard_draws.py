"""Sizes and special values that the gate makes: where one number cancels there, an honest kernel may err with it."""

from __future__ import annotations

import pytest
from long_cases import long
from task_folders import written_task

from evo.evaluate.gate import QUICK
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.spec.input_distributions import SPECIAL
from evo.spec.reference import load_reference
from evo.spec.task import Task

TASK = """\
name: scores
description: What each element is beside its column's mean and deviation.
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [ROWS, COLS]}
  - {name: y, role: out, dtype: float32, shape: [ROWS, COLS]}
tolerance: {rtol: 2.0e-6, atol: 2.0e-6, rival_error_factor: 4, because: a test}
check: [{name: even, ROWS: 64, COLS: 128}, {name: ragged, ROWS: 37, COLS: 29}, {name: short, ROWS: 3, COLS: 7}]
bench:
  main: {ROWS: 256, COLS: 256}
"""
REFERENCE = """\
import numpy as np

def inputs(case, rng):
    return {"x": rng.random((case["ROWS"], case["COLS"]), dtype="float32") * 2 - 1}

def _scores(x):
    total, squares = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        total, squares = total + row, squares + row * row
    mean = total / x.dtype.type(len(x))
    return {"y": (x - mean) / np.sqrt(squares / x.dtype.type(len(x)) - mean * mean + x.dtype.type(1e-5))}

def expected(inputs):
    return _scores(inputs["x"].astype("float64"))

def trusted(inputs):
    return _scores(inputs["x"])
"""
KERNEL = """\
// evo: task   scores
// evo: launch scores grid (COLS) block (32) shared 0
extern "C" __global__ void scores(const float* x, float* y, int rows, int cols) {
    float sum = 0.0f, squares = 0.0f;
    for (int r = threadIdx.x; r < rows; r += 32) {
        float v = x[r * cols + blockIdx.x];
        sum += v;
        squares += v * v;
    }
    for (int by = 16; by > 0; by /= 2) {
        sum += __shfl_xor_sync(~0u, sum, by);
        squares += __shfl_xor_sync(~0u, squares, by);
    }
    float mean = sum / rows, scale = rsqrtf(squares / rows - mean * mean + 1e-5f);
    for (int r = threadIdx.x; r < rows; r += 32) y[r * cols + blockIdx.x] = (x[r * cols + blockIdx.x] - mean) * scale;
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), TASK, REFERENCE)


@pytest.mark.parametrize("seed", [long(4), 6])
def test_an_honest_kernel_stands_where_a_deviation_cancels(bench: EvaluationSession, task: Task, seed: int) -> None:
    prepared = bench.prepare(task, KERNEL)
    assert isinstance(prepared, Prepared)
    assert bench.hunt(task, prepared, [bench.checker], seed, share=QUICK) is None


def test_special_values_leave_room_for_honest_errors(task: Task) -> None:
    found = load_reference(task).derived(task.check[0], 1, SPECIAL)
    assert found is not None
    assert found.honest is not None
    assert found.honest.at_each() is not None


def test_a_kernel_that_is_off_at_a_short_size_is_found(bench: EvaluationSession, task: Task) -> None:
    prepared = bench.prepare(task, KERNEL.replace("* scale;", "* (rows > 8 ? scale : scale * 1.001f);"))
    assert isinstance(prepared, Prepared)
    assert bench.hunt(task, prepared, [bench.checker], 1, share=QUICK) is not None
