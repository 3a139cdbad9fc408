"""Rules on kernels that write over what they read: no thread may read what another one writes meanwhile."""

from __future__ import annotations

import pytest
from rule_children import built, changed
from task_folders import written_task

from evo.spec.task import Task
from evo.spec.variant import Variant

UNIT_COLUMNS = """\
// evo: task unit_columns
// evo: launch unit_columns grid (ceil_div(C, 128)) block (128) shared 0
// every column gets the length 1
extern "C" __global__ void unit_columns(float* m, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < C) {
        float length = 0.0f;
        for (int r = 0; r < R; ++r) {
            float v = m[r * C + c];
            length += v * v;
        }
        length = sqrtf(length) + 1e-12f;
        for (int r = 0; r < R; ++r) m[r * C + c] /= length;
    }
}
"""
TASK = """\
name: unit_columns
axes: {R: int, C: int}
tensors:
  - {name: m, role: inout, dtype: float32, shape: [R, C]}
tolerance: {rtol: 1e-5, atol: 1e-6, rival_error_factor: 4, because: sums in another order}
check:
  - {name: whole, R: 64, C: 128}
  - {name: ragged, R: 37, C: 51}
bench:
  big: {R: 4096, C: 1024}
work: {flop: 3 * R * C, bytes: 8 * R * C}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("tasks"), TASK, "def expected(inputs):\n    return {}\n")


def children(name: str, task: Task, *changes: tuple[str, str]) -> list[Variant]:
    return built(name, changed(UNIT_COLUMNS, *changes), task)


def test_columns_are_shared_in_place(task: Task) -> None:
    """Threads that repeat the last column stay out of the loop that writes, and nothing asks who is first."""
    first, *_ = children("column_lanes", task)
    assert "if (is_inside) for (int r = lane; r < R; r += LANES) m[r * C + c] /= length;" in first.text
    assert "is_first" not in first.text


def test_a_row_of_another_lane_is_not_read(task: Task) -> None:
    assert not children("column_lanes", task, ("c] /= length", "c] = m[(R - 1 - r) * C + c] / length"))


def test_an_output_past_the_end_reads_nothing_that_is_written(task: Task) -> None:
    """Its reads would be those of the last output, whose thread writes."""
    assert not children("coarsen", task)
    alone = ("            float v = m[r * C + c];\n            length += v * v;", "            length += r;")
    assert children("coarsen", task, alone)
