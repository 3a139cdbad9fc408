"""Races in global memory: per granule of a writable buffer its last writer and a reader.

Blocks of one context run one after another, so the first reader tells whether any other block has read; among the
readers of one block the last one is kept. Within a block the clocks of its warps tell what is ordered (see
shared_races.py), between blocks what flags have carried (see inter_block_order.py). If a launch has more warps than
that is kept for, a release by one block and then anything acquired by the other is an order, whatever the flag in
between was: that errs towards silence. A store of what is there already changes nothing, and is no end of a race.
"""

from __future__ import annotations

from evo.sim.abi import (
    BLOCK_SCOPE,
    CACHED_LOAD,
    CTX,
    OTHER_BLOCK,
    OTHER_READ,
    READ_ONLY_LOAD,
    REC,
    ROW,
    STAMP_ATOMIC,
    STAMP_CLOCK,
    STAMP_CLOCKS,
    STAMP_RELEASE,
    STAMP_RELEASES,
    STAMP_SLOT,
    STAMP_STRONG,
    STAMP_THREADS,
    TAKES_VALUE,
    WARP,
    WARP_SCRATCH,
)
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import IOTA32, V, const
from evo.sim.runtime.fault_report import all_of, consecutive, ctx, host_of, lane_of, racing, record_fault, report, spill
from evo.sim.runtime.inter_block_order import cached_before, comes_after, has_acquired, kept, publish
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_races import apart, own_clocks, standing

_SECTOR = 32  # bytes that the first-level cache fetches together
_PLACE = STAMP_STRONG - 1  # the bits of a stamp that say where and when
_HOW = STAMP_ATOMIC | STAMP_STRONG  # ... and those that say how


def watched(c: Code, row: V) -> V:
    """Is the buffer of this row one whose accesses are compared between blocks?"""
    return c.icmp("ne", c.load("i64", row, ROW["writers"], 8), 0)


def watch(c: Code, kind: str, row: V, address: V, lane: V, width: V, same: V | None = None) -> None:
    """One lane's access. same: i32, 1 for a store of what is there already."""
    context, w, rec = c.args(3)
    with c.if_(watched(c, row)):
        c.call(between(kind), context, w, rec, row, address, lane, width, same or const("i32", 0))


def _stamp(c: Code, context: V, w: V) -> tuple[V, V]:
    """The stamp of lane 0 of this warp, and the number of its block."""
    slot = ctx(c, context, "slot")
    mine = c.add(slot, 1)
    releases = c.load("i64", ctx(c, context, "releases", "ptr"), c.shl(slot, 3), 8)
    past = c.intrinsic("umin", releases, const("i64", STAMP_RELEASES))
    me = c.load("i64", w, WARP["index"], 8)
    clock = c.intrinsic("umin", _since(c, context, me, me), const("i64", STAMP_CLOCKS))
    stamp = c.or_(c.or_(c.shl(mine, STAMP_SLOT), c.shl(past, STAMP_RELEASE)), c.shl(me, 5))
    return c.or_(stamp, c.shl(clock, STAMP_CLOCK)), mine


def _since(c: Code, context: V, me: V, other: V) -> V:
    """The newest clock of another warp that warp `me` knows, counted from the start of the block."""
    at = c.shl(other, 2)
    known = c.load("i32", own_clocks(c, context, me), at)
    return c.zext(c.sub(known, c.load("i32", ctx(c, context, "clock_base", "ptr"), at)), "i64")


def _first(c: Code, context: V, row: V, address: V) -> V:
    """The granule number of an address within its buffer."""
    shift = c.intrinsic("cttz", ctx(c, context, "granule"), False)
    return c.sub(c.lshr(address, shift), c.lshr(c.load("i64", row, ROW["low"], 8), shift))


def _how(c: Code, stamp: V, what: int) -> V:
    """Are exactly these of the two bits set that say how an access was made?"""
    return c.icmp("eq", c.and_(stamp, _HOW), const("i64", what))


