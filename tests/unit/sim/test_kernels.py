"""Whole kernels: correct at ragged sizes, the same at every optimisation level, silent when right."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import KERNELS, module, run
from long_cases import long

from evo import sim

RNG = np.random.default_rng(5)
H = np.float16


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v.astype(np.float64)


def heads(count: int, length: int) -> list[np.ndarray]:
    return [RNG.standard_normal((count, length, 64)).astype(H) for _ in range(3)]


def source(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text()


@pytest.mark.parametrize("length", [1, 33, 128, 200])
def test_scalar_attention(length: int) -> None:
    q, k, v = heads(2, length)
    args = [q, k, v, np.zeros_like(q), np.int32(length), np.float32(0.125)]
    out, result = run(
        source("scalar"), "scalar", args, grid=(-(-length // 128), 2), block=(128,), undefined=(3,), readonly=(0, 1, 2)
    )
    assert result.faults == ()
    assert np.abs(out[3] - attention(q, k, v)).max() < 2e-3


@pytest.mark.parametrize("length", [1, 64, 100, 192])
def test_flash_attention(length: int) -> None:
    q, k, v = heads(2, length)
    args = [q, k, v, np.zeros_like(q), np.int32(length), np.float32(0.125)]
    out, result = run(
        source("flash"), "flash", args, grid=(-(-length // 64), 2), block=(128,), shared_bytes=40_960, undefined=(3,)
    )
    assert result.faults == ()
    assert np.abs(out[3] - attention(q, k, v)).max() < 2e-3
    assert result.counters.totals()["bank_conflicts"] == 0


def test_swizzle_shows_in_wavefronts() -> None:
    q, k, v = heads(1, 128)
    args = [q, k, v, np.zeros_like(q), np.int32(128), np.float32(0.125)]
    waves = []
    for swizzle in (1, 0):
        _, result = run(
            source("flash"),
            "flash",
            args,
            grid=(2,),
            block=(128,),
            shared_bytes=40_960,
            options=(f"-DSWIZZLE={swizzle}",),
        )
        assert result.faults == ()
        waves.append(result.counters.totals()["shared_wavefronts"])
    assert waves[1] > 4 * waves[0]


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("wait_group 1", "wait_group 2", {"uninitialised"}),
        ("    __syncthreads();\n  }\n#pragma", "  }\n#pragma", {"race", "uninitialised"}),
        *(
            long(*case)
            for case in (
                ("sptr(s + at(r, ch))", "sptr(s + at(r, ch) + 4)", {"misaligned"}),
                ("if (row < S)", "if (row <= S)", {"out_of_bounds"}),
                ("    __syncthreads();\n    if (t == 0)", "    if (t == 0)", {"race", "uninitialised"}),
                ("k += base", "k += base + 1", {"misaligned"}),
                ("ok ? 16 : 0", "16", {"out_of_bounds", None}),
            )
        ),
    ],
)
def test_seeded_flash_faults(old: str, new: str, kinds: set[str | None]) -> None:
    text = source("flash")
    assert old in text
    q, k, v = heads(1, 150)
    args = [q, k, v, np.zeros_like(q), np.int32(150), np.float32(0.125)]
    kernel = module(text.replace(old, new), opt_level=0)  # compiled soonest: what is found is the same at every level
    _, result = run(kernel, "flash", args, grid=(3,), block=(128,), shared_bytes=40_960)
    assert {f.kind for f in result.faults[:1]} | ({None} if not result.faults else set()) <= kinds
    if None not in kinds:
        assert result.faults


def test_shared_memory_too_small() -> None:
    q, k, v = heads(1, 128)
    args = [q, k, v, np.zeros_like(q), np.int32(128), np.float32(0.125)]
    _, result = run(source("flash"), "flash", args, grid=(2,), block=(128,), shared_bytes=40_944)
    assert result.faults[0].kind == "out_of_bounds"


@pytest.mark.parametrize("n", [32, 50])
def test_tiled_product(n: int) -> None:
    a, b = (RNG.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    grid = (-(-n // 32),) * 2
    args = [a, b, np.zeros_like(a), np.int32(n)]
    out, result = run(source("mm"), "mm", args, grid=grid, block=(32, 32), undefined=(2,))
    assert result.faults == ()
    assert np.abs(out[2] - a @ b).max() < 1e-4


@pytest.mark.parametrize("name", [long("flash"), "mm", long("scalar")])
def test_bits_are_the_same_at_every_level(name: str) -> None:
    results = []
    q, k, v = (np.random.default_rng(1).standard_normal((1, 64, 64)).astype(H) for _ in range(3))
    for level in (0, 1, 2):
        if name == "mm":
            args = [
                q.view(np.float32).reshape(32, 64)[:, :32].copy(),
                np.ones((32, 32), np.float32),
                np.zeros((32, 32), np.float32),
                np.int32(32),
            ]
            options = {"block": (32, 32)}
        else:
            args = [q, k, v, np.zeros_like(q), np.int32(64), np.float32(0.125)]
            options = {"block": (128,), "shared_bytes": 40_960 if name == "flash" else 0}
        out, result = run(module(source(name), opt_level=level), name, args, **options)
        assert result.faults == ()
        results.append((out[2 if name == "mm" else 3].tobytes(), result.counters.totals()))
    assert results[0] == results[1] == results[2]


MMA = """#include <cuda_fp16.h>
extern "C" __global__ void k(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d) {
  int t = threadIdx.x;
  asm volatile("mma.sync.aligned.%s {%%0,%%1%s}, {%%4,%%5%s}, {%%8%s}, {%%10,%%11%s};%s"
    : "=r"(d[t]), "=r"(d[t + 32]), "=r"(d[t + 64]), "=r"(d[t + 96])
    : "r"(a[t]), "r"(a[t + 32]), "r"(a[t + 64]), "r"(a[t + 96]), "r"(b[t]), "r"(b[t + 32]), "r"(c[t]), "r"(c[t + 32]), "r"(c[t + 64]), "r"(c[t + 96]));
}"""
SHAPES = {
    "m16n8k16.row.col.f32.f16.f16.f32": (np.float16, 2, 4, 2), "m16n8k8.row.col.f32.f16.f16.f32": (np.float16, 2, 2, 1),
    "m16n8k16.row.col.f16.f16.f16.f16": (np.float16, 2, 4, 2), "m16n8k16.row.col.f32.bf16.bf16.f32": ("bf16", 2, 4, 2),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (np.float32, 1, 4, 2), "m16n8k4.row.col.f32.tf32.tf32.f32": (np.float32, 1, 2, 1),
    "m16n8k8.row.col.f32.bf16.bf16.f32": ("bf16", 2, 2, 1), "m16n8k32.row.col.f32.e4m3.e4m3.f32": ("e4m3", 4, 4, 2),
    "m16n8k32.row.col.f32.e5m2.e5m2.f32": ("e5m2", 4, 4, 2), "m16n8k32.row.col.f16.e4m3.e4m3.f16": ("e4m3", 4, 4, 2),
    "m16n8k32.row.col.s32.s8.s8.s32": (np.int8, 4, 4, 2), "m16n8k16.row.col.s32.u8.s8.s32": (np.int8, 4, 2, 1),
}  # fmt: skip


def eight_bit_codes(values: np.ndarray, kind: str) -> np.ndarray:
    """Small integers as 8-bit floats: the upper byte of an f16, its exponent moved for e4m3."""
    bits = values.astype(np.float16).view(np.uint16).astype(np.int64)
    if kind == "e5m2":
        return (bits >> 8).astype(np.uint8)
    code = ((bits & 0x7FFF) >> 7) - (8 << 3)
    return (np.where(values == 0, 0, code) | (bits >> 8 & 0x80)).astype(np.uint8)


@pytest.mark.parametrize("shape", SHAPES)
def test_mma_shapes(shape: str) -> None:
    """Fragments laid out by the PTX tables, small integers so that every format is exact."""
    kind, per, na, nb = SHAPES[shape]
    half = shape.endswith("f16")
    depth = 4 * per * nb
    unsigned = ".u8" in shape
    a = RNG.integers(0 if unsigned else -4, 5, (16, depth)).astype(np.float64)
    b = RNG.integers(-4, 5, (depth, 8)).astype(np.float64)
    c = RNG.integers(-8, 9, (16, 8)).astype(np.float64)

    def pack(values: np.ndarray) -> np.ndarray:
        if kind == "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
        if kind in ("e4m3", "e5m2"):
            return eight_bit_codes(values, str(kind)).view(np.uint32)
        return values.astype(kind).view(np.uint32)

    lane = np.arange(32)
    group, quad = lane // 4, lane % 4
    ra = np.concatenate(
        [
            pack(
                np.stack([a[group + 8 * (i % 2), quad * per + j + 4 * per * (i // 2)] for j in range(per)], 1).reshape(
                    -1
                )
            )
            for i in range(na)
        ]
    )
    rb = np.concatenate(
        [pack(np.stack([b[quad * per + j + 4 * per * i, group] for j in range(per)], 1).reshape(-1)) for i in range(nb)]
    )
    acc = np.float16 if half else np.int32 if ".s32." in shape else np.float32
    if half:
        rc = np.concatenate(
            [
                np.stack([c[group + 8 * i, 2 * quad + j] for j in range(2)], 1).reshape(-1).astype(acc).view(np.uint32)
                for i in range(2)
            ]
        )
    else:
        rc = np.concatenate([c[group + 8 * (i // 2), 2 * quad + i % 2].astype(acc).view(np.uint32) for i in range(4)])
    more, rest = ("", " mov.b32 %2, 0; mov.b32 %3, 0;") if half else (",%2,%3", "")
    text = MMA % (shape, more, ",%6,%7" if na == 4 else "", ",%9" if nb == 2 else "", "" if half else ",%12,%13", rest)
    arrays = [np.resize(x, 128).astype(np.uint32) for x in (ra, rb, rc)]
    out, result = run(text, "k", [*arrays, np.zeros(128, np.uint32)])
    assert result.faults == ()
    d = a @ b + c
    if half:
        got = out[3][:64].view(np.float16).reshape(2, 32, 2)
        expect = np.stack([np.stack([d[group + 8 * i, 2 * quad + j] for j in range(2)], 1) for i in range(2)])
    else:
        got = out[3].view(acc).reshape(4, 32)
        expect = np.stack([d[group + 8 * (i // 2), 2 * quad + i % 2] for i in range(4)])
    assert (got == expect).all()


def test_mma_of_doubles() -> None:
    """m8n8k4: one element of A and B and two of C per lane (PTX ISA, Matrix Fragments for mma.m8n8k4 with .f64)."""
    text = """extern "C" __global__ void k(const double* a, const double* b, const double* c, double* d) { int t = threadIdx.x;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};" : "=d"(d[2 * t]), "=d"(d[2 * t + 1])
    : "d"(a[t]), "d"(b[t]), "d"(c[2 * t]), "d"(c[2 * t + 1])); }"""
    a, b, c = RNG.standard_normal((8, 4)), RNG.standard_normal((4, 8)), RNG.standard_normal((8, 8))
    out, result = run(text, "k", [a, b.T.copy(), c, np.zeros((8, 8))])
    assert result.faults == ()
    assert np.abs(out[3] - (a @ b + c)).max() < 1e-14


def test_cache_holds_machine_code_between_loads(tmp_path: Path) -> None:
    from harness import nvrtc

    text = nvrtc(source("mm"))
    # A level that nothing else uses, so that no object is in memory already.
    sim.load(text, opt_level=3, cache=tmp_path).compile("mm")
    assert list(tmp_path.rglob("*.o"))
