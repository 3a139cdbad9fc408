"""Video instructions: on one byte, half or word of each operand (vadd, vmad, ...), and SIMD (vadd2, vset4, ...)."""

from __future__ import annotations

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import alike, one_of, opcode
from evo.sim.ptx.ast import Instr

_OPS = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_SHIFTS = {"shr7": 7, "shr15": 15}
_PARTS = " ".join(f"{arg}.{size}{n}" for arg in range(3) for size, most in (("b", 4), ("h", 2)) for n in range(most))


@opcode(
    "vadd vsub vabsdiff vmin vmax vset vshl vshr vmad",
    f"u32 s32 sat add min max eq ne lt le gt ge clamp wrap po {' '.join(_SHIFTS)} {_PARTS}",
    "int",
    operands=(3, 4),
)
def scalar(e: Emitter, ins: Instr) -> None:
    """d.dsel = op2(op(a.asel, b.bsel), c), or c with that part of d in it; computed in 64 bits, which hold all."""
    c = e.c
    op = ins.name
    types = [m for m in ins.mods if m in ("u32", "s32")]
    types = ["u32", *types] if op == "vset" else types
    selectors = {int(m[0]): (m[2:], 8 if m[2] == "b" else 16) for m in ins.mods if m[1:2] == "."}
    second = [m for m in ins.mods if m in ("add", "min", "max")]
    if len(types) != 3 or len(ins.args) != 3 + (op == "vmad" or bool(second) or 0 in selectors):
        raise refuse(ins)
    words = alike(e, *(e.src(arg, "b32") for arg in ins.args[1:]))
    x, y = (_part(e, words[n - 1], selectors.get(n), types[n]) for n in (1, 2))
    if op == "vmad":
        e.dst(ins.args[0], _fused(e, ins, x, y, words[2], signed="s32" in types[1:]))
        return
    if op in ("vshl", "vshr"):
        most = one_of(ins, "clamp", "wrap")
        y = c.and_(y, 31) if most == "wrap" else c.intrinsic("umin", y, const(y.t, 32))
        value = c.bin("shl" if op == "vshl" else "ashr", x, y)
        if types[1] == "u32" and "sat" in ins.mods:  # its 64 bits have no sign
            value = c.intrinsic("umin", value, const(value.t, 1 << 62))
    else:
        value = _one(e, ins, op, x, y)
    selector, width = selectors.get(0, ("b0", 32))
    value = c.trunc(_saturated(e, value, types[0], width) if "sat" in ins.mods else value, "i32")
    if 0 in selectors:
        at = width * int(selector[1])
        mask = ((1 << width) - 1) << at
        value = c.or_(c.and_(c.shl(value, at), mask), c.and_(words[2], ~mask & 0xFFFFFFFF))
    elif second:
        how = "add" if second == ["add"] else types[0][0] + second[0]
        value = c.add(value, words[2]) if how == "add" else c.intrinsic(how, value, words[2])
    e.dst(ins.args[0], value)


def _part(e: Emitter, word: V, selector: tuple[str, int] | None, kind: str) -> V:
    """The selected byte, half or word, extended by its type."""
    c = e.c
    if selector is not None:
        place, width = selector
        word = _element(e, word, int(place[1]), width, kind)
    return c.sext(word, "i64") if kind == "s32" else c.zext(word, "i64")


def _fused(e: Emitter, ins: Instr, x: V, y: V, addend: V, *, signed: bool) -> V:
    c = e.c
    total = c.add(c.mul(x, y), c.sext(addend, "i64") if signed else c.zext(addend, "i64"))
    if "po" in ins.mods:  # plus one, for averages
        total = c.add(total, 1)
    for shift in (_SHIFTS[m] for m in ins.mods if m in _SHIFTS):
        total = c.ashr(total, shift) if signed else c.lshr(total, shift)
    if "sat" in ins.mods:
        limit = const(total.t, 0xFFFFFFFF)
        total = _saturated(e, total, "s32", 32) if signed else c.intrinsic("umin", total, limit)
    return c.trunc(total, "i32")


def _saturated(e: Emitter, value: V, kind: str, width: int) -> V:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "s32" else (0, (1 << width) - 1)
    return e.c.intrinsic("smin", e.c.intrinsic("smax", value, const(value.t, low)), const(value.t, high))


@opcode(
    " ".join(f"{op}{n}" for op in _OPS for n in (2, 4)), "u32 s32 sat add eq ne lt le gt ge", "int", operands=(4, 4)
)
def video(e: Emitter, ins: Instr) -> None:
    """d = op(a, b) element by element, replacing c; with .add, the elements' sum plus c. No selectors, no masks."""
    c = e.c
    op, count = ins.name[:-1], int(ins.name[-1])
    types = [m for m in ins.mods if m in ("u32", "s32")]
    if op == "vset":
        types = ["u32", *types]
    if len(types) != 3:
        raise refuse(ins)
    width = 32 // count
    a, b, total = alike(e, *(e.src(arg, "b32") for arg in ins.args[1:4]))
    packed: V = const(a.t, 0)
    for part in range(count):
        x, y = (_element(e, v, part, width, kind) for v, kind in ((a, types[1]), (b, types[2])))
        value = _one(e, ins, op, x, y)
        if "sat" in ins.mods:
            value = _saturated(e, value, types[0], width)
        if "add" in ins.mods:
            total = c.add(total, value)
        else:
            packed = c.or_(packed, c.shl(c.and_(value, (1 << width) - 1), part * width))
    e.dst(ins.args[0], total if "add" in ins.mods else packed)


def _element(e: Emitter, x: V, part: int, width: int, kind: str) -> V:
    c = e.c
    top = c.shl(x, 32 - width * (part + 1))
    return c.ashr(top, 32 - width) if kind == "s32" else c.lshr(top, 32 - width)


def _one(e: Emitter, ins: Instr, op: str, x: V, y: V) -> V:
    """Elements are extended, so nothing overflows before it is cut or saturated."""
    c = e.c
    if op in ("vadd", "vsub"):
        return c.bin(op[1:], x, y)
    if op == "vavrg":  # rounded half away from zero
        total = c.add(x, y)
        return c.ashr(c.add(total, c.zext(c.icmp("sge", total, 0), "i32")), 1)
    if op == "vabsdiff":
        return c.intrinsic("abs", c.sub(x, y), False)
    if op in ("vmin", "vmax"):
        return c.intrinsic("s" + op[1:], x, y)
    how = [m for m in ins.mods if m in _COMPARE]
    if len(how) != 1:
        raise refuse(ins)
    return c.zext(c.icmp(_COMPARE[how[0]], x, y), "i64" if x.t.endswith(("i64", "i64>")) else "i32")
