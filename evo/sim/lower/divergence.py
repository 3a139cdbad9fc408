"""Lanes of one warp that go apart: turns for those that wait for one another, and the warp barrier.

A warp runs its pending block of lowest number, which brings lanes together as early as can be. Three things need more.
In a loop that waits, now and then another group of lanes runs one block, or another warp is given its turn. Where all
lanes must be together, those that can still come run first. At bar.warp.sync lanes are held until all that their mask
names have come, wherever in the code those arrive.
"""

from __future__ import annotations

from evo.sim.abi import CTX, WARP, WARP_SYNC
from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const
from evo.sim.lower import sync_checks
from evo.sim.lower.branching import YIELDED, Branching
from evo.sim.lower.cfg import EXIT, Block, is_warp_sync, meets
from evo.sim.ptx.ast import Imm, Instr
from evo.sim.runtime.warp_barrier import sync_settle, sync_torn

SPINS = 64  # turns of a waiting loop before others run


def yield_at_times(flow: Branching, block: Block) -> None:
    """At the head of a loop that waits: now and then other lanes of the warp, or other warps, have their turn.

    In a launch in another order, whoever takes the next from a counter leaves the one after to others.
    """
    c, e, number = flow.code, flow.e, block.number
    flow.resume_points.append(0)
    point = flow.resume_points[-1] = len(flow.blocks) + len(flow.resume_points)
    turn = c.add(c.load("i64", e.warp, WARP["turns"], 8), 1)
    leaves = V("i1", "false")
    if number in flow.spins.heads:  # these alone count: a loop may have places of the other kind inside
        c.store(turn, e.warp, WARP["turns"], 8)
        leaves = c.icmp("eq", c.and_(turn, SPINS - 1), 0)
    if number in flow.spins.takes:
        leaves = c.or_(leaves, c.icmp("ne", c.load("i64", e.ctx, CTX["backwards"], 8), 0))
    with c.if_(leaves, likely=False):
        if number in flow.spins.heads:
            _turn_of_others(flow, block, turn)
            c.store(e.site(flow.spins.heads[number]), e.warp, WARP["barrier_site"], 8)
        c.store(c.zext(e.mask.get(), "i64"), e.warp, WARP["pending"], 8)
        c.store(c.zext(e.live.get(), "i64"), e.warp, WARP["live"], 8)
        c.store(flow.pending.get(), e.warp, flow.parked, 8)
        c.store(const("i64", point), e.warp, WARP["resume"], 8)
        c.ret_(const("i32", YIELDED))
        c.label(f"b{point}")
        e.mask.set(c.load("i32", e.warp, WARP["pending"], 8))
        flow.pending.set(c.load(flow.bits, e.warp, flow.parked, 8))


def _turn_of_others(flow: Branching, block: Block, turn: V) -> None:
    """Every other time: run the next pending block that needs no lane to be there, in rotation."""
    c, e = flow.code, flow.e
    free = [i for n, i in flow.dense.items() if flow.blocks[n].partial and not meets(flow.blocks[n])]
    if not block.partial or block.number not in flow.dense or not free:
        return
    waiting = c.and_(flow.pending.get(), const(flow.bits, sum(1 << i for i in free)))
    odd = c.icmp("ne", c.and_(turn, SPINS), 0)
    with c.if_ends(c.and_(odd, c.icmp("ne", waiting, 0))):
        c.store(const("i64", 1), e.warp, WARP["overtaken"], 8)
        last = c.load(flow.bits, e.warp, WARP["ahead"], 8) if flow.bits == "i64" else None
        if last is None:
            last = c.zext(c.load("i64", e.warp, WARP["ahead"], 8), flow.bits)
        later = c.and_(waiting, c.bin("shl", const(flow.bits, -2), last))
        index = flow.first_of(c.select(c.icmp("ne", later, 0), later, waiting))
        c.store(index if flow.bits == "i64" else c.trunc(index, "i64"), e.warp, WARP["ahead"], 8)
        flow.chosen.set(index)
        flow.pend(block.number, e.mask.get())
        c.br("choose")


