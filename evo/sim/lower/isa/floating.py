"""f32 and f64 arithmetic, the approximate functions, comparisons and selection."""

from __future__ import annotations

import math

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, elem, fconst
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa import approx
from evo.sim.lower.isa import directed as exact
from evo.sim.lower.isa.half import HALF, half_arithmetic, half_compare
from evo.sim.lower.isa.integer import INTEGER
from evo.sim.lower.isa.opcode_table import Emit, alike, one_of, only, opcode, type_of, types_of
from evo.sim.lower.isa.rounding import (
    FLOAT_COMPARISONS,
    combined,
    directed,
    flush,
    pick_extremum,
    saturate,
    signed_zero,
    two_sum,
)  # fmt: skip
from evo.sim.ptx.ast import Instr, Operand, Pair

TYPES = "u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2"
ROUND = "rn rz rm rp"
_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def float_sources(e: Emitter, ins: Instr, count: int, kind: str) -> list[V]:
    values = [e.src(arg, kind) for arg in ins.args[1 : 1 + count]]
    if "ftz" in ins.mods and kind == "f32":
        values = [flush(e, v) for v in values]
    return values


def finish(e: Emitter, ins: Instr, value: V) -> None:
    if "ftz" in ins.mods and elem(value.t) == "float":
        value = flush(e, value)
    if "sat" in ins.mods:
        value = saturate(e, value)
    e.dst(ins.args[0], value)


def by_type(emit: Emit) -> Emit:
    """f32 and f64 are emitted here, 16-bit floats by `half`, integers by `integer`."""

    def route(e: Emitter, ins: Instr) -> None:
        kind = type_of(ins)
        chosen = emit if kind in ("f32", "f64") else half_arithmetic if kind in HALF else INTEGER[ins.name]
        chosen(e, ins)

    return route


