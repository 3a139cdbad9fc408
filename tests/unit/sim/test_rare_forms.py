"""Forms of instructions that ptxas takes for sm_89 and few kernels have."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from harness import HEAD, nvrtc, one, run
from long_cases import long

from evo import sim

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(("kind", "expected"), [("__half", [64.0] * 2), ("__nv_bfloat16", [64.0] * 2)])
def test_sums_in_sixteen_bits_by_atomics(kind: str, expected: list[float]) -> None:
    """For sm_89 NVRTC adds a bfloat16 by compare-and-swap."""
    text = f"""#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(float* o) {{
  __shared__ {kind} near[2]; {kind}* far = ({kind}*)(o + 4);
  if (threadIdx.x < 2) near[threadIdx.x] = {kind}(0.f);
  __syncthreads();
  atomicAdd(near + 1, {kind}(1.f)); atomicAdd(far + 1, {kind}(1.f));
  __syncthreads();
  if (threadIdx.x == 0) {{ o[0] = float(near[1]); o[1] = float((({kind}*)(o + 4))[1]); }}
}}"""
    out, result = run(text, "k", [np.zeros(8, np.float32)], block=(64,))
    assert result.faults == ()
    assert out[0][:2].tolist() == expected


def test_a_branch_table_within_braces() -> None:
    """Inline assembly in a function that is inlined twice: labels and tables belong to their braces."""
    asm = "{ .reg .u32 r; t: .branchtargets A, B, C; brx.idx %1, t; A: mov.u32 r, 1; bra E; B: mov.u32 r, 2; bra E; C: mov.u32 r, 3; E: mov.u32 %0, r; }"
    text = f"""__device__ unsigned pick(unsigned i) {{ unsigned r; asm("{asm}" : "=r"(r) : "r"(i)); return r; }}
extern "C" __global__ void k(unsigned* o) {{ unsigned i = threadIdx.x; o[i] = pick(i % 3) * 10 + pick((i + 1) % 3); }}"""
    out, result = run(text, "k", [np.zeros(32, np.uint32)])
    assert result.faults == ()
    assert out[0].tolist() == [(i % 3 + 1) * 10 + (i + 1) % 3 + 1 for i in range(32)]


FLOATS = np.array(
    [1.5, -2.25, 65504, 65519, 65520, -1e9, np.inf, -np.inf, np.nan, 3.4028234e38, -3.4028234e38, 6e-8, 0.0], np.float32
)


def test_overflow_becomes_the_largest_number() -> None:
    with np.errstate(over="ignore"):
        half = FLOATS.astype(np.float16)
    finite = np.where(np.isinf(half), np.copysign(np.float16(65504), half), half)
    got = one("cvt.rn.satfinite.f16.f32 %o, %a;", "f16", ("f32", FLOATS))
    assert np.array_equal(got, finite, equal_nan=True)
    pair = one("cvt.rn.relu.satfinite.f16x2.f32 %o, %a, %b;", "b32", ("f32", FLOATS), ("f32", [1.0]))
    assert np.array_equal((pair >> 16).astype(np.uint16).view(np.float16), np.maximum(finite, 0), equal_nan=True)
    largest = np.uint32(0x7F7F0000).view(np.float32)
    brain = one("cvt.rn.satfinite.bf16.f32 %o, %a;", "bf16", ("f32", FLOATS)).astype(np.uint32) << 16
    assert brain.view(np.float32)[[6, 7, 9, 10]].tolist() == [largest, -largest, largest, -largest]
    bits = one("cvt.rna.satfinite.tf32.f32 %o, %a;", "b32", ("f32", FLOATS))
    assert [hex(bits[i]) for i in (0, 6, 7, 9)] == ["0x3fc00000", "0x7f7fe000", "0xff7fe000", "0x7f7fe000"]


def test_sixteen_bytes_in_one_register() -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u64 p) { .reg .b32 %i, %s; .reg .b64 %x, %a, %b; .reg .b128 %q, %r; .shared .align 16 .b8 t[512];
  mov.u32 %i, %tid.x; ld.param.u64 %x, [p]; mad.wide.u32 %x, %i, 16, %x; ld.global.cg.b128 %q, [%x]; mov.u32 %s, t; mad.lo.u32 %s, %i, 16, %s;
  st.shared.b128 [%s], %q; ld.volatile.shared.b128 %r, [%s]; mov.b128 {%a, %b}, %r; mov.b128 %q, {%b, %a}; st.global.relaxed.gpu.b128 [%x], %q; ret; }"""
    ).replace("st.global.relaxed.gpu", "st.relaxed.gpu.global")
    words = RNG.integers(0, 1 << 63, 64).astype(np.uint64)
    out, result = run(sim.load(text), "k", [words])
    assert result.faults == ()
    assert np.array_equal(out[0].reshape(32, 2), words.reshape(32, 2)[:, ::-1])


