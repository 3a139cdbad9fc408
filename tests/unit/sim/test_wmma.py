"""wmma through mma.h: every shape, type and layout, from global and shared memory, with elementwise fragment use."""

# ruff: noqa: E501 a CUDA snippet reads best on one line
from __future__ import annotations

import numpy as np
import pytest
from harness import run

RNG = np.random.default_rng(17)
HEAD = """#include <mma.h>
using namespace nvcuda;
"""
BODY = (
    HEAD
    + """
typedef %(type)s T; typedef %(acc)s A;
const int M = %(m)d, N = %(n)d, K = %(k)d, KS = %(steps)d;
extern "C" __global__ void k(const %(store)s* a, const %(store)s* b, const A* c, A* d) {
  __shared__ __align__(32) %(store)s sa[M * K * KS];
  for (int i = threadIdx.x; i < M * K * KS; i += 32) sa[i] = a[i];
  __syncthreads();
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::%(la)s_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::%(lb)s_major> fb;
  wmma::fragment<wmma::accumulator, M, N, K, A> fc, fd;
  wmma::load_matrix_sync(fc, c, %(lc)s_ == 0 ? N : M, wmma::mem_%(lc)s_major);
  for (int s = 0; s < KS; s++) {
    wmma::load_matrix_sync(fa, sa + %(a_step)s, %(lda)s);
    wmma::load_matrix_sync(fb, b + %(b_step)s, %(ldb)s);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::fill_fragment(fd, A(3));
  for (int i = 0; i < fc.num_elements; i++) fd.x[i] = fc.x[i] * A(2) + fd.x[i];
  wmma::store_matrix_sync(d, fd, %(lc)s_ == 0 ? N : M, wmma::mem_%(lc)s_major);
}"""
)
TYPES = {
    "half": ("half", np.float16), "__nv_bfloat16": ("__nv_bfloat16", "bf16"), "signed char": ("signed char", np.int8),
    "unsigned char": ("unsigned char", np.uint8), "wmma::precision::tf32": ("float", np.float32),
    "double": ("double", np.float64),
}  # fmt: skip
ACCS = {"float": np.float32, "half": np.float16, "int": np.int32, "double": np.float64}
BIG = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
CASES = [
    *[(kind, acc, shape) for shape in BIG for kind, acc in (
        ("half", "float"), ("half", "half"), ("__nv_bfloat16", "float"), ("signed char", "int"), ("unsigned char", "int"),
    )],
    ("wmma::precision::tf32", "float", (16, 16, 8)), ("double", "double", (8, 8, 4)),
]  # fmt: skip


def stored(values: np.ndarray, kind: object) -> np.ndarray:
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(kind)  # type: ignore[call-overload]


def order(layout: str) -> str:
    return "C" if layout == "row" else "F"


LAYOUTS = ("row col row", "col row col")


@pytest.mark.parametrize(
    ("kind", "acc", "shape", "layouts"),
    [
        # One of the two layouts by default, in turns.
        pytest.param(*case, layouts, marks=[pytest.mark.long] if (number + turn) % 2 else [])
        for number, case in enumerate(CASES)
        for turn, layouts in enumerate(LAYOUTS)
    ],
)
def test_product(kind: str, acc: str, shape: tuple[int, int, int], layouts: str) -> None:
    """Two steps along k of small integers, which every type holds exactly."""
    m, n, k = shape
    la, lb, lc = layouts.split()
    steps = 2
    low = 0 if kind.startswith("unsigned") else -4
    a = RNG.integers(low, 5, (m, k * steps))
    b = RNG.integers(low, 5, (k * steps, n))
    c = RNG.integers(-4, 5, (m, n))
    store, dtype = TYPES[kind]
    text = BODY % {
        "type": kind, "store": store, "acc": acc, "m": m, "n": n, "k": k, "steps": steps, "la": la, "lb": lb, "lc": lc,
        "lda": "K * KS" if la == "row" else "M", "ldb": "N" if lb == "row" else "K * KS",
        "a_step": "s * K" if la == "row" else "s * K * M", "b_step": "s * K * N" if lb == "row" else "s * K",
    }  # fmt: skip
    text = text.replace("col_ == 0", "1 == 0").replace("row_ == 0", "0 == 0")
    arrays = [
        stored(a.flatten(order(la)), dtype), stored(b.flatten(order(lb)), dtype), c.flatten(order(lc)).astype(ACCS[acc]),
        np.zeros(m * n, ACCS[acc]),
    ]  # fmt: skip
    out, result = run(text, "k", arrays, undefined=(3,))
    assert result.faults == ()
    got = out[3].reshape((m, n), order=order(lc))
    assert (got == 2 * (a @ b + c) + 3).all()
    assert result.counters.totals()["mma_fma"] == m * n * k * steps


