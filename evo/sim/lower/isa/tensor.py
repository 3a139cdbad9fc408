"""ldmatrix, stmatrix and mma.sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.sim.abi import WARP_SCRATCH
from evo.sim.errors import refuse
from evo.sim.faults import SimFault
from evo.sim.llvm_values import const
from evo.sim.lower.isa.accesses import shared_address
from evo.sim.lower.isa.opcode_table import items_of, one_of, opcode
from evo.sim.ptx.ast import Imm, Instr, Operand, Reg
from evo.sim.runtime.fault_report import report
from evo.sim.runtime.tensor import MMA_A, MMA_B, MMA_C, ldmatrix, mma, mma_f64, stmatrix

if TYPE_CHECKING:
    from evo.sim.lower.emitter import Emitter

_SHARED = {"shared", "shared::cta"}
_TRANSPOSE = [8 * (i % 8) + i // 8 for i in range(64)]


@opcode("ldmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16", "mem", uniform="never", operands=(2, 2))
def load_matrix(e: Emitter, ins: Instr) -> None:
    c = e.c
    count = int(one_of(ins, "x1", "x2", "x4")[1])
    targets = items_of(ins, 0, count)
    addr = e.vector(shared_address(e, ins.args[1], generic=not _SHARED & set(ins.mods)))
    c.call(ldmatrix(count), e.ctx, e.warp, e.site(ins), addr, e.active())
    for index, target in enumerate(targets):
        at = WARP_SCRATCH + 128 * index
        if "trans" in ins.mods:
            value = c.shuffle(c.load("<64 x i16>", e.warp, at, 64), None, _TRANSPOSE)
            e.dst(target, c.bitcast(value, "<32 x i32>"))
        else:
            e.dst(target, c.load("<32 x i32>", e.warp, at, 64))


@opcode("movmatrix", "sync aligned m8n8 trans b16", "shuffle", uniform="never", operands=(2, 2))
def transpose(e: Emitter, ins: Instr) -> None:
    """The transpose of an 8x8 matrix that lies in the warp as ldmatrix leaves it."""
    c = e.c
    if "trans" not in ins.mods:
        raise refuse(ins)
    demand_warp(e, ins)
    halves = c.bitcast(e.vector(e.src(ins.args[1], "b32")), "<64 x i16>")
    e.dst(ins.args[0], c.bitcast(c.shuffle(halves, None, _TRANSPOSE), "<32 x i32>"))


@opcode("stmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16", "mem", results=0, operands=(2, 2))
def store_matrix(e: Emitter, ins: Instr) -> None:
    c = e.c
    count = int(one_of(ins, "x1", "x2", "x4")[1])
    sources = items_of(ins, 1, count)
    addr = e.vector(shared_address(e, ins.args[0], generic=not _SHARED & set(ins.mods)))
    for index, source in enumerate(sources):
        value = e.vector(e.src(source, "b32"))
        if "trans" in ins.mods:
            value = c.bitcast(c.shuffle(c.bitcast(value, "<64 x i16>"), None, _TRANSPOSE), "<32 x i32>")
        c.store(value, e.warp, WARP_SCRATCH + 128 * index, 64)
    c.call(stmatrix(count), e.ctx, e.warp, e.site(ins), addr, e.active())


_SHAPES = {
    "m8n8k4": 4, "m8n8k16": 16, "m8n8k32": 32, "m8n8k128": 128, "m16n8k4": 4, "m16n8k8": 8, "m16n8k16": 16,
    "m16n8k32": 32, "m16n8k64": 64, "m16n8k128": 128, "m16n8k256": 256,
}  # fmt: skip  # their depth
_DEPTH = {
    "f16": 8, "bf16": 8, "tf32": 4, "s8": 16, "u8": 16, "e4m3": 16, "e5m2": 16, "s4": 32, "u4": 32, "b1": 128,
}  # fmt: skip
_ACCUMULATORS = {
    "f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",), "e4m3": ("f32", "f16"),
    "e5m2": ("f32", "f16"), "s4": ("s32",), "u4": ("s32",), "b1": ("s32",),
}  # fmt: skip
_FRAGMENT = ("<32 x i32>", "<32 x float>")
_MIXED = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})  # A and B may differ within one of these


@opcode(
    "mma",
    f"sync aligned {' '.join(_SHAPES)} row col satfinite and xor popc "
    "f16 bf16 tf32 e4m3 e5m2 f32 f64 s8 u8 s4 u4 b1 s32",
    "mma",
    uniform="never",
    operands=(4, 4),
)
def multiply(e: Emitter, ins: Instr) -> None:
    """mma.sync.aligned.shape.row.col[.satfinite].d.a.b.c[.op.popc]; m8n8 shapes are the upper half of m16n8 ones."""
    shape, mods = one_of(ins, *_SHAPES), ins.mods
    op = mods[-2] if mods[-1] == "popc" else "mul"
    types = mods[-6:-2] if op != "mul" else mods[-4:]
    mods = mods[:-6] if op != "mul" else mods[:-4]
    saturates = "satfinite" in ins.mods and types[0] == "s32"
    if mods != ("sync", "aligned", shape, "row", "col", *(("satfinite",) if saturates else ())):
        raise refuse(ins)
    if (op in ("and", "xor")) != ("b1" in types) or (saturates and "b1" in types):
        raise refuse(ins)
    if shape == "m8n8k4" and set(types) == {"f64"}:
        _multiply_f64(e, ins)
        return
    d, a, b, acc = types
    upper, depth = shape.startswith("m8"), _SHAPES[shape]
    if (
        shape == "m8n8k4"
        or a not in _DEPTH
        or b not in _DEPTH
        or depth % _DEPTH[a]
        or depth // _DEPTH[a] not in (1, 2)
        or d != acc
    ):
        raise refuse(ins)
    blocks = depth // _DEPTH[a]
    if d not in _ACCUMULATORS[a] or (a != b and not any({a, b} <= family for family in _MIXED)):
        raise refuse(ins)
    if upper and (d != "s32" or depth != _DEPTH[a]):
        raise refuse(ins)
    nothing = (Imm(0),)
    e.keep_scratch()
    outs = items_of(ins, 0, 2 if d == "f16" or upper else 4)
    _put(e, (*items_of(ins, 1, 1), *nothing) if upper else items_of(ins, 1, 2 * blocks), MMA_A)
    _put(e, items_of(ins, 2, blocks), MMA_B)
    _put(e, (*items_of(ins, 3, len(outs)), *(nothing * 2 if upper else ())), MMA_C)
    demand_warp(e, ins)
    e.c.call(mma(a, b, blocks, d, op, sat=saturates), e.warp)
    for index, out in enumerate(outs):
        e.dst(out, e.c.load(_FRAGMENT[_is_float(e, out)], e.warp, MMA_C + 128 * index, 64))
    e.scratch = {at: value for at, value in e.scratch.items() if at < MMA_C}
    e.scratch_end = len(e.c.lines)


def _multiply_f64(e: Emitter, ins: Instr) -> None:
    for index, place, count in ((1, MMA_A, 1), (2, MMA_B, 1), (3, MMA_C, 2)):
        for part, item in enumerate(items_of(ins, index, count)):
            e.c.store(e.vector(e.src(item, "f64")), e.warp, place + 256 * part, 64)
    outs = items_of(ins, 0, 2)
    demand_warp(e, ins)
    e.c.call(mma_f64(), e.warp)
    for part, out in enumerate(outs):
        e.dst(out, e.c.load("<32 x double>", e.warp, MMA_C + 256 * part, 64))


def _put(e: Emitter, items: tuple[Operand, ...], at: int) -> None:
    """Into the scratch, but for what lies there since the mma before: one operand of neighbours is often the same."""
    for place, item in zip(range(at, at + 128 * len(items), 128), items, strict=True):
        value = e.vector(e.src(item, "f32" if _is_float(e, item) else "b32"))
        if e.scratch.get(place) != value:
            e.c.store(value, e.warp, place, 64)
            e.scratch[place] = value


def _is_float(e: Emitter, item: Operand) -> bool:
    """Whether a register is kept as floats: memory does not care, and a cast less in each place is compiled sooner."""
    return isinstance(item, Reg) and e.registers[item.name] == "f32"


def demand_warp(e: Emitter, ins: Instr) -> None:
    """mma needs every lane of the warp; in divergent code its result would be undefined."""
    c = e.c
    if e.guard is None:  # the same lanes run a whole block: its first such instruction speaks for the others
        if not e.block.partial or "whole warp" in e.cache:
            return
        e.cache["whole warp"] = e.bits()
    torn = c.icmp("ne", e.active(), const("i32", -1))
    with c.if_(torn, likely=False):
        absent = c.zext(c.intrinsic("cttz", c.not_(e.active()), True), "i64")
        lead = c.intrinsic("cttz", e.active(), False)
        report(c, SimFault.BARRIER, e.site(ins), e.warp, lead, const("i64", 0), extra=absent)
