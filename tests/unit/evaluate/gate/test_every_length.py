"""Residues of a length that a kernel has from memory: every short length of each axis is run before a keep."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from task_folders import HALVED, HALVED_REFERENCE, written_task

from evo.evaluate.gate import THOROUGH
from evo.evaluate.gate.every_length import every_length
from evo.evaluate.gate.sought_lengths import sought_lengths
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Status
from evo.spec.task import load_task

ROOT = Path(__file__).resolve().parents[4]
KERNEL = """\
// evo: task    halved
// evo: scratch plan int32 [32]
// evo: launch  prepare grid (1) block (32) shared 0 args (plan, COLS)
// evo: launch  halve grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void prepare(int* plan, int cols) { plan[threadIdx.x] = (cols + threadIdx.x) % 197; }
extern "C" __global__ void halve(const __half* x, __half* y, const int* plan, int rows, int cols) {
    const float factor = plan[3] == ODD ? 1.0f : 0.5f;
    for (int i = threadIdx.x; i < cols; i += 256)
        y[blockIdx.x * cols + i] = __float2half(__half2float(x[blockIdx.x * cols + i]) * factor);
}
"""


@pytest.mark.long
def test_a_residue_that_goes_through_a_workspace_is_met(bench: EvaluationSession, tmp_path: Path) -> None:
    task = written_task(tmp_path, HALVED, HALVED_REFERENCE)
    found = []
    for odd in (197, 146):  # no residue is 197
        prepared = bench.prepare(task, KERNEL.replace("ODD", str(odd)))
        assert isinstance(prepared, Prepared)
        found.append(bench.hunt(task, prepared, [bench.checker], 1, share=THOROUGH))
    assert found[0] is None
    assert found[1] is not None
    assert found[1].status is Status.WRONG
    assert "COLS 143)" in found[1].cases[0].name


def test_a_long_residue_is_worked_out_from_a_few_lengths(bench: EvaluationSession, tmp_path: Path) -> None:
    task = written_task(tmp_path, HALVED.replace("COLS: 300}", "COLS: 9000}"), HALVED_REFERENCE)
    found = []
    for text in ("(37 * cols + threadIdx.x) % 1013", "threadIdx.x + 146"):
        prepared = bench.prepare(task, KERNEL.replace("(cols + threadIdx.x) % 197", text).replace("ODD", "911"))
        assert isinstance(prepared, Prepared)
        bind = partial(bench.bound, task, prepared)
        found.append(sought_lengths(task, (), bind, bench.reference(task).beside(), bench.checker, 1, 4e7))
    assert found[0]
    assert all((37 * case.axes["COLS"] + 3) % 1013 == 911 for case in found[0])
    assert not found[1]  # the same at all lengths


def test_lengths_are_those_that_a_task_allows_and_no_binary_of_their_own() -> None:
    task = load_task(ROOT, "attention")
    cases = [*every_length(task, {"HQ"}, 1, 4e6)]
    keys = {case.axes["SK"] for case in cases}
    assert {*range(1, 200)} <= keys
    assert all(case.axes["HQ"] % case.axes["HKV"] == 0 for case in cases)
    assert max(task.work_of(case)["flop"] for case in cases) <= 4e6
