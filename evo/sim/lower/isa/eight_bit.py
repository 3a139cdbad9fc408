"""Conversions between pairs of 8-bit floats and f32 or f16x2 (PTX ISA, cvt; sm_89)."""

from __future__ import annotations

from evo.sim.llvm_values import V, const, fconst
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import refuse
from evo.sim.lower.isa.rounding import narrow, widen
from evo.sim.ptx.ast import Instr
from evo.sim.runtime.tensor import eight_bit

EIGHT = {"e4m3x2", "e5m2x2"}
# mantissa bits, smallest normal exponent, bias against f32, largest finite, NaN
_FORMATS = {"e4m3x2": (3, -6, 120, 0x7E, 0x7F), "e5m2x2": (2, -14, 112, 0x7B, 0x7F)}


def convert_eight(e: Emitter, ins: Instr, to: str, source: str) -> None:
    """cvt.rn.satfinite.{e4m3x2,e5m2x2}.{f32,f16x2} and cvt.rn.f16x2.{e4m3x2,e5m2x2}, each with .relu."""
    c = e.c
    if source in EIGHT:
        if to != "f16x2" or len(ins.args) != 2 or set(ins.mods[:-2]) - {"rn", "relu"}:
            raise refuse(ins)
        both = e.src(ins.args[1], "b16")
        values = [c.trunc(both, "i8"), c.trunc(c.lshr(both, 8), "i8")]
        halves = [narrow(e, eight_bit(c, value, source[:4]), "f16") for value in values]
        if "relu" in ins.mods:
            halves = [_relu_half(e, half) for half in halves]
        low, high = (c.zext(half, "i32") for half in halves)
        e.dst(ins.args[0], c.or_(low, c.shl(high, 16)))
        return
    if not {"rn", "satfinite"} <= set(ins.mods) or source not in ("f32", "f16x2"):
        raise refuse(ins)
    if source == "f32":
        if len(ins.args) != 3:
            raise refuse(ins, "operands")
        high, low = c.same(e.src(ins.args[1], "f32"), e.src(ins.args[2], "f32"))
    else:
        pair = e.src(ins.args[1], "b32")
        low, high = (widen(e, c.trunc(c.lshr(pair, at), "i16"), "f16") for at in (0, 16))
    low, high = (c.zext(encode(e, x, to, relu="relu" in ins.mods), "i16") for x in (low, high))
    e.dst(ins.args[0], c.or_(low, c.shl(high, 8)))


def _relu_half(e: Emitter, half: V) -> V:
    c = e.c
    nan = c.icmp("ugt", c.and_(half, 0x7FFF), 0x7C00)
    negative = c.icmp("slt", half, 0)
    return c.select(nan, const(half.t, 0x7FFF), c.select(negative, const(half.t, 0), half))


def encode(e: Emitter, x: V, kind: str, *, relu: bool) -> V:
    """float -> 8 bits, to nearest even; too large becomes the largest finite value, NaN stays NaN."""
    c = e.c
    digits, least, bias, largest, nan = _FORMATS[kind]
    bits = c.bits(x, "i32")
    size = c.and_(bits, 0x7FFFFFFF)
    drop = 23 - digits
    even = c.add(c.and_(c.lshr(size, drop), 1), (1 << (drop - 1)) - 1)
    normal = c.sub(c.lshr(c.add(size, even), drop), bias << digits)
    # Below the smallest normal number the code is a plain count of the smallest denormal.
    magnitude = c.bits(size, "float")
    scaled = c.bin("fmul", magnitude, fconst(x.t, 2.0 ** (digits - least)))
    small = c.fcmp("olt", magnitude, fconst(x.t, 2.0**least))
    bounded = c.select(small, scaled, fconst(x.t, 0.0))
    tiny = c.cast("fptosi", c.intrinsic("rint", bounded), "i32")
    code = c.intrinsic("umin", c.select(small, tiny, normal), const(size.t, largest))
    code = c.or_(code, c.and_(c.lshr(bits, 24), 0x80))
    if relu:
        code = c.select(c.icmp("slt", bits, 0), const(code.t, 0), code)
    return c.trunc(c.select(c.fcmp("uno", x, x), const(code.t, nan), code), "i8")
