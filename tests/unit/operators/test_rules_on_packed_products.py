"""Products whose factors are worked out of packed words, of rows that data names, or of what data chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task

TASK = """\
name: packed
axes: {V: int, M: int, N: int, K: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [V, K]}
  - {name: place, role: in, dtype: int32, shape: [M], domain: fixed}
  - {name: q, role: in, dtype: uint32, shape: [K // 8, N], domain: fixed}
  - {name: s, role: in, dtype: float32, shape: [N, K // 32]}
  - {name: y, role: out, dtype: float32, shape: [M, N]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 8, because: float32 sums}
check:
  - {name: whole, V: 40, M: 64, N: 64, K: 32}
  - {name: ragged, V: 9, M: 37, N: 45, K: 64}
bench:
  big: {V: 256, M: 256, N: 256, K: 256}
work: {flop: 2 * M * N * K, bytes: 4 * M * K + N * K // 2}
"""
REFERENCE = """\
import numpy as np


def inputs(c, rng):
    V, M, N, K = (c[axis] for axis in "VMNK")
    return {
        "x": rng.standard_normal((V, K), dtype=np.float32),
        "place": rng.integers(0, V, M, dtype=np.int32),
        "q": rng.integers(0, 2**32, (K // 8, N), dtype=np.uint32),
        "s": rng.standard_normal((N, K // 32), dtype=np.float32),
    }


def expected(inputs):
    q = inputs["q"].astype(np.int64)
    bits = np.stack([(q >> (4 * i)) & 15 for i in range(8)], axis=1).reshape(-1, q.shape[1])
    w = (bits - 8) * np.repeat(inputs["s"].astype(np.float64), 32, axis=1).T
    return {"y": np.maximum(inputs["x"].astype(np.float64)[inputs["place"]], 0) @ w}
"""
KERNEL = """\
// evo: task packed
// evo: launch packed grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16)
extern "C" __global__ void packed(
    const float* x, const int* place, const unsigned* q, const float* s, float* y, int V, int M, int N, int K) {
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        int bits = (q[k / 8 * N + n] >> (k % 8 * 4)) & 15;
        float v = x[place[m] * K + k];
        sum += (v > 0.0f ? v : 0.0f) * ((bits - 8) * s[n * (K / 32) + k / 32]);
    }
    y[m * N + n] = sum;
}
"""
COUNTED = "    for (int k = 0; k < K; ++k) {\n        int bits = (q[k / 8 * N + n] >> (k % 8 * 4)) & 15;\n"
IDIOMS: dict[str, tuple[tuple[str, str], ...]] = {
    "by places": (),
    "word by word": (
        (COUNTED, """\
    for (int at = 0; at < K / 8; ++at)
    for (int i = 0; i < 8; ++i) {
        const int k = at * 8 + i, bits = (q[at * N + n] >> (4 * i)) & 15;
"""),
    ),
    "by tests": (
        ("& 15;", "& 15, half = bits / 8;"),
        ("(v > 0.0f ? v : 0.0f)", "fmaxf(v, 0.0f)"),
        ("(bits - 8)", "(half ? bits % 8 : bits - 8)"),
    ),
}  # fmt: skip


@pytest.fixture
def packed(tmp_path: Path) -> Task:
    (tmp_path / "packed" / "ladder").mkdir(parents=True)
    (tmp_path / "packed" / "task.yaml").write_text(TASK)
    (tmp_path / "packed" / "reference.py").write_text(REFERENCE)
    return read_task(tmp_path / "packed")


@pytest.mark.parametrize("idiom", IDIOMS)
def test_tiles_hold_what_is_unpacked(bench: EvaluationSession, packed: Task, idiom: str) -> None:
    product, *_ = built("tile_product", changed(KERNEL, *IDIOMS[idiom]), packed)
    assert product.text.count("__shared__") == 2
    assert passes(bench, packed, product)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[place[m] * K + k]", "x[place[(m + n) % M] * K + k]"),  # an element of a row and a column
        ("        float v", "        if (bits == 3) continue;\n        float v"),
        ("int k = 0; k < K; ++k", "int k = 0; k < min(K, m + 9); ++k"),
        ("int k = 0; k < K; ++k", "int k = 1; k < K; ++k"),
        ("        float v", "        if (k > m) break;\n        float v"),
    ],
)
def test_what_is_no_product_of_sides_is_left_alone(packed: Task, old: str, new: str) -> None:
    assert not built("tile_product", changed(KERNEL, (old, new)), packed)


def test_a_sum_ends_where_its_loop_ends(packed: Task) -> None:
    product, *_ = built("tile_product", changed(KERNEL, ("k < K; ++k", "k < K - 1; ++k")), packed)
    assert product.text.count("< (K - 1)") == 3


WORDS = "        int bits = (q[k / 8 * N + n] >> (k % 8 * 4)) & 15;\n"
PLAIN = (  # no words, no places: `v > 0 ? v : 0` had been multiplied as `v`
    ((WORDS, ""), ("((bits - 8) * s[n * (K / 32) + k / 32])", "s[k * N + n]"), ("place[m]", "m")),
    (("float32, shape: [N, K // 32]", "float32, shape: [K, N]"), ("V: 9", "V: 37"), ("V: 40", "V: 64")),
    (
        ("(N, K // 32)", "(K, N)"),
        ('(bits - 8) * np.repeat(inputs["s"].astype(np.float64), 32, axis=1).T', 'inputs["s"].astype(np.float64)'),
        ('[inputs["place"]]', '[: len(inputs["place"])]'),
    ),
)


def test_a_factor_that_data_chooses_is_not_taken_for_the_element(bench: EvaluationSession, packed: Task) -> None:
    kernel, *files = PLAIN
    for name, changes in zip(("task.yaml", "reference.py"), files, strict=True):
        file = packed.folder / name
        file.write_text(changed(file.read_text(), *changes))
    task = read_task(packed.folder)
    product, *_ = built("tile_product", changed(KERNEL, *kernel), task)
    assert passes(bench, task, product)


HEADS_TASK = """\
name: heads
axes: {T: int, C: int, H: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [T, 2 * C]}
  - {name: y, role: out, dtype: float32, shape: [H, T, T]}
tolerance: {rtol: 1e-3, atol: 1e-3, rival_error_factor: 8, because: float32 sums}
check:
  - {name: whole, T: 64, C: 64, H: 2}
  - {name: ragged, T: 37, C: 60, H: 3}
bench:
  big: {T: 256, C: 256, H: 4}
work: {flop: 2 * T * T * C, bytes: 8 * T * C + 4 * H * T * T}
"""
HEADS_REFERENCE = """\
import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["T"], 2 * c["C"]), dtype=np.float32)}


def expected(inputs, c):
    x, heads = inputs["x"].astype(np.float64), c["H"]
    q, k = (part.reshape(len(x), heads, -1).transpose(1, 0, 2) for part in np.split(x, 2, axis=1))
    return {"y": 0.5 * q @ k.transpose(0, 2, 1)}
"""
HEADS = """\
// evo: task heads
// evo: launch heads grid (ceil_div(H * T * T, 128)) block (128)
extern "C" __global__ void heads(const float* x, float* y, int T, int C, int H) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= H * T * T) return;
    int key = at % T, query = at / T % T, h = at / (T * T) % H, size = C / H;
    const float* q = x + query * 2 * C + h * size;
    const float* k = x + key * 2 * C + h * size + C;
    float sum = 0.0f;
    for (int i = 0; i < size; i++) sum += 0.5f * q[i] * k[i];
    y[at] = sum;
}
"""


def test_heads_that_lie_side_by_side_in_a_row_are_planes(bench: EvaluationSession, tmp_path: Path) -> None:
    (tmp_path / "heads" / "ladder").mkdir(parents=True)
    (tmp_path / "heads" / "task.yaml").write_text(HEADS_TASK)
    (tmp_path / "heads" / "reference.py").write_text(HEADS_REFERENCE)
    task = read_task(tmp_path / "heads")
    product, *_ = built("tile_product", HEADS, task)
    assert passes(bench, task, product)
