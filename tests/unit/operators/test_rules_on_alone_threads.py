"""Threads that each have a row, a record or a small matrix of their own: walks both ways, loads of whole records,
arrays in registers, short loops for a few lanes; and extrema of pairs by tiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, example, passes, task_of
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task
from evo.spec.variant import parse_variant

TASK = """\
name: own
axes: {{{axes}}}
tensors:
{tensors}tolerance: {{rtol: 1e-3, atol: 1e-3, rival_error_factor: 16, because: float32}}
check:
  - {{name: whole, {whole}}}
  - {{name: ragged, {ragged}}}
bench:
  big: {{{whole}}}
work: {{bytes: 1000000}}
"""
REFERENCE = """\
import numpy as np


def inputs(c, rng):
    shapes = {shapes}
    return {{name: rng.uniform(-0.9, 0.9, shape).astype(np.float32) for name, shape in shapes.items()}}


def expected(inputs):
    at = {{name: values.astype(np.float64) for name, values in inputs.items() if np.ndim(values)}}
    {body}
"""
HEAD = "// evo: task own\n// evo: launch k grid (ceil_div({rows}, 64)) block (64) shared 0\n"


def made(folder: Path, axes: dict[str, tuple[int, int]], tensors: dict[str, str], out: str, body: str) -> Task:
    """A task of float tensors with these shapes, the last of which the body returns as `out`."""
    lines = "".join(
        f"  - {{name: {name}, role: {'out' if name == out else 'in'}, dtype: float32, shape: [{shape}]"
        f"{'' if name == out else ', domain: fixed'}}}\n"
        for name, shape in tensors.items()
    )
    names, whole, ragged = (
        ", ".join(f"{axis}: {each}" for axis, each in zip(axes, parts, strict=True))
        for parts in (["int"] * len(axes), [a for a, _ in axes.values()], [b for _, b in axes.values()])
    )
    sizes = ", ".join(f'"{name}": ({shape},)' for name, shape in tensors.items() if name != out)
    for axis in axes:
        sizes = sizes.replace(f"({axis},", f'(c["{axis}"],').replace(f", {axis},", f', c["{axis}"],')
    declared = TASK.format(axes=names, tensors=lines, whole=whole, ragged=ragged)
    return written_task(folder, declared, REFERENCE.format(shapes=f"{{{sizes}}}", body=body))


def substitution(folder: Path) -> Task:
    body = """x = at["d"].copy()
    for i in range(1, x.shape[1]):
        x[:, i] -= at["a"][:, i] * x[:, i - 1]
    for i in reversed(range(x.shape[1] - 1)):
        x[:, i] -= at["c"][:, i] * x[:, i + 1]
    return {"x": x}"""
    return made(folder, {"B": (64, 37), "N": (64, 51)}, dict.fromkeys("acdx", "B, N"), "x", body)


SUBSTITUTION = (
    HEAD.format(rows="B")
    + """\
extern "C" __global__ void k(const float* a, const float* c, const float* d, float* x, int B, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= B) return;
    int base = row * N;
    x[base] = d[base];
    for (int i = 1; i < N; i++) x[base + i] = d[base + i] - a[base + i] * x[base + i - 1];
    for (int i = N - 2; i >= 0; i--) x[base + i] = x[base + i] - c[base + i] * x[base + i + 1];
}
"""
)


def test_walks_up_and_down_that_begin_behind_the_first_element_are_wide(
    bench: EvaluationSession, tmp_path: Path
) -> None:
    task = substitution(tmp_path)
    parent = parse_variant(SUBSTITUTION)
    for _ in range(2):
        parent = built("wide_access", parent, task)[0]
    assert parent.text.count("reinterpret_cast<Float4*>(&x[") == 2
    assert passes(bench, task, parent)


@pytest.mark.parametrize("other", ["x[base + i - 2]", "x[base + N - 1 - i]", "x[row]"])
def test_an_array_that_a_turn_stores_and_reads_elsewhere_is_not_moved_in_wide_pieces(
    other: str, tmp_path: Path
) -> None:
    head, _, _ = SUBSTITUTION.partition("    for (int i = N - 2")
    text = head.replace("int i = 1;", "int i = 2;").replace("x[base + i - 1]", other) + "}\n"
    children = built("wide_access", text, substitution(tmp_path))
    assert not any("&x[" in child.text for child in children)


BACKWARDS = (
    HEAD.format(rows="B")
    + """\
extern "C" __global__ void k(const float* x, float* y, int B, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= B) return;
    float sum = 0.0f;
    for (int i = 0; i < N; ++i) {
        sum += x[row * N + (N - 1) - i];
        STORE
    }
}
"""
)


@pytest.mark.parametrize("store", ["y[row * N + i] = sum;", "y[row * N + N - 1 - i] = sum;"])
def test_elements_that_are_read_backwards_come_in_wide_pieces(
    bench: EvaluationSession, store: str, tmp_path: Path
) -> None:
    """Beside a store that goes forwards, and one that goes along with the reads."""
    order = "" if "+ i]" in store else "[:, ::-1]"
    body = f'return {{"y": np.cumsum(at["x"][:, ::-1], axis=1){order}}}'
    task = made(tmp_path, {"B": (64, 37), "N": (64, 51)}, dict.fromkeys("xy", "B, N"), "y", body)
    child = built("wide_access", BACKWARDS.replace("STORE", store), task)[0]
    assert ".at[3 - e]" in child.text
    assert passes(bench, task, child)


MATRICES = (
    HEAD.format(rows="B")
    + """\
