"""mbarrier objects: arrivals, phases and what a wait learns.

The 64 bits of an object are pending arrivals, expected arrivals, the phase and a mark. Beside it, per 8 bytes of shared
memory, lie the clocks of those that arrived in this phase and of those that ended the last one.
"""

from __future__ import annotations

from evo.sim.abi import (
    COPY,
    COPY_LENGTH,
    COPY_SIZE,
    CTX,
    MAX_WARPS,
    MB_CLOCKS,
    MB_COUNT_BITS,
    MB_MARK,
    MB_MARK_AT,
    MB_PHASE,
    NO_MBARRIER,
    STILL_VALID,
    TOO_MANY,
    WARP,
    WARP_SCRATCH,
)
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.cp_async import finish_copy
from evo.sim.runtime.fault_report import ACCESS64, ctx, each_group, lane_of, racing, report, spill
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_races import has_learnt, move_on, own_clocks, race

CLOCKS = f"<{MAX_WARPS} x i32>"
LAST = 128  # the clocks of the phase before, behind those of this one
_MASK = (1 << MB_COUNT_BITS) - 1


@routine("void", f"{ACCESS64}, <32 x i32> count")
def mbarrier_init(c: Code) -> None:
    context, w, rec, addr, mask, count = c.args(6)
    places, counts = spill(c, addr, 256), spill(c, count, 128)
    with c.each_lane(mask) as lane:
        offset = lane_of(c, places, lane)
        with c.if_(c.call(mbarrier_inside(), context, w, rec, offset, lane)):
            number = c.zext(lane_of(c, counts, lane, "i32"), "i64")
            with c.if_(c.icmp("uge", c.sub(number, 1), _MASK), likely=False):
                report(c, SimFault.BARRIER, rec, w, lane, offset, extra=TOO_MANY)
            with c.if_(_is_valid(c, context, offset), likely=False):
                report(c, SimFault.BARRIER, rec, w, lane, offset, extra=STILL_VALID)
            word = c.or_(c.or_(number, c.shl(number, MB_COUNT_BITS)), MB_MARK << MB_MARK_AT)
            c.store(word, c.at(ctx(c, context, "shared", "ptr"), offset))
            c.store(const("i16", 0x0F0F), c.at(ctx(c, context, "state", "ptr"), c.lshr(offset, 2)))
            clocks = _clocks_of(c, offset)
            c.store(const(CLOCKS, 0), clocks, 0, 4)
            c.store(const(CLOCKS, 0), clocks, LAST, 4)
            with c.if_(racing(c, context)):
                c.call(race("st"), context, w, rec, offset, lane, const("i64", 8), const("i32", 0))
    c.ret_()


@routine("i1", "ptr ctx, ptr w, ptr rec, i64 offset, i32 lane")
def mbarrier_inside(c: Code) -> None:
    """Does a whole, aligned object fit at the offset? If not, that is reported."""
    context, w, rec, offset, lane = c.args(5)
    total = ctx(c, context, "shared_size")
    room = c.and_(c.icmp("uge", total, 8), c.icmp("ule", offset, c.sub(total, 8)))
    straight = c.icmp("eq", c.and_(offset, 7), 0)
    with c.if_else(straight, likely=True) as aligned:
        with c.if_(c.not_(room), likely=False):
            report(c, SimFault.OUT_OF_BOUNDS, rec, w, lane, offset, extra=2, width=8)
        aligned.otherwise()
        report(c, SimFault.MISALIGNED, rec, w, lane, offset, extra=2, width=8)
    c.ret_(c.and_(room, straight))


@routine("ptr", "ptr ctx, ptr w, ptr rec, i64 offset, i32 lane")
def mbarrier_at(c: Code) -> None:
    """Where the object at an offset is; null after reporting that there is none."""
    context, w, rec, offset, lane = c.args(5)
    found = c.var("ptr", V("ptr", "null"))
    with c.if_(c.call(mbarrier_inside(), context, w, rec, offset, lane)):
        place = c.at(ctx(c, context, "shared", "ptr"), offset)
        with c.if_else(_is_valid(c, context, offset), likely=True) as sound:
            with c.if_(racing(c, context)):
                c.call(race("ld"), context, w, rec, offset, lane, const("i64", 8), const("i32", 0))
            found.set(place)
            sound.otherwise()
            report(c, SimFault.BARRIER, rec, w, lane, offset, extra=NO_MBARRIER)
    c.ret_(found.get())


def _is_valid(c: Code, context: V, offset: V) -> V:
    """Whether an object lies there that this block has initialised."""
    known = c.load("i16", c.at(ctx(c, context, "state", "ptr"), c.lshr(offset, 2)))
    place = c.at(ctx(c, context, "shared", "ptr"), offset)
    marked = c.icmp("eq", c.lshr(c.load("i64", place), MB_MARK_AT), MB_MARK)
    return c.and_(marked, c.icmp("eq", known, 0x0F0F))


