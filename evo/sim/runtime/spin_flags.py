"""Hand-made synchronisation: a fence, then a flag that another thread looks at.

A fence notes what its warp knows then (its clocks, `told` of the warp; between blocks see inter_block_order.py). A
strong store or an atomic leaves that note at its address, and a strong load or an atomic whose answer is used takes up
what lies there. Nothing is learnt without a fence before the flag, from another flag, or by a fence alone. Addresses
share a small table, and whoever looks need not fence: both err towards silence.
"""

from __future__ import annotations

from evo.sim.abi import CTX, FLAG_SIZE, FLAGS, MAX_WARPS, SHARED_WINDOW, WARP, WINDOW_SIZE
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import ctx, lane_of, racing, spill
from evo.sim.runtime.inter_block_order import kept, learn_from_blocks, tell_blocks
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_races import has_learnt, move_on, own_clocks, speaks_alone

_CLOCKS = f"<{MAX_WARPS} x i32>"


def _told_by(c: Code, context: V, me: V) -> V:
    return c.at(ctx(c, context, "told", "ptr"), c.mul(me, FLAG_SIZE))


@routine("void", "ptr ctx, ptr w")
def fence(c: Code) -> None:
    """What this warp knows now goes with its next flags."""
    context, w = c.args(2)
    with c.if_(racing(c, context)):
        _note(c)
        move_on(c, w)
    c.ret_()


@routine("void", "ptr ctx, ptr w")
def release(c: Code) -> None:
    """As a fence, but the store or atomic that comes next is part of what its own flag tells."""
    context, w = c.args(2)
    with c.if_(racing(c, context)):
        move_on(c, w)
        _note(c)
    c.ret_()


def _note(c: Code) -> None:
    context, w = c.args(2)
    me = c.load("i64", w, WARP["index"], 8)
    c.store(c.load(_CLOCKS, own_clocks(c, context, me), 0, 4), _told_by(c, context, me), 0, 4)
    c.store(const("i64", 1), context, CTX["fenced"], 8)


@routine("void", "ptr ctx, ptr w, <32 x i64> addr, i32 mask")
def flag(c: Code, how: str, *, wide: bool) -> None:
    """Lanes touch flags at generic addresses. how: `learn`, `tell` or `both`. wide: other blocks see it as well."""
    context, w, addr, mask = c.args(4)
    idle = c.or_(c.icmp("eq", ctx(c, context, "race"), 0), c.icmp("eq", ctx(c, context, "fenced"), 0))
    if how != "tell" and wide:  # who looks at an atomic has met it, whether anybody has fenced or not
        idle = c.and_(idle, c.not_(kept(c)))
    with c.if_(c.or_(idle, c.icmp("eq", mask, 0))):
        c.leave()
    place = spill(c, addr, 256)
    me = c.load("i64", w, WARP["index"], 8)
    mine, told = own_clocks(c, context, me), _told_by(c, context, me)
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        word = c.lshr(address, 2)
        number = c.and_(c.xor(word, c.lshr(word, 9)), FLAGS - 1)
        left = c.at(ctx(c, context, "flags", "ptr"), c.mul(number, FLAG_SIZE))
        note = c.load(_CLOCKS, left, 0, 4)
        if how != "tell":
            c.store(c.intrinsic("umax", note, c.load(_CLOCKS, mine, 0, 4)), mine, 0, 4)
            has_learnt(c, w, c.load("i32", left, c.shl(me, 2)))
        if how != "learn":
            c.store(c.intrinsic("umax", note, c.load(_CLOCKS, told, 0, 4)), left, 0, 4)
            speaks_alone(c, w, lane, c.load("i32", told, c.shl(me, 2)))
        if wide:
            far = c.icmp("uge", c.sub(address, SHARED_WINDOW), WINDOW_SIZE)
            with c.if_(c.and_(far, kept(c))):
                if how != "tell":
                    c.call(learn_from_blocks(), context, w, address, lane)
                if how != "learn":
                    c.call(tell_blocks(), context, w, address, lane)
    if how != "learn":
        move_on(c, w)
    c.ret_()