def _slot(c: Code, stamp: V) -> V:
    return c.lshr(c.and_(stamp, _PLACE), STAMP_SLOT)


@routine("void", "ptr ctx, ptr w, ptr rec, ptr row, i64 address, i32 lane, i64 width, i32 same")
def between(c: Code, kind: str) -> None:
    """Compare with the last writer and a reader; then leave this lane's stamp.

    Strong accesses and atomics are not unordered among themselves, only with plain accesses; but a strong load that
    takes a value on (see lower/looks.py) must come after the store, and within a block so must one that does not poll.
    """
    context, w, rec, row, address, lane, width, same = c.args(8)
    base, mine = _stamp(c, context, w)
    stamp = c.or_(base, c.zext(standing(c, rec, lane), "i64"))
    strong = c.load("i64", rec, REC["strong"], 8)
    weak = c.icmp("eq", strong, 0)
    if kind in ("at", "add"):
        narrow = c.icmp("ne", c.and_(c.load("i64", rec, REC["marks"], 8), BLOCK_SCOPE), 0)
        stamp = c.or_(stamp, c.select(narrow, const("i64", _HOW), const("i64", STAMP_ATOMIC)))
    else:
        narrow = V("i1", "false")
        stamp = c.or_(stamp, c.select(weak, const("i64", 0), const("i64", STAMP_STRONG)))
    start = _first(c, context, row, address)
    shift = c.intrinsic("cttz", ctx(c, context, "granule"), False)
    writers, readers = c.load("ptr", row, ROW["writers"], 8), c.load("ptr", row, ROW["readers"], 8)
    with c.times(c.intrinsic("umax", c.lshr(width, shift), const("i64", 1))) as step:
        at = c.shl(c.add(start, step), 3)
        last, first = c.load("i64", writers, at, 8), c.load("i64", readers, at, 8)
        if kind == "ld":
            _demand_coherent(c, last, address, lane)
        with c.if_(c.icmp("eq", same, 0)):
            plain = c.not_(_how(c, last, STAMP_STRONG))
            with c.if_(plain if kind in ("at", "add") else c.or_(plain, weak)):
                _demand_within(c, last, mine, address, lane, 0)
                _demand_between(c, last, mine, address, lane, 0)
            if kind == "ld":
                _demand_of_strong(c, last, first, mine, address, lane)
                _demand_fresh(c, last, mine, address, lane)
            with c.if_(_meets_reader(c, kind, first, weak)):
                if kind != "ld":
                    _demand_within(c, first, mine, address, lane, OTHER_READ)
                _demand_between(c, first, mine, address, lane, OTHER_READ, after_atomic=kind == "ld")
            if kind in ("at", "add"):
                scoped = c.or_(c.and_(narrow, c.icmp("slt", first, 0)), _how(c, first, _HOW))
                with c.if_(scoped):
                    _demand_between(c, first, mine, address, lane, OTHER_READ)
            if kind == "ld":
                _note_poll(c, last, mine, c.at(writers, at))
            if kind in ("ld", "st"):
                _demand_step(c, kind, last if kind == "ld" else first, mine, address, lane)
            if kind == "st":
                c.store(stamp, writers, at, 8)
        if kind != "st":
            kept = _keep_reader(c, kind, first, mine, strong)
            if kind in ("at", "add"):
                kept = c.or_(kept, _is_unmet(c, first, mine))
            c.store(c.select(kept, first, stamp), readers, at, 8)
        else:
            other = c.and_(c.icmp("ne", last, 0), c.icmp("ne", _slot(c, last), mine))
            with c.if_(c.and_(other, c.icmp("ne", same, 0)), likely=False):
                c.store(c.to_int(rec), context, CTX["equal_stores"], 8)
            c.store(c.select(c.icmp("eq", last, 0), stamp, c.load("i64", writers, at, 8)), writers, at, 8)
    c.ret_()


