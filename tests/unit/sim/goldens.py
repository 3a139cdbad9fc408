"""Golden cases: one opcode or one CUDA function each, on fixed inputs. The unit tests run them on the simulator, the
GPU test runs the same PTX on hardware and compares. `bound` None: every bit must agree (NaN with NaN)."""

# ruff: noqa: E501 a PTX or CUDA snippet reads best on one line
from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import DTYPES, include_folder, nvrtc, program_of, run

from evo.device import sim

EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    math.inf,
    -math.inf,
    math.nan,
    1e-41,
    -1e-41,
    2.0**-126,
    3.4e38,
    -3.4e38,
    65504.0,
    65520.0,
    6e-8,
    448.0,
    2.0**-149,
    2.0**127,
]


@dataclass(frozen=True)
class Golden:
    """A kernel `kernel(inputs..., outputs...)`; `relative` or `absolute` bounds what may differ from hardware."""

    name: str
    ptx: str
    kernel: str
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    grid: int
    block: int
    relative: float = 0.0
    absolute: float = 0.0

    @property
    def exact(self) -> bool:
        return self.relative == 0.0 and self.absolute == 0.0

    def simulated(self) -> list[np.ndarray]:
        outs, result = run(
            sim.load(self.ptx), self.kernel, [*self.inputs, *self.outputs], grid=(self.grid,), block=(self.block,)
        )
        assert result.faults == (), (self.name, result.faults)
        return outs[len(self.inputs) :]


