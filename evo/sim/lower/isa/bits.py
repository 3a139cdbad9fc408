"""Logic, shifts, bit fields, bit counts and byte permutes. Shifts clamp as PTX says."""

from __future__ import annotations

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const, elem, is_vec, known_integer
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.integer import BITS, INTS, signed, sources
from evo.sim.lower.isa.opcode_table import alike, one_of, opcode, type_of
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Pair


@opcode("and or xor", BITS + " pred", "int", operands=(3, 3))
def logic(e: Emitter, ins: Instr) -> None:
    a, b = sources(e, ins, type_of(ins))
    e.dst(ins.args[0], e.c.bin(ins.name, a, b))


@opcode("not", BITS + " pred", "int", operands=(2, 2))
def invert(e: Emitter, ins: Instr) -> None:
    e.dst(ins.args[0], e.c.not_(e.src(ins.args[1], type_of(ins))))


@opcode("cnot", BITS, "int", operands=(2, 2))
def cnot(e: Emitter, ins: Instr) -> None:
    a = e.src(ins.args[1], type_of(ins))
    e.dst(ins.args[0], e.c.zext(e.c.icmp("eq", a, 0), elem(a.t)))


@opcode("lop3", "b32 and or", "int", operands=(5, 6))
def lop3(e: Emitter, ins: Instr) -> None:
    """Any function of three bits; with `.and` or `.or` also whether the result is not 0, combined with a predicate."""
    c = e.c
    table, target = ins.args[4], ins.args[0]
    joined = one_of(ins, "and", "or") if len(ins.args) == 6 else None
    if not isinstance(table, Imm) or ins.mods != ((joined, "b32") if joined else ("b32",)):
        raise refuse(ins)
    a, b, d = alike(e, *sources(e, ins, "b32", 3))
    total: V | None = None
    for row in range(8):
        if not table.value >> row & 1:
            continue
        terms = [x if row & bit else c.not_(x) for x, bit in ((a, 4), (b, 2), (d, 1))]
        term = c.and_(c.and_(terms[0], terms[1]), terms[2])
        total = term if total is None else c.or_(total, term)
    total = total if total is not None else const(a.t, 0)
    if joined is None:
        e.dst(target, total)
        return
    if not isinstance(target, Pair):
        raise refuse(ins, "its results are a pair")
    some, given = c.same(c.icmp("ne", total, 0), e.src(ins.args[5], "pred"))
    e.dst(target.first, total)
    e.dst(target.second, c.and_(some, given) if joined == "and" else c.or_(some, given))


_SHIFTS = {("shl", False): "shl", ("shl", True): "shl", ("shr", False): "lshr", ("shr", True): "ashr"}