def _demand_fresh(c: Code, last: V, mine: V, address: V, lane: V) -> None:
    """A cached load of what another block wrote: no word of its sector may have been cached before that."""
    context, w, rec, row = c.args(4)
    marks = c.load("i64", rec, REC["marks"], 8)
    foreign = c.and_(c.icmp("ne", last, 0), c.icmp("ne", _slot(c, last), mine))
    asked = c.and_(c.and_(foreign, c.icmp("ne", c.and_(marks, CACHED_LOAD), 0)), kept(c))
    with c.if_(asked, likely=False):
        shift = c.intrinsic("cttz", ctx(c, context, "granule"), False)
        sector = c.intrinsic("umax", c.and_(address, -_SECTOR), c.load("i64", row, ROW["low"], 8))
        start = _first(c, context, row, sector)
        readers = c.load("ptr", row, ROW["readers"], 8)
        seen = c.var("i1", V("i1", "false"))
        seen.set(V("i1", "false"))
        with c.times(c.lshr(const("i64", _SECTOR), shift)) as step:
            other = c.load("i64", readers, c.shl(c.add(start, step), 3), 8)
            read = c.and_(_how(c, other, 0), c.icmp("ne", other, 0))
            with c.if_(c.and_(read, c.not_(seen.get()))):
                writer, reader = c.sub(_slot(c, last), 1), c.sub(_slot(c, other), 1)
                then, at = (c.and_(c.lshr(stamp, STAMP_CLOCK), STAMP_CLOCKS) for stamp in (last, other))
                by, thread = c.and_(c.lshr(other, 5), 31), c.and_(last, STAMP_THREADS)
                seen.set(c.call(cached_before(), context, w, writer, thread, then, reader, by, at))
        with c.if_(seen.get(), likely=False):
            report(c, SimFault.UNACQUIRED, rec, w, lane, address, width=4)


def _demand_of_strong(c: Code, last: V, first: V, mine: V, address: V, lane: V) -> None:
    """A load comes after strong stores and after atomics, as far as it must: a poll need not, nor one that peeks."""
    rec = c.arg(2)
    strong, marks = (c.load("i64", rec, REC[name], 8) for name in ("strong", "marks"))
    takes = c.icmp("ne", c.and_(marks, TAKES_VALUE), 0)
    stored = _how(c, last, STAMP_STRONG)
    with c.if_(c.and_(c.icmp("eq", strong, 1), stored)):
        _demand_within(c, last, mine, address, lane, 0)
    with c.if_(c.and_(takes, stored)):
        _demand_between(c, last, mine, address, lane, 0)
    with c.if_(c.and_(c.or_(c.icmp("eq", strong, 0), takes), c.icmp("slt", first, 0))):
        _demand_within(c, first, mine, address, lane, 0)
        _demand_step(c, "ld", first, mine, address, lane)


def _meets_reader(c: Code, kind: str, first: V, weak: V) -> V:
    """Must this access come after what the reader's stamp names? An atomic lies there, too."""
    plain = _how(c, first, 0)
    if kind == "ld":
        return c.and_(weak, c.icmp("slt", first, 0))
    if kind == "st":
        return c.or_(weak, plain)
    # An atomic may come after those of others, and after a read that went on to an atomic.
    return plain


def _keep_reader(c: Code, kind: str, first: V, mine: V, strong: V) -> V:
    """Does the old reader's stamp stay? That of another block does, unless it says less than the new one."""
    none, own = c.icmp("eq", first, 0), c.icmp("eq", _slot(c, first), mine)
    lesser = _how(c, first, STAMP_STRONG)
    kept = c.not_(c.or_(none, c.or_(own, lesser)))
    if kind != "ld":
        return kept
    # A flag that is polled may be set at any time: such a read is no end of a race. A strong one replaces no other.
    strongly = c.or_(c.icmp("eq", strong, 3), c.not_(c.or_(none, c.and_(own, lesser))))
    return c.select(c.icmp("eq", strong, 0), kept, strongly)