def test_saturating_integers() -> None:
    text = (
        HEAD
        + """extern "C" __global__ void k(const signed char* a, const signed char* b, const int* c, int* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc, true);
  wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major); }"""
    )
    a, b = (RNG.integers(-128, 128, (16, 16)).astype(np.int8) for _ in range(2))
    c = RNG.choice([2**31 - 5, -(2**31) + 5, 0], (16, 16)).astype(np.int32)
    out, result = run(text, "k", [a, b, c, np.zeros((16, 16), np.int32)])
    assert result.faults == ()
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    assert (out[3] == np.clip(exact, -(2**31), 2**31 - 1)).all()


FAULTY = (
    HEAD
    + """extern "C" __global__ void k(const half* a, float* d, int shift, int ldm) {
  __shared__ __align__(32) half s[16 * 24];
  for (int i = threadIdx.x; i < %s; i += 32) s[i] = a[i];
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, s + shift, ldm); wmma::load_matrix_sync(fb, a, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major); }"""
)


@pytest.mark.parametrize(
    ("filled", "shift", "ldm", "size", "kind"),
    [
        ("384", 0, 24, 256, ""), ("384", 0, 16, 256, ""), ("384", 2, 16, 256, "misaligned"),
        ("384", 0, 18, 256, "misaligned"), ("384", 0, 32, 256, "out_of_bounds"), ("250", 0, 24, 256, "uninitialised"),
        ("384", 0, 16, 255, "out_of_bounds"),
    ],
)  # fmt: skip
def test_faults(filled: str, shift: int, ldm: int, size: int, kind: str) -> None:
    a = RNG.integers(-4, 5, 400).astype(np.float16)
    arrays = [a, np.zeros(size, np.float32), np.int32(shift), np.int32(ldm)]
    out, result = run(FAULTY % filled, "k", arrays)
    assert [f.kind for f in result.faults[:1]] == ([kind] if kind else [])
    if not kind:
        tile = np.stack([a[r * ldm : r * ldm + 16] for r in range(16)]).astype(np.float64)
        assert (out[1].reshape(16, 16) == tile @ a[:256].reshape(16, 16)).all()


@pytest.mark.parametrize(("kind", "op"), [("s4", "mma_sync"), ("u4", "mma_sync"), ("b1", "xor"), ("b1", "and")])
def test_elements_of_less_than_a_byte(kind: str, op: str) -> None:
    """Two steps along k in rows that are longer; of bits, what both or one of them has is counted."""
    bits = 1 if kind == "b1" else 4
    depth = 128 // bits
    call = {"xor": "bmma_sync(c, a, b, c)", "and": "bmma_sync(c, a, b, c, wmma::experimental::bmmaBitOpAND)"}
    text = (
        HEAD
        + f"""extern "C" __global__ void k(const unsigned* x, const unsigned* y, const int* z, int* o) {{
  wmma::fragment<wmma::matrix_a, 8, 8, {depth}, wmma::experimental::precision::{kind}, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 8, 8, {depth}, wmma::experimental::precision::{kind}, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 8, 8, {depth}, int> c;
  wmma::load_matrix_sync(c, z, 8, wmma::mem_row_major);
  for (int step = 0; step < 2; ++step) {{
    wmma::load_matrix_sync(a, x + 4 * step, {2 * depth}); wmma::load_matrix_sync(b, y + 4 * step, {2 * depth});
    wmma::{call.get(op, "mma_sync(c, a, b, c)")};
  }}
  wmma::store_matrix_sync(o, c, 8, wmma::mem_row_major); }}"""
    )
    x, y = (RNG.integers(0, 1 << 32, (8, 8), dtype=np.uint64).astype(np.uint32) for _ in range(2))
    z = RNG.integers(-9, 9, (8, 8)).astype(np.int32)

    def elements(words: np.ndarray) -> np.ndarray:
        parts = (words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)) & ((1 << bits) - 1)
        found = parts.reshape(8, -1).astype(int)
        return np.where(found > 7, found - 16, found) if kind == "s4" else found

    out, result = run(text, "k", [x, y, z, np.zeros((8, 8), np.int32)])
    assert result.faults == ()
    left, right = elements(x)[:, None], elements(y)[None]
    both = {"xor": np.bitwise_xor, "and": np.bitwise_and}.get(op, np.multiply)(left, right)
    assert (out[3] == both.sum(axis=2) + z).all()
    assert result.counters.totals()["mma_fma"] == 2 * 64 * depth
