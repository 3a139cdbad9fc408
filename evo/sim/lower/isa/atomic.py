"""atom and red on global, shared and generic addresses."""

from __future__ import annotations

from evo.sim.abi import WARP_SCRATCH
from evo.sim.errors import refuse
from evo.sim.llvm_values import is_vec
from evo.sim.lower.cfg import reads_of
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.load_store import address, shared_address, space_of, touch_flag
from evo.sim.lower.isa.opcode_table import defs, one_of, opcode, type_of
from evo.sim.ptx.ast import WIDTH, Instr
from evo.sim.runtime.atomics import OPERAND2, atom

_MODS = """
global shared shared::cta relaxed acquire release acq_rel cta gpu sys noftz
add min max and or xor exch cas inc dec
b16 b32 b64 u32 u64 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2
"""
_LEGAL = {
    "add": {"u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"},
    "min": {"u32", "s32", "u64", "s64"}, "max": {"u32", "s32", "u64", "s64"},
    "and": {"b32", "b64"}, "or": {"b32", "b64"}, "xor": {"b32", "b64"},
    "exch": {"b32", "b64"}, "cas": {"b16", "b32", "b64"}, "inc": {"u32"}, "dec": {"u32"},
}  # fmt: skip


@opcode("atom", _MODS, "mem", uniform="never", operands=(3, 4))
@opcode("red", _MODS, "mem", results=0, operands=(2, 2))
def atomic(e: Emitter, ins: Instr) -> None:
    c = e.c
    op, space = one_of(ins, *_LEGAL), space_of(ins)
    kind = type_of(ins, _LEGAL[op])
    if space not in ("global", "shared", "generic"):
        raise refuse(ins)
    shift = 1 if ins.name == "atom" else 0
    if (op == "cas") != (len(ins.args) == 3 + shift):
        raise refuse(ins, "operands")
    mem = ins.args[shift]
    addr = shared_address(e, mem) if space == "shared" else address(e, mem)
    if space == "shared":
        addr = c.zext(addr, "i64")
    bits = f"b{WIDTH[kind]}"
    first = e.vector(e.src(ins.args[shift + 1], bits))
    c.store(first, e.warp, WARP_SCRATCH, 64)
    if op == "cas":
        c.store(e.vector(e.src(ins.args[shift + 2], bits)), e.warp, OPERAND2, 64)
    wide = addr if is_vec(addr.t) else e.splat(addr)
    if op == "cas" and set(reads_of(ins.args[-1])) & e.sums:
        kind = f"f{WIDTH[kind]}"
    c.call(atom(space, op, kind), e.ctx, e.warp, e.site(ins), wide, e.active())
    touch_flag(e, ins, "both" if set(defs(ins)) & e.read_somewhere else "tell", space, wide)
    if ins.name == "atom":
        e.dst(ins.args[0], c.load(first.t, e.warp, WARP_SCRATCH, 64))