def _is_unmet(c: Code, first: V, mine: V) -> V:
    """An atomic of another warp of this block that is in no order with this one: who reads must have met both."""
    context, w = c.args(2)
    me = c.load("i64", w, WARP["index"], 8)
    warp = c.and_(c.lshr(first, 5), 31)
    then = c.and_(c.lshr(first, STAMP_CLOCK), STAMP_CLOCKS)
    near = c.and_(c.icmp("eq", _slot(c, first), mine), c.icmp("ne", warp, me))
    near = c.and_(c.and_(near, c.icmp("slt", first, 0)), racing(c, context))
    return c.and_(near, c.icmp("ugt", then, _since(c, context, me, warp)))


def _demand_coherent(c: Code, last: V, address: V, lane: V) -> None:
    """The read-only cache does not see what the launch itself has written."""
    w, rec = c.arg(1), c.arg(2)
    through = c.icmp("ne", c.and_(c.load("i64", rec, REC["marks"], 8), READ_ONLY_LOAD), 0)
    with c.if_(c.and_(through, c.icmp("ne", last, 0)), likely=False):
        report(c, SimFault.STALE, rec, w, lane, address, width=4)


def _note_poll(c: Code, last: V, mine: V, place: V) -> None:
    """A lane polls what another one of its warp has stored strongly: who has seen it may read it again."""
    me = c.load("i64", c.arg(1), WARP["index"], 8)
    own = c.and_(c.icmp("eq", _slot(c, last), mine), c.icmp("eq", c.and_(c.lshr(last, 5), 31), me))
    polls = c.icmp("eq", c.load("i64", c.arg(2), REC["strong"], 8), 3)
    with c.if_(c.and_(c.and_(own, polls), _how(c, last, STAMP_STRONG)), likely=False):
        c.store(c.or_(last, STAMP_CLOCKS << STAMP_CLOCK), place, 0, 8)


def _demand_step(c: Code, kind: str, other: V, mine: V, address: V, lane: V) -> None:
    """Lanes of a warp run apart: what another one wrote, or may yet read, since the two last met is not settled."""
    context, w, rec = c.args(3)
    me = c.load("i64", w, WARP["index"], 8)
    then = c.and_(c.lshr(other, STAMP_CLOCK), STAMP_CLOCKS)
    slot = _slot(c, other) if kind == "ld" else c.lshr(other, STAMP_SLOT)  # of reads, only plain ones
    near = c.and_(c.icmp("eq", slot, mine), c.icmp("eq", c.and_(c.lshr(other, 5), 31), me))
    near = c.and_(near, c.and_(c.icmp("ne", then, STAMP_CLOCKS), racing(c, context)))
    strong = c.load("i64", rec, REC["strong"], 8)
    near = c.and_(near, c.icmp("ne", strong, 3) if kind == "ld" else c.icmp("eq", strong, 0))
    with c.if_(near):
        past = c.load("i32", ctx(c, context, "clock_base", "ptr"), c.shl(me, 2))
        clock = c.add(c.trunc(then, "i32"), past)
        with c.if_(apart(c, w, standing(c, rec, lane), c.trunc(c.and_(other, 31), "i32"), clock), likely=False):
            who = c.or_(c.shl(me, 8), c.and_(other, 31))
            report(c, SimFault.RACE, rec, w, lane, address, extra=c.or_(who, (1 if kind == "ld" else 2) << 16), width=4)


def _demand_within(c: Code, other: V, mine: V, address: V, lane: V, how: int) -> None:
    """Report a race with another warp of this block, unless that comes before."""
    context, w, rec = c.args(3)
    me = c.load("i64", w, WARP["index"], 8)
    warp = c.and_(c.lshr(other, 5), 31)
    then = c.and_(c.lshr(other, STAMP_CLOCK), STAMP_CLOCKS)
    near = c.and_(c.icmp("eq", _slot(c, other), mine), c.icmp("ne", warp, me))
    near = c.and_(near, c.and_(c.icmp("ne", then, STAMP_CLOCKS), racing(c, context)))
    with c.if_(near), c.if_(c.icmp("ugt", then, _since(c, context, me, warp)), likely=False):
        who = c.or_(c.shl(warp, 8), c.and_(other, 31))
        report(c, SimFault.RACE, rec, w, lane, address, extra=c.or_(who, (2 if how else 1) << 16), width=4)


