"""Float building blocks: denormal flushing, directed rounding, half and bfloat16 conversions, comparisons."""

from __future__ import annotations

from evo.sim.abi import CTX
from evo.sim.errors import refuse
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const, elem, fconst, is_vec
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import defs
from evo.sim.ptx.ast import Instr
from evo.sim.runtime.fault_report import mixed

_FORMS = {
    "float": ("i32", 0x7F800000, 1 << 31),
    "double": ("i64", 0x7FF << 52, 1 << 63),
    "half": ("i16", 0x7C00, 1 << 15),
}
FLOAT_COMPARISONS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "num": "ord", "nan": "uno",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
}  # fmt: skip


def flush(e: Emitter, x: V, *, always: bool = False) -> V:
    """Denormals to zero of the same sign. `always`: also where the processor's mode would do it for arithmetic."""
    if e.hardware_ftz and not always:
        return x
    return flushed(e.c, x)


def flushed(c: Code, x: V) -> V:
    """Denormals to zero of the same sign."""
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
    return stepped(e, near, rest, mode, finite)


def stepped(e: Emitter, near: V, rest: V, mode: str, allowed: V) -> V:
    """The neighbour of `near` that a directed rounding of `near + rest` gives; only the sign of `rest` counts."""
    c = e.c
    zero = fconst(rest.t, 0.0)
    above, below = c.fcmp("ogt", rest, zero), c.fcmp("olt", rest, zero)
    t = _FORMS[elem(near.t)][0]
    if mode == "rz":
        negative = c.icmp("slt", c.bits(near, t), 0)
        step = c.select(negative, above, below)
        moved = c.bits(c.add(c.bits(near, t), -1), elem(near.t))
    elif mode == "rm":
        step, moved = below, _next(e, near, down=True)
    else:
        step, moved = above, _next(e, near, down=False)
    return c.select(c.and_(step, allowed), moved, near)


def _next(e: Emitter, x: V, *, down: bool) -> V:
    """The neighbouring float below or above."""
    c = e.c
    t, _, sign = _FORMS[elem(x.t)]
    bits = c.bits(x, t)
    negative = c.icmp("slt", bits, 0)
    zero = c.icmp("eq", c.shl(bits, 1), 0)
    away = c.select(negative, const(bits.t, 1 if down else -1), const(bits.t, -1 if down else 1))
    out = c.add(bits, away)
    return c.bits(c.select(zero, const(bits.t, sign | 1 if down else 1), out), elem(x.t))


def signed_zero(e: Emitter, total: V, mode: str, *terms: V) -> V:
    """An exact zero sum of unlike signs is -0 when rounding down, +0 otherwise (IEEE 754, 6.3)."""
    if mode != "rm":
        return total
    c = e.c
    t, _, sign = _FORMS[elem(total.t)]
    either = c.bits(terms[0], t)
    for term in terms[1:]:
        either = c.or_(either, c.bits(term, t))
    zero = c.fcmp("oeq", total, fconst(total.t, 0.0))
    return c.bits(c.select(zero, c.and_(either, sign), c.bits(total, t)), elem(total.t))


def odd(e: Emitter, total: V, error: V) -> V:
    """A double `total + error` as float rounded to odd, so that a later rounding to 16 bits is correct."""
    c = e.c
    cut = directed(e, total, error, "rz")
    same = c.and_(c.fcmp("oeq", c.cast("fpext", cut, "double"), total), c.fcmp("oeq", error, fconst(error.t, 0.0)))
    bits = c.bits(cut, "i32")
    special = c.icmp("eq", c.and_(bits, 0x7F800000), 0x7F800000)
    return c.bits(c.select(c.or_(same, special), bits, c.or_(bits, 1)), "float")


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


def narrow_directed(e: Emitter, x: V, kind: str, mode: str) -> V:
    """float -> 16 bits of an f16 or bf16 by rz, rm or rp; rounded towards zero, overflow gives the largest finite."""
    c = e.c
    near = narrow(e, x, kind)
    back = widen(e, near, kind)
    above, below = c.fcmp("olt", back, x), c.fcmp("ogt", back, x)
    negative = c.icmp("slt", c.bits(x, "i32"), 0)
    # In sign-magnitude order, one up in the bits is away from zero.
    if mode == "rz":
        inward, outward = c.select(negative, above, below), V(above.t, const(above.t, 0).s)
    elif mode == "rm":
        inward, outward = c.and_(below, c.not_(negative)), c.and_(below, negative)
    else:
        inward, outward = c.and_(above, negative), c.and_(above, c.not_(negative))
    return c.sub(c.add(near, c.zext(outward, "i16")), c.zext(inward, "i16"))


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


def note_unrounded(e: Emitter, ins: Instr, *values: V) -> None:
    """Add up what is rounded to be stored: where threads meet, the order may show before the rounding alone."""
    if e.stored.isdisjoint(defs(ins)):
        return
    c = e.c
    for value in values:
        wide = mixed(c, c.bits(e.vector(value), "i64" if elem(value.t) == "double" else "i32"))
        lanes = c.select(c.mask_vec(e.active()), wide, const(wide.t, 0))
        c.bump(e.ctx, CTX["left"], c.extern("i64", "llvm.vector.reduce.add.v32i64", lanes))


def combined(ins: Instr) -> str | None:
    """How the result of a comparison is joined with a third operand; None if there is none."""
    found = [mod for mod in ins.mods if mod in ("and", "or", "xor")]
    if len(found) != len(ins.args) - 3:
        raise refuse(ins, "operands")
    return found[0] if found else None


def pick_extremum(e: Emitter, name: str, a: V, b: V, *, nan: bool) -> V:
    """The smaller or larger; -0 is below +0; one NaN gives the other operand unless `nan`."""
    c = e.c
    how = "olt" if name == "min" else "ogt"
    best = c.select(c.fcmp(how, a, b), a, b)
    t = {"float": "i32", "double": "i64"}[elem(a.t)]
    x, y = c.bits(a, t), c.bits(b, t)
    both = c.bits(c.or_(x, y) if name == "min" else c.and_(x, y), elem(a.t))
    best = c.select(c.fcmp("oeq", a, b), both, best)
    a_nan, b_nan = c.fcmp("uno", a, a), c.fcmp("uno", b, b)
    if nan:
        return c.select(c.or_(a_nan, b_nan), V(a.t, _nan(a.t)), best)
    best = c.select(b_nan, a, best)
    # With b a NaN the comparison already failed towards b; with a the NaN it chose b.
    return c.select(c.and_(a_nan, b_nan), V(a.t, _nan(a.t)), best)


def _nan(t: str) -> str:
    text = "0x7FFFFFFFE0000000" if elem(t) == "float" else "0x7FFFFFFFFFFFFFFF"
    return text if not is_vec(t) else "<" + ", ".join([f"{elem(t)} {text}"] * 32) + ">"
