"""cp.async with its groups; mbarrier objects in shared memory, as sm_80 has them, and the arrival of copies at one."""

from __future__ import annotations

from evo.sim.abi import MB_COUNT_BITS, SHARED_WINDOW, WARP, WARP_SCRATCH
from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const, is_vec
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.accesses import address, shared_address, space_of
from evo.sim.lower.isa.opcode_table import opcode
from evo.sim.ptx.ast import Imm, Instr, Operand, Reg
from evo.sim.runtime.cp_async import cp_async, cp_commit, cp_wait
from evo.sim.runtime.mbarrier import mbarrier_arrive, mbarrier_copies, mbarrier_init, mbarrier_inval, mbarrier_wait

_SPACE = "shared shared::cta b64"
_ORDER = "release acquire cta"
_COPY_MODS = """
async ca cg shared shared::cta global commit_group wait_group wait_all mbarrier arrive noinc b64
L2::64B L2::128B L2::256B L2::cache_hint
"""


def _place(e: Emitter, ins: Instr, mem: Operand) -> V:
    """Offsets in shared memory, one per lane; an address outside of it becomes an impossible offset."""
    c = e.c
    if space_of(ins) == "shared":
        return c.zext(e.vector(shared_address(e, mem)), "i64")
    if space_of(ins) != "generic":
        raise refuse(ins)
    return c.sub(e.vector(address(e, mem)), const("<32 x i64>", SHARED_WINDOW))


@opcode("mbarrier.init", _SPACE, "mem", results=0, operands=(2, 2))
def init(e: Emitter, ins: Instr) -> None:
    count = e.vector(e.src(ins.args[1], "u32"))
    e.c.call(mbarrier_init(), e.ctx, e.warp, e.site(ins), _place(e, ins, ins.args[0]), e.active(), count)


@opcode("mbarrier.inval", _SPACE, "mem", results=0, operands=(1, 1))
def inval(e: Emitter, ins: Instr) -> None:
    e.c.call(mbarrier_inval(), e.ctx, e.warp, e.site(ins), _place(e, ins, ins.args[0]), e.active())


@opcode("mbarrier.arrive", f"noComplete {_ORDER} {_SPACE}", "mem", uniform="never", operands=(2, 3))
@opcode("mbarrier.arrive_drop", f"noComplete {_ORDER} {_SPACE}", "mem", uniform="never", operands=(2, 3))
def arrive(e: Emitter, ins: Instr) -> None:
    """The result is the object as it was before: its phase, and for pending_count its pending arrivals."""
    c = e.c
    quiet = "noComplete" in ins.mods
    if "acquire" in ins.mods or (quiet and len(ins.args) != 3):
        raise refuse(ins)
    count = e.vector(e.src(ins.args[2], "u32")) if len(ins.args) == 3 else const("<32 x i32>", 1)
    flags = const("i32", int(ins.name.endswith("drop")) | 2 * int(quiet))
    site = e.site(ins)
    c.call(mbarrier_arrive(), e.ctx, e.warp, site, _place(e, ins, ins.args[1]), e.active(), count, flags)
    e.dst(ins.args[0], c.load("<32 x i64>", e.warp, WARP_SCRATCH, 64))


@opcode("mbarrier.test_wait mbarrier.try_wait", f"parity {_ORDER} {_SPACE}", "mem", operands=(3, 4))
def wait(e: Emitter, ins: Instr) -> None:
    """Has the phase ended that a state or a parity names? try_wait may sleep; here it never does."""
    c = e.c
    if "release" in ins.mods or (len(ins.args) == 4 and not ins.name.endswith("try_wait")):
        raise refuse(ins)
    if "parity" in ins.mods:
        phase = c.and_(e.vector(e.src(ins.args[2], "u32")), 1)
    else:
        phase = c.trunc(c.and_(c.lshr(e.vector(e.src(ins.args[2], "b64")), 2 * MB_COUNT_BITS), 1), "i32")
    site = e.site(ins)
    bits = c.call(mbarrier_wait(), e.ctx, e.warp, site, _place(e, ins, ins.args[1]), e.active(), phase)
    target = ins.args[0]
    if isinstance(target, Reg) and not is_vec(e.type_of(target.name)):
        e.dst(target, c.icmp("ne", bits, 0))
    else:
        e.dst(target, c.mask_vec(bits))


@opcode("mbarrier.pending_count", "b64", "int", operands=(2, 2))
def pending_count(e: Emitter, ins: Instr) -> None:
    state = e.src(ins.args[1], "b64")
    e.dst(ins.args[0], e.c.trunc(e.c.and_(state, (1 << MB_COUNT_BITS) - 1), "i32"))


def _copies_arrive(e: Emitter, ins: Instr) -> None:
    """cp.async.mbarrier.arrive: an arrival that takes place when the copies of the thread so far are done."""
    if len(ins.args) != 1 or set(ins.mods) - {"async", "mbarrier", "arrive", "noinc", "shared", "shared::cta", "b64"}:
        raise refuse(ins)
    extra = const("i32", int("noinc" not in ins.mods))
    e.c.call(mbarrier_copies(), e.ctx, e.warp, e.site(ins), _place(e, ins, ins.args[0]), e.active(), extra)


@opcode("cp", _COPY_MODS, "mem", results=0, operands=(0, 5))
def copy(e: Emitter, ins: Instr) -> None:
    c = e.c
    if not ins.mods or ins.mods[0] != "async":
        raise refuse(ins)
    if "mbarrier" in ins.mods:
        _copies_arrive(e, ins)
    elif "commit_group" in ins.mods:
        # Groups are counted per warp: a guarded commit counts if any lane executes it.
        c.call(cp_commit(), e.warp)
    elif "wait_group" in ins.mods or "wait_all" in ins.mods:
        _wait_for_copies(e, ins)
    else:
        _start_copies(e, ins)


def _wait_for_copies(e: Emitter, ins: Instr) -> None:
    c = e.c
    committed = c.load("i64", e.warp, WARP["group_committed"], 8)
    if "wait_all" in ins.mods:
        limit = c.add(committed, 1)
    else:
        if len(ins.args) != 1 or not isinstance(ins.args[0], Imm):
            raise refuse(ins)
        limit = c.sub(committed, ins.args[0].value)
    c.call(cp_wait(), e.ctx, e.warp, limit)


def _start_copies(e: Emitter, ins: Instr) -> None:
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