def _demand_between(c: Code, other: V, mine: V, address: V, lane: V, how: int, *, after_atomic: bool = False) -> None:
    """Report a race with another block, unless that has released the other access and this block acquired it.

    after_atomic: this is a plain load after an atomic.
    """
    context, w, rec = c.args(3)
    width = c.arg(6)
    block = _slot(c, other)
    foreign = c.and_(c.icmp("ne", other, 0), c.icmp("ne", block, mine))
    with c.if_(foreign, likely=False):
        slot = c.sub(block, 1)
        then = c.and_(c.lshr(other, STAMP_RELEASE), STAMP_RELEASES)
        if after_atomic:
            # The atomic itself may have been the flag: what it left there was released before it.
            then = c.intrinsic("umax", then, const("i64", 1))
            then = c.sub(then, 1)
        ordered = c.var("i1", V("i1", "false"))
        acquired = c.var("i1", V("i1", "false"))
        with c.if_else(kept(c)) as exact:
            clock = c.and_(c.lshr(other, STAMP_CLOCK), STAMP_CLOCKS)
            flag = const("i32", int(after_atomic))
            thread = c.and_(other, STAMP_THREADS)
            ordered.set(c.call(comes_after(), context, w, lane, slot, thread, clock, flag))
            acquired.set(c.call(has_acquired(), context, w, lane))
            exact.otherwise()
            acquired.set(c.icmp("ne", ctx(c, context, "acquired"), 0))
            released = c.icmp("ugt", c.load("i64", ctx(c, context, "releases", "ptr"), c.shl(slot, 3), 8), then)
            ordered.set(c.and_(released, acquired.get()))
        if not after_atomic:
            # Who resets a counter has met the atomics of the others in an atomic of its own.
            met = c.and_(_how(c, other, STAMP_ATOMIC), acquired.get())
            ordered.set(c.or_(ordered.get(), met))
        with c.if_(c.not_(ordered.get()), likely=False):
            thread = c.and_(other, STAMP_THREADS)
            extra = c.or_(c.or_(c.shl(slot, 16), thread), OTHER_BLOCK | how)
            kind = const("i64", SimFault.RACE.number)
            c.call(record_fault(), context, kind, rec, w, c.zext(lane, "i64"), address, extra, width)


@routine("void", "ptr ctx, ptr w, ptr rec, ptr row, <32 x i64> addr, i32 mask", name="between_{}_{}")
def between_warp(c: Code, kind: str, width: int) -> None:
    """All lanes of a mask in one buffer; 32 side by side are compared at once."""
    context, w, rec, row, addr, mask = c.args(6)
    place = spill(c, addr, 256)
    first = lane_of(c, place, const("i32", 0))
    straight = c.and_(c.icmp("eq", mask, -1), all_of(c, consecutive(c, addr, first, const("i32", 0), width), mask))
    straight = c.and_(straight, c.icmp("eq", ctx(c, context, "granule"), width))
    if kind == "ld":
        through = c.and_(c.load("i64", rec, REC["marks"], 8), READ_ONLY_LOAD)
        straight = c.and_(straight, c.icmp("eq", through, 0))
    weak = c.icmp("eq", c.load("i64", rec, REC["strong"], 8), 0)
    with c.if_(c.and_(straight, weak), likely=True):
        _side_by_side(c, kind, first)
    with c.if_(c.icmp("eq", ctx(c, context, "race"), 0)):
        _note(c, kind, width, addr, mask)
        c.leave()
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        same = const("i32", 0)
        if kind == "st":
            t = f"i{8 * width}"
            there = c.load(t, host_of(c, row, address), 0, width)
            new = c.load(t, c.at(w, WARP_SCRATCH), c.mul(c.zext(lane, "i64"), width))
            same = c.zext(c.icmp("eq", there, new), "i32")
        c.call(between(kind), context, w, rec, row, address, lane, const("i64", width), same)
    c.ret_()


