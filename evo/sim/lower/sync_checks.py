"""Checks around the instructions that synchronise lanes or blocks; emitted beside them, they change no result."""

from __future__ import annotations

from evo.sim.abi import CTX
from evo.sim.faults import SimFault
from evo.sim.llvm_values import IOTA32, V, const, is_vec, known_integer
from evo.sim.lower.cfg import is_warp_sync
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import defs, one_of
from evo.sim.lower.kernel_traits import is_strong
from evo.sim.ptx.ast import Instr
from evo.sim.runtime.fault_report import report
from evo.sim.runtime.inter_block_order import drop_cached
from evo.sim.runtime.inter_block_races import between_release
from evo.sim.runtime.local_memory import demand_shfl
from evo.sim.runtime.shared_races import lanes_step
from evo.sim.runtime.spin_flags import release

_MEMBERS = ("shfl", "vote", "match", "redux")  # their last operand is a mask of lanes that all must take part
_NEAR = frozenset(("shared", "shared::cta", "param", "local", "const"))


def before(e: Emitter, ins: Instr) -> None:
    """What must hold, or be noted, before an instruction runs."""
    if ins.name in _MEMBERS and "sync" in ins.mods:
        _demand_members(e, ins)
        if ins.name == "shfl" and len(ins.args) == 5:
            _demand_sources(e, ins)
    if _releases(ins):
        e.c.call(between_release(), e.ctx, e.warp, e.active())
    elif ins.name in ("membar", "fence") and "acquire" in ins.mods and "cta" not in ins.mods:
        e.c.call(drop_cached(), e.ctx)
    if ins.name in ("atom", "red", "st") and {"release", "acq_rel"} & set(ins.mods):
        e.c.call(release(), e.ctx, e.warp)


def after(e: Emitter, ins: Instr, *, shared: bool, read: set[str]) -> None:
    """What an instruction has settled: the lanes of a warp have met, or the block has learnt of others."""
    # Votes, shuffles and matrix instructions move values between lanes, but order no memory.
    if is_warp_sync(ins):
        step_of_warp(e, e.vector(e.src(ins.args[0], "u32")), shared=shared)
    # Only who looks at the answer of an atomic learns from it.
    learns = bool(set(defs(ins)) & read) if ins.name == "atom" else ins.name == "ld" and is_strong(ins)
    if learns and not _NEAR & set(ins.mods):
        e.c.store(const("i64", 1), e.ctx, CTX["acquired"], 8)
        if {"acquire", "acq_rel"} & set(ins.mods) and "cta" not in ins.mods:
            e.c.call(drop_cached(), e.ctx)


def step_of_warp(e: Emitter, masks: V, *, shared: bool) -> None:
    """Lanes have met those of their masks: what these did before comes before what they do now."""
    if shared:
        running = e.active()
        with e.c.if_(e.c.icmp("ne", e.c.load("i64", e.ctx, CTX["race"], 8), 0)):
            e.c.call(lanes_step(), e.ctx, e.warp, e.live.get(), masks, running)


def _releases(ins: Instr) -> bool:
    mods = set(ins.mods)
    if ins.name in ("membar", "fence"):
        return not {"cta", "acquire", "proxy"} & mods
    return ins.name in ("atom", "red", "st") and bool({"release", "acq_rel"} & mods) and not _NEAR & mods


def _demand_members(e: Emitter, ins: Instr) -> None:
    """Every live lane that a mask names must be running, and every running lane must be named by its own mask."""
    c = e.c
    mask = e.src(ins.args[-1], "u32")
    whole = known_integer(mask) == -1
    if whole and e.guard is None:  # the same lanes run a whole block: its first such instruction speaks for the others
        if not e.block.partial or "all lanes" in e.cache:
            return
        e.cache["all lanes"] = e.bits()
    running = e.active()
    absent = c.and_(e.live.get(), c.not_(running))
    if is_vec(mask.t):
        calls = c.mask_bits(c.icmp("ne", c.and_(mask, c.splat(absent)), 0))
        alone = c.mask_bits(c.icmp("eq", c.and_(c.lshr(mask, IOTA32), 1), 0))
        wrong = c.and_(c.or_(calls, alone), running)
    else:
        missing = absent if whole else c.or_(c.and_(mask, absent), c.and_(running, c.not_(mask)))
        wrong = c.select(c.icmp("ne", running, 0), missing, 0)
    site = e.site(ins)
    with c.if_(c.icmp("ne", wrong, 0), likely=False):
        lead = c.intrinsic("cttz", running, False)
        other = c.zext(c.intrinsic("cttz", wrong, False), "i64")
        report(c, SimFault.WARP_SYNC, site, e.warp, lead, const("i64", 0), extra=other)


def _demand_sources(e: Emitter, ins: Instr) -> None:
    """No lane may read an absent one, but for what up and down read past the end by design (see `demand_shfl`)."""
    c = e.c
    mode = one_of(ins, "idx", "bfly", "up", "down")
    running = e.active()
    lanes, control, members = (e.vector(e.src(arg, "u32")) for arg in ins.args[2:5])
    site = e.site(ins)
    named = c.and_(c.mask_bits(c.icmp("ne", members, -1)), running)  # lanes whose mask leaves lanes out
    part = c.and_(c.icmp("ne", running, -1), c.icmp("ne", running, 0))
    with c.if_(c.or_(part, c.icmp("ne", named, 0)), likely=False):
        c.call(demand_shfl(mode), e.ctx, e.warp, site, lanes, control, members, running)
