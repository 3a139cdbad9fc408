"""Integer arithmetic: everything wraps. Logic, shifts and bit fields are in `bits`."""

from __future__ import annotations

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const, elem
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import CARRY, Emit, alike, one_of, only, opcode, type_of, types_of
from evo.sim.ptx.ast import WIDTH, Instr

INTS = "u16 u32 u64 s16 s32 s64"
BITS = "b16 b32 b64"
_LEGAL = {
    "add": ("cc", "sat"), "sub": ("cc", "sat"), "mul": ("lo", "hi", "wide"), "mad": ("lo", "hi", "wide", "cc", "sat"),
    "min": ("relu",), "max": ("relu",), "addc": ("cc",), "subc": ("cc",), "madc": ("lo", "hi", "cc"),
    "mul24": ("lo", "hi"), "mad24": ("lo", "hi", "sat"),
}  # fmt: skip


def integer_type(ins: Instr) -> str:
    """The type of an instruction that computes with integers; other modifiers than its own are refused."""
    only(ins, *_LEGAL.get(ins.name, ()))
    return type_of(ins, INTS.split())


def sources(e: Emitter, ins: Instr, kind: str, count: int = 2) -> list[V]:
    return [e.src(arg, kind) for arg in ins.args[1 : 1 + count]]


def signed(kind: str) -> bool:
    return kind[0] == "s"


def wide(kind: str) -> str:
    return f"i{2 * WIDTH[kind]}"


def extend(e: Emitter, x: V, t: str, kind: str) -> V:
    return e.c.sext(x, t) if signed(kind) else e.c.zext(x, t)


def add_sub(e: Emitter, ins: Instr) -> None:
    kind, name = integer_type(ins), ins.name
    a, b = sources(e, ins, kind)
    c = e.c
    if "cc" in ins.mods:
        _carry_out(e, a, b, name)
    if "sat" in ins.mods:
        if kind != "s32":
            raise refuse(ins, ".sat is for .s32")
        a, b = c.same(a, b)
        e.dst(ins.args[0], c.intrinsic(f"s{name}.sat", a, b))
        return
    e.dst(ins.args[0], c.bin(name, a, b), signed=signed(kind))


def _carry_out(e: Emitter, a: V, b: V, name: str) -> None:
    c = e.c
    a, b = c.same(a, b)
    total = c.bin(name, a, b)
    # As in the hardware, the flag of a subtraction is set when nothing is borrowed; NVIDIA's 128-bit division, which
    # reads it with addc, relies on that.
    flag = c.icmp("ult", total, a) if name == "add" else c.icmp("uge", a, b)
    e.write(CARRY, flag)


def _carry_in(e: Emitter, ins: Instr) -> V:
    if CARRY not in e.registers:
        raise refuse(ins, "no instruction of this kernel sets the carry")
    return e.read(CARRY)


def add_carry(e: Emitter, ins: Instr) -> None:
    """addc, subc: add with the carry of the preceding .cc instruction."""
    kind = integer_type(ins)
    c = e.c
    a, b, flag = alike(e, *sources(e, ins, kind), _carry_in(e, ins))
    carry = c.zext(flag, elem(a.t))
    if ins.name == "addc":
        first = c.add(a, b)
        total = c.add(first, carry)
        out = c.or_(c.icmp("ult", first, a), c.icmp("ult", total, first))
    else:
        borrow = c.xor(carry, 1)
        first = c.sub(a, b)
        total = c.sub(first, borrow)
        out = c.not_(c.or_(c.icmp("ult", a, b), c.icmp("ult", first, borrow)))
    if "cc" in ins.mods:
        e.write(CARRY, out)
    e.dst(ins.args[0], total)


def multiply(e: Emitter, ins: Instr) -> None:
    kind = integer_type(ins)
    a, b = sources(e, ins, kind)
    e.dst(ins.args[0], product(e, ins, a, b), signed=signed(kind))


def product(e: Emitter, ins: Instr, a: V, b: V) -> V:
    kind, c, part = integer_type(ins), e.c, one_of(ins, "lo", "hi", "wide")
    if part == "lo":
        return c.mul(a, b)
    if part == "wide" and WIDTH[kind] == 64:
        raise refuse(ins, "128-bit result")
    big = c.mul(extend(e, a, wide(kind), kind), extend(e, b, wide(kind), kind))
    return big if part == "wide" else c.trunc(c.lshr(big, WIDTH[kind]), f"i{WIDTH[kind]}")


def multiply_add(e: Emitter, ins: Instr) -> None:
    kind, c = integer_type(ins), e.c
    a, b = sources(e, ins, kind)
    p = product(e, ins, a, b)
    third = f"{kind[0]}{2 * WIDTH[kind]}" if "wide" in ins.mods else kind
    addend = e.src(ins.args[3], third)
    p, addend = c.same(p, addend)
    if "sat" in ins.mods:
        e.dst(ins.args[0], _saturated_sum(e, ins, p, addend))
        return
    if ins.name == "madc":
        p, addend, flag = alike(e, p, addend, _carry_in(e, ins))
        first = c.add(p, addend)
        total = c.add(first, c.zext(flag, elem(p.t)))
        out = c.or_(c.icmp("ult", first, p), c.icmp("ult", total, first))
    else:
        total = c.add(p, addend)
        out = c.icmp("ult", total, p)
    if "cc" in ins.mods:
        e.write(CARRY, out)
    e.dst(ins.args[0], total, signed=signed(kind))