def _note(c: Code, kind: str, width: int, addr: V, mask: V) -> None:
    """Nobody asked for races: leave a mark, so that the parts of a launch can see whether they met."""
    context, w, _, row = c.args(4)
    base, _ = _stamp(c, context, w)
    shift = c.intrinsic("cttz", ctx(c, context, "granule"), False)
    low = c.lshr(c.load("i64", row, ROW["low"], 8), shift)
    place = spill(c, c.sub(c.lshr(addr, c.splat(shift)), c.splat(low)), 256)
    marks = c.load("ptr", row, ROW["writers" if kind == "st" else "readers"], 8)
    steps = c.intrinsic("umax", c.lshr(const("i64", width), shift), const("i64", 1))
    with c.each_lane(mask) as lane:
        start = c.at(marks, c.shl(lane_of(c, place, lane), 3))
        c.store(base, start, 0, 8)
        with c.if_(c.icmp("ugt", steps, 1)), c.times(steps) as step:
            c.store(base, c.at(start, c.shl(step, 3)), 0, 8)


def _side_by_side(c: Code, kind: str, first: V) -> None:
    """Return early when every granule is new to this launch or was last touched by this warp, or before it."""
    context, w, _, row = c.args(4)
    base, mine = _stamp(c, context, w)
    lanes = c.zext(standing(c, c.arg(2), IOTA32), "i64")
    stamps = c.or_(c.splat(base), lanes)
    at = c.shl(_first(c, context, row, first), 3)
    writers, readers = (c.at(c.load("ptr", row, ROW[name], 8), at) for name in ("writers", "readers"))
    written, read = (c.load("<32 x i64>", place, 0, 8) for place in (writers, readers))

    w = c.arg(1)
    alone = c.icmp("eq", ctx(c, context, "race"), 0)
    safe = c.splat(c.select(alone, const("i64", STAMP_CLOCKS), c.load("i64", w, WARP["safe_since"], 8)))
    me = c.splat(c.load("i64", w, WARP["index"], 8))

    past = c.load("i32", ctx(c, context, "clock_base", "ptr"), c.shl(c.load("i64", w, WARP["index"], 8), 2))
    met = c.sub(c.load("i64", w, WARP["together"], 8), c.zext(past, "i64"))
    met = c.splat(c.select(alone, const("i64", STAMP_CLOCKS), met))

    def own(last: V) -> V:
        here = c.icmp("eq", c.lshr(last, STAMP_SLOT), c.splat(mine))
        then = c.and_(c.lshr(last, STAMP_CLOCK), STAMP_CLOCKS)
        before = c.icmp("ule", then, safe)
        settled = c.or_(c.icmp("ult", then, met), c.icmp("eq", c.and_(last, 31), lanes))
        ordered = c.or_(before, c.and_(c.icmp("eq", c.and_(c.lshr(last, 5), 31), me), settled))
        return c.or_(c.icmp("eq", last, 0), c.and_(here, ordered))

    good = own(written)
    good = c.and_(good, own(read) if kind == "st" else c.icmp("sge", read, 0))
    with c.if_(c.icmp("eq", c.mask_bits(good), -1), likely=True):
        if kind == "st":
            c.store(stamps, writers, 0, 8)
        else:
            mine_too = c.icmp("eq", c.lshr(read, STAMP_SLOT), c.splat(mine))
            c.store(c.select(c.or_(c.icmp("eq", read, 0), mine_too), stamps, read), readers, 0, 8)
        c.leave()


@routine("void", "ptr ctx, ptr w, i32 lanes", "")
def between_release(c: Code) -> None:
    """A fence of the whole GPU: what this block wrote so far may be seen by who synchronises with it."""
    context, w, lanes = c.args(3)
    c.call(publish(), context, w, lanes)
    c.bump(c.at(ctx(c, context, "releases", "ptr"), c.shl(ctx(c, context, "slot"), 3)), 0)
    c.ret_()
