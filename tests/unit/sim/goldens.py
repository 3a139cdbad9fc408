"""Golden cases: one opcode or one CUDA function each, on fixed inputs. The unit tests run them on the simulator, the
GPU test runs the same PTX on hardware and compares. Without a bound every bit must agree (NaN with NaN). The bounds of
approximate instructions are wide enough for two results within the PTX ISA's bounds and their rounding."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import DTYPES, program_of, run

from evo import sim

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


# Of bfe and bfi, by width: positions and lengths beyond 255, which PTX restricts. The low eight bits count.
FIELD = {"32": "", "64": "in 64 bits hardware does not cut position and length to eight bits, as the PTX ISA says"}


@dataclass(frozen=True)
class Golden:
    """A kernel `kernel(inputs..., outputs...)`; `relative` or `absolute` bounds what may differ from hardware.

    `number`: the float type that the outputs' bits hold, if they are stored as integers. `known`: why hardware gives
    something else than the PTX ISA, which the simulator follows.
    """

    name: str
    ptx: str
    kernel: str
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    grid: int
    block: int
    relative: float = 0.0
    absolute: float = 0.0
    number: str = ""
    known: str = ""

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
    spelling: str,
    out: str,
    *kinds: str,
    relative: float = 0.0,
    absolute: float = 0.0,
    body: str = "",
    known: str = "",
    target: str = "sm_89",
) -> tuple[Any, ...]:
    return spelling, out, kinds, relative, absolute, body, known, target


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
        # tanh: 2^-10.987 absolute in f16, 2^-8 in bf16; ex2: 2^-9.9 and 2^-7 relative, and a denormal step below that.
        short = kind[0] == "b"
        target = "sm_90" if short else "sm_89"
        yield op(f"tanh.approx.{kind}", wide, wide, absolute=2.0**-7 if short else 2.0**-9.9, target=target)
        yield op(
            f"ex2.approx{'.ftz' if short else ''}.{kind}",
            wide,
            wide,
            relative=2.0**-6 if short else 2.0**-8.9,
            absolute=0.0 if short else 2.0**-24,
            target=target,
        )
    for how in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        for kind in ("f32", "ftz.f32", "f64", "f16", "bf16"):
            base = {"f16": "b16", "bf16": "b16"}.get(kind, kind[-3:])
            yield op(
                f"setp.{how}.{kind}",
                "u32",
                base,
                base,
                body=f"setp.{how}.{kind} %p, %a, %b; selp.u32 %o, 1, 0, %p;",
                target="sm_90" if kind == "bf16" else "sm_89",
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
            have, want = (np.iinfo(DTYPES[kind]) for kind in (source, to))
            if have.min < want.min or have.max > want.max:  # else .sat is not legal
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
        # Position and length are restricted to 0..255.
        byte = "and.b32 %b, %b, 255; and.b32 %c, %c, 255; "
        yield op(f"bfe.{kind}", kind, kind, "u32", "u32", body=f"{byte}bfe.{kind} %o, %a, %b, %c;")
        yield op(
            f"bfe.{kind} (any)", kind, kind, "u32", "u32", body=f"bfe.{kind} %o, %a, %b, %c;", known=FIELD[kind[1:]]
        )
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
        byte = "and.b32 %c, %c, 255; and.b32 %d, %d, 255; "
        yield op(f"bfi.{kind}", kind, kind, kind, "u32", "u32", body=f"{byte}bfi.{kind} %o, %a, %b, %c, %d;")
        text = f"bfi.{kind} %o, %a, %b, %c, %d;"
        yield op(f"bfi.{kind} (any)", kind, kind, kind, "u32", "u32", body=text, known=FIELD[kind[1:]])
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield op(f"prmt.b32{mode}", "b32", "b32", "b32", "b32")
    for mode in ("clamp", "wrap"):
        yield op(f"bmsk.{mode}.b32", "b32", "b32", "b32")
        for kind in ("u32", "s32"):
            yield op(f"szext.{mode}.{kind}", "b32", "b32", "b32")
    # A base beyond the mask is not defined, nor is the magnitude of the least offset.
    text = "and.b32 %b, %b, 31; max.s32 %c, %c, -2147483647; fns.b32 %o, %a, %b, %c;"
    yield op("fns.b32", "b32", "b32", "b32", "s32", body=text)
    least = "|-2^31| is no s32: hardware names a bit that is not set, the simulator finds none"
    text = "and.b32 %b, %b, 31; fns.b32 %o, %a, %b, %c;"
    yield op("fns.b32 (any)", "b32", "b32", "b32", "s32", body=text, known=least)
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
    for spelling, out, kinds, relative, absolute, body, known, target in _opcodes():
        text = body or f"{spelling} %o, {', '.join('%' + 'abcd'[i] for i in range(len(kinds)))};"
        seed = zlib.crc32(spelling.removesuffix(" (any)").encode())
        inputs = tuple(values(kind, count, seed + index) for index, kind in enumerate(kinds))
        ptx = program_of(text, out, list(kinds), count).replace(".target sm_89", f".target {target}")
        words = spelling.split(" ")[0].split(".")
        last = words[-2] if words[0] == "cvt" else words[-1]  # a conversion names its result first
        number = last if last in ("bf16x2", "f16x2", "bf16", "f16") and words[0] != "setp" else ""
        outputs = (np.zeros(count, DTYPES[out]),)
        yield Golden(
            spelling, ptx, "k", inputs, outputs, -(-count // 128), 128, relative, absolute, number=number, known=known
        )