def test_a_matrix_at_a_generic_address() -> None:
    text = """extern "C" __global__ void k(const unsigned* x, unsigned* o) {
  __shared__ __align__(16) unsigned s[32]; unsigned i = threadIdx.x, r; s[i] = x[i]; __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.b16 {%0}, [%1];" : "=r"(r) : "l"(s + i % 8 * 4) : "memory"); o[i] = r; }"""
    x = RNG.integers(0, 1 << 16, 64).astype(np.uint16)
    out, result = run(sim.load(nvrtc(text)), "k", [x.view(np.uint32), np.zeros(32, np.uint32)])
    assert result.faults == ()
    assert np.array_equal(out[1].view(np.uint16).reshape(8, 8), x.reshape(8, 8).T)
    bad = text.replace("(s + i % 8 * 4)", "(x + i % 8 * 4)")
    assert run(sim.load(nvrtc(bad)), "k", [x.view(np.uint32), np.zeros(32, np.uint32)])[1].faults


QUEUE = """extern "C" __global__ void k(int* next, int* owner, int n) {
  __shared__ int tile;
  for (;;) { __syncthreads(); if (threadIdx.x == 0) tile = atomicAdd(next, 1); __syncthreads(); if (tile >= n) return;
    if (threadIdx.x == 0) owner[tile] = blockIdx.x; } }"""
BY_WARPS = """extern "C" __global__ void k(int* next, int* owner, int n) {
  for (;;) { int tile = 0; if (threadIdx.x % 32 == 0) tile = atomicAdd(next, 1); tile = __shfl_sync(~0u, tile, 0); if (tile >= n) return;
    if (threadIdx.x % 32 == 0) owner[tile] = blockIdx.x * 2 + threadIdx.x / 32; } }"""


