"""Rules on sums and best elements of integers, whose values come from data as those of floats do."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task

NEAREST = """\
// evo: task nearest
// evo: launch nearest grid (ceil_div(Q, 128)) block (128) shared 0
// for each code of 128 bits the one that differs in the fewest
extern "C" __global__ void nearest(const unsigned int* codes, const unsigned int* table, int* place, int Q, int T) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= Q) return;
    int best = 1 << 30;
    int at = -1;
    for (int t = 0; t < T; t++) {
        int different = 0;
        for (int w = 0; w < 4; w++) {
            different += __popc(codes[q * 4 + w] ^ table[t * 4 + w]);
        }
        if (different < best) {
            best = different;
            at = t;
        }
    }
    place[q] = at;
}
"""
TASK = """\
name: nearest
axes: {Q: int, T: int}
tensors:
  - {name: codes, role: in, dtype: uint32, shape: [Q, 4], low: 0, high: 15}
  - {name: table, role: in, dtype: uint32, shape: [T, 4], low: 0, high: 15}
  - {name: place, role: out, dtype: int32, shape: [Q]}
tolerance: {rtol: 0, atol: 0, rival_error_factor: 1, because: integers}
check:
  - {name: whole, Q: 64, T: 96}
  - {name: ragged, Q: 37, T: 51}
bench:
  big: {Q: 1024, T: 1024}
work: {flop: 0, bytes: 20 * Q + 16 * T}
"""
REFERENCE = """\
import numpy as np


def inputs(shapes, rng):
    return {
        "codes": rng.integers(0, 16, (shapes["Q"], 4), dtype=np.uint32),
        "table": rng.integers(0, 16, (shapes["T"], 4), dtype=np.uint32),
    }


def expected(inputs):
    different = np.bitwise_count(inputs["codes"][:, None] ^ inputs["table"][None]).sum(axis=-1, dtype=np.int64)
    return {"place": different.argmin(axis=1).astype(np.int32)}
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return written_task(tmp_path, TASK, REFERENCE)


def test_lanes_share_the_search_for_the_nearest_record(bench: EvaluationSession, task: Task) -> None:
    """Few bits in common make many equal ones, of which the first counts."""
    (child,) = built("row_lanes", NEAREST, task)
    assert "for (int t = lane; t < T; t += 32) {" in child.text
    assert "theirs < best || (theirs == best && their_other < at)" in child.text
    assert passes(bench, task, child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("different < best", "best > different"),
        ("different < best", "!(best <= different)"),
        ("int different = 0;\n", "unsigned different = 0;\n"),
        ("at = t;", "at = 2 * t + 1;"),  # rises with the turns
    ],
)
def test_idioms_of_the_nearest(task: Task, written: str, otherwise: str) -> None:
    assert len(built("row_lanes", changed(NEAREST, (written, otherwise)), task)) == 1


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("different < best", "different <= best"),  # the last of equal ones
        ("at = t;", "at = T - t;"),  # the first of equal ones has the larger place
        ("at = t;", "at = at + t;"),
        ("best = different;", "best = different + 1;"),
        ("w < 4", "w < 3"),  # lanes would leave gaps between what they read
    ],
)
def test_what_is_no_search_for_the_first_nearest(task: Task, written: str, otherwise: str) -> None:
    assert built("row_lanes", changed(NEAREST, (written, otherwise)), task) == []