def _saturated_sum(e: Emitter, ins: Instr, product: V, addend: V) -> V:
    if "s32" not in ins.mods or "hi" not in ins.mods or "cc" in ins.mods:
        raise refuse(ins, ".sat is for .hi.s32")
    return e.c.intrinsic("sadd.sat", *e.c.same(product, addend))


def mul24(e: Emitter, ins: Instr) -> None:
    kind, c = integer_type(ins), e.c
    part = one_of(ins, "lo", "hi")
    if len(ins.args) != (4 if ins.name == "mad24" else 3):
        raise refuse(ins, "operands")
    parts = []
    for x in sources(e, ins, kind):
        high = c.shl(x, 8)
        parts.append(c.ashr(high, 8) if signed(kind) else c.lshr(high, 8))
    if part == "hi":  # bits 16 to 47 of the product
        widen = c.sext if signed(kind) else c.zext
        total = c.trunc(c.lshr(c.mul(*(widen(x, "i64") for x in parts)), 16), "i32")
    else:
        total = c.mul(*parts)
    if ins.name == "mad24" and "sat" in ins.mods:
        total = _saturated_sum(e, ins, total, e.src(ins.args[3], kind))
    elif ins.name == "mad24":
        total = c.add(total, e.src(ins.args[3], kind))
    e.dst(ins.args[0], total)


def divide(e: Emitter, ins: Instr) -> None:
    """Integer div and rem; division by zero gives all ones (rem: the dividend), as the hardware sequence does."""
    kind, c = integer_type(ins), e.c
    a, b = c.same(*sources(e, ins, kind))
    zero = c.icmp("eq", b, 0)
    safe = c.select(zero, const(b.t, 1), b)
    op = "s" if signed(kind) else "u"
    if signed(kind):
        # The most negative number by -1 would trap on the host: divide by 1 and negate instead.
        minus = c.icmp("eq", safe, -1)
        safe = c.select(minus, const(b.t, 1), safe)
        q = c.bin("sdiv", a, safe)
        q = c.select(minus, c.neg(q), q)
        r = c.select(minus, const(b.t, 0), c.bin("srem", a, safe))
    else:
        q, r = c.bin(op + "div", a, safe), c.bin(op + "rem", a, safe)
    out = c.select(zero, const(b.t, -1), q) if ins.name == "div" else c.select(zero, a, r)
    e.dst(ins.args[0], out, signed=signed(kind))


def extremum(e: Emitter, ins: Instr) -> None:
    kind, c = integer_type(ins), e.c
    a, b = c.same(*sources(e, ins, kind))
    out = c.intrinsic(f"{'s' if signed(kind) else 'u'}{ins.name}", a, b)
    if "relu" in ins.mods:
        if kind != "s32":
            raise refuse(ins, ".relu")
        out = c.intrinsic("smax", out, const(out.t, 0))
    e.dst(ins.args[0], out, signed=signed(kind))


def negate(e: Emitter, ins: Instr) -> None:
    kind, c = integer_type(ins), e.c
    (a,) = sources(e, ins, kind, 1)
    e.dst(ins.args[0], c.neg(a) if ins.name == "neg" else c.intrinsic("abs", a, False), signed=True)


@opcode("sad", INTS, "int", operands=(4, 4))
def sad(e: Emitter, ins: Instr) -> None:
    kind, c = integer_type(ins), e.c
    a, b = c.same(*sources(e, ins, kind))
    less = c.icmp("slt" if signed(kind) else "ult", a, b)
    gap = c.select(less, c.sub(b, a), c.sub(a, b))
    e.dst(ins.args[0], c.add(gap, e.src(ins.args[3], kind)))


@opcode("dp4a dp2a", "u32 s32 lo hi", "int", operands=(4, 4))
def dot(e: Emitter, ins: Instr) -> None:
    types, c = types_of(ins), e.c
    half = one_of(ins, "lo", "hi") if ins.name == "dp2a" else "lo"
    a, b, total = sources(e, ins, "b32", 3)
    step, parts = (8, 4) if ins.name == "dp4a" else (16, 2)
    for part in range(parts):
        x = _piece(e, a, part * step, step, signed(types[0]))
        offset = part * 8 + (16 if half == "hi" else 0)
        y = _piece(e, b, offset, 8, signed(types[1]))
        total = c.add(total, c.mul(x, y))
    e.dst(ins.args[0], total)


def _piece(e: Emitter, x: V, at: int, width: int, is_signed: bool) -> V:
    c = e.c
    high = c.shl(x, 32 - at - width)
    return c.ashr(high, 32 - width) if is_signed else c.lshr(high, 32 - width)


INTEGER: dict[str, Emit] = {
    "add": add_sub, "sub": add_sub, "min": extremum, "max": extremum, "neg": negate, "abs": negate,
    "mul": multiply, "mad": multiply_add, "div": divide, "rem": divide,
}  # fmt: skip
opcode("addc subc", "cc u32 s32 u64 s64", "int", operands=(3, 3))(add_carry)
opcode("madc", "lo hi cc u32 s32 u64 s64", "int", operands=(4, 4))(multiply_add)
opcode("rem", INTS, "int", operands=(3, 3))(divide)
opcode("mul24 mad24", "lo hi sat u32 s32", "int", operands=(3, 4))(mul24)