@opcode("shl shr", f"{BITS} {INTS}", "int", operands=(3, 3))
def shift(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    a, n = e.src(ins.args[1], kind), e.src(ins.args[2], "u32")
    width = WIDTH[kind]
    e.dst(ins.args[0], shift_by(e, ins.name, a, n, width, signed(kind)), signed=signed(kind))


def shift_by(e: Emitter, name: str, a: V, n: V, width: int, arithmetic: bool) -> V:
    """Shift by an amount that clamps at the width."""
    c = e.c
    t = elem(a.t)
    limit = width - 1
    if (known := known_integer(n)) is not None and not is_vec(n.t):
        by = min(known & 0xFFFFFFFF, limit if name == "shr" and arithmetic else width)
        return const(a.t, 0) if by == width else c.bin(_SHIFTS[name, arithmetic], a, by)
    a, n = alike(e, a, n)
    big = c.icmp("ugt", n, limit)
    amount = c.intrinsic("umin", n, const(n.t, limit))
    amount = c.zext(amount, t) if width > 32 else c.trunc(amount, t) if width < 32 else amount
    if name == "shr" and arithmetic:
        return c.ashr(a, amount)
    out = c.shl(a, amount) if name == "shl" else c.lshr(a, amount)
    return c.select(big, const(out.t, 0), out)


@opcode("shf", "l r clamp wrap b32", "int", operands=(4, 4))
def funnel(e: Emitter, ins: Instr) -> None:
    c, way, mode = e.c, one_of(ins, "l", "r"), one_of(ins, "wrap", "clamp")
    low, high, n = e.src(ins.args[1], "b32"), e.src(ins.args[2], "b32"), e.src(ins.args[3], "u32")
    n = c.and_(n, 31) if mode == "wrap" else c.intrinsic("umin", n, const(n.t, 32))
    low, high, n = alike(e, low, high, n)
    pair = c.or_(c.shl(c.zext(high, "i64"), 32), c.zext(low, "i64"))
    amount = c.zext(n, "i64")
    out = c.lshr(c.shl(pair, amount), 32) if way == "l" else c.lshr(pair, amount)
    e.dst(ins.args[0], c.trunc(out, "i32"))


@opcode("bfe", "u32 s32 u64 s64", "int", operands=(4, 4))
def field_extract(e: Emitter, ins: Instr) -> None:
    """Position and length are 8-bit; beyond the width, zeros or the sign bit are read."""
    kind, c = type_of(ins), e.c
    width = WIDTH[kind]
    a = e.src(ins.args[1], kind)
    pos, length = (c.and_(e.src(arg, "u32"), 255) for arg in ins.args[2:4])
    a, pos, length = alike(e, a, pos, length)
    t = f"i{2 * width}"
    big = c.sext(a, t) if signed(kind) else c.zext(a, t)
    amount = c.zext(c.intrinsic("umin", pos, const(pos.t, width)), t)
    right = c.ashr if signed(kind) else c.lshr
    moved = right(big, amount)
    drop = c.zext(c.sub(const(length.t, width), c.intrinsic("umin", length, const(length.t, width))), t)
    high = c.shl(moved, c.add(drop, width))
    out = right(high, c.add(drop, width))
    out = c.select(c.icmp("eq", length, 0), const(out.t, 0), out)
    e.dst(ins.args[0], c.trunc(out, f"i{width}"))


@opcode("bfi", "b32 b64", "int", operands=(5, 5))
def field_insert(e: Emitter, ins: Instr) -> None:
    kind, c = type_of(ins), e.c
    width = WIDTH[kind]
    a, b = e.src(ins.args[1], kind), e.src(ins.args[2], kind)
    pos, length = (c.and_(e.src(arg, "u32"), 255) for arg in ins.args[3:5])
    a, b, pos, length = alike(e, a, b, pos, length)
    ones = shift_by(e, "shl", const(a.t, 1), length, width, False)
    mask = c.sub(ones, 1)
    mask = shift_by(e, "shl", mask, pos, width, False)
    moved = shift_by(e, "shl", a, pos, width, False)
    e.dst(ins.args[0], c.or_(c.and_(moved, mask), c.and_(b, c.not_(mask))))


@opcode("popc clz brev", "b32 b64", "int", operands=(2, 2))
def count_bits(e: Emitter, ins: Instr) -> None:
    a, c = e.src(ins.args[1], type_of(ins)), e.c
    if ins.name == "brev":
        e.dst(ins.args[0], c.intrinsic("bitreverse", a))
        return
    out = c.intrinsic("ctpop", a) if ins.name == "popc" else c.intrinsic("ctlz", a, False)
    e.dst(ins.args[0], c.trunc(out, "i32"))


@opcode("bfind", "shiftamt u32 s32 u64 s64", "int", operands=(2, 2))
def find_top(e: Emitter, ins: Instr) -> None:
    kind, c = type_of(ins), e.c
    a = e.src(ins.args[1], kind)
    width = WIDTH[kind]
    if signed(kind):
        a = c.xor(a, c.ashr(a, width - 1))
    zeros = c.intrinsic("ctlz", a, False)
    found = zeros if "shiftamt" in ins.mods else c.sub(const(zeros.t, width - 1), zeros)
    out = c.select(c.icmp("eq", a, 0), const(found.t, -1), found)
    e.dst(ins.args[0], c.trunc(out, "i32"))


@opcode("fns", "b32", "int", operands=(4, 4))
def find_nth_set(e: Emitter, ins: Instr) -> None:
    """The n-th set bit of a mask from a position upwards (n > 0) or downwards (n < 0); -1 if there is none."""
    c = e.c
    mask, base, n = (e.vector(e.src(arg, "b32")) for arg in ins.args[1:4])
    base = c.and_(base, 31)
    up = c.icmp("sge", n, 0)
    one = c.bin("shl", const(mask.t, 1), base)
    rising = c.and_(mask, c.not_(c.sub(one, 1)))
    falling = c.intrinsic("bitreverse", c.and_(mask, c.or_(one, c.sub(one, 1))))
    rest = c.select(c.icmp("eq", n, 0), c.and_(mask, one), c.select(up, rising, falling))
    count = c.sub(c.intrinsic("abs", n, False), 1)
    for step in range(31):
        rest = c.select(c.icmp("sgt", count, step), c.and_(rest, c.sub(rest, 1)), rest)
    place = c.intrinsic("cttz", rest, False)
    place = c.select(up, place, c.sub(const(place.t, 31), place))
    gone = c.or_(c.zext(c.icmp("eq", rest, 0), "i32"), c.zext(c.icmp("sgt", count, 31), "i32"))
    e.dst(ins.args[0], c.select(c.icmp("ne", gone, 0), const(place.t, -1), place))


# Bytes that each mode picks, by the low two bits of the selector (PTX ISA, prmt)
_PERMUTE = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543), "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333), "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210), "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # fmt: skip


