"""Products of which one triangle is worked out, and the other is its mirror."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task

GRAM_TASK = """\
name: gram
axes: {N: int, F: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [N, F]}
  - {name: g, role: out, dtype: float32, shape: [F, F]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 8, because: float32 sums}
check:
  - {name: whole, N: 32, F: 64}
  - {name: ragged, N: 21, F: 77}
bench:
  big: {N: 256, F: 256}
work: {flop: N * F * F, bytes: 4 * N * F + 4 * F * F}
"""
GRAM_REFERENCE = """\
import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["N"], c["F"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"g": 0.5 * x.T @ x}
"""
GRAM = """\
// evo: task gram
// evo: launch gram grid (ceil_div(F, 16), ceil_div(F, 16)) block (16, 16)
extern "C" __global__ void gram(const float* x, float* g, int N, int F) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= F || j >= F || j < i) return;
    float sum = 0.0f;
    for (int n = 0; n < N; n++) sum += x[n * F + i] * x[n * F + j];
    g[i * F + j] = 0.5f * sum;
    g[j * F + i] = 0.5f * sum;
}
"""
MIRROR = "    g[j * F + i] = 0.5f * sum;\n"
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
