"""Golden cases in CUDA C++: the math library one function at a time, warp-wide instructions, tensor cores."""

# ruff: noqa: E501 a PTX or CUDA snippet reads best on one line
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from goldens import Golden
from harness import include_folder, nvrtc

FLOAT = "sinf cosf tanf asinf acosf atanf sinhf coshf tanhf asinhf acoshf atanhf expf exp2f exp10f expm1f logf log2f log10f log1pf sqrtf rsqrtf cbrtf rcbrtf erff erfcf erfinvf erfcxf normcdff lgammaf tgammaf j0f y1f ceilf floorf truncf roundf rintf sinpif cospif"
FLOAT2 = "powf fmodf remainderf atan2f hypotf fdimf fminf fmaxf copysignf nextafterf"
DOUBLE = "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt erf erfc normcdf lgamma tgamma ceil floor trunc round rint sinpi"
DOUBLE2 = "pow fmod remainder atan2 hypot fmin fmax nextafter"
HALF = "hsqrt hrsqrt hrcp hexp hexp2 hlog hlog2 hsin hcos hceil hfloor htrunc hrint"


def _compiler(every: int) -> Callable[..., str]:
    """NVRTC for the first of so many cases; the others are not to be run and stay without PTX."""
    number = itertools.count()
    return lambda text, *options: "" if next(number) % every else nvrtc(text, *options)


def functions(count: int = 256, every: int = 1) -> Iterator[Golden]:
    """One CUDA C++ function per output, as NVRTC inlines it. Those that use approximate instructions are bounded."""
    ptx = _compiler(every)
    rng = np.random.default_rng(3)
    for scalar, ones, twos, bound in (("float", FLOAT, FLOAT2, 4e-6), ("double", DOUBLE, DOUBLE2, 1e-15)):
        dtype = np.float32 if scalar == "float" else np.float64
        x = np.concatenate(
            [
                rng.standard_normal(count - 32),
                np.exp(rng.uniform(-20, 20, 16)),
                [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-41, 0.5, 1.0, 2.0, -2.0, 100.0, 1e5, 1e-5, 0.999, 3.0, -0.25],
            ]
        ).astype(dtype)
        y = rng.standard_normal(count).astype(dtype)
        for name in (ones + " " + twos).split():
            call = f"{name}(a[i], b[i])" if name in twos.split() else f"{name}(a[i])"
            text = f'extern "C" __global__ void k(const {scalar}* a, const {scalar}* b, {scalar}* o) {{ int i = threadIdx.x; o[i] = {call}; }}'
            yield Golden(
                name,
                ptx(text),
                "k",
                (x, y),
                (np.zeros(count, dtype),),
                1,
                count,
                bound,
                bound if scalar == "float" else 0.0,
            )


