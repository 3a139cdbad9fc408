"""Control flow and synchronisation. Branches and block barriers end basic blocks and are emitted elsewhere."""

from __future__ import annotations

from evo.sim.abi import BARRIERS, NO_BARRIER
from evo.sim.errors import refuse
from evo.sim.faults import SimFault
from evo.sim.llvm_values import V, const
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import opcode
from evo.sim.ptx.ast import Imm, Instr, Operand
from evo.sim.runtime.fault_report import report
from evo.sim.runtime.schedule import bar_arrive
from evo.sim.runtime.spin_flags import fence as tell_by_flags


@opcode("bra", "uni", "branch", results=0, operands=(1, 1))
@opcode("brx", "idx uni", "branch", results=0, operands=(2, 2))
@opcode("ret exit trap", "uni @stack", "branch", results=0, operands=(0, 0))
def branch(e: Emitter, ins: Instr) -> None:
    del e
    raise refuse(ins, "in the middle of a block")


@opcode(
    "bar barrier",
    "sync red arrive aligned cta warp popc and or u32 pred",
    "barrier",
    results=0,
    uniform="always",
    operands=(1, 4),
)
def barrier(e: Emitter, ins: Instr) -> None:
    """bar.warp.sync (a no-op in lock step) and bar.arrive; the waiting forms end a block."""
    c = e.c
    if "warp" in ins.mods:
        return
    if "arrive" not in ins.mods or len(ins.args) != 2 or ins.guard is not None:
        raise refuse(ins)
    c.call(bar_arrive(), e.ctx, e.warp, barrier_number(e, ins.args[0], e.site(ins)))


def barrier_operand(e: Emitter, arg: Operand, limit: int = 1 << 16) -> V:
    c = e.c
    if isinstance(arg, Imm):
        if not 0 <= arg.value < limit:
            raise e.refuse(f"barrier operand {arg.value}")
        return const("i64", arg.value)
    value = e.src(arg, "u32")
    if value.t != "i32":
        # Lanes agree, or the program is wrong in a way that this check does not look for: take the first one.
        value = c.extract(value, c.intrinsic("cttz", e.bits(), False))
    return c.and_(c.zext(value, "i64"), 0xFFFF)


def barrier_number(e: Emitter, arg: Operand, site: V) -> V:
    """Which barrier; one that a block does not have is reported where its number is not known before the launch."""
    c = e.c
    ident = barrier_operand(e, arg, BARRIERS)
    if not isinstance(arg, Imm):
        running = e.active()
        wrong = c.and_(c.icmp("uge", ident, BARRIERS), c.icmp("ne", running, 0))
        with c.if_(wrong, likely=False):
            report(c, SimFault.BARRIER, site, e.warp, c.intrinsic("cttz", running, False), ident, extra=NO_BARRIER)
    return c.and_(ident, BARRIERS - 1)


@opcode(
    "membar fence",
    "cta gl gpu sys sc acq_rel acquire release proxy alias async global shared::cta",
    "barrier",
    results=0,
    operands=(0, 1),
)
def fence(e: Emitter, ins: Instr) -> None:
    """What was done so far goes with the next flag, so that hand-made synchronisation is not called a race."""
    if "proxy" in ins.mods and "alias" not in ins.mods:
        raise refuse(ins)
    e.c.call(tell_by_flags(), e.ctx, e.warp)


@opcode(
    "createpolicy",
    "fractional range cvt L2 global b64 L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged",
    "mov",
    operands=(1, 5),
)
def policy(e: Emitter, ins: Instr) -> None:
    """A cache policy is opaque and changes no result."""
    e.dst(ins.args[0], const("i64", 0))


@opcode("nanosleep", "u32", "mov", results=0, operands=(1, 1))
@opcode("pmevent", "mask", "mov", results=0, operands=(1, 1))
@opcode("prefetch prefetchu", "global L1 L2 L2::evict_last L2::evict_normal local", "mem", results=0, operands=(1, 1))
@opcode("applypriority", "global L2 L2::evict_normal", "mem", results=0, operands=(1, 2))
def hint(e: Emitter, ins: Instr) -> None:
    """Hints change no result."""
    del e, ins
