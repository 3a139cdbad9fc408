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


GRAM_TASK = """\
name: gram
axes: {N: int, M: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [N, M]}
  - {name: g, role: out, dtype: float32, shape: [M, M]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 8, because: float32 sums}
check:
  - {name: whole, N: 32, M: 64}
  - {name: ragged, N: 45, M: 19}
bench:
  big: {N: 256, M: 256}
work: {flop: N * M * M, bytes: 4 * N * M}
"""
GRAM = """\
// evo: task gram
// evo: launch gram grid (ceil_div(M, 64)) block (64)
extern "C" __global__ void gram(const float* x, float* g, int n, int m) {
    int i, j = blockIdx.x * blockDim.x + threadIdx.x, k;
    if (j < m) {
        for (k = j; k < m; k++) {
            float sum = 0.0f;
            for (i = 0; i < n; i++) {
                sum += x[i * m + j] * x[i * m + k];
            }
            g[j * m + k] = sum / n;
            g[k * m + j] = sum / n;
        }
    }
}
"""
GRAM_REFERENCE = """\
import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["N"], c["M"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"g": x.T @ x / x.shape[0]}
"""


@pytest.fixture
def gram(tmp_path: Path) -> Task:
    (tmp_path / "gram" / "ladder").mkdir(parents=True)
    (tmp_path / "gram" / "task.yaml").write_text(GRAM_TASK)
    (tmp_path / "gram" / "reference.py").write_text(GRAM_REFERENCE)
    return read_task(tmp_path / "gram")


def test_halves_that_are_mirrored_are_whole_products_and_blocks_of_their_own(
    bench: EvaluationSession, gram: Task
) -> None:
    product, *_ = built("tile_product", GRAM, gram)
    (spread,) = built("spread_loop", GRAM, gram)
    assert "if (k >= j)" in spread.text
    again, *_ = built("tile_product", spread, gram)
    assert all(passes(bench, gram, child) for child in (product, spread, again))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k = j; k < m", "k = j + 1; k < m"),  # no diagonal
        ("g[k * m + j] = sum / n", "g[k * m + j] = sum / m"),
        ("g[k * m + j] = sum / n", "g[k * m + j] = sum / (k + 1)"),
        ("g[k * m + j] = sum / n", "g[j * m + j] = sum / n"),
        ("x[i * m + j] * x[i * m + k]", "x[i * m + j] * g[i * m + k]"),
    ],
)
def test_halves_that_are_not_the_same_are_no_product(gram: Task, old: str, new: str) -> None:
    assert not built("tile_product", changed(GRAM, (old, new)), gram)
