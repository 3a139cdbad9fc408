"""cp.async and its groups."""

from __future__ import annotations

from evo.sim.abi import WARP
from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.load_store import address, shared_address
from evo.sim.lower.isa.mbarrier import copies_arrive
from evo.sim.lower.isa.opcode_table import opcode
from evo.sim.ptx.ast import Imm, Instr, Reg
from evo.sim.runtime.cp_async import cp_async, cp_commit, cp_wait

_MODS = """
async ca cg shared shared::cta global commit_group wait_group wait_all mbarrier arrive noinc b64
L2::64B L2::128B L2::256B L2::cache_hint
"""


@opcode("cp", _MODS, "mem", results=0, operands=(0, 5))
def copy(e: Emitter, ins: Instr) -> None:
    c = e.c
    if not ins.mods or ins.mods[0] != "async":
        raise refuse(ins)
    if "mbarrier" in ins.mods:
        copies_arrive(e, ins)
    elif "commit_group" in ins.mods:
        # Groups are counted per warp: a guarded commit counts if any lane executes it.
        c.call(cp_commit(), e.warp)
    elif "wait_group" in ins.mods or "wait_all" in ins.mods:
        _wait(e, ins)
    else:
        _start(e, ins)


def _wait(e: Emitter, ins: Instr) -> None:
    c = e.c
    committed = c.load("i64", e.warp, WARP["group_committed"], 8)
    if "wait_all" in ins.mods:
        limit = c.add(committed, 1)
    else:
        if len(ins.args) != 1 or not isinstance(ins.args[0], Imm):
            raise refuse(ins)
        limit = c.sub(committed, ins.args[0].value)
    c.call(cp_wait(), e.ctx, e.warp, limit)


def _start(e: Emitter, ins: Instr) -> None:
    c = e.c
    if len(ins.args) not in (3, 4) or not isinstance(ins.args[2], Imm):
        raise refuse(ins)
    width = ins.args[2].value
    if width not in ((4, 8, 16) if "ca" in ins.mods else (16,)):
        raise refuse(ins, f"{width} bytes")
    to = e.vector(shared_address(e, ins.args[0]))
    source = e.vector(address(e, ins.args[1]))
    sizes: V = const("<32 x i32>", width)
    if len(ins.args) == 4:
        extra = ins.args[3]
        if isinstance(extra, Reg) and e.registers[extra.name] == "pred":
            ignored = e.vector(e.src(extra, "pred"))
            sizes = c.select(ignored, const("<32 x i32>", 0), sizes)
        else:
            sizes = e.vector(e.src(extra, "u32"))
    c.call(cp_async(width), e.ctx, e.warp, e.site(ins), to, e.active(), source, sizes)
