"""Float building blocks: denormal flushing, directed rounding, half and bfloat16 conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.device.sim.ir import V, const, elem, fconst

if TYPE_CHECKING:
    from evo.device.sim.emit import Emitter

_FORMS = {
    "float": ("i32", 0x7F800000, 1 << 31),
    "double": ("i64", 0x7FF << 52, 1 << 63),
    "half": ("i16", 0x7C00, 1 << 15),
}


def flush(e: Emitter, x: V, *, always: bool = False) -> V:
    """Denormals to zero of the same sign. `always`: also where the processor's mode would do it for arithmetic."""
    if e.hardware_ftz and not always:
        return x
    c = e.c
    t, exponent, sign = _FORMS[elem(x.t)]
    bits = c.bits(x, t)
    tiny = c.icmp("eq", c.and_(bits, exponent), 0)
    return c.bits(c.select(tiny, c.and_(bits, sign), bits), elem(x.t))


def saturate(e: Emitter, x: V) -> V:
    """Clamp to [0, 1]; NaN gives +0."""
    c = e.c
    zero, one = fconst(x.t, 0.0), fconst(x.t, 1.0)
    positive = c.fcmp("ogt", x, zero)
    capped = c.select(c.fcmp("olt", x, one), x, one)
    return c.select(positive, capped, zero)


def two_sum(e: Emitter, a: V, b: V) -> tuple[V, V]:
    """a + b rounded to nearest, and the exact error."""
    c = e.c
    a, b = c.same(a, b)
    s = c.bin("fadd", a, b)
    bb = c.bin("fsub", s, a)
    left = c.bin("fsub", a, c.bin("fsub", s, bb))
    return s, c.bin("fadd", left, c.bin("fsub", b, bb))


def directed(e: Emitter, total: V, error: V, mode: str) -> V:
    """Round a double `total + error` to float towards zero (rz), down (rm) or up (rp)."""
    c = e.c
    near = c.cast("fptrunc", total, "float")
    gap = c.bin("fsub", total, c.cast("fpext", near, "double"))
    zero = fconst(gap.t, 0.0)
    # NaN and infinity give an unordered or zero gap, so they are never stepped.
    rest = c.select(c.fcmp("oeq", gap, zero), error, gap)
    finite = c.icmp("ne", c.and_(c.bits(total, "i64"), 0x7FF << 52), 0x7FF << 52)
    above, below = c.fcmp("ogt", rest, zero), c.fcmp("olt", rest, zero)
    negative = c.icmp("slt", c.bits(near, "i32"), 0)
    if mode == "rz":
        step = c.select(negative, above, below)
        moved = step_bits(e, near, c.not_(V(negative.t, negative.s)), toward_zero=True)
    elif mode == "rm":
        step, moved = below, _next(e, near, down=True)
    else:
        step, moved = above, _next(e, near, down=False)
    return c.select(c.and_(step, finite), moved, near)


def step_bits(e: Emitter, x: V, _: V, *, toward_zero: bool) -> V:
    c = e.c
    return c.bits(c.add(c.bits(x, "i32"), -1 if toward_zero else 1), "float")


def _next(e: Emitter, x: V, *, down: bool) -> V:
    """The neighbouring float below or above."""
    c = e.c
    bits = c.bits(x, "i32")
    negative = c.icmp("slt", bits, 0)
    zero = c.icmp("eq", c.shl(bits, 1), 0)
    away = c.select(negative, const(bits.t, 1 if down else -1), const(bits.t, -1 if down else 1))
    out = c.add(bits, away)
    return c.bits(c.select(zero, const(bits.t, 0x80000001 if down else 1), out), "float")


def widen(e: Emitter, bits: V, kind: str) -> V:
    """16 bits of an f16 or bf16 -> float, exact."""
    c = e.c
    if kind == "bf16":
        return c.bits(c.shl(c.zext(bits, "i32"), 16), "float")
    return c.cast("fpext", c.bits(bits, "half"), "float")


def narrow(e: Emitter, x: V, kind: str) -> V:
    """float -> 16 bits of an f16 or bf16, to nearest even; NaN becomes the canonical one."""
    c = e.c
    if kind == "f16":
        value = c.bits(c.cast("fptrunc", x, "half"), "i16")
        return c.select(c.fcmp("uno", x, x), const(value.t, 0x7FFF), value)
    bits = c.bits(x, "i32")
    odd = c.and_(c.lshr(bits, 16), 1)
    out = c.trunc(c.lshr(c.add(c.add(bits, 0x7FFF), odd), 16), "i16")
    return c.select(c.fcmp("uno", x, x), const(out.t, 0x7FFF), out)


def narrow_toward_zero(e: Emitter, x: V, kind: str) -> V:
    """float -> f16 or bf16 by truncation; overflow gives the largest finite value."""
    c = e.c
    if kind == "bf16":
        out = c.trunc(c.lshr(c.bits(x, "i32"), 16), "i16")
        return c.select(c.fcmp("uno", x, x), const(out.t, 0x7FFF), out)
    near = narrow(e, x, kind)
    back = widen(e, near, kind)
    size, exact = c.intrinsic("fabs", x), c.intrinsic("fabs", back)
    out = c.select(c.fcmp("ogt", exact, size), c.sub(near, 1), near)
    infinite = c.fcmp("oeq", size, fconst(x.t, float("inf")))
    return c.select(infinite, near, out)


def odd_sum(e: Emitter, a: V, b: V) -> V:
    """a + b in float rounded to odd, so that a later rounding to 16 bits is correct."""
    c = e.c
    s, error = two_sum(e, a, b)
    bits, err = c.bits(s, "i32"), c.bits(error, "i32")
    zero = fconst(error.t, 0.0)
    inexact = c.fcmp("one", error, zero)
    even = c.icmp("eq", c.and_(bits, 1), 0)
    same = c.icmp("sge", c.xor(bits, err), 0)
    moved = c.add(bits, c.select(same, const(bits.t, 1), const(bits.t, -1)))
    return c.bits(c.select(c.and_(inexact, even), moved, bits), "float")