@opcode("add sub mul", f"cc lo hi wide {ROUND} ftz sat {TYPES}", "alu", operands=(3, 3))
@opcode("div", f"{ROUND} approx full ftz {TYPES}", "alu", operands=(3, 3))
@by_type
def arithmetic(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    only(ins, *ROUND.split(), "ftz", "sat", *(("approx", "full") if ins.name == "div" else ()))
    a, b = e.c.same(*float_sources(e, ins, 2, kind))
    mode = _mode(ins)
    if mode == "rn":
        finish(e, ins, approx.divide(e.c, a, b) if "approx" in ins.mods else e.c.bin(_OPS[ins.name], a, b))
        return
    if ins.name == "sub":
        b = e.c.fneg(b)
    if kind == "f64" or ins.name == "div":
        wide = {"div": exact.quotient, "mul": exact.product}.get(ins.name, exact.total)
        finish(e, ins, wide(e, a, b, mode))
        return
    a, b = (e.c.cast("fpext", x, "double") for x in (a, b))
    if ins.name == "mul":
        total = e.c.bin("fmul", a, b)
        finish(e, ins, directed(e, total, fconst(total.t, 0.0), mode))
        return
    finish(e, ins, _directed_sum(e, a, b, mode))


def _directed_sum(e: Emitter, a: V, b: V, mode: str) -> V:
    """Two doubles that are exact -> float of their sum."""
    total, error = two_sum(e, a, b)
    return directed(e, signed_zero(e, total, mode, a, b), error, mode)


def _mode(ins: Instr) -> str:
    return next((m for m in ins.mods if m in ("rz", "rm", "rp")), "rn")


@opcode("fma", f"{ROUND} ftz sat relu f32 f64 f16 f16x2 bf16 bf16x2", "fp", operands=(4, 4))
@opcode("mad", f"lo hi wide cc sat {ROUND} ftz {TYPES}", "alu", operands=(4, 4))
@by_type
def fused(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    only(ins, *ROUND.split(), "ftz", "sat")
    c = e.c
    a, b, d = alike(e, *float_sources(e, ins, 3, kind))
    mode = _mode(ins)
    if mode == "rn":
        finish(e, ins, c.intrinsic("fma", a, b, d))
        return
    if kind == "f64":
        finish(e, ins, exact.fused(e, a, b, d, mode))
        return
    wide = [c.cast("fpext", x, "double") for x in (a, b, d)]
    product = c.bin("fmul", wide[0], wide[1])
    finish(e, ins, _directed_sum(e, product, wide[2], mode))


@opcode("min max", f"ftz NaN xorsign abs relu {TYPES} u16x2 s16x2", "alu", operands=(3, 3))
@by_type
def extremum(e: Emitter, ins: Instr) -> None:
    kind, c = type_of(ins), e.c
    only(ins, "ftz", "NaN", "xorsign", "abs")
    values = [e.src(arg, kind) for arg in ins.args[1:3]]
    if "ftz" in ins.mods:
        values = [flush(e, v, always=True) for v in values]
    a, b = c.same(*values)
    if "xorsign" in ins.mods or "abs" in ins.mods:
        if kind != "f32" or not {"xorsign", "abs"} <= set(ins.mods):
            raise refuse(ins, ".xorsign")
        # The smaller or larger magnitude with the product's sign; a NaN keeps its own.
        best = pick_extremum(e, ins.name, *(c.intrinsic("fabs", x) for x in (a, b)), nan="NaN" in ins.mods)
        sign = c.and_(c.xor(c.bits(a, "i32"), c.bits(b, "i32")), 1 << 31)
        signed = c.bits(c.or_(c.bits(best, "i32"), sign), "float")
        e.dst(ins.args[0], c.select(c.fcmp("uno", best, best), best, signed))
        return
    e.dst(ins.args[0], pick_extremum(e, ins.name, a, b, nan="NaN" in ins.mods))


@opcode("neg abs", f"ftz {TYPES}", "alu", operands=(2, 2))
@by_type
def negate(e: Emitter, ins: Instr) -> None:
    kind, c = type_of(ins), e.c
    a = e.src(ins.args[1], kind)
    if "ftz" in ins.mods:
        a = flush(e, a, always=True)
    e.dst(ins.args[0], c.fneg(a) if ins.name == "neg" else c.intrinsic("fabs", a))


@opcode("copysign", "f32 f64", "alu", operands=(3, 3))
def copy_sign(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    a, b = e.c.same(e.src(ins.args[1], kind), e.src(ins.args[2], kind))
    e.dst(ins.args[0], e.c.intrinsic("copysign", b, a))


@opcode("testp", "finite infinite number notanumber normal subnormal f32 f64", "alu", operands=(2, 2))
def test_property(e: Emitter, ins: Instr) -> None:
    kind, c = type_of(ins), e.c
    x = e.src(ins.args[1], kind)
    size = c.intrinsic("fabs", x)
    infinity = fconst(x.t, math.inf)
    least = fconst(x.t, 2.0**-126 if kind == "f32" else 2.0**-1022)
    tests = {
        "finite": lambda: c.fcmp("olt", size, infinity),
        "infinite": lambda: c.fcmp("oeq", size, infinity),
        "number": lambda: c.fcmp("ord", x, x),
        "notanumber": lambda: c.fcmp("uno", x, x),
        "normal": lambda: c.and_(c.fcmp("olt", size, infinity), c.fcmp("oge", size, least)),
        "subnormal": lambda: c.and_(c.fcmp("olt", size, least), c.fcmp("ogt", size, fconst(x.t, 0.0))),
    }
    e.dst(ins.args[0], tests[one_of(ins, *tests)]())


@opcode("rcp sqrt rsqrt", f"{ROUND} approx ftz f32 f64", "sfu", operands=(2, 2))
def reciprocal(e: Emitter, ins: Instr) -> None:
    kind, c = type_of(ins), e.c
    (a,) = float_sources(e, ins, 1, kind)
    if _mode(ins) != "rn":
        if ins.name == "rsqrt":
            raise refuse(ins)
        mode = _mode(ins)
        one = fconst(a.t, 1.0)
        finish(e, ins, exact.root(e, a, mode) if ins.name == "sqrt" else exact.quotient(e, one, a, mode))
        return
    if ins.name in ("sqrt", "rsqrt"):
        a = c.intrinsic("sqrt", a)
    if ins.name in ("rcp", "rsqrt"):
        a = c.bin("fdiv", fconst(a.t, 1.0), a)
    finish(e, ins, a)


@opcode("ex2 lg2 sin cos tanh", "approx ftz f32 f16 f16x2 bf16 bf16x2", "sfu", operands=(2, 2))
@by_type
def approximate(e: Emitter, ins: Instr) -> None:
    ftz = "ftz" in ins.mods and not e.hardware_ftz
    e.dst(ins.args[0], approx.approximation(e.c, ins.name, e.src(ins.args[1], "f32"), ftz=ftz))


_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"


def compare(e: Emitter, ins: Instr, kind: str, left: Operand, right: Operand) -> V:
    """A comparison as a predicate value."""
    c, how = e.c, one_of(ins, *COMPARE.split())
    a, b = c.same(e.src(left, kind), e.src(right, kind))
    if kind in ("f32", "f64"):
        if "ftz" in ins.mods:
            a, b = flush(e, a, always=True), flush(e, b, always=True)
        if how not in FLOAT_COMPARISONS:
            raise refuse(ins, f".{how}")
        return c.fcmp(FLOAT_COMPARISONS[how], a, b)
    if how in ("eq", "ne"):
        return c.icmp(how, a, b)
    table = _SIGNED if kind[0] == "s" else _UNSIGNED
    if how not in table or kind[0] == "b":
        raise refuse(ins, f".{how}")
    return c.icmp(table[how], a, b)


@opcode("setp", f"{COMPARE} and or xor ftz b16 b32 b64 {TYPES}", "alu", operands=(3, 4))
def set_predicate(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    only(ins, *COMPARE.split(), "and", "or", "xor", "ftz")
    if kind in HALF:
        half_compare(e, ins)
        return
    write_predicates(e, ins, compare(e, ins, kind, ins.args[1], ins.args[2]))


def write_predicates(e: Emitter, ins: Instr, result: V) -> None:
    """p, or p|q where q is the negated comparison; both combined with the third operand if there is one."""
    c = e.c
    boolean = combined(ins)
    values = [result, c.not_(result)]
    if boolean is not None:
        other = e.src(ins.args[3], "pred")
        values = [c.bin(boolean, value, other) for value in values]
    target = ins.args[0]
    for register, value in zip(target if isinstance(target, Pair) else (target,), values, strict=False):
        e.dst(register, value)


@opcode("set", f"{COMPARE} and or xor ftz b16 b32 b64 {TYPES}", "alu", operands=(3, 4))
def set_value(e: Emitter, ins: Instr) -> None:
    c = e.c
    target, kind = types_of(ins)
    if kind in HALF:
        half_compare(e, ins)
        return
    result = compare(e, ins, kind, ins.args[1], ins.args[2])
    boolean = combined(ins)
    if boolean is not None:
        result = c.bin(boolean, result, e.src(ins.args[3], "pred"))
    if target == "f32":
        t = result.t.replace("i1", "float")
        e.dst(ins.args[0], c.select(result, fconst(t, 1.0), fconst(t, 0.0)))
    elif target in ("u32", "s32"):
        e.dst(ins.args[0], c.sext(result, "i32"))
    else:
        raise refuse(ins)


@opcode("selp", f"b16 b32 b64 {TYPES}", "alu", operands=(4, 4))
def select(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    a, b = e.src(ins.args[1], kind), e.src(ins.args[2], kind)
    choice = e.src(ins.args[3], "pred")
    e.dst(ins.args[0], e.c.select(choice, a, b), signed=kind[0] == "s")


@opcode("slct", "ftz b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64", "alu", operands=(4, 4))
def slct(e: Emitter, ins: Instr) -> None:
    types = types_of(ins)
    if types[1] not in ("s32", "f32"):
        raise refuse(ins)
    a, b = e.src(ins.args[1], types[0]), e.src(ins.args[2], types[0])
    x = e.src(ins.args[3], types[1])
    if types[1] == "f32":
        if "ftz" in ins.mods:
            x = flush(e, x, always=True)
        choice = e.c.fcmp("oge", x, fconst(x.t, 0.0))
    else:
        choice = e.c.icmp("sge", x, 0)
    e.dst(ins.args[0], e.c.select(choice, a, b))
