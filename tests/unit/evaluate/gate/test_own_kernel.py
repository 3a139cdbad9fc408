"""Equal terms lean in a sum of one after the other: there a variant errs no less than the task's own kernel may."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from task_folders import written_task

from evo.evaluate.gate.own_kernel import is_rounded_alike
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
    step = Step(task.check[0], bench.checker)
    expectation = Expectation({"x": X}, {"y": np.array([TRUTH])}, None)
    row, _, _ = check_case(task, prepared.programs, expectation, step, {})
    assert row.status is Status.WRONG
    assert is_rounded_alike(task, partial(bench.own_programs, task), step, expectation, row) is is_alike
    assert not is_rounded_alike(task, None, step, expectation, row)