@opcode("prmt", "b32 f4e b4e rc8 ecl ecr rc16", "int", operands=(4, 4))
def permute(e: Emitter, ins: Instr) -> None:
    c = e.c
    a, b, s = sources(e, ins, "b32", 3)
    if ins.mods != ("b32",):
        if len(ins.mods) != 2 or ins.mods[1] not in _PERMUTE:
            raise refuse(ins, "permute mode")
        table = _PERMUTE[ins.mods[1]]
        s, choice = const(s.t, table[0]), c.and_(s, 3)
        for row in range(1, 4):
            s = c.select(c.icmp("eq", choice, row), const(s.t, table[row]), s)
    a, b, s = alike(e, a, b, s)
    pair = c.or_(c.shl(c.zext(b, "i64"), 32), c.zext(a, "i64"))
    total: V | None = None
    for byte in range(4):
        pick = c.lshr(s, 4 * byte)
        amount = c.zext(c.shl(c.and_(pick, 7), 3), "i64")
        value = c.trunc(c.lshr(pair, amount), "i8")
        value = c.select(c.icmp("ne", c.and_(pick, 8), 0), c.ashr(value, 7), value)
        term = c.shl(c.zext(value, "i32"), 8 * byte)
        total = term if total is None else c.or_(total, term)
    assert total is not None
    e.dst(ins.args[0], total)


@opcode("bmsk", "clamp wrap b32", "int", operands=(3, 3))
def bit_mask(e: Emitter, ins: Instr) -> None:
    """`b` bits set from position `a` on."""
    c, mode = e.c, one_of(ins, "clamp", "wrap")
    a, b = alike(e, *sources(e, ins, "b32"))
    start, width = c.and_(a, 31), c.and_(b, 31)
    ones = const(a.t, -1)
    total = c.add(start, width)
    low = c.bin("shl", ones, start)
    high = c.select(c.icmp("ult", total, 32), c.bin("shl", ones, c.and_(total, 31)), const(a.t, 0))
    if mode == "clamp":
        low = c.select(c.icmp("ult", a, 32), low, const(a.t, 0))
        high = c.select(c.icmp("ult", c.or_(a, b), 32), high, const(a.t, 0))
    e.dst(ins.args[0], c.and_(low, c.not_(high)))


@opcode("szext", "clamp wrap u32 s32", "int", operands=(3, 3))
def extend_low_bits(e: Emitter, ins: Instr) -> None:
    """The low `b` bits of `a`, extended by sign or zero."""
    c, mode, kind = e.c, one_of(ins, "clamp", "wrap"), type_of(ins)
    a, b = alike(e, *sources(e, ins, "b32"))
    width = c.and_(b, 31)
    mask = c.bin("shl", const(a.t, -1), width)
    if mode == "clamp":
        mask = c.select(c.icmp("ult", b, 32), mask, const(a.t, 0))
    value = c.and_(a, c.not_(mask))
    if kind == "s32":
        sign = c.and_(c.lshr(a, c.and_(c.sub(width, 1), 31)), 1)
        negative = c.and_(c.icmp("ne", sign, 0), c.icmp("ne", width, 0))
        value = c.or_(value, c.select(negative, mask, const(a.t, 0)))
    e.dst(ins.args[0], value)