def _clocks_of(c: Code, offset: V) -> V:
    step = MB_CLOCKS.bit_length() - 1
    return c.at(ctx(c, c.arg(0), "mbarriers", "ptr"), c.shl(c.lshr(offset, 3), step))


@routine("void", ACCESS64)
def mbarrier_inval(c: Code) -> None:
    context, w, rec, addr, mask = c.args(5)
    places = spill(c, addr, 256)
    with c.each_lane(mask) as lane:
        place = c.call(mbarrier_at(), context, w, rec, lane_of(c, places, lane), lane)
        with c.if_(c.icmp("ne", c.to_int(place), 0)):
            c.store(const("i64", 0), place)
    c.ret_()


@routine("void", f"{ACCESS64}, <32 x i32> count, i32 flags")
def mbarrier_arrive(c: Code) -> None:
    """flags: 1 the thread leaves the phases to come (arrive_drop), 2 the phase must not end (noComplete)."""
    context, w, rec, addr, mask, count, flags = c.args(7)
    places, counts = spill(c, addr, 256), spill(c, count, 128)
    mine = own_clocks(c, context, c.load("i64", w, WARP["index"], 8))
    with c.each_lane(mask) as lane:
        offset = lane_of(c, places, lane)
        place = c.call(mbarrier_at(), context, w, rec, offset, lane)
        token = c.var("i64", 0)
        token.set(0)
        with c.if_(c.icmp("ne", c.to_int(place), 0)):
            token.set(c.load("i64", place))
            number = c.zext(lane_of(c, counts, lane, "i32"), "i64")
            fits = c.call(mbarrier_count(), context, place, offset, number, flags, mine)
            with c.if_(c.not_(fits), likely=False):
                report(c, SimFault.BARRIER, rec, w, lane, offset, extra=TOO_MANY)
        c.store(token.get(), c.at(w, WARP_SCRATCH), c.shl(c.zext(lane, "i64"), 3), 8)
    with c.if_(c.icmp("ne", mask, 0)):
        move_on(c, w)
    c.ret_()


@routine("i1", "ptr ctx, ptr place, i64 offset, i64 number, i32 flags, ptr clocks")
def mbarrier_count(c: Code) -> None:
    """Count arrivals and what they know; the last of a phase opens the next. False if more arrive than are awaited."""
    place, offset, number, flags, clocks = (c.arg(i) for i in range(1, 6))
    word = c.load("i64", place)
    pending = c.and_(word, _MASK)
    quiet = c.icmp("ne", c.and_(flags, 2), 0)
    fits = c.and_(c.icmp("ule", c.sub(number, 1), c.sub(pending, 1)), c.icmp("ne", pending, 0))
    fits = c.and_(fits, c.not_(c.and_(quiet, c.icmp("eq", number, pending))))
    with c.if_(fits, likely=True):
        table = _clocks_of(c, offset)
        joined = c.intrinsic("umax", c.load(CLOCKS, table, 0, 4), c.load(CLOCKS, clocks, 0, 4))
        c.store(joined, table, 0, 4)
        dropped = c.select(c.icmp("ne", c.and_(flags, 1), 0), c.shl(number, MB_COUNT_BITS), 0)
        left = c.sub(c.sub(word, number), dropped)
        ends = c.icmp("eq", c.and_(left, _MASK), 0)
        with c.if_(ends):
            c.store(c.intrinsic("umax", joined, c.load(CLOCKS, table, LAST, 4)), table, LAST, 4)
            c.store(const(CLOCKS, 0), table, 0, 4)
        expected = c.and_(c.lshr(left, MB_COUNT_BITS), _MASK)
        fresh = c.or_(c.xor(left, 1 << MB_PHASE), expected)
        c.store(c.select(ends, fresh, left), place)
    c.ret_(fits)


