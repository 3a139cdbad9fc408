"""wmma.load, wmma.mma and wmma.store with a fragment layout of our own (PTX leaves it open, ISA 9.7.14).

A and B fragments hold the matrix in memory order, 4 bytes (8 for f64) per lane and register; accumulators hold it row
by row. So loads need no rearranging and an elementwise loop over `fragment.x` touches every element. PTX gives f16
fragments more registers than that fills: the rest repeat the first ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evo.sim.abi import WARP_SCRATCH
from evo.sim.errors import refuse
from evo.sim.faults import SimFault
from evo.sim.llvm_values import V, const, iconsts, is_vec
from evo.sim.lower.isa.accesses import LOADS, STORES, address, shared_address, space_of
from evo.sim.lower.isa.opcode_table import items_of, one_of, opcode, type_of
from evo.sim.lower.isa.tensor import demand_warp
from evo.sim.ptx.ast import WIDTH, Instr, Operand
from evo.sim.runtime.fault_report import report
from evo.sim.runtime.tensor import WMMA_A, WMMA_B, WMMA_C, wmma

if TYPE_CHECKING:
    from evo.sim.lower.emitter import Emitter

_SHAPES = "m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128"
_HALF_SHAPES = {"m16n16k16", "m32n8k16", "m8n32k16"}
_LEGAL = {
    "f16": _HALF_SHAPES, "bf16": _HALF_SHAPES, "s8": _HALF_SHAPES, "u8": _HALF_SHAPES,
    "tf32": {"m16n16k8"}, "f64": {"m8n8k4"}, "s4": {"m8n8k32"}, "u4": {"m8n8k32"}, "b1": {"m8n8k128"},
}  # fmt: skip
_ACCUMULATORS = {
    "f16": {"f16", "f32"}, "bf16": {"f32"}, "tf32": {"f32"}, "s8": {"s32"}, "u8": {"s32"}, "f64": {"f64"},
    "s4": {"s32"}, "u4": {"s32"}, "b1": {"s32"},
}  # fmt: skip
_PARTS = {"s4": 4, "u4": 4, "b1": 1}  # bits of elements that share a byte; A lies row by row, B column by column
_WORD = 32  # bits that are multiplied and counted at once


@dataclass(frozen=True)
class _Fragment:
    """One matrix over a warp: `units` of 4 or 8 bytes, `registers` in PTX."""

    lines: int  # contiguous runs in memory: rows of a row-major matrix
    length: int  # elements of a run; bytes where they share those
    size: int  # bytes of an element
    unit: int  # bytes per lane and register
    registers: int
    scattered: bool = False  # a column-major accumulator: the row-major register order is not the memory order
    shared_by: int = 1  # elements in a byte

    @property
    def used(self) -> int:
        return self.lines * self.length * self.size // self.unit // 32


def _shape(ins: Instr) -> tuple[int, int, int]:
    m, n, k = map(int, re.findall(r"\d+", one_of(ins, *_SHAPES.split())))
    return m, n, k


def _fragment(ins: Instr, which: str, layout: str, kind: str) -> _Fragment:
    m, n, k = _shape(ins)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    lines, length = (rows, columns) if layout == "row" else (columns, rows)
    if kind in _PARTS:
        return _Fragment(lines, length * _PARTS[kind] // 8, 1, 4, 1, shared_by=8 // _PARTS[kind])
    size = WIDTH[kind] // 8
    unit = max(4, size)
    registers = rows * columns * size // unit // 32
    if kind == "f16":
        registers = 8 if which in "ab" else 4
    return _Fragment(lines, length, size, unit, registers, scattered=which in "cd" and layout == "col")


def _access(ins: Instr) -> tuple[str, str, str]:
    """Matrix, layout and type of a load or store; refuses combinations that PTX does not have."""
    which = one_of(ins, *("abc" if ins.name == "wmma.load" else "d"))
    kind = ins.mods[-1] if ins.mods[-1] in _PARTS else type_of(ins)
    layout, shape = one_of(ins, "row", "col"), one_of(ins, *_SHAPES.split())
    if ins.mods[:3] != (which, "sync", "aligned"):
        raise refuse(ins)
    if which in "ab":
        legal = shape in _LEGAL.get(kind, ()) and (kind not in _PARTS or (which == "a") == (layout == "row"))
    else:
        legal = any(shape in _LEGAL[a] and kind in kinds for a, kinds in _ACCUMULATORS.items())
    if not legal or space_of(ins) not in ("global", "shared", "generic"):
        raise refuse(ins, "type and shape")
    return which, layout, kind


def access_bytes(ins: Instr) -> int:
    """The width of one lane's access, for the race checker's granule."""
    which, layout, kind = _access(ins)
    fragment = _fragment(ins, which, layout, kind)
    return fragment.size if fragment.scattered else fragment.unit


@opcode(
    "wmma.load",
    f"a b c sync aligned row col {_SHAPES} global shared shared::cta f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32",
    "mem",
    uniform="never",
    operands=(2, 3),
)
def load(e: Emitter, ins: Instr) -> None:
    c = e.c
    fragment = _fragment(ins, *_access(ins))
    targets = items_of(ins, 0, fragment.registers)
    demand_warp(e, ins)
    values: list[V] = []
    rec, space = e.site(ins), space_of(ins)
    for register, places in enumerate(_addresses(e, ins, fragment, ins.args[1], rec)):
        parts = []
        width = fragment.unit // len(places)
        for addr in places:
            data = c.call(LOADS[space](width), e.ctx, e.warp, rec, addr, e.active())
            parts.append(c.load(f"<32 x i{8 * width}>", data))
        values.append(parts[0] if len(parts) == 1 else c.bitcast(_zip(e, parts), "<32 x i32>"))
        e.dst(targets[register], values[-1])
    for register in range(fragment.used, fragment.registers):
        e.dst(targets[register], values[register % fragment.used])


@opcode(
    "wmma.store",
    f"d sync aligned row col {_SHAPES} global shared shared::cta f16 f32 f64 s32",
    "mem",
    results=0,
    operands=(2, 3),
)
def store(e: Emitter, ins: Instr) -> None:
    c = e.c
    which, layout, kind = _access(ins)
    fragment = _fragment(ins, which, layout, kind)
    sources = items_of(ins, 1, fragment.registers)
    demand_warp(e, ins)
    rec, space = e.site(ins), space_of(ins)
    places = _addresses(e, ins, fragment, ins.args[0], rec)
    for source, addresses in zip(sources, places, strict=False):
        value = e.vector(e.src(source, f"b{8 * fragment.unit}"))
        width = fragment.unit // len(addresses)
        for part, addr in enumerate(addresses):
            piece = c.trunc(c.lshr(value, 8 * width * part), f"i{8 * width}") if len(addresses) > 1 else value
            c.store(piece, e.warp, WARP_SCRATCH, 64)
            c.call(STORES[space](width), e.ctx, e.warp, rec, addr, e.active())


def _zip(e: Emitter, parts: list[V]) -> V:
    return e.c.shuffle(parts[0], parts[1], [i // 2 + 32 * (i % 2) for i in range(64)])


def _addresses(e: Emitter, ins: Instr, fragment: _Fragment, mem: Operand, rec: V) -> list[list[V]]:
    """Per used register: the lanes' addresses, one vector or one per element of a scattered register."""
    c = e.c
    base = shared_address(e, mem) if space_of(ins) == "shared" else address(e, mem)
    base = e.vector(base)
    t = base.t
    step: V = const("i32", fragment.length)
    if len(ins.args) == 3:
        step = e.src(ins.args[2], "u32")
    pitch = c.mul(c.sext(step, "i64") if "i64" in t else step, fragment.size)
    pitch = c.lshr(pitch, fragment.shared_by.bit_length() - 1) if fragment.shared_by > 1 else pitch
    pitch = pitch if is_vec(pitch.t) else e.splat(pitch)
    _demand_aligned(e, fragment, base, pitch, rec)
    out = []
    per = fragment.unit // fragment.size
    for register in range(fragment.used):
        first = [(register * 32 + lane) * per for lane in range(32)]
        if fragment.scattered:
            # Element i is row i // lines, column i % lines; columns are the runs in memory.
            starts = [[(i + j) % fragment.lines for i in first] for j in range(per)]
            offsets = [[(i + j) // fragment.lines * fragment.size for i in first] for j in range(per)]
        else:
            starts = [[i // fragment.length for i in first]]
            offsets = [[i % fragment.length * fragment.size for i in first]]
        places = []
        for line, offset in zip(starts, offsets, strict=True):
            run = c.add(base, c.mul(pitch, iconsts(t, line)))
            places.append(c.add(run, iconsts(t, offset)))
        out.append(places)
    return out


def _demand_aligned(e: Emitter, fragment: _Fragment, base: V, pitch: V, rec: V) -> None:
    """PTX wants the base aligned to a lane's fragment (at most 32 bytes); CUDA C++ wants rows aligned to 16."""
    c = e.c
    whole = fragment.registers * fragment.unit
    bad = c.or_(c.and_(base, min(32, whole) - 1), c.and_(pitch, min(16, whole, fragment.length * fragment.size) - 1))
    lanes = c.and_(c.mask_bits(c.icmp("ne", bad, 0)), e.active())
    with c.if_(c.icmp("ne", lanes, 0), likely=False):
        lead = c.intrinsic("cttz", lanes, True)
        at = c.extract(base, lead)
        report(c, SimFault.MISALIGNED, rec, e.warp, lead, c.zext(at, "i64"), width=min(32, whole))


@opcode(
    "wmma.mma",
    f"and xor popc sync aligned row col {_SHAPES} f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32 satfinite rn",
    "mma",
    uniform="never",
    operands=(4, 4),
)
def multiply(e: Emitter, ins: Instr) -> None:
    """wmma.mma[.op.popc].sync.aligned.alayout.blayout.shape.d[.a.b].c; f16 operands are not spelled out."""
    op = ins.mods[0] if ins.mods[1] == "popc" else "mul"
    mods = ins.mods if op == "mul" else ins.mods[2:]
    layouts, shape = mods[2:4], mods[4]
    kinds = [m for m in mods[5:] if m in WIDTH or m in _PARTS]
    rounding_last = "rn" not in mods[:-1]
    if mods[:2] != ("sync", "aligned") or not set(layouts) <= {"row", "col"} or not rounding_last:
        raise refuse(ins)
    if len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    if len(kinds) != 4 or kinds[1] != kinds[2]:
        raise refuse(ins, "types")
    d, a, _, acc = kinds
    saturates = "satfinite" in mods
    if a not in _LEGAL or shape not in _LEGAL[a] or not {d, acc} <= _ACCUMULATORS[a]:
        raise refuse(ins, "type and shape")
    if (a in _PARTS and layouts != ("row", "col")) or (op == "mul") == (a == "b1") or (saturates and a == "b1"):
        raise refuse(ins)
    m, n, k = _shape(ins)
    outs = _put(e, ins, 0, "d", "row", d, None)
    _put(e, ins, 1, "a", layouts[0], a, WMMA_A)
    _put(e, ins, 2, "b", layouts[1], a, WMMA_B)
    _put(e, ins, 3, "c", "row", acc, WMMA_C)
    demand_warp(e, ins)
    depth = k // _WORD if a == "b1" else k
    e.c.call(wmma(a, m, n, depth, layouts[0], layouts[1], d, acc, op, sat=saturates), e.warp)
    unit = max(4, WIDTH[d] // 8)
    for index, out in enumerate(outs):
        e.dst(out, e.c.load(f"<32 x i{8 * unit}>", e.warp, WMMA_C + 32 * unit * index, 64))


def _put(
    e: Emitter, ins: Instr, index: int, which: str, layout: str, kind: str, place: int | None
) -> tuple[Operand, ...]:
    """Check the register count of an operand; with a place, write its used registers there."""
    fragment = _fragment(ins, which, layout, kind)
    items = items_of(ins, index, fragment.registers)
    if place is not None:
        for register, item in enumerate(items[: fragment.used]):
            value = e.vector(e.src(item, f"b{8 * fragment.unit}"))
            e.c.store(value, e.warp, place + 32 * fragment.unit * register, 64)
    return items
