"""Products of which some elements are another value, as the scores of causal attention are."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task

TASK = """\
name: scores
axes: {N: int, T: int, D: int}
tensors:
  - {name: q, role: in, dtype: float32, shape: [N, T, D]}
  - {name: k, role: in, dtype: float32, shape: [N, T, D]}
  - {name: s, role: out, dtype: float32, shape: [N, T, T]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 8, because: float32 sums}
check:
  - {name: whole, N: 2, T: 96, D: 32}
  - {name: ragged, N: 3, T: 45, D: 20}
bench:
  big: {N: 8, T: 256, D: 64}
work: {flop: 2 * N * T * T * D, bytes: 8 * N * T * D + 4 * N * T * T}
"""
REFERENCE = """\
import numpy as np


def inputs(c, rng):
    shape = (c["N"], c["T"], c["D"])
    return {name: rng.standard_normal(shape, dtype=np.float32) for name in "qk"}


def expected(inputs):
    q, k = (inputs[name].astype(np.float64) for name in "qk")
    s = 0.125 * q @ k.transpose(0, 2, 1)
    return {"s": np.where(np.tril(np.ones(s.shape[1:], bool)), s, -10000.0)}
"""
KERNEL = """\
// evo: task scores
// evo: launch scores grid (ceil_div(N * T * T, 128)) block (128)
extern "C" __global__ void scores(const float* q, const float* k, float* s, int N, int T, int D) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= N * T * T) return;
    int key = at % T, query = at / T % T, n = at / (T * T);
    if (key > query) {
        s[at] = -10000.0f;
        return;
    }
    float sum = 0.0f;
    for (int i = 0; i < D; i++) sum += q[(n * T + query) * D + i] * k[(n * T + key) * D + i];
    s[at] = 0.125f * sum;
}
"""
EARLY = """\
    if (key > query) {
        s[at] = -10000.0f;
        return;
    }
"""
IDIOMS: dict[str, tuple[tuple[str, str], ...]] = {
    "left early": (),
    "the other way round": (("if (key > query) {", "if (!(query >= key)) {"),),
    "a depth that is a factor of what is passed": (
        ("block (128)", "block (128) args (q, k, s, N, T, N * D)"),
        ("int D) {", "int width) {\n    int D = width / N;"),
    ),
    "chosen when stored": ((EARLY, ""), ("= 0.125f * sum", "= key > query ? -10000.0f : 0.125f * sum")),
}


@pytest.fixture
def scores(tmp_path: Path) -> Task:
    (tmp_path / "scores" / "ladder").mkdir(parents=True)
    (tmp_path / "scores" / "task.yaml").write_text(TASK)
    (tmp_path / "scores" / "reference.py").write_text(REFERENCE)
    return read_task(tmp_path / "scores")


@pytest.mark.parametrize("idiom", IDIOMS)
def test_masked_elements_are_stored_too(bench: EvaluationSession, scores: Task, idiom: str) -> None:
    product, *_ = built("tile_product", changed(KERNEL, *IDIOMS[idiom]), scores)
    assert passes(bench, scores, product)


def test_a_stream_of_tiles_knows_masks(bench: EvaluationSession, scores: Task) -> None:
    stream, *_ = built("tile_stream", KERNEL, scores)
    assert passes(bench, scores, stream)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s[at] = -10000.0f;\n", ""),  # elements that nothing stores
        ("s[at] = -10000.0f;", "s[at - 1] = -10000.0f;"),
        ("key > query", "q[at % D] > 0.0f"),
    ],
)
def test_what_masks_nothing_is_left_alone(scores: Task, old: str, new: str) -> None:
    assert built("tile_product", KERNEL, scores)
    assert not built("tile_product", changed(KERNEL, (old, new)), scores)