@routine("i32", f"{ACCESS64}, <32 x i32> phase")
def mbarrier_wait(c: Code) -> None:
    """The lanes whose phase has ended; the warp learns what those knew that ended it."""
    context, w, rec, addr, mask, phase = c.args(6)
    places, phases = spill(c, addr, 256), spill(c, phase, 128)
    me = c.load("i64", w, WARP["index"], 8)
    mine = own_clocks(c, context, me)
    bits = c.var("i32", 0)
    with c.each_lane(mask) as lane:
        offset = lane_of(c, places, lane)
        place = c.call(mbarrier_at(), context, w, rec, offset, lane)
        with c.if_(c.icmp("ne", c.to_int(place), 0)):
            # A phase that is over already says nothing of the copies under way.
            before = c.trunc(c.and_(c.lshr(c.load("i64", place), MB_PHASE), 1), "i32")
            with c.if_(c.icmp("eq", before, lane_of(c, phases, lane, "i32"))):
                c.call(mbarrier_deliver(), context, offset)
            now = c.trunc(c.and_(c.lshr(c.load("i64", place), MB_PHASE), 1), "i32")
            with c.if_(c.icmp("ne", now, lane_of(c, phases, lane, "i32"))):
                bits.set(c.or_(bits.get(), c.shl(const("i32", 1), lane)))
                own = c.load("i32", mine, c.shl(me, 2))
                known = c.load(CLOCKS, _clocks_of(c, offset), LAST, 4)
                c.store(c.intrinsic("umax", known, c.load(CLOCKS, mine, 0, 4)), mine, 0, 4)
                has_learnt(c, w, c.load("i32", c.at(_clocks_of(c, offset), LAST), c.shl(me, 2)))
                c.store(own, mine, c.shl(me, 2))
    c.ret_(bits.get())


@routine("void", f"{ACCESS64}, i32 extra")
def mbarrier_copies(c: Code) -> None:
    """Note an arrival for when the warp's copies so far are done; extra: it is awaited beyond the object's count."""
    context, w, rec, addr, mask, extra = c.args(6)
    me = c.load("i64", w, WARP["index"], 8)
    with each_group(c, addr, mask) as (offset, same):
        place = c.call(mbarrier_at(), context, w, rec, offset, c.intrinsic("cttz", same, True))
        with c.if_(c.icmp("ne", c.to_int(place), 0)):
            number = c.zext(c.intrinsic("ctpop", same), "i64")
            more = c.select(c.icmp("ne", extra, 0), number, 0)
            c.store(c.add(c.load("i64", place), more), place)
            tail, head = ctx(c, context, "copies_tail"), ctx(c, context, "copies_head")
            with c.if_(c.icmp("uge", c.sub(tail, head), COPY_LENGTH), likely=False):
                # Out of room: the oldest arrives early, which can hide a fault but never invent one.
                c.call(mbarrier_deliver(), context, c.load("i64", _entry(c, head), COPY["address"], 8))
            entry = _entry(c, tail)
            c.store(c.load(CLOCKS, own_clocks(c, context, me), 0, 4), entry, 0, 4)
            values = {"address": offset, "warp": me, "lanes": number, "done": const("i64", 0)}
            values["tail"] = c.load("i64", w, WARP["queue_tail"], 8)
            for name, value in values.items():
                c.store(value, entry, COPY[name], 8)
            c.store(c.add(tail, 1), context, CTX["copies_tail"], 8)
    with c.if_(c.icmp("ne", mask, 0)):
        move_on(c, w)
    c.ret_()


def _entry(c: Code, index: V) -> V:
    return c.at(ctx(c, c.arg(0), "copies", "ptr"), c.mul(c.and_(index, COPY_LENGTH - 1), COPY_SIZE))


@routine("void", "ptr ctx, i64 offset")
def mbarrier_deliver(c: Code) -> None:
    """Finish the copies whose arrival the object at this offset awaits: hardware does so while somebody waits."""
    context, offset = c.arg(0), c.arg(1)
    start = ctx(c, context, "copies_head")
    with c.times(c.sub(ctx(c, context, "copies_tail"), start)) as step:
        entry = _entry(c, c.add(start, step))
        wanted = c.icmp("eq", c.load("i64", entry, COPY["address"], 8), offset)
        waiting = c.icmp("eq", c.load("i64", entry, COPY["done"], 8), 0)
        with c.if_(c.and_(wanted, waiting)):
            c.store(const("i64", 1), entry, COPY["done"], 8)
            me = c.load("i64", entry, COPY["warp"], 8)
            w = c.at(ctx(c, context, "warps", "ptr"), c.mul(me, ctx(c, context, "warp_stride")))
            clock = c.load("i32", entry, c.shl(me, 2))
            limit = c.load("i64", entry, COPY["tail"], 8)
            with c.while_() as loop:
                loop.until(c.icmp("uge", c.load("i64", w, WARP["queue_head"], 8), limit))
                c.call(finish_copy(), context, w, clock)
            place = c.at(ctx(c, context, "shared", "ptr"), offset)
            number = c.load("i64", entry, COPY["lanes"], 8)
            c.call(mbarrier_count(), context, place, offset, number, const("i32", 0), entry)
    with c.while_() as loop:
        head = ctx(c, context, "copies_head")
        empty = c.icmp("eq", head, ctx(c, context, "copies_tail"))
        loop.until(c.or_(empty, c.icmp("eq", c.load("i64", _entry(c, head), COPY["done"], 8), 0)))
        c.store(c.add(head, 1), context, CTX["copies_head"], 8)
    c.ret_()
