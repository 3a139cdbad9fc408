"""SIMD video instructions on packed bytes and halves: vadd2, vabsdiff4, vset2, ... (PTX ISA, SIMD video)."""

from __future__ import annotations

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import alike, opcode
from evo.sim.ptx.ast import Instr

_OPS = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


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
            low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if types[0] == "s32" else (0, (1 << width) - 1)
            value = c.intrinsic("smin", c.intrinsic("smax", value, const(value.t, low)), const(value.t, high))
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
    """Elements are extended to 32 bits, so nothing overflows before it is cut or saturated."""
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
    return c.zext(c.icmp(_COMPARE[how[0]], x, y), "i32")