extern "C" __global__ void k(const float* a, const float* b, float* c, int B) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= B) return;
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) {
            float s = 0.0f;
            for (int k = 0; k < 8; ++k) s += a[m * 64 + i * 8 + k] * b[m * 64 + k * 8 + j];
            c[m * 64 + i * 8 + j] = s;
        }
}
"""
)


def test_the_columns_of_a_small_product_are_shared_by_a_few_lanes(bench: EvaluationSession, tmp_path: Path) -> None:
    body = 'return {"c": at["a"] @ at["b"]}'
    task = made(tmp_path, {"B": (64, 37)}, dict.fromkeys("abc", "B, 8, 8"), "c", body)
    (child,) = built("row_lanes", MATRICES, task)
    assert "for (int j = lane; j < 8; j += 8)" in child.text
    assert passes(bench, task, child)


TRIANGLE = (
    HEAD.format(rows="N")
    + """\
extern "C" __global__ void k(const float* p, const float* t, float* q, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float v[8];
    for (int k = 0; k < 8; k++) v[k] = p[i * 8 + k];
    for (int level = 7; level > 0; level--)
        for (int k = 0; k < level; k++) v[k] = (1.0f - t[i]) * v[k] + t[i] * v[k + 1];
    q[i] = v[0];
}
"""
)


def test_a_triangle_of_turns_over_an_array_is_unrolled_and_its_array_filled_in_wide_pieces(
    bench: EvaluationSession, tmp_path: Path
) -> None:
    body = """v, t = at["p"], at["t"][:, None]
    for _ in range(7):
        v = (1 - t) * v[:, :-1] + t * v[:, 1:]
    return {"q": v[:, 0]}"""
    task = made(tmp_path, {"N": (64, 37)}, {"p": "N, 8", "t": "N", "q": "N"}, "q", body)
    (unrolled,) = built("unroll_registers", TRIANGLE, task)
    assert unrolled.text.count("#pragma unroll") == 3
    child = built("wide_access", unrolled, task)[0]
    assert "for (int k_done = 0; k_done < 8; k_done += 4)" in child.text
    assert passes(bench, task, child)


PAIRS = """\
// evo: task own
// evo: launch k grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
extern "C" __global__ void k(const float* a, const float* b, float* c, int M, int N, int K) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= M || j >= N) return;
    float best = -1e30f;
    for (int k = 0; k < K; k++) {
        float v = a[i * K + k] + b[k * N + j];
        if (v > best) best = v;
    }
    c[i * N + j] = 2.0f * best;
}
"""


def pairs(folder: Path) -> Task:
    body = 'return {"c": 2 * np.stack([(row[:, None] + at["b"]).max(axis=0) for row in at["a"]])}'
    shapes = {"a": "M, K", "b": "K, N", "c": "M, N"}
    return made(folder, {"M": (32, 13), "N": (64, 37), "K": (32, 21)}, shapes, "c", body)


def test_an_extremum_of_pairs_is_computed_by_tiles(bench: EvaluationSession, tmp_path: Path) -> None:
    task = pairs(tmp_path)
    child = built("tile_product", PAIRS, task)[0]
    assert "fmaxf(sum[i][j], x[i] + y[j])" in child.text
    assert passes(bench, task, child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("if (v > best)", "if (v > best && k != i)"),  # a pair that is left out
        ("float v = a[i * K + k]", "if (a[i * K + k] < 0.0f) continue;\n        float v = a[i * K + k]"),
        ("best = v;", "best = v + 1.0f;"),
        ("float best = -1e30f;", "float best = a[i * K];"),
    ],
)
def test_what_is_no_extremum_of_all_pairs_is_left_alone(written: str, otherwise: str, tmp_path: Path) -> None:
    text = changed(PAIRS, (written, otherwise))
    assert built("tile_product", text, pairs(tmp_path)) == []


def test_products_that_a_turn_leaves_out_by_data_are_no_whole_sum(tmp_path: Path) -> None:
    text = PAIRS.replace("float best = -1e30f", "float best = 0.0f").replace("if (v > best) best = v;", "best += v;")
    text = text.replace("] + b[", "] * b[")
    task = pairs(tmp_path)
    assert built("tile_product", text, task)
    skipped = text.replace("float v =", "if (a[i * K + k] < 0.0f) continue;\n        float v =")
    assert built("tile_product", skipped, task) == []


@pytest.mark.parametrize("written", ["atoms[4 * j + 3]", "atoms[4 * j]"])
def test_what_is_no_record_is_read_as_it_was(written: str) -> None:
    """Half of a record, and one that does not begin where records do."""
    task = task_of("records")
    text = example("records")
    half = text.replace("atoms[4 * j + 1], z = atoms[4 * j + 2]", "1.0f, z = 1.0f").replace("atoms[4 * j + 3]", "1.0f")
    apart = text.replace("4 * j", "3 * j")
    assert built("records", half if "3" in written else apart, task) == []
