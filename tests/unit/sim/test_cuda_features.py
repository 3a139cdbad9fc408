"""What NVRTC makes of everyday CUDA C++: calls, pointers, tables, packed types, the math library, printf."""

# ruff: noqa: E501 a CUDA snippet reads best on one line
from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from harness import include_folder, nvrtc, run

from evo import sim

RNG = np.random.default_rng(31)
CCCL = (f"-I{include_folder()}/cccl",)


def ints(count: int = 32) -> np.ndarray:
    return RNG.integers(-1000, 1000, count).astype(np.int32)


def test_calls_pointers_and_tables() -> None:
    text = """
__constant__ float coef[8] = {1, 2, 3, 4, 5, 6, 7, 8};
struct S { float a; int b; char c[3]; double d; };
__device__ __noinline__ S make(float x) { S s; s.a = x; s.b = (int)x; s.c[0] = 1; s.c[1] = 2; s.c[2] = 3; s.d = x * 2.0; return s; }
__device__ __noinline__ double use(S s, int k) { return s.a + s.b + s.c[k] + s.d; }
__device__ __noinline__ float sum(const float* x, int n) { float s = 0; for (int i = 0; i < n; i++) s += x[i] * coef[i & 7]; return s; }
__device__ float up(float x) { return x + 1; } __device__ float twice(float x) { return x * 2; } __device__ float down(float x) { return x - 3; }
typedef float (*F)(float);
__device__ F table[3] = {up, twice, down};
struct Base { __device__ virtual int f(int x) { return x; } };
struct One : Base { __device__ int f(int x) override { return x + 1; } };
struct Two : Base { __device__ int f(int x) override { return x * 2; } };
extern "C" __global__ void k(const float* a, float* o, int n) {
  int i = threadIdx.x; float local[16];
  for (int j = 0; j < 16; j++) local[(j * 7 + i) & 15] = a[j];
  S s = make(a[i]); One one; Two two; Base* p = i & 1 ? (Base*)&one : (Base*)&two;
  int v = 0;
  switch (i % 9) { case 0: v = 10; break; case 1: v = i * 3; break; case 2: v = i ^ 77; break; case 3: v = __popc(i); break;
    case 4: v = ~i; break; case 5: v = i / 7; break; case 6: v = -i; break; case 7: v = i << 3; break; default: v = -1; }
  o[i] = sum(local, n) + (float)use(s, i % 3) + table[i % 3](a[i]) + p->f(i) + v; }"""
    a = RNG.integers(-50, 50, 32).astype(np.float32)
    out, result = run(text, "k", [a, np.zeros(32, np.float32), np.int32(13)])
    assert result.faults == ()
    for i in range(32):
        local = {(j * 7 + i) & 15: a[j] for j in range(16)}
        total = sum(local[j] * ((j & 7) + 1) for j in range(13))
        x = float(a[i])
        total += x + int(x) + (i % 3 + 1) + 2 * x + [x + 1, x * 2, x - 3][i % 3] + (i + 1 if i & 1 else i * 2)
        total += [10, i * 3, i ^ 77, i.bit_count(), ~i, i // 7, -i, i << 3, -1][i % 9]
        assert out[1][i] == np.float32(total)


def test_a_wild_function_pointer_traps() -> None:
    text = """__device__ float up(float x) { return x + 1; } __device__ float twice(float x) { return x * 2; }
typedef float (*F)(float); __device__ F table[2] = {up, twice};
extern "C" __global__ void k(float* o, long long bad) { F f = table[threadIdx.x & 1]; if (threadIdx.x == 9) f = (F)bad; o[threadIdx.x] = f(1.f); }"""
    _, result = run(text, "k", [np.zeros(32, np.float32), np.int64(12345)])
    assert [(f.kind, f.thread) for f in result.faults] == [("trap", (9, 0, 0))]


def test_printf_and_assert() -> None:
    text = """#include <cuda/std/cassert>
extern "C" __global__ void k(const float* a) {
  int i = threadIdx.x;
  if (i < 2 && blockIdx.x == 1) printf("%d|%5.2f|%s|%lld|%c|%%|%-4x|%u\\n", i, a[i], "abc", 1ll << 40, 'z', 255, ~0u);
  if (i == 3) printf("bare\\n");
  assert(a[i] < 30.f); }"""
    a = np.arange(32, dtype=np.float32) - 5
    _, result = run(text, "k", [a], grid=(2,), options=CCCL)
    line = "{}|{:5.2f}|abc|1099511627776|z|%|ff  |4294967295\n"
    assert result.faults == ()
    assert sorted(result.text.splitlines()) == sorted(
        ["bare", "bare", *(line.format(i, a[i]).strip() for i in range(2))]
    )
    a[7] = 31
    _, result = run(text, "k", [a], options=CCCL)
    assert [f.kind for f in result.faults] == ["trap"]
    assert "kernel.cu:6" in result.text
    assert "thread 7 Assertion `a[i] < 30.f` failed." in result.text


SIMD: dict[str, Any] = {
    "__vadd4": (8, lambda x, y: x + y), "__vsub2": (16, lambda x, y: x - y), "__vaddss4": (-8, lambda x, y: np.clip(x + y, -128, 127)),
    "__vsubus2": (16, lambda x, y: np.clip(x - y, 0, 65535)), "__vabsdiffs4": (-8, lambda x, y: abs(x - y)), "__vabsdiffu2": (16, lambda x, y: abs(x - y)),
    "__vavgs4": (-8, lambda x, y: np.where(x + y >= 0, (x + y + 1) >> 1, (x + y) >> 1)), "__vavgu4": (8, lambda x, y: (x + y + 1) >> 1),
    "__vcmpgts2": (-16, lambda x, y: np.where(x > y, -1, 0)), "__vmaxs4": (-8, np.maximum), "__vminu2": (16, np.minimum), "__vseteq4": (8, lambda x, y: (x == y) * 1),
}  # fmt: skip


def test_simd_intrinsics() -> None:
    a, b = (RNG.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(2))
    b[:8] = a[:8]
    lines = "".join(f"o[{n} * 64 + i] = {name}(a[i], b[i]);" for n, name in enumerate(SIMD))
    text = f'extern "C" __global__ void k(const unsigned* a, const unsigned* b, unsigned* o) {{ int i = threadIdx.x; {lines} }}'
    out, result = run(text, "k", [a, b, np.zeros(64 * len(SIMD), np.uint32)], block=(64,))
    assert result.faults == ()
    for n, (name, (width, how)) in enumerate(SIMD.items()):
        dtype = np.dtype(f"{'i' if width < 0 else 'u'}{abs(width) // 8}")
        x, y = (v.view(dtype).astype(np.int64) for v in (a, b))
        expect = how(x, y).astype(np.int64).astype(dtype)
        assert (out[2][n * 64 : n * 64 + 64].view(dtype) == expect).all(), name


def test_64_bit_and_packed_atomics() -> None:
    text = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(unsigned long long* o, double* d, __half2* h, __nv_bfloat162* b, unsigned short* u) {
  unsigned long long i = threadIdx.x; atomicAdd(o, i); atomicMin(o + 1, i + 5); atomicMax(o + 2, i); atomicAnd(o + 3, ~(1ull << i)); atomicOr(o + 4, 1ull << (i + 20));
  atomicXor(o + 5, i << 32); atomicCAS(o + 6, 0ull, i + 1); atomicMin((long long*)o + 7, -(long long)i); atomicAdd(d, 0.5 * i);
  atomicAdd(h, __half2(1, 2)); atomicAdd(b, __floats2bfloat162_rn(1, 4)); atomicCAS(u + 1, (unsigned short)0, (unsigned short)7); }"""
    arrays = [
        np.array([0, 1 << 40, 0, 2**64 - 1, 0, 0, 0, 0], np.uint64),
        np.zeros(1),
        np.zeros(2, np.float16),
        np.zeros(2, np.uint16),
        np.array([9, 0], np.uint16),
    ]
    out, result = run(text, "k", arrays)
    assert result.faults == ()
    expect = [496, 5, 31, (2**64 - 1) ^ 0xFFFFFFFF, 0xFFFFFFFF << 20, 0, 1, 2**64 - 31]
    assert [int(v) for v in out[0]] == expect
    assert (out[1][0], *out[2]) == (248.0, 32.0, 64.0)
    assert (out[3].astype(np.uint32) << 16).view(np.float32).tolist() == [32.0, 128.0]
    assert out[4].tolist() == [9, 7]


MATH = {
    "sinf": math.sin, "cosf": math.cos, "tanf": math.tan, "atanf": math.atan, "sinhf": math.sinh, "tanhf": math.tanh, "expf": math.exp, "exp2f": lambda x: 2.0**x,
    "expm1f": math.expm1, "log1pf": lambda x: math.log1p(abs(x)), "logf": lambda x: math.log(abs(x)), "log2f": lambda x: math.log2(abs(x)), "erff": math.erf, "erfcf": math.erfc,
    "cbrtf": lambda x: math.copysign(abs(x) ** (1 / 3), x), "tgammaf": lambda x: math.gamma(abs(x) + 0.5), "sinpif": lambda x: math.sin(math.pi * x),
    "normcdff": lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), "rsqrtf": lambda x: 1 / math.sqrt(abs(x)),
}  # fmt: skip
POSITIVE = {"log1pf", "logf", "log2f", "rsqrtf"}


@pytest.mark.parametrize("options", [(), ("--use_fast_math",)])
def test_math_library(options: tuple[str, ...]) -> None:
    """Within the bounds of the CUDA C++ guide: some ulp, or 2^-20 absolute for the fast forms."""

    def argument(name: str) -> str:
        return "fabsf(x)" if name in POSITIVE else "fabsf(x) + 0.5f" if name == "tgammaf" else "x"

    calls = "".join(f"o[{n} * 256 + i] = {name}({argument(name)});" for n, name in enumerate(MATH))
    text = f'extern "C" __global__ void k(const float* a, float* o) {{ int i = threadIdx.x; float x = a[i]; {calls} }}'
    a = RNG.uniform(-3, 3, 256).astype(np.float32)
    out, result = run(text, "k", [a, np.zeros(256 * len(MATH), np.float32)], block=(256,), options=options)
    assert result.faults == ()
    for n, (name, exact) in enumerate(MATH.items()):
        expect = np.array([exact(float(x)) for x in a])
        gap = np.abs(out[1][n * 256 : n * 256 + 256] - expect)
        loose = 2e-5 if options else 0.0
        assert (gap <= loose * np.maximum(1, expect**2) + 1.2e-6 * np.maximum(np.abs(expect), 1e-3)).all(), (
            name,
            gap.max(),
        )


def test_double_math_library() -> None:
    names = {
        "sin": np.sin,
        "exp": np.exp,
        "log1p": np.log1p,
        "cbrt": np.cbrt,
        "tanh": np.tanh,
        "sqrt": np.sqrt,
        "exp2": np.exp2,
        "atan": np.arctan,
    }
    calls = "".join(f"o[{n} * 128 + i] = {name}(x);" for n, name in enumerate(names))
    text = f'extern "C" __global__ void k(const double* a, double* o) {{ int i = threadIdx.x; double x = a[i]; {calls} o[{len(names)} * 128 + i] = fmod(1000 * x, 0.7); o[{len(names) + 1} * 128 + i] = pow(x, 3.3); }}'
    a = RNG.uniform(0.01, 9, 128)
    out, result = run(text, "k", [a, np.zeros(128 * (len(names) + 2))], block=(128,))
    assert result.faults == ()
    rows = out[1].reshape(-1, 128)
    for row, exact in zip(rows, names.values(), strict=False):
        assert np.abs(row / exact(a) - 1).max() < 6e-16
    assert (rows[-2] == np.fmod(1000 * a, 0.7)).all()
    assert np.abs(rows[-1] / a**3.3 - 1).max() < 1e-15


def test_128_bit_integers() -> None:
    """add.cc, addc, madc chains, across the blocks of a comparison."""
    text = """typedef unsigned __int128 W;
extern "C" __global__ void k(const unsigned long long* a, const unsigned long long* b, unsigned long long* o) { int i = threadIdx.x;
  W x = ((W)a[2 * i + 1] << 64) | a[2 * i], y = ((W)b[2 * i + 1] << 64) | b[2 * i]; W z = x * y + x - (y >> 3); if (x < y) z += y * y; else z -= x;
  z ^= x / (y >> 70 | 1); o[2 * i] = (unsigned long long)z; o[2 * i + 1] = (unsigned long long)(z >> 64); }"""
    a, b = (RNG.integers(0, 1 << 64, 64, dtype=np.uint64) for _ in range(2))
    out, result = run(text, "k", [a, b, np.zeros(64, np.uint64)], options=("--device-int128",))
    assert result.faults == ()
    for i in range(32):
        x, y = (int(v[2 * i]) | int(v[2 * i + 1]) << 64 for v in (a, b))
        z = x * y + x - (y >> 3) + (y * y if x < y else -x)
        z = (z ^ (x // (y >> 70 | 1))) & (2**128 - 1)
        assert int(out[2][2 * i]) | int(out[2][2 * i + 1]) << 64 == z


def test_spaces_hints_and_fences() -> None:
    text = """extern "C" __global__ void k(volatile int* a, int* o) { __shared__ int s[32]; int i = threadIdx.x; int local[2]; local[i & 1] = i; local[1 - (i & 1)] = 2;
  s[i] = i; a[i] = i * 3; __threadfence(); __threadfence_block(); __threadfence_system(); __syncthreads(); __nanosleep(20);
  asm volatile("prefetch.global.L2 [%0];" :: "l"(o));
  o[i] = a[i] + 1000 * __isGlobal(o) + 2000 * __isShared(s) + 4000 * __isLocal(local) + 8000 * __isGlobal(s) + local[i & 1];
  o[32 + i] = __ldg(o + 64) + __ldcg(o + 65) + __ldcv(o + 66); __stwt(o + 96 + i, 5); __stcs(o + 128 + i, 6); }"""
    out, result = run(text, "k", [np.zeros(32, np.int32), np.arange(160, dtype=np.int32)])
    assert result.faults == ()
    i = np.arange(32)
    assert (out[1][:32] == 3 * i + 7000 + i).all()
    assert (out[1][32:64] == 64 + 65 + 66).all()
    assert (out[1][96:] == np.repeat([5, 6], 32)).all()


def test_calls_that_double_at_every_level_load_soon() -> None:
    levels = 14
    calls = "".join(
        f"__device__ __noinline__ int f{i}(int x) {{ return f{i - 1}(x) ^ f{i - 1}(x + {i}); }}\n"
        for i in range(1, levels + 1)
    )
    source = "__device__ __noinline__ int f0(int x) { return x * 3 + 1; }\n" + calls
    source += f'extern "C" __global__ void k(const int* x, int* y) {{ y[threadIdx.x] = f{levels}(x[threadIdx.x]); }}'
    before = time.process_time()
    module = sim.load(nvrtc(source))
    assert time.process_time() - before < 10  # 16,384 copies took minutes

    def value(level: int, x: np.ndarray) -> np.ndarray:
        return x * 3 + 1 if not level else value(level - 1, x) ^ value(level - 1, x + level)

    x = np.arange(32, dtype=np.int32)
    outputs, result = run(module, "k", [x, np.zeros(32, np.int32)], grid=(1,), block=(32,))
    assert result.faults == ()
    np.testing.assert_array_equal(outputs[1], value(levels, x))


def test_an_endless_loop_ends_without_a_budget() -> None:
    source = """extern "C" __global__ void k(int* y, int n) {
      __shared__ int s; unsigned v = n; s = 0;
      while (v) { s += v; __syncwarp(); v = v * 2 | 1; }
      y[0] = s; }"""
    before = time.process_time()
    memory = sim.Memory()
    args = [memory.allocate(64, "y"), np.int32(7)]
    result = sim.load(nvrtc(source)).launch("k", grid=(64,), block=(32,), args=args, memory=memory, race=False)
    assert [fault.kind for fault in result.faults] == ["budget"]
    assert result.blocks_run == 0
    assert time.process_time() - before < 60
