"""Equal terms lean in a sum of one after the other: there a variant errs no less than the task's own kernel may."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from task_folders import written_task

from evo.evaluate.gate.own_kernel import is_own_too, wrong_at_near_ties
from evo.evaluate.gate.run_cases import Step, check_case
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Status
from evo.spec.expectation import Expectation
from evo.spec.task import Task

COLS = 4000
X = np.full((1, COLS), 0.1, np.float32)
TOTAL = float(np.cumsum(X, dtype=np.float32)[-1])
TRUTH = float(X.astype(np.float64).sum())
RTOL = abs(TOTAL / TRUTH - 1) / 2
TASK = f"""\
name: total
description: Sums of rows.
axes: {{ROWS: int, COLS: int}}
tensors:
  - {{name: x, role: in, dtype: float32, shape: [ROWS, COLS]}}
  - {{name: y, role: out, dtype: float32, shape: [ROWS]}}
tolerance: {{rtol: {RTOL:.3g}, atol: 0, rival_error_factor: 2, because: half of what such a sum errs}}
check: [{{name: one, ROWS: 1, COLS: {COLS}}}]
bench:
  one: {{ROWS: 1, COLS: {COLS}}}
"""
KERNEL = """\
// evo: task   total
// evo: launch total grid (ROWS) block (1) shared 0
extern "C" __global__ void total(const float* x, float* y, int rows, int cols) {
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += x[blockIdx.x * cols + i];
    y[blockIdx.x] = sum;
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    task = written_task(
        tmp_path_factory.mktemp("tasks"),
        TASK,
        "def inputs(case, rng):\n"
        '    return {"x": rng.random((case["ROWS"], case["COLS"]), dtype="float32")}\n'
        "def expected(inputs):\n"
        '    return {"y": inputs["x"].astype("float64").sum(axis=1)}\n',
    )
    (task.folder / "ladder" / "00_scalar.cu").write_text(KERNEL)
    return task


@pytest.mark.parametrize(
    ("change", "is_alike"),
    [
        (("int i = 0", "int i = 0"), True),
        (("sum += x", "sum = sum + x"), True),
        (("y[blockIdx.x] = sum", "y[blockIdx.x] = sum * 1.001f"), False),  # further off than the own one
        (("y[blockIdx.x] = sum", "y[blockIdx.x] = 0.0f * sum"), False),
        (("y[blockIdx.x] = sum", "y[blockIdx.x] = logf(-sum)"), False),  # no rounding
    ],
)
def test_what_the_own_kernel_errs_as_well_is_no_fault(
    bench: EvaluationSession, task: Task, change: tuple[str, str], is_alike: bool
) -> None:
    prepared = bench.prepare(task, KERNEL.replace(*change))
    assert isinstance(prepared, Prepared)
    step, own = Step(task.check[0], bench.checker), partial(bench.own_programs, task)
    expectation = Expectation({"x": X}, {"y": np.array([TRUTH])}, None)
    row, _, _ = check_case(task, prepared.programs, expectation, step, {})
    assert row.status is Status.WRONG
    assert is_own_too(task, prepared.programs, own, step, expectation, row) is is_alike
    assert not is_own_too(task, prepared.programs, None, step, expectation, row)


PLACES = """\
name: places
description: The place of the largest number, the first of several.
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: float16, shape: [ROWS, COLS]}
  - {name: y, role: out, dtype: int32, shape: [ROWS]}
tolerance: {rtol: 0, atol: 0, rival_error_factor: 2, because: places are exact}
check: [{name: few, ROWS: 96, COLS: 9}]
bench:
  few: {ROWS: 96, COLS: 9}
"""
SEARCH = """\
// evo: task   places
// evo: launch places grid (1) block (ROWS) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void places(const __half* x, int* y, int rows, int cols) {
    float most = -INFINITY;
    for (int i = 0; i < cols; ++i) {
        const float own = __half2float(x[threadIdx.x * cols + i]);
        const float value = SIZE;
        if (value > most) { most = value; y[threadIdx.x] = i; }
    }
}
"""


def places(folder: Path, first: str) -> Task:
    """first: what the task's own kernel compares."""
    task = written_task(
        folder,
        PLACES,
        "def inputs(case, rng):\n"
        '    return {"x": rng.standard_normal((case["ROWS"], case["COLS"])).astype("float16")}\n'
        'def expected(inputs):\n    return {"y": inputs["x"].argmax(axis=1).astype("int32")}\n',
    )
    (task.folder / "ladder" / "00_scalar.cu").write_text(SEARCH.replace("SIZE", first))
    return task


@pytest.mark.parametrize(
    ("first", "size", "is_wrong"),
    [
        ("own", "own", False),
        ("own", "own * 2.0f - 1.0f", False),
        ("own", "__int_as_float(__float_as_int(own) & ~0x2000)", True),  # without the last of ten bits
        ("own", "own == 0.0f && signbit(own) ? -1e-9f : own", True),
        ("own", "fminf(own, 20000.0f)", True),
        ("own", "own * 1e-38f", True),  # what is small is the same
        ("__half2float(__hmul(__float2half(own), __half(0.3f)))", "own", False),  # the first kernel rounds
        ("__half2float(__hmul(__float2half(own), __half(0.3f)))", "__half2float(__half(own * 0.7f))", False),
    ],
)
def test_near_ties_that_the_own_kernel_tells_apart_are_told_apart(
    bench: EvaluationSession, tmp_path: Path, first: str, size: str, is_wrong: bool
) -> None:
    task = places(tmp_path, first)
    prepared = bench.prepare(task, SEARCH.replace("SIZE", size))
    assert isinstance(prepared, Prepared)
    own = partial(bench.own_programs, task)
    found = wrong_at_near_ties(task, prepared.programs, own, bench.reference(task), bench.checker, 7)
    assert (found is not None) is is_wrong


@pytest.mark.parametrize(
    ("first", "size", "is_own"),
    [
        ("own + 65536.0f", "65536.0f + own", True),  # the first of several that floats do not tell apart
        ("own + 65536.0f", "own + 1048576.0f", False),  # of more than the own kernel does not
        ("own + 65536.0f", "-own", False),
        ("own", "own + 65536.0f", False),
    ],
)
def test_whole_numbers_that_the_own_kernel_gives_as_well_are_no_fault(
    bench: EvaluationSession, tmp_path: Path, first: str, size: str, is_own: bool
) -> None:
    task = places(tmp_path, first)
    prepared = bench.prepare(task, SEARCH.replace("SIZE", size))
    assert isinstance(prepared, Prepared)
    step, own = Step(task.check[0], bench.checker), partial(bench.own_programs, task)
    x = (1.0 + np.arange(96 * 9).reshape(96, 9) % 7 / 1024).astype(np.float16)
    expectation = Expectation({"x": x}, {"y": x.argmax(axis=1).astype(np.int32)}, None)
    row, _, _ = check_case(task, prepared.programs, expectation, step, {})
    assert row.status is Status.WRONG
    assert is_own_too(task, prepared.programs, own, step, expectation, row) is is_own
    assert not is_own_too(task, prepared.programs, None, step, expectation, row)