@pytest.mark.parametrize(("text", "owners"), [(QUEUE, 4), (BY_WARPS, 8)])
def test_in_short_turns_all_take_from_a_counter(text: str, owners: int) -> None:
    """Each gets as much, and all of it is done; else the first one gets it all."""
    for fair in (False, True):
        out, result = run(
            text,
            "k",
            [np.zeros(1, np.int32), np.full(24, -1, np.int32), np.int32(24)],
            grid=(4,),
            block=(64,),
            fair=fair,
            backwards=fair,
        )
        assert result.faults == ()
        counts = np.bincount(out[1], minlength=owners)
        assert counts.tolist() == ([24 // owners] * owners if fair else [24] + [0] * (owners - 1))


IN_LINE = """extern "C" __global__ void k(int* next, int* seen) {
  if (threadIdx.x % 32 == 0) for (int i = 0; i < 4; ++i) seen[threadIdx.x / 32 * 4 + i] = atomicAdd(next, 1); }"""


def test_warps_whose_atomics_stand_in_a_line_take_turns_in_another_order() -> None:
    """Else one warp would see all of its own before another has any, as on no GPU."""
    found = []
    for backwards in (False, True):
        out, result = run(
            IN_LINE, "k", [np.zeros(1, np.int32), np.zeros(8, np.int32)], block=(64,), backwards=backwards
        )
        assert result.faults == ()
        found.append(out[1].tolist())
    assert found == [[0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7, 0, 2, 4, 6]]


WORDS = [
    0, 1, 33, 0x7F, 0x80, 0xFF, 0x1234, 0x7FFF, 0x8000, 0xFFFF,
    0x80FF7F01, 0x7FFFFFFF, 0x80000000, 0xFF00FF80, 0xFFFFFFFF,
]  # fmt: skip
TRIPLES = [(x, y, z) for x in WORDS for y in WORDS for z in (5, 0xFFFFFFF0, 0x89ABCDEF)]


def _bits(value: int, kind: str, width: int = 32) -> int:
    low = value & ((1 << width) - 1)
    return low - (1 << width) if kind == "s32" and low >> (width - 1) else low


def _video(spelling: str, selectors: str, x: int, y: int, z: int) -> int:
    """What PTX says of one scalar video instruction, in whole numbers without end."""
    name, *mods = spelling.split(".")
    types = [m for m in mods if m in ("u32", "s32")]
    types = ["u32", *types] if name == "vset" else types
    into, *parts = selectors.split(",")

    def place(part: str) -> tuple[int, int]:
        width = {"b": 8, "h": 16, "": 32}[part[:1]]
        return width, width * int(part[1:] or 0)

    a, b = (_bits(v >> place(p)[1], t, place(p)[0]) for v, p, t in zip((x, y), parts, types[1:], strict=True))
    if name == "vmad":
        signed = "s32" in types[1:]
        total = a * b + _bits(z, "s32" if signed else "u32") + ("po" in mods)
        total >>= 7 if "shr7" in mods else 15 if "shr15" in mods else 0
        least, most = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
        return (min(max(total, least), most) if "sat" in mods else total) & 0xFFFFFFFF
    count = min(b, 32) if "clamp" in mods else b & 31
    outcomes = {
        "vadd": a + b,
        "vsub": a - b,
        "vabsdiff": abs(a - b),
        "vmin": min(a, b),
        "vmax": max(a, b),
        "vset": int(a <= b),
        "vshl": a << count,
        "vshr": a >> count,
    }
    value, (width, at) = outcomes[name], place(into)
    if "sat" in mods:
        least, most = (-(1 << width - 1), (1 << width - 1) - 1) if types[0] == "s32" else (0, (1 << width) - 1)
        value = min(max(value, least), most)
    if into:
        mask = ((1 << width) - 1) << at
        return (value << at) & mask | z & ~mask
    second, value, own = mods[-1], _bits(value, types[0]), _bits(z, types[0])
    return {"add": value + own, "min": min(value, own), "max": max(value, own)}.get(second, value) & 0xFFFFFFFF


# What is done, types, what follows them, parts of the result and the operands.
TYPES = ["u32.u32.u32", "s32.s32.s32", "s32.u32.s32"]
VIDEO = [
    (("vadd", "vsub", "vabsdiff", "vmin", "vmax"), TYPES, ("",), (",,",)),
    (("vadd", "vsub", "vabsdiff", "vmin", "vmax"), TYPES, (".sat.add",), (",b1,h1",)),
    (("vadd", "vsub", "vabsdiff", "vmin", "vmax"), TYPES, (".min",), (",h0,b3",)),
    (("vadd", "vsub", "vabsdiff", "vmin", "vmax"), TYPES, (".sat.max",), (",,b0",)),
    (("vadd", "vsub"), ("u32.s32.u32", "s32.s32.u32"), (".sat",), ("b2,h1,b0", "h1,h1,b0", ",h1,b0")),
    (("vshl", "vshr"), ("u32.u32.u32", "s32.s32.u32"), (".clamp", ".wrap"), (",,",)),
    (("vshl", "vshr"), ("u32.u32.u32", "s32.s32.u32"), (".sat.clamp", ".sat.wrap"), (",,b0", "h0,,")),
    (("vmad",), TYPES, ("", ".sat"), (",,",)),
    (("vmad",), TYPES, (".po.sat.shr7",), (",b1,",)),
    (("vmad",), TYPES, (".shr15",), (",,h1",)),
    (("vset",), ("s32.s32",), (".le",), (",b1,",)),
    (("vset",), ("u32.s32",), (".le.add",), (",,h0",)),
    (("vset",), ("u32.u32",), (".le",), ("b3,,",)),
]


@pytest.mark.parametrize("every", [4, long(1)])
def test_scalar_video_instructions(every: int) -> None:
    """Each on parts of its operands, beside arithmetic without a width; one of four by default."""
    forms = [(f"{name}.{types}{more}", parts) for form in VIDEO for name, types, more, parts in product(*form)]
    assert len(forms) == 111
    for spelling, selectors in forms[::every]:
        into, p, q = (f".{part}" if part else "" for part in selectors.split(","))
        three = spelling.split(".")[0] == "vmad" or into or spelling.split(".")[-1] in ("add", "min", "max")
        body = f"{spelling} %o{into}, %a{p}, %b{q}{', %c' if three else ''};"
        got = one(body, "b32", *((("b32", [each[n] for each in TRIPLES])) for n in range(3)))
        want = [_video(spelling, selectors, *each) for each in TRIPLES]
        assert got.tolist() == want, body


def test_a_breakpoint_traps_where_it_is_reached() -> None:
    """As an assertion of one's own has it. Without a debugger the launch fails."""
    text = """extern "C" __global__ void k(float* o) { if (o[threadIdx.x] > 5.0f) asm volatile("brkpt;"); o[threadIdx.x] = 1.0f; }"""
    out, result = run(text, "k", [np.zeros(32, np.float32)])
    assert result.faults == ()
    assert out[0].tolist() == [1.0] * 32
    _, result = run(text, "k", [np.arange(32, dtype=np.float32)])
    assert [fault.kind for fault in result.faults] == ["trap"]
