"""bar.warp.sync with lanes apart: who may go on, and the report when somebody never comes."""

from __future__ import annotations

from evo.sim.abi import HELD, WARP, WARP_PEND, WARP_SYNC
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import report
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_races import lanes_step


@routine("i32", "ptr ctx, ptr w, i32 live, i64 held, i64 parked, i64 count", "noinline cold")
def sync_settle(c: Code) -> None:
    """Set free every lane whose mask names only lanes that are held with the same mask, or have exited.

    held, parked: where in the warp the target blocks of held lanes and the pending bits are; count: of blocks.
    """
    context, w, live, held, parked, count = c.args(6)
    arrived = c.trunc(c.load("i64", w, WARP["arrived"], 8), "i32")
    masks = c.load("<32 x i32>", w, WARP_SYNC, 64)
    released = c.var("i32", 0)
    with c.each_lane(arrived) as lane:
        mine = c.load("i32", w, c.add(c.shl(c.zext(lane, "i64"), 2), WARP_SYNC), 4)
        same = c.and_(c.mask_bits(c.icmp("eq", masks, c.splat(mine))), arrived)
        complete = c.icmp("eq", c.and_(c.and_(mine, live), c.not_(same)), 0)
        released.set(c.or_(released.get(), c.select(complete, c.shl(const("i32", 1), lane), 0)))
    free = released.get()
    with c.if_(c.icmp("ne", free, 0)):
        c.call(lanes_step(), context, w, live, masks, free)
    with c.times(count) as index:
        place = c.at(w, c.add(held, c.shl(index, 2)))
        waiting = c.load("i32", place, 0, 4)
        going = c.and_(waiting, free)
        with c.if_(c.icmp("ne", going, 0)):
            c.store(c.and_(waiting, c.not_(free)), place, 0, 4)
            pending = c.at(w, c.add(c.shl(index, 2), WARP_PEND))
            c.store(c.or_(c.load("i32", pending, 0, 4), going), pending, 0, 4)
            _bit(c, c.at(w, parked), index, V("i1", "true"))
    left = c.and_(arrived, c.not_(free))
    c.store(c.zext(left, "i64"), w, WARP["arrived"], 8)
    _bit(c, c.at(w, parked), count, c.icmp("ne", left, 0))
    c.ret_(free)


def _bit(c: Code, bits: V, index: V, on: V) -> None:
    place = c.at(bits, c.shl(c.lshr(index, 6), 3))
    bit = c.bin("shl", const("i64", 1), c.and_(index, 63))
    old = c.load("i64", place, 0, 8)
    c.store(c.select(on, c.or_(old, bit), c.and_(old, c.not_(bit))), place, 0, 8)


@routine("void", "ptr ctx, ptr w, i32 live", "noinline cold")
def sync_torn(c: Code) -> None:
    """Lanes are held for one that has gone another way."""
    w, live = c.arg(1), c.arg(2)
    arrived = c.trunc(c.load("i64", w, WARP["arrived"], 8), "i32")
    lane = c.intrinsic("cttz", arrived, False)
    mine = c.load("i32", w, c.add(c.shl(c.zext(c.and_(lane, 31), "i64"), 2), WARP_SYNC), 4)
    same = c.mask_bits(c.icmp("eq", c.load("<32 x i32>", w, WARP_SYNC, 64), c.splat(mine)))
    other = c.intrinsic("cttz", c.and_(c.and_(mine, live), c.not_(c.and_(same, arrived))), False)
    extra = c.or_(c.zext(c.and_(other, 31), "i64"), HELD)
    report(c, SimFault.WARP_SYNC, c.load("ptr", w, WARP["barrier_site"], 8), w, lane, const("i64", 0), extra=extra)
    c.ret_()
