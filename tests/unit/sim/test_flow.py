"""Divergence, loops, early exit, calls, tables, atomics and warp instructions, against plain Python."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

import numpy as np
import pytest
from harness import HEAD, one, run

from evo import sim

RNG = np.random.default_rng(3)


def k(body: str, params: str = "int* a, const int* b, int n") -> str:
    return f'#include <cuda_fp16.h>\nextern "C" __global__ void k({params}) {{\n int t = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n'


def call(
    body: str, b: np.ndarray, n: int = 0, *, block: int = 64, grid: int = 1, level: int = 1, size: int = 0
) -> np.ndarray:
    from harness import module

    a = np.zeros(size or max(len(b), block * grid), np.int32)
    out, result = run(module(k(body), opt_level=level), "k", [a, b, np.int32(n)], block=(block,), grid=(grid,))
    assert result.faults == ()
    return out[0]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_collatz_diverges(level: int) -> None:
    """Every lane loops a different number of times, with a branch inside."""
    b = RNG.integers(1, 5000, 128).astype(np.int32)
    body = "int x = b[t], c = 0; while (x != 1) { if (x & 1) x = 3 * x + 1; else x >>= 1; c++; if (c > n) break; } a[t] = c * 100000 + (x & 0xffff);"

    def steps(x: int) -> int:
        c = 0
        while x != 1:
            x = 3 * x + 1 if x & 1 else x >> 1
            c += 1
            if c > 40:
                break
        return c * 100000 + (x & 0xFFFF)

    got = call(body, b, 40, grid=2, level=level)
    assert got.tolist() == [steps(int(x)) for x in b]


def test_nested_loops_continue_and_early_return() -> None:
    b = RNG.integers(0, 12, 96).astype(np.int32)
    body = """ if (t >= 90) return; int s = 0;
    for (int i = 0; i < b[t]; i++) { if ((i ^ t) % 3 == 0) continue; for (int j = 0; j <= i; j++) { if (j * t > 200) break; s += i * j + 1; } if (s > 500) { a[t] = -s; return; } }
    a[t] = s;"""

    def ref(t: int, x: int) -> int:
        s = 0
        for i in range(x):
            if (i ^ t) % 3 == 0:
                continue
            for j in range(i + 1):
                if j * t > 200:
                    break
                s += i * j + 1
            if s > 500:
                return -s
        return s

    got = call(body, b, block=96)
    assert got.tolist() == [ref(t, int(x)) if t < 90 else 0 for t, x in enumerate(b)]


def test_switch_and_values_kept_by_waiting_lanes() -> None:
    b = RNG.integers(0, 9, 128).astype(np.int32)
    body = """ int keep = t * 7, x = 0; switch (b[t]) { case 0: x = 5; break; case 1: x = keep + 1; break; case 2: x = keep * 3; keep++; break;
    case 3: for (int i = 0; i < t % 5; i++) x += i * keep; break; case 4: x = ~keep; break; case 5: x = 9; keep = 2; break; case 6: x = t; break; default: x = -1; }
    a[t] = x * 1000 + keep;"""

    def ref(t: int, v: int) -> int:
        keep = t * 7
        x = {0: 5, 1: keep + 1, 2: keep * 3, 3: sum(i * keep for i in range(t % 5)), 4: ~keep, 5: 9, 6: t}.get(v, -1)
        keep += v == 2
        keep = 2 if v == 5 else keep
        return x * 1000 + keep

    assert call(body, b, grid=2).tolist() == [ref(t, int(v)) for t, v in enumerate(b)]


def test_branch_table() -> None:
    text = HEAD + """.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %d<3>; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3;
    table: .branchtargets A, B, C, D; brx.idx %r2, table; A: mov.u32 %r3, 10; bra E; B: mov.u32 %r3, 20; bra E; C: mov.u32 %r3, 30; bra E; D: mov.u32 %r3, 40;
    E: ld.param.u64 %d1, [p]; mad.wide.u32 %d1, %r1, 4, %d1; st.global.u32 [%d1], %r3; ret; }"""  # fmt: skip
    out, result = run(sim.load(text), "k", [np.zeros(32, np.int32)])
    assert result.faults == ()
    assert out[0].tolist() == [10, 20, 30, 40] * 8


def test_more_than_64_pending_blocks() -> None:
    b = RNG.integers(0, 70, 128).astype(np.int32)
    cases = "".join(f"case {i}: a[t] = atomicAdd(a + 200, 0) + {i * i + 1}; break;" for i in range(70))
    got = call(f"switch (b[t]) {{ {cases} }}", b, grid=2, size=256, level=0)
    assert got[:128].tolist() == [int(v) ** 2 + 1 for v in b]


def test_device_functions_and_recursion() -> None:
    source = '__device__ __noinline__ int f(int x, int y) { return x > y ? x - y : y * 2; }\nextern "C" __global__ void k(int* a, const int* b, int n) { int t = threadIdx.x; a[t] = f(b[t], n) + f(n, t); }'
    b = np.arange(64, dtype=np.int32)
    out, result = run(source, "k", [np.zeros(64, np.int32), b, np.int32(20)], block=(64,))
    assert result.faults == ()
    f = lambda x, y: x - y if x > y else y * 2  # noqa: E731
    assert out[0].tolist() == [f(t, 20) + f(20, t) for t in range(64)]
    loop = "__device__ __noinline__ int g(int x) { return x < 2 ? x : g(x - 1) + g(x - 2); }\n"
    out, result = run(
        loop + 'extern "C" __global__ void k(int* a) { a[threadIdx.x] = g(a[threadIdx.x]) + g(3); }',
        "k",
        [np.arange(10, dtype=np.int32)],
        block=(10,),
    )
    assert result.faults == ()
    assert out[0].tolist() == [n + 2 for n in (0, 1, 1, 2, 3, 5, 8, 13, 21, 34)]


def test_atomics() -> None:
    body = """ atomicAdd(a, b[t]); atomicMax(a + 1, b[t]); atomicMin(a + 2, -b[t]); atomicXor(a + 3, b[t]); atomicOr(a + 4, 1 << (t & 31));
    atomicInc((unsigned*)a + 5, 9); atomicCAS(a + 6, 0, t + 1); int old = atomicAdd(a + 7, 1); a[16 + old] = 1; atomicExch(a + 8, 77); atomicAnd(a + 9, b[t]);"""
    b = RNG.integers(1, 1000, 256).astype(np.int32)
    got = call(body, b, grid=4, size=300)
    assert got[0] == b.sum()
    assert got[1] == b.max()
    assert got[2] == -b.max()
    assert got[3] == np.bitwise_xor.reduce(b)
    assert got[4] == -1
    assert got[5] == 256 % 10
    assert got[6] == 1
    assert got[7] == 256
    assert (got[16 : 16 + 256] == 1).all()
    assert got[8] == 77
    assert got[9] == 0


def test_float_and_shared_atomics() -> None:
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void k(float* a, double* d, __half2* h) { __shared__ float s; if (!threadIdx.x) s = 0; __syncthreads(); atomicAdd(&s, 1.5f); atomicAdd(a, 0.5f); atomicAdd(d, 0.25); atomicAdd(h, __floats2half2_rn(1, 2)); __syncthreads(); if (!threadIdx.x) a[1] = s; }'
    out, result = run(source, "k", [np.zeros(2, np.float32), np.zeros(1), np.zeros(2, np.float16)], block=(64,))
    assert result.faults == ()
    assert out[0].tolist() == [32.0, 96.0]
    assert out[1][0] == 16.0
    assert out[2].tolist() == [64.0, 128.0]


@pytest.mark.parametrize("width", [32, 16, 8])
@pytest.mark.parametrize("variable", [False, True])
def test_shuffles(width: int, variable: bool) -> None:
    b = RNG.integers(0, 1000, 32).astype(np.int32)
    d = "n" if variable else "3"
    body = f" int x = b[t]; a[t] = __shfl_xor_sync(~0u, x, {d}, {width}); a[t + 32] = __shfl_up_sync(~0u, x, {d}, {width}); a[t + 64] = __shfl_down_sync(~0u, x, {d}, {width}); a[t + 96] = __shfl_sync(~0u, x, {d}, {width});"
    got = call(body, b, 3, block=32, size=128)
    for lane in range(32):
        base = lane - lane % width
        at = lane % width
        assert got[lane] == b[lane ^ 3]
        assert got[lane + 32] == b[base + at - 3 if at >= 3 else lane]
        assert got[lane + 64] == b[base + at + 3 if at + 3 < width else lane]
        assert got[lane + 96] == b[base + 3]


def test_votes_matches_reductions() -> None:
    b = RNG.integers(0, 4, 32).astype(np.int32)
    body = """ a[t] = __ballot_sync(~0u, b[t] > 1); a[t + 32] = __any_sync(~0u, b[t] == 9) + 2 * __all_sync(~0u, b[t] < 9); a[t + 64] = __match_any_sync(~0u, b[t]);
    a[t + 96] = __reduce_add_sync(~0u, b[t]); a[t + 128] = __reduce_max_sync(~0u, b[t] - 5); if (t & 1) a[t + 160] = __activemask(); if (t < 8) a[t + 192] = __reduce_min_sync(0xff, b[t]);"""
    got = call(body, b, block=32, size=256)
    ballot = sum(1 << i for i in range(32) if b[i] > 1)
    assert (got[:32].view(np.uint32) == ballot).all()
    assert (got[32:64] == 2).all()
    same = [sum(1 << j for j in range(32) if b[j] == b[i]) for i in range(32)]
    assert got[64:96].view(np.uint32).tolist() == same
    assert (got[96:128] == b.sum()).all()
    assert (got[128:160] == b.max() - 5).all()
    assert int(got[161]) & 0xFFFFFFFF == 0xAAAAAAAA
    assert (got[192:200] == b[:8].min()).all()


def test_special_registers() -> None:
    source = 'extern "C" __global__ void k(int* a) { int t = threadIdx.x + 4 * (threadIdx.y + 3 * threadIdx.z) + 24 * (blockIdx.x + 2 * (blockIdx.y + 3 * blockIdx.z)); a[t] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * (gridDim.x + gridDim.y + gridDim.z) + 100000 * threadIdx.z; }'
    out, result = run(source, "k", [np.zeros(24 * 24, np.int32)], grid=(2, 3, 4), block=(4, 3, 2))
    assert result.faults == ()
    blocks = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert out[0].tolist() == [b + 9000 + 100000 * (t // 12) for b in blocks for t in range(24)]
    with pytest.raises(sim.UnsupportedInstruction, match="clock"):
        one("mov.u32 %o, %clock;", "u32", ("u32", [1]))


def test_sampled_blocks() -> None:
    source = k("a[t] = t;")
    out, result = run(
        source,
        "k",
        [np.zeros(640, np.int32), np.zeros(1, np.int32), np.int32(0)],
        grid=(10,),
        block=(64,),
        blocks=[0, 7],
    )
    assert (result.blocks_run, result.blocks_total) == (2, 10)
    assert np.flatnonzero(out[0]).tolist() == [*range(1, 64), *range(448, 512)]


def test_module_variables_and_constants() -> None:
    source = '__device__ int table[4] = {3, 1, 4, 1}; __constant__ float c[2] = {2.5f, 0.5f}; __device__ int* p = table + 2; __device__ int count;\nextern "C" __global__ void k(float* a) { int t = threadIdx.x; a[t] = table[t & 3] * c[t & 1] + *p; atomicAdd(&count, 1); __syncthreads(); if (t == 0) a[0] += count; }'
    out, result = run(source, "k", [np.zeros(32, np.float32)])
    assert result.faults == ()
    table, c = [3, 1, 4, 1], [2.5, 0.5]
    assert out[0].tolist() == [table[t & 3] * c[t & 1] + 4 + (32 if t == 0 else 0) for t in range(32)]


FOLD = "__device__ __noinline__ int fold(int n, int v) { return n == 0 ? v : fold(n - 1, v * 3 + n) ^ n; }\n"


def test_lanes_meet_after_each_call_of_a_recursive_function() -> None:
    """Lanes that have returned wait for those that are still deeper, at whatever call."""
    body = "v = fold(v % 3, v); v += __popc(__match_any_sync(~0u, v & 3)); if (v & 1) v = fold(v % 4, v);"
    source = f'extern "C" __global__ void k(int* a) {{ int v = a[threadIdx.x]; {body} __syncthreads(); a[threadIdx.x] = v; }}'
    a = np.arange(64, dtype=np.int32) * 7 + 1
    out, result = run(FOLD + source, "k", [a], block=(64,))
    assert result.faults == ()

    def fold(n: int, v: int) -> int:
        return v if n == 0 else fold(n - 1, v * 3 + n) ^ n

    first = np.array([fold(v % 3, v) for v in a.tolist()]).reshape(2, 32)
    counts = (first[:, :, None] % 4 == first[:, None, :] % 4).sum(axis=2)
    assert out[0].tolist() == [fold(v % 4, v) if v & 1 else v for v in (first + counts).reshape(-1).tolist()]
