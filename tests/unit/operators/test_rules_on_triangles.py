"""Products of which one triangle is worked out, and the other is its mirror."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task

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
  - {name: wide, N: 21, M: 77}
bench:
  big: {N: 256, M: 256}
work: {flop: N * M * M, bytes: 4 * N * M + 4 * M * M}
"""
GRAM_REFERENCE = """\
import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["N"], c["M"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"g": x.T @ x / x.shape[0]}
"""
GRAM = """\
// evo: task gram
// evo: launch gram grid (ceil_div(M, 16), ceil_div(M, 16)) block (16, 16)
extern "C" __global__ void gram(const float* x, float* g, int N, int F) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= F || j >= F || j < i) return;
    float sum = 0.0f;
    for (int n = 0; n < N; n++) sum += x[n * F + i] * x[n * F + j];
    g[i * F + j] = sum / N;
    g[j * F + i] = sum / N;
}
"""
BY_ROWS = """\
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
MIRROR = "    g[j * F + i] = sum / N;\n"
TRIANGLES: dict[str, tuple[tuple[str, str], ...]] = {
    "upper": (),
    "lower, the diagonal once": (("j < i", "j > i"), (MIRROR, f"    if (i != j) {MIRROR}")),
    "mirror first": ((MIRROR, ""), ("    g[i * F", f"{MIRROR}    g[i * F")),
}


@pytest.fixture
def gram(tmp_path: Path) -> Task:
    (tmp_path / "gram" / "ladder").mkdir(parents=True)
    (tmp_path / "gram" / "task.yaml").write_text(GRAM_TASK)
    (tmp_path / "gram" / "reference.py").write_text(GRAM_REFERENCE)
    return read_task(tmp_path / "gram")


@pytest.mark.parametrize("idiom", TRIANGLES)
def test_tiles_of_a_triangle_store_its_mirror(bench: EvaluationSession, gram: Task, idiom: str) -> None:
    product, *_ = built("tile_product", changed(GRAM, *TRIANGLES[idiom]), gram)
    assert passes(bench, gram, product)


def test_tensor_cores_store_a_mirror(bench: EvaluationSession, gram: Task) -> None:
    for name, old, new in (("task.yaml", "x, role: in, dtype: float32", "x, role: in, dtype: float16"),
                           ("reference.py", "dtype=np.float32)", "dtype=np.float32).astype(np.float16)")):  # fmt: skip
        file = gram.folder / name
        file.write_text(changed(file.read_text(), (old, new)))
    product = "__half2float(x[n * F + i]) * __half2float(x[n * F + j])"
    halves = changed(GRAM, ("extern", "#include <cuda_fp16.h>\nextern"), ("const float* x", "const half* x"),
                     ("x[n * F + i] * x[n * F + j]", product))  # fmt: skip
    task = read_task(gram.folder)
    child, *_ = built("tile_mma", halves, task)
    assert passes(bench, task, child)


@pytest.mark.parametrize("new", ["", MIRROR.replace("F + i", "F + i - 1"), MIRROR.replace("j * F + i", "i * F + j")])
def test_a_triangle_that_is_not_mirrored_is_left_alone(gram: Task, new: str) -> None:
    assert not built("tile_product", changed(GRAM, (MIRROR, new)), gram)


@pytest.mark.parametrize("guard", ["i >= F || j >= F || j < i", "j < i || i >= F || j >= F"])
def test_a_thread_of_several_rows_does_not_leave_by_the_first_ones_triangle(gram: Task, guard: str) -> None:
    text = changed(GRAM, ("i >= F || j >= F || j < i", guard))
    assert built("coarsen", changed(text, (guard, "i >= F || j >= F")), gram)
    assert not any("[I_REPEAT]" in child.text or "[J_REPEAT]" in child.text for child in built("coarsen", text, gram))


def test_halves_that_are_mirrored_are_whole_products_and_blocks_of_their_own(
    bench: EvaluationSession, gram: Task
) -> None:
    product, *_ = built("tile_product", BY_ROWS, gram)
    (spread,) = built("spread_loop", BY_ROWS, gram)
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
    assert not built("tile_product", changed(BY_ROWS, (old, new)), gram)
