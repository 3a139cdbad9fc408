"""f16, bf16 and their packed pairs: computed in wider numbers and rounded once, so results are correctly rounded."""

from __future__ import annotations

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const, fconst
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.approx import approximation
from evo.sim.lower.isa.opcode_table import alike, one_of, only, type_of
from evo.sim.lower.isa.rounding import (
    FLOAT_COMPARISONS,
    combined,
    flush,
    narrow,
    odd,
    odd_sum,
    pick_extremum,
    saturate,
    two_sum,
    widen,
)  # fmt: skip
from evo.sim.ptx.ast import WIDTH, Instr, Operand, Pair

HALF = {"f16", "f16x2", "bf16", "bf16x2"}
_LEGAL = {
    "add": {"rn", "ftz", "sat"}, "sub": {"rn", "ftz", "sat"}, "mul": {"rn", "ftz", "sat"},
    "fma": {"rn", "ftz", "sat", "relu"}, "min": {"ftz", "NaN", "xorsign", "abs"},
    "max": {"ftz", "NaN", "xorsign", "abs"}, "neg": {"ftz"}, "abs": {"ftz"},
    "ex2": {"approx", "ftz"}, "tanh": {"approx"},
}  # fmt: skip


def parts(e: Emitter, arg: Operand, kind: str) -> list[V]:
    """The 16-bit patterns of an operand: one, or low and high of a pair."""
    if not kind.endswith("x2"):
        return [e.src(arg, "b16")]
    both = e.src(arg, "b32")
    return [e.c.trunc(both, "i16"), e.c.trunc(e.c.lshr(both, 16), "i16")]


def join(e: Emitter, values: list[V]) -> V:
    if len(values) == 1:
        return values[0]
    low, high = e.c.same(*(e.c.zext(v, "i32") for v in values))
    return e.c.or_(low, e.c.shl(high, 16))


def half_arithmetic(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    if ins.name not in _LEGAL:
        raise refuse(ins, f"type .{kind}")
    only(ins, *_LEGAL[ins.name])
    base = kind.removesuffix("x2")
    columns = [parts(e, arg, kind) for arg in ins.args[1:]]
    out = []
    for operands in zip(*columns, strict=True):
        out.append(_one(e, ins, base, alike(e, *operands)))
    e.dst(ins.args[0], join(e, out))


def _one(e: Emitter, ins: Instr, base: str, operands: tuple[V, ...]) -> V:
    c, name = e.c, ins.name
    if name == "neg":
        return c.xor(operands[0], 0x8000)
    if name == "abs":
        return c.and_(operands[0], 0x7FFF)
    if "ftz" in ins.mods and base == "f16":
        operands = tuple([c.bits(flush(e, c.bits(x, "half"), always=True), "i16") for x in operands])
    xs = [widen(e, x, base) for x in operands]
    if "ftz" in ins.mods and base == "bf16":  # its subnormals are those of f32
        xs = [flush(e, x, always=True) for x in xs]
    if name in ("min", "max") and {"xorsign", "abs"} & set(ins.mods):
        if not {"xorsign", "abs"} <= set(ins.mods):
            raise refuse(ins, ".xorsign")
        # The smaller or larger magnitude with the product's sign; a NaN keeps its own.
        best = pick_extremum(e, name, *(c.intrinsic("fabs", x) for x in xs), nan="NaN" in ins.mods)
        sign = c.and_(c.xor(operands[0], operands[1]), 0x8000)
        bits = narrow(e, best, base)
        return c.select(c.fcmp("uno", best, best), bits, c.or_(bits, sign))
    if name in ("min", "max"):
        return narrow(e, pick_extremum(e, name, xs[0], xs[1], nan="NaN" in ins.mods), base)
    if name in ("fma", "mul") and base == "bf16":
        # A product of two bf16 can leave the range of f32, never that of f64.
        xs = [c.cast("fpext", x, "double") for x in xs]
        product = c.bin("fmul", xs[0], xs[1])
        total = odd(e, *(two_sum(e, product, xs[2]) if name == "fma" else (product, fconst(product.t, 0.0))))
    elif name == "fma":
        total = odd_sum(e, c.bin("fmul", xs[0], xs[1]), xs[2])
    elif name in ("ex2", "tanh"):
        total = approximation(c, name, xs[0])
        if "ftz" in ins.mods and base == "bf16":
            total = flush(e, total, always=True)
    elif name == "mul":
        total = c.bin("fmul", xs[0], xs[1])
    else:
        right = xs[1] if name == "add" else c.fneg(xs[1])
        total = odd_sum(e, xs[0], right)
    if "sat" in ins.mods:
        total = saturate(e, total)
    out = narrow(e, total, base)
    if "relu" in ins.mods:
        out = c.select(c.fcmp("ole", total, fconst(total.t, 0.0)), const(out.t, 0), out)  # -0 becomes +0 as well
    if "ftz" in ins.mods and base == "f16":
        out = c.bits(flush(e, c.bits(out, "half"), always=True), "i16")
    return out


def half_compare(e: Emitter, ins: Instr) -> None:
    """setp and set on 16-bit floats, packed or not."""
    c = e.c
    types = [m for m in ins.mods if m in WIDTH]
    kind, how, boolean = types[-1], one_of(ins, *FLOAT_COMPARISONS), combined(ins)
    base = kind.removesuffix("x2")
    found = []
    for a, b in zip(parts(e, ins.args[1], kind), parts(e, ins.args[2], kind), strict=True):
        left, right = c.same(a, b)
        if "ftz" in ins.mods and base == "f16":
            left, right = (c.bits(flush(e, c.bits(x, "half"), always=True), "i16") for x in (left, right))
        found.append(c.fcmp(FLOAT_COMPARISONS[how], widen(e, left, base), widen(e, right, base)))
    if boolean is not None:
        other = e.src(ins.args[3], "pred")
        found = [c.bin(boolean, v, other) for v in found]
    if ins.name == "setp":
        _write(e, ins, found, kind)
        return
    if types[0] not in (kind, base, "u16", "s16", "u32", "s32"):
        raise refuse(ins)
    one = 0x3C00 if base == "f16" else 0x3F80
    if types[0] in ("u32", "s32") and len(found) == 1:
        e.dst(ins.args[0], c.sext(found[0], "i32"))
        return
    ones = one if types[0] in HALF else -1
    values = [c.select(v, const(v.t.replace("i1", "i16"), ones), 0) for v in found]
    e.dst(ins.args[0], join(e, values))


def _write(e: Emitter, ins: Instr, found: list[V], kind: str) -> None:
    target = ins.args[0]
    if isinstance(target, Pair):
        e.dst(target.first, found[0])
        e.dst(target.second, found[1] if kind.endswith("x2") else e.c.not_(found[0]))
    elif kind.endswith("x2"):
        raise refuse(ins, "operands")
    else:
        e.dst(target, found[0])