def kernels(every: int = 1) -> Iterator[Golden]:
    """Warp-wide instructions and tensor cores."""
    ptx = _compiler(every)
    from test_wmma import BODY, CASES, TYPES, order, stored  # the same text as the unit tests

    del order
    rng = np.random.default_rng(9)
    for kind, acc, (m, n, k) in CASES:
        store, dtype = TYPES[kind]
        text = BODY % {
            "type": kind,
            "store": store,
            "acc": acc,
            "m": m,
            "n": n,
            "k": k,
            "steps": 2,
            "la": "row",
            "lb": "col",
            "lc": "row",
            "lda": "K * KS",
            "ldb": "K * KS",
            "a_step": "s * K",
            "b_step": "s * K",
        }
        text = text.replace("row_ == 0", "0 == 0")
        low = 0 if kind.startswith("unsigned") else -4
        a, b = (stored(rng.integers(low, 5, m * k * 2 if i == 0 else n * k * 2), dtype) for i in range(2))
        out = {"float": np.float32, "half": np.float16, "int": np.int32, "double": np.float64}[acc]
        c = rng.integers(-4, 5, m * n).astype(out)
        yield Golden(
            f"wmma.m{m}n{n}k{k}.{kind.split('::')[-1].replace(' ', '_')}.{acc} (integers)",
            ptx(text),
            "k",
            (a, b, c),
            (np.zeros(m * n, out),),
            1,
            32,
        )
        if acc == "float":
            wide = stored(rng.standard_normal(m * k * 2), dtype), stored(rng.standard_normal(n * k * 2), dtype)
            yield Golden(
                f"wmma.m{m}n{n}k{k}.{kind.split('::')[-1]}.{acc} (normal)",
                ptx(text),
                "k",
                (*wide, c),
                (np.zeros(m * n, out),),
                1,
                32,
                absolute=1e-4,
            )
    words = rng.integers(0, 1 << 32, (3, 128), dtype=np.uint32)
    for spelling, na, nb, limit in (
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 0.02),
        ("m16n8k32.row.col.f32.e5m2.e4m3.f32", 4, 2, 0.02),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 0.0),
        ("m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 0.0),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 0.0),
        ("m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 0.0),
        ("m16n8k32.row.col.s32.s8.u8.s32", 4, 2, 0.0),
    ):
        a, b = words[0].copy(), words[1].copy()
        if "m16n8k32.row.col.f32" in spelling:  # finite codes of moderate size
            a, b = ((w & 0xBFBFBFBF) for w in (a, b))
        elif ".s32" not in spelling:
            two = np.float16 if ".f16" in spelling else np.float32
            a, b = (rng.standard_normal(128 * 4 // np.dtype(two).itemsize).astype(two) for _ in range(2))
            if "bf16" in spelling:
                a, b = (
                    np.stack([v, rng.standard_normal(128).astype(np.float32)], 1).view(np.uint16)[:, 1::2].copy()
                    for v in (a, b)
                )
            a, b = (np.ascontiguousarray(v).view(np.uint32).reshape(-1)[:128] for v in (a, b))
        more = ",".join(f"%{4 + i}" for i in range(na)), ",".join(f"%{8 + i}" for i in range(nb))
        text = (
            'extern "C" __global__ void k(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d) { int t = threadIdx.x; asm volatile("mma.sync.aligned.'
            + spelling
            + " {%0,%1,%2,%3}, {"
            + more[0]
            + "}, {"
            + more[1]
            + '}, {%10,%11,%12,%13};" : "=r"(d[t]), "=r"(d[t+32]), "=r"(d[t+64]), "=r"(d[t+96]) : "r"(a[t]), "r"(a[t+32]), "r"(a[t+64]), "r"(a[t+96]), "r"(b[t]), "r"(b[t+32]), "r"(c[t]), "r"(c[t+32]), "r"(c[t+64]), "r"(c[t+96])); }'
        )
        integers = ".s32" in spelling
        c = np.zeros(128, np.uint32) if not integers else words[2]
        out = np.zeros(128, np.int32 if integers else np.float32)
        yield Golden(
            f"mma.sync.{spelling}",
            ptx(text),
            "k",
            (a, b, c),
            (out,),
            1,
            32,
            absolute=0.0 if integers else max(limit, 1e-4),
            relative=0.0 if integers else 2e-3 if limit else 1e-4,
        )
    for name, text in WARP.items():
        x = rng.integers(-1000, 1000, 64).astype(np.int32)
        folder = f"-I{include_folder()}/cccl"
        yield Golden(
            name,
            ptx(
                "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include <cooperative_groups/scan.h>\nnamespace cg = cooperative_groups;\n"
                + 'extern "C" __global__ void k(const int* a, int* o) { int i = threadIdx.x; int x = a[i]; '
                + text
                + " o[i] = x; }",
                folder,
            ),
            "k",
            (x,),
            (np.zeros(64, np.int32),),
            1,
            64,
        )


WARP = {
    "shfl widths": "unsigned m = ~0u; int y = __shfl_sync(m, x, 3); y = y * 3 + __shfl_sync(m, x, i, 8); y = y * 3 + __shfl_up_sync(m, x, 1, 16); y = y * 3 + __shfl_down_sync(m, x, 2, 4); x = y * 3 + __shfl_xor_sync(m, x, 5, 8);",
    "vote match redux": "unsigned m = ~0u; int p; int y = __all_sync(m, x > 0) + 2 * __any_sync(m, x > 900) + 4 * __uni_sync(m, x == 5); y += __ballot_sync(m, x & 1); y ^= __reduce_add_sync(m, x) + __reduce_min_sync(m, x) * 3 + __reduce_max_sync(m, (unsigned)x); y ^= __reduce_and_sync(m, x | 7) ^ __reduce_or_sync(m, x) ^ __reduce_xor_sync(m, x); y += __match_any_sync(m, x & 3); y += __match_all_sync(m, x >> 31, &p) + p; x = y;",
    "block votes": "int y = __syncthreads_or(x > 990); y = y * 2 + __syncthreads_and(x > -1001); x = y * 100 + __syncthreads_count(x > 0);",
    "cooperative groups": "auto w = cg::tiled_partition<32>(cg::this_thread_block()); auto t = cg::tiled_partition<8>(w); int y = cg::reduce(t, x, cg::plus<int>()); y += cg::reduce(w, x, cg::greater<int>()); y += cg::inclusive_scan(t, x) * 3 + cg::exclusive_scan(w, x); if (x & 1) { auto c = cg::coalesced_threads(); y += c.thread_rank() + c.size() * 7 + c.shfl(x, 0) + cg::reduce(c, x, cg::plus<int>()); } auto l = cg::labeled_partition(w, x & 3); y += l.size() * 5 + l.thread_rank(); x = y;",
}