def wait_for_all(flow: Branching, number: int, pending: V) -> None:
    """Before a pending block that all lanes must run together: others that can still come run first.

    Lanes that were given their turn while one polls come back to the head of the loop before it does. In other kernels
    the order of blocks brings lanes together, or nothing does: to let others run on to their end would hide that.
    """
    c = flow.code
    polls = any(flow.blocks[head].partial for head in flow.spins.heads)
    if not polls or not flow.blocks[number].partial or number not in flow.for_all:
        return
    free = [i for n, i in flow.dense.items() if flow.blocks[n].partial and n not in flow.for_all]
    if not free:
        return
    coming = c.and_(pending, const(flow.bits, sum(1 << i for i in free)))
    overtaken = c.icmp("ne", c.load("i64", flow.e.warp, WARP["overtaken"], 8), 0)
    with c.if_ends(c.and_(overtaken, c.icmp("ne", coming, 0)), likely=False):
        flow.chosen.set(flow.first_of(coming))
        c.br("choose")


def emit_warp_sync(flow: Branching, block: Block, end: Instr) -> None:
    """bar.warp.sync: go on if every live lane of the mask is here, otherwise be held until it is."""
    c, e = flow.code, flow.e
    if len(end.args) != 1:
        raise refuse(end, "operands")
    guard = flow.guard_of(end)
    mask = e.src(end.args[0], "u32")
    e.guard = guard
    running, outside = e.active(), c.and_(e.bits(), c.not_(e.active()))
    sync_checks.step_of_warp(flow.e, e.vector(mask), shared=flow.shared)
    e.guard = None
    site = e.site(end)
    e.flush()
    where = block.next if block.next >= 0 else EXIT
    if where not in flow.dense:
        # Nothing diverges around it: the lanes are together.
        if guard is not None:
            raise refuse(end, "under a guard")
        flow.goto(block, block.next)
        return
    whole = isinstance(end.args[0], Imm) and end.args[0].value & 0xFFFFFFFF == 0xFFFFFFFF
    absent = c.and_(e.live.get(), c.not_(running))
    masks = e.vector(mask)
    missing = absent if whole else c.mask_bits(c.icmp("ne", c.and_(masks, c.splat(absent)), 0))
    needed = missing if whole else c.and_(missing, running)
    with c.if_ends(c.icmp("eq", needed, 0), likely=True):
        flow.goto(block, block.next)
    lanes = c.mask_vec(running)
    c.store(c.select(lanes, masks, c.load("<32 x i32>", e.warp, WARP_SYNC, 64)), e.warp, WARP_SYNC, 64)
    at = flow.held + 4 * flow.dense[where]
    c.store(c.or_(c.load("i32", e.warp, at, 4), running), e.warp, at, 4)
    arrived = c.or_(c.trunc(c.load("i64", e.warp, WARP["arrived"], 8), "i32"), running)
    c.store(c.zext(arrived, "i64"), e.warp, WARP["arrived"], 8)
    c.store(site, e.warp, WARP["barrier_site"], 8)
    if guard is not None:
        with c.if_(c.icmp("ne", outside, 0)):
            flow.pend(where, outside)
    c.br("settle")


def holds(flow: Branching) -> bool:
    """Can lanes be held at a warp barrier?"""
    return any(is_warp_sync(block.end) for block in flow.blocks)


def emit_held(flow: Branching) -> None:
    """Where lanes held at a warp barrier are set free: after an arrival, and before others pass without them."""
    c, e = flow.code, flow.e
    c.label("settle")
    _set_free(flow)
    c.br("dispatch")
    c.label("torn")
    released = _set_free(flow)
    stuck = c.new_label("stuck")
    c.cbr(c.icmp("ne", released, 0), "dispatch", stuck)
    c.label(stuck)
    c.call(sync_torn(), e.ctx, e.warp, e.live.get())
    c.br("stopped")


def _set_free(flow: Branching) -> V:
    c, e = flow.code, flow.e
    c.store(flow.pending.get(), e.warp, flow.parked, 8)
    offsets = [const("i64", value) for value in (flow.held, flow.parked, len(flow.dense))]
    released = c.call(sync_settle(), e.ctx, e.warp, e.live.get(), *offsets)
    flow.pending.set(c.load(flow.bits, e.warp, flow.parked, 8))
    return released
