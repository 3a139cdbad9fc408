"""Rules on sums and best elements of integers, whose values come from data as those of floats do."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built
from simulator import simulator

from evo.evaluate.pipeline import Job, evaluate
from evo.operators import RULES
from evo.spec.task import Task, read_task
from evo.spec.variant import parse_variant

BY_NAME = {rule.name: rule for rule in RULES}
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
    folder = tmp_path / "nearest"
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "reference.py").write_text(REFERENCE, encoding="utf-8")
    return read_task(folder)


def test_lanes_share_the_search_for_the_nearest_record(task: Task) -> None:
    """Few bits in common make many equal ones, of which the first counts."""
    (child,) = built(BY_NAME["row_lanes"], parse_variant(NEAREST), task)
    assert "for (int t = lane; t < T; t += 32) {" in child.text
    assert "theirs < best || (theirs == best && their_other < at)" in child.text
    with simulator() as session:
        assert evaluate(Job(task=task, text=child.text, path="child.cu", upto="check"), session).status.passed


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
    assert written in NEAREST
    assert len(built(BY_NAME["row_lanes"], parse_variant(NEAREST.replace(written, otherwise)), task)) == 1


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
    assert written in NEAREST
    assert built(BY_NAME["row_lanes"], parse_variant(NEAREST.replace(written, otherwise)), task) == []