def values(kind: str, count: int, seed: int) -> np.ndarray:
    """Edges first in a seed-dependent order, then random numbers or random bits."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    if kind in ("f32", "f64", "f16"):
        with np.errstate(all="ignore"):
            data = (rng.standard_normal(count) * 2.0 ** rng.integers(-30, 30, count)).astype(dtype)
            edges = rng.permutation(np.array(EDGES * 12))[: count // 2].astype(dtype)
        data[: len(edges)] = edges
        return data
    info = np.iinfo(dtype)
    data = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> rng.integers(0, 64, count, dtype=np.uint64)
    corners = np.array([0, 1, int(info.max), 1 << (info.bits - 1), (1 << info.bits) - 1, 31, 32, 33], np.uint64)
    data[: count // 4] = rng.choice(corners, count // 4)
    return data.astype(f"u{dtype().itemsize}").view(dtype)


def op(
    spelling: str, out: str, *kinds: str, relative: float = 0.0, absolute: float = 0.0, body: str = ""
) -> tuple[Any, ...]:
    return spelling, out, kinds, relative, absolute, body


def _opcodes() -> Iterator[tuple[Any, ...]]:
    for kind in ("f32", "f64"):
        for mode in ("rn", "rz", "rm", "rp"):
            for name in ("add", "sub", "mul", "div"):
                yield op(f"{name}.{mode}.{kind}", kind, kind, kind)
            yield op(f"fma.{mode}.{kind}", kind, kind, kind, kind)
            yield op(f"rcp.{mode}.{kind}", kind, kind)
            yield op(f"sqrt.{mode}.{kind}", kind, kind)
        for name in ("min", "max"):
            yield op(f"{name}.{kind}", kind, kind, kind)
    for name in ("add", "mul", "sub"):
        yield op(f"{name}.ftz.f32", "f32", "f32", "f32")
        yield op(f"{name}.sat.f32", "f32", "f32", "f32")
        yield op(f"{name}.rz.ftz.f32", "f32", "f32", "f32")
    yield op("div.rn.ftz.f32", "f32", "f32", "f32")
    yield op("rcp.rn.ftz.f32", "f32", "f32")
    yield op("sqrt.rn.ftz.f32", "f32", "f32")
    yield op("fma.rn.ftz.f32", "f32", "f32", "f32", "f32")
    yield op("fma.rn.sat.f32", "f32", "f32", "f32", "f32")
    for name in ("min", "max"):
        for mods in ("NaN.", "ftz.", "ftz.NaN.", "xorsign.abs.", "NaN.xorsign.abs."):
            yield op(f"{name}.{mods}f32", "f32", "f32", "f32")
    for name in ("neg", "abs"):
        for mods in ("f32", "ftz.f32", "f64"):
            yield op(f"{name}.{mods}", mods[-3:], mods[-3:])
    yield op("copysign.f32", "f32", "f32", "f32")
    for ftz in ("", ".ftz"):
        yield op(f"ex2.approx{ftz}.f32", "f32", "f32", relative=2.0**-21)
        yield op(f"lg2.approx{ftz}.f32", "f32", "f32", relative=2.0**-20, absolute=2.0**-20)
        yield op(f"rcp.approx{ftz}.f32", "f32", "f32", relative=2.0**-22)
        yield op(f"sqrt.approx{ftz}.f32", "f32", "f32", relative=2.0**-21)
        yield op(f"rsqrt.approx{ftz}.f32", "f32", "f32", relative=2.0**-21)
        yield op(f"div.approx{ftz}.f32", "f32", "f32", "f32", relative=2.0**-21)
        yield op(f"div.full{ftz}.f32", "f32", "f32", "f32", relative=2.0**-21)
    for name in ("sin", "cos"):
        # PTX bounds the error in [-pi, pi] only, so the input is squeezed into it.
        yield op(
            f"{name}.approx.f32",
            "f32",
            "f32",
            absolute=2.0**-19,
            body=f"max.f32 %a, %a, 0fC0490FDA; min.f32 %a, %a, 0f40490FDA; {name}.approx.f32 %o, %a;",
        )
    yield op("tanh.approx.f32", "f32", "f32", relative=2.0**-9)
    for kind, wide in (("f16", "b16"), ("bf16", "b16"), ("f16x2", "b32"), ("bf16x2", "b32")):
        names = ["add.rn", "sub.rn", "mul.rn"] if kind.startswith("f") else []
        names += ["min", "max", "min.NaN", "max.NaN"]
        if kind.startswith("f"):
            names += ["add.ftz", "mul.ftz", "add.sat", "mul.sat"]
        for name in names:
            yield op(f"{name}.{kind}", wide, wide, wide)
        for name in ("fma.rn", "fma.rn.relu"):
            yield op(f"{name}.{kind}", wide, wide, wide, wide)
        for name in ("neg", "abs"):
            yield op(f"{name}.{kind}", wide, wide)
        yield op(f"tanh.approx.{kind}", wide, wide, relative=2.0**-6 if kind[0] == "b" else 2.0**-9)
        yield op(
            f"ex2.approx{'.ftz' if kind[0] == 'b' else ''}.{kind}",
            wide,
            wide,
            relative=2.0**-6 if kind[0] == "b" else 2.0**-9,
        )
    for how in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        for kind in ("f32", "ftz.f32", "f64", "f16", "bf16"):
            base = {"f16": "b16", "bf16": "b16"}.get(kind, kind[-3:])
            yield op(
                f"setp.{how}.{kind}", "u32", base, base, body=f"setp.{how}.{kind} %p, %a, %b; selp.u32 %o, 1, 0, %p;"
            )
    yield from _conversions()
    yield from _integers()


def _conversions() -> Iterator[tuple[Any, ...]]:
    ints = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    for kind in ("f16", "f32", "f64"):
        for to in ints:
            for mode in ("rni", "rzi", "rmi", "rpi"):
                yield op(f"cvt.{mode}.{to}.{kind}", to, kind)
        for source in ints:
            yield op(f"cvt.rn.{kind}.{source}", kind, source)
    for source in ("u64", "s64", "u32", "s32"):
        for mode in ("rz", "rm", "rp"):
            yield op(f"cvt.{mode}.f32.{source}", "f32", source)
            if source[1:] == "64":
                yield op(f"cvt.{mode}.f64.{source}", "f64", source)
    for mode in ("rn", "rz", "rm", "rp"):
        yield op(f"cvt.{mode}.f32.f64", "f32", "f64")
        yield op(f"cvt.{mode}.f16.f32", "f16", "f32")
        yield op(f"cvt.{mode}.f16.f64", "f16", "f64")
    for mode in ("rni", "rzi", "rmi", "rpi"):
        yield op(f"cvt.{mode}.f32.f32", "f32", "f32")
        yield op(f"cvt.{mode}.ftz.f32.f32", "f32", "f32")
        yield op(f"cvt.{mode}.f64.f64", "f64", "f64")
    for spelling in (
        "cvt.f32.f16",
        "cvt.sat.f32.f32",
        "cvt.ftz.sat.f32.f32",
        "cvt.f64.f32",
        "cvt.rn.bf16.f32",
        "cvt.rz.bf16.f32",
        "cvt.rn.relu.bf16.f32",
        "cvt.rn.relu.f16.f32",
        "cvt.f64.f16",
    ):
        to, source = spelling.split(".")[-2:]
        yield op(spelling, to, source)
    for source in ints:
        for to in ("u8", "s8", "s16", "u32", "s32"):
            yield op(f"cvt.sat.{to}.{source}", to, source)
    yield op("cvt.rna.tf32.f32", "b32", "f32")
    for to in ("f16x2", "bf16x2"):
        for mode in ("rn", "rz", "rn.relu"):
            yield op(f"cvt.{mode}.{to}.f32", "b32", "f32", "f32")
    for to in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            yield op(f"cvt.rn.satfinite{relu}.{to}.f32", "b16", "f32", "f32")
            yield op(f"cvt.rn.satfinite{relu}.{to}.f16x2", "b16", "b32")
            yield op(f"cvt.rn{relu}.f16x2.{to}", "b32", "b16")


def _integers() -> Iterator[tuple[Any, ...]]:
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for name in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            # Division by zero is not defined by PTX.
            safe = f"{'or.b' + kind[1:]} %b, %b, 1; " if name in ("div", "rem") else ""
            yield op(f"{name}.{kind}", kind, kind, kind, body=f"{safe}{name}.{kind} %o, %a, %b;")
        yield op(f"mad.lo.{kind}", kind, kind, kind, kind)
        yield op(f"sad.{kind}", kind, kind, kind, kind)
        yield op(f"shr.{kind}", kind, kind, "u32")
    for kind in ("u32", "s32", "u64", "s64"):
        yield op(f"mad.hi.{kind}", kind, kind, kind, kind)
        yield op(f"bfind.{kind}", "u32", kind)
        yield op(f"bfind.shiftamt.{kind}", "u32", kind)
        yield op(f"bfe.{kind}", kind, kind, "u32", "u32")
    yield op("add.sat.s32", "s32", "s32", "s32")
    yield op("sub.sat.s32", "s32", "s32", "s32")
    for kind in ("b16", "b32", "b64"):
        yield op(f"shl.{kind}", kind, kind, "u32")
        for name in ("and", "or", "xor"):
            yield op(f"{name}.{kind}", kind, kind, kind)
        yield op(f"not.{kind}", kind, kind)
        yield op(f"cnot.{kind}", kind, kind)
    for kind in ("b32", "b64"):
        yield op(f"popc.{kind}", "u32", kind)
        yield op(f"clz.{kind}", "u32", kind)
        yield op(f"brev.{kind}", kind, kind)
        yield op(f"bfi.{kind}", kind, kind, kind, "u32", "u32")
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield op(f"prmt.b32{mode}", "b32", "b32", "b32", "b32")
    for way in ("l.wrap", "l.clamp", "r.wrap", "r.clamp"):
        yield op(f"shf.{way}.b32", "b32", "b32", "b32", "u32")
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            yield op(f"dp4a.{a}.{b}", "b32", "b32", "b32", "b32")
            yield op(f"dp2a.lo.{a}.{b}", "b32", "b32", "b32", "b32")
            yield op(f"dp2a.hi.{a}.{b}", "b32", "b32", "b32", "b32")
    for count in (2, 4):
        for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
            for kind in ("u32", "s32"):
                yield op(f"{name}{count}.{kind}.{kind}.{kind}", "b32", "b32", "b32", "b32")
                yield op(f"{name}{count}.{kind}.{kind}.{kind}.add", "b32", "b32", "b32", "b32")
        for name in ("vadd", "vsub"):
            for kind in ("u32", "s32"):
                yield op(f"{name}{count}.{kind}.{kind}.{kind}.sat", "b32", "b32", "b32", "b32")
        for how in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield op(f"vset{count}.u32.s32.{how}", "b32", "b32", "b32", "b32")


def opcodes(count: int = 512) -> Iterator[Golden]:
    for spelling, out, kinds, relative, absolute, body in _opcodes():
        text = body or f"{spelling} %o, {', '.join('%' + 'abcd'[i] for i in range(len(kinds)))};"
        seed = zlib.crc32(spelling.encode())
        inputs = tuple(values(kind, count, seed + index) for index, kind in enumerate(kinds))
        ptx = program_of(text, out, list(kinds), count)
        yield Golden(
            spelling, ptx, "k", inputs, (np.zeros(count, DTYPES[out]),), -(-count // 128), 128, relative, absolute
        )


FLOAT = "sinf cosf tanf asinf acosf atanf sinhf coshf tanhf asinhf acoshf atanhf expf exp2f exp10f expm1f logf log2f log10f log1pf sqrtf rsqrtf cbrtf rcbrtf erff erfcf erfinvf erfcxf normcdff lgammaf tgammaf j0f y1f ceilf floorf truncf roundf rintf sinpif cospif"
FLOAT2 = "powf fmodf remainderf atan2f hypotf fdimf fminf fmaxf copysignf nextafterf"
DOUBLE = "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt erf erfc normcdf lgamma tgamma ceil floor trunc round rint sinpi"
DOUBLE2 = "pow fmod remainder atan2 hypot fmin fmax nextafter"
HALF = "hsqrt hrsqrt hrcp hexp hexp2 hlog hlog2 hsin hcos hceil hfloor htrunc hrint"


def functions(count: int = 256) -> Iterator[Golden]:
    """One CUDA C++ function per output, as NVRTC inlines it. Those that use approximate instructions are bounded."""
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
                nvrtc(text),
                "k",
                (x, y),
                (np.zeros(count, dtype),),
                1,
                count,
                bound,
                bound if scalar == "float" else 0.0,
            )


def kernels() -> Iterator[Golden]:
    """Warp-wide instructions and tensor cores."""
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
            nvrtc(text),
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
                nvrtc(text),
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
            nvrtc(text),
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
            nvrtc(
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
