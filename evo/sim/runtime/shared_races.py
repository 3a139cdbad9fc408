"""The race checker of shared memory: per word the last writer and every warp's last read, ordered by vector clocks.

clocks[me][v] is the newest clock of warp v that happens before what warp `me` does now. Barriers join clocks.
writer[word] = clock << 32 | warp << 8 | lane; reader[v][word] = clock of v's last read << 5 | lane, and newest[word] is
the newest of these clocks. struck[0][word] is the clock of the newest atomic, struck[v + 1][word] = clock of v's last
one << 5 | lane. What is not newer than a warp's safe clock happens before all that the warp does now.
"""

from __future__ import annotations

from evo.sim.abi import (
    ANY_LANE,
    MAX_WARPS,
    POLLED_SITE,
    POLLING_LOAD,
    REC,
    REC_SIZE,
    STRONG_SITE,
    TAKES_VALUE,
    WARP,
    WARP_LANES,
    WARP_SCRATCH,
)
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import IOTA32, V, const
from evo.sim.runtime.fault_report import ctx, lane_of, report, spill
from evo.sim.runtime.routine import routine

ROW = 4 * MAX_WARPS
_STRONG_READ = 1 << 31
_MET = "<32 x i32>"
_TURN = 13  # lanes that a matrix access is off by in its stamps


def own_clocks(c: Code, context: V, me: V) -> V:
    return c.at(ctx(c, context, "clocks", "ptr"), c.mul(me, ROW))


@routine("void", "ptr ctx, ptr w, ptr rec, i64 address, i32 lane, i64 size, i32 same")
def race(c: Code, kind: str) -> None:
    """One lane's access of `size` bytes, granule by granule; `same` is 1 for a store of what is there already.

    An atomic must come after plain stores, such as the one that clears a counter, and after plain reads of other warps,
    unless those go on to an atomic of their own. Plain accesses must come after the atomics of others, but for who only
    peeks before a compare-and-swap or a maximum (see lower/looks.py).
    """
    context, w, rec, address, lane, size, _ = c.args(7)
    me = c.load("i64", w, WARP["index"], 8)
    mine = own_clocks(c, context, me)
    clock = c.load("i32", mine, c.shl(me, 2))
    shift = granule_shift(c, context)
    site = _site(c, rec)
    with c.times(c.intrinsic("umax", c.lshr(size, shift), const("i64", 1))) as step:
        word = c.add(c.lshr(address, shift), step)
        writer = c.at(ctx(c, context, "writer", "ptr"), c.shl(word, 3))
        newest = c.at(ctx(c, context, "newest", "ptr"), c.shl(word, 2))
        own_reads = c.at(_reads_of(c, context, me), c.shl(word, 2))
        last, read = c.load("i64", writer, 0, 8), c.load("i32", newest)
        safe = c.load("i64", w, WARP["safe_clock"], 8)
        settled = c.icmp("ule", c.lshr(last, 32), safe)
        if kind != "ld":
            settled = c.and_(settled, c.icmp("ule", c.zext(read, "i64"), safe))
        with c.if_(c.not_(settled)):
            _demand_order(c, kind, last, mine, me)
            _demand_warp_step(c, kind, last, site)
            if kind == "st":
                _demand_own_reads(c, c.load("i32", own_reads))
            if kind != "ld":
                _demand_reads(c, word, mine, me, atomic=kind != "st")
        if kind in ("ld", "st"):
            with c.if_(_struck_since(c, kind, word, safe), likely=False):
                _demand_atomics(c, word, mine, me)
        if kind == "st":
            owner = c.zext(standing(c, rec, lane), "i64")
            stamp = c.or_(c.shl(c.zext(clock, "i64"), 32), c.or_(c.shl(me, 8), owner))
            c.store(c.or_(stamp, c.shl(site, 16)), writer, 0, 8)
        elif kind == "ld":
            _note_poll(c, last, me, writer)
            # A flag that is polled may be set at any time: such a read is no end of a race.
            with c.if_(c.icmp("ne", c.load("i64", rec, REC["strong"], 8), 3)):
                stamp = c.or_(c.or_(c.shl(clock, 5), standing(c, rec, lane)), _strong_read(c, rec))
                c.store(stamp, own_reads)
                c.store(c.intrinsic("umax", read, clock), newest)
        else:
            c.store(const("i32", 0), own_reads)
            c.store(c.or_(c.shl(clock, 5), lane), _strikes_of(c, word, me))
            c.store(clock, c.at(ctx(c, context, "struck", "ptr"), c.shl(word, 2)))
    c.ret_()


def _strikes_of(c: Code, word: V, warp: V) -> V:
    """Where the last atomic of a warp on a word is noted."""
    row = c.mul(c.add(warp, 1), ctx(c, c.arg(0), "reader_stride"))
    return c.at(ctx(c, c.arg(0), "struck", "ptr"), c.add(row, c.shl(word, 2)))


def _struck_since(c: Code, kind: str, word: V, safe: V) -> V:
    """Has any atomic been on a word that this access may have to come after?"""
    rec = c.arg(2)
    there = c.at(ctx(c, c.arg(0), "struck", "ptr"), c.shl(word, 2))
    relies = c.icmp("eq", c.load("i64", rec, REC["strong"], 8), 0)
    if kind == "ld":
        takes = c.and_(c.load("i64", rec, REC["marks"], 8), TAKES_VALUE)
        relies = c.or_(relies, c.icmp("ne", takes, 0))
    found = c.var("i1", V("i1", "false"))
    with c.if_(c.and_(relies, c.icmp("ne", ctx(c, c.arg(0), "struck"), 0))):
        found.set(c.icmp("ugt", c.zext(c.load("i32", there), "i64"), safe))
    return found.get()


def _demand_atomics(c: Code, word: V, mine: V, me: V) -> None:
    """The atomics of all others happen before this access."""
    context, w, rec, address, lane, _, same = c.args(7)
    with c.if_(c.icmp("eq", same, 0)), c.times(ctx(c, context, "warp_count")) as other:
        stamp = c.load("i32", _strikes_of(c, word, other))
        then = c.lshr(stamp, 5)
        own = c.icmp("eq", other, me)
        late = c.and_(c.not_(own), c.icmp("ugt", then, c.load("i32", mine, c.shl(other, 2))))
        beside = c.and_(c.and_(own, c.icmp("ne", then, 0)), apart(c, w, lane, c.and_(stamp, 31), then))
        with c.if_(c.or_(late, beside), likely=False):
            who = c.or_(c.or_(c.shl(other, 8), c.zext(c.and_(stamp, 31), "i64")), 1 << 16)
            report(c, SimFault.RACE, rec, w, lane, address, extra=who, width=4)


def _note_poll(c: Code, last: V, me: V, place: V) -> None:
    """A lane polls what another one of its warp has stored strongly: who has seen it may read it again."""
    polls = c.icmp("eq", c.load("i64", c.arg(2), REC["strong"], 8), 3)
    own = c.and_(c.icmp("eq", c.and_(c.lshr(last, 8), 255), me), c.icmp("eq", _by(c, last), STRONG_SITE))
    with c.if_(c.and_(polls, own), likely=False):
        c.store(c.xor(last, (STRONG_SITE ^ POLLED_SITE) << 16), place, 0, 8)


def _by(c: Code, last: V) -> V:
    """Which instruction has written."""
    return c.and_(c.lshr(last, 16), 0xFFFF)


def _is_strong(c: Code, last: V) -> V:
    return c.icmp("ult", c.sub(_by(c, last), POLLED_SITE), 2)


def standing(c: Code, rec: V, lanes: V) -> V:
    """The lanes that stamps name. Which lane has what of a matrix is not known: never the lane that the simulator
    takes, so that who relies on it is seen."""
    apart = c.icmp("ne", c.and_(c.load("i64", rec, REC["marks"], 8), ANY_LANE), 0)
    turn = c.select(apart, const("i32", _TURN), 0)
    return c.and_(c.add(lanes, turn if lanes.t == "i32" else c.splat(turn)), 31)


def _strong_read(c: Code, rec: V) -> V:
    """The top bit of a read's stamp: it was a synchronising one."""
    return c.select(c.icmp("ne", c.load("i64", rec, REC["strong"], 8), 0), const("i32", _STRONG_READ), 0)


def _reads_of(c: Code, context: V, warp: V) -> V:
    return c.at(ctx(c, context, "reader", "ptr"), c.mul(warp, ctx(c, context, "reader_stride")))


def _demand_order(c: Code, kind: str, last: V, mine: V, me: V) -> None:
    """The last write by another warp happens before this access; an atomic or a poll may meet a synchronising store."""
    _, w, rec, address, lane, _, same = c.args(7)
    other = c.and_(c.lshr(last, 8), 255)
    seen = c.zext(c.load("i32", mine, c.shl(other, 2)), "i64")
    unordered = c.and_(c.icmp("ne", other, me), c.icmp("ugt", c.lshr(last, 32), seen))
    unordered = c.or_(unordered, _told_by_another_lane(c, other, last, seen))
    # Writing what is there already changes nothing: many correct kernels set a flag from several warps.
    unordered = c.and_(unordered, c.icmp("eq", same, 0))
    weak = c.not_(_is_strong(c, last))
    if kind == "ld":
        weak = c.or_(weak, c.icmp("eq", c.and_(c.load("i64", rec, REC["marks"], 8), POLLING_LOAD), 0))
    if kind != "st":
        unordered = c.and_(unordered, weak)
    with c.if_(unordered, likely=False):
        who = c.or_(c.and_(last, 0xFFFF), 1 << 16)
        report(c, SimFault.RACE, rec, w, lane, address, extra=who, width=4)


def _told_by_another_lane(c: Code, other: V, last: V, seen: V) -> V:
    """Is all that this warp knows of a store a flag by lanes that had not met the one that stored?"""
    theirs = c.at(ctx(c, c.arg(0), "warps", "ptr"), c.mul(other, ctx(c, c.arg(0), "warp_stride")))
    alone, then = c.load("i64", theirs, WARP["alone"], 8), c.lshr(last, 32)
    first, end = c.and_(alone, 0xFFFF_FFFF), c.lshr(alone, 32)
    within = c.and_(c.icmp("uge", then, first), c.icmp("ule", c.intrinsic("umax", then, seen), end))
    spoken = c.and_(c.lshr(c.load("i64", theirs, WARP["speakers"], 8), c.and_(last, 31)), 1)
    me = c.load("i64", c.arg(1), WARP["index"], 8)
    return c.and_(c.and_(within, c.icmp("eq", spoken, 0)), c.icmp("ne", other, me))


def speaks_alone(c: Code, w: V, lane: V, fenced: V) -> None:
    """A lane sets a flag after a fence, at a clock, since which the warp may have met or not."""
    together = c.load("i64", w, WARP["together"], 8)
    with c.if_(c.icmp("ule", together, c.zext(fenced, "i64"))):
        same = c.icmp("eq", c.and_(c.load("i64", w, WARP["alone"], 8), 0xFFFF_FFFF), together)
        met = c.mask_bits(c.icmp("ugt", met_lanes(c, w, lane), c.splat(c.trunc(together, "i32"))))
        now = c.zext(c.or_(met, c.shl(const("i32", 1), lane)), "i64")
        c.store(c.or_(now, c.select(same, c.load("i64", w, WARP["speakers"], 8), 0)), w, WARP["speakers"], 8)
        c.store(c.or_(together, c.shl(c.zext(fenced, "i64"), 32)), w, WARP["alone"], 8)


def _demand_reads(c: Code, word: V, mine: V, me: V, *, atomic: bool) -> None:
    """Every other warp's last read happens before this store; an atomic may meet synchronising reads."""
    context, w, rec, address, lane, _, same = c.args(7)
    with c.if_(c.icmp("eq", same, 0)), c.times(ctx(c, context, "warp_count")) as reader:
        read = c.load("i32", _reads_of(c, context, reader), c.shl(word, 2))
        late = c.icmp("ugt", c.lshr(c.and_(read, _STRONG_READ - 1), 5), c.load("i32", mine, c.shl(reader, 2)))
        if atomic:
            late = c.and_(late, c.icmp("ult", read, _STRONG_READ))
        with c.if_(c.and_(late, c.icmp("ne", reader, me)), likely=False):
            who = c.or_(c.or_(c.shl(reader, 8), c.zext(c.and_(read, 31), "i64")), 2 << 16)
            report(c, SimFault.RACE, rec, w, lane, address, extra=who, width=4)


def _site(c: Code, rec: V) -> V:
    """16 bits that tell the instructions of a kernel apart, so that the lanes of one store are not compared."""
    base = c.to_int(ctx(c, c.arg(0), "counters", "ptr"))
    number = c.and_(c.lshr(c.sub(c.to_int(rec), base), REC_SIZE.bit_length() - 1), 0x7FFF)
    strong = c.icmp("ne", c.load("i64", rec, REC["strong"], 8), 0)
    return c.select(strong, const("i64", STRONG_SITE), number)


def _demand_warp_step(c: Code, kind: str, last: V, site: V) -> None:
    """Lanes of a warp run apart since sm_70: what another lane wrote since they last met is not there yet.

    A volatile load does not wait for it either, unless it polls; stores that are volatile may meet one another.
    """
    _, w, rec, address, lane, _, same = c.args(7)
    me = c.load("i64", w, WARP["index"], 8)
    other, then = c.trunc(c.and_(last, 31), "i32"), c.trunc(c.lshr(last, 32), "i32")
    hazard = c.and_(apart(c, w, standing(c, rec, lane), other, then), c.icmp("eq", c.and_(c.lshr(last, 8), 255), me))
    by = _by(c, last)
    if kind == "ld":
        polled = c.or_(c.icmp("eq", by, POLLED_SITE), c.icmp("eq", c.load("i64", rec, REC["strong"], 8), 3))
        hazard = c.and_(hazard, c.not_(polled))
    else:
        hazard = c.and_(hazard, c.and_(c.not_(_is_strong(c, last)), c.icmp("ne", site, STRONG_SITE)))
    if kind == "st":
        hazard = c.and_(hazard, c.and_(c.icmp("ne", by, site), c.icmp("eq", same, 0)))
    with c.if_(hazard, likely=False):
        report(c, SimFault.RACE, rec, w, lane, address, extra=c.or_(c.and_(last, 0xFFFF), 1 << 16), width=4)


def _demand_own_reads(c: Code, read: V) -> None:
    """A store over what another lane of the warp has read since they last met: that lane may yet read it again."""
    _, w, rec, address, lane, _, same = c.args(7)
    then = c.lshr(c.and_(read, _STRONG_READ - 1), 5)
    hazard = c.and_(apart(c, w, standing(c, rec, lane), c.and_(read, 31), then), c.icmp("ne", then, 0))
    hazard = c.and_(hazard, c.icmp("eq", same, 0))
    hazard = c.and_(hazard, c.icmp("eq", c.load("i64", rec, REC["strong"], 8), 0))
    with c.if_(hazard, likely=False):
        me = c.load("i64", w, WARP["index"], 8)
        who = c.or_(c.or_(c.shl(me, 8), c.zext(c.and_(read, 31), "i64")), 2 << 16)
        report(c, SimFault.RACE, rec, w, lane, address, extra=who, width=4)


def move_on(c: Code, w: V) -> None:
    """The warp's own clock moves on: what it does next is not part of what it has told.

    It stops where the next one would reach the top bit of a read's stamp.
    """
    me = c.load("i64", w, WARP["index"], 8)
    place = c.at(own_clocks(c, c.arg(0), me), c.shl(me, 2))
    clock = c.load("i32", place)
    c.store(c.add(clock, c.zext(c.icmp("ult", clock, (1 << 26) - 1), "i32")), place)


@routine("void", "ptr ctx, ptr w")
def warp_step(c: Code) -> None:
    """All lanes of a warp have met."""
    context, w = c.args(2)
    move_on(c, w)
    me = c.load("i64", w, WARP["index"], 8)
    clock = c.load("i32", own_clocks(c, context, me), c.shl(me, 2))
    c.store(c.zext(clock, "i64"), w, WARP["together"], 8)
    c.ret_()


@routine("void", "ptr ctx, ptr w, i32 live, <32 x i32> masks, i32 lanes")
def lanes_step(c: Code) -> None:
    """Some lanes have met, each with those of its own mask, if that names it as well."""
    context, w, live, masks, lanes = c.args(5)
    with c.if_(c.icmp("eq", ctx(c, context, "race"), 0)):
        c.leave()
    begun = begun_lanes(c, w)
    covers = c.mask_bits(c.icmp("eq", c.and_(masks, c.splat(begun)), c.splat(begun)))
    with c.if_(c.and_(c.icmp("eq", lanes, live), c.icmp("eq", c.and_(covers, live), live)), likely=True):
        c.call(warp_step(), context, w)
        c.leave()
    move_on(c, w)
    me = c.load("i64", w, WARP["index"], 8)
    clock = c.splat(c.load("i32", own_clocks(c, context, me), c.shl(me, 2)))
    place = spill(c, masks, 128)
    with c.each_lane(lanes) as lane:
        group = c.and_(lane_of(c, place, lane, "i32"), lanes)
        named = c.icmp("ne", c.and_(c.lshr(group, lane), 1), 0)
        joined = c.var(_MET, met_lanes(c, w, lane))
        with c.each_lane(c.select(named, group, 0)) as other:
            joined.set(c.intrinsic("umax", joined.get(), met_lanes(c, w, other)))
        met = c.select(c.mask_vec(c.select(named, group, 0)), clock, joined.get())
        c.store(met, w, c.add(c.shl(c.zext(lane, "i64"), 7), WARP_LANES), 4)
    c.ret_()


def begun_lanes(c: Code, w: V) -> V:
    """The lanes of this warp that have threads. What those have done that exited must be waited for by name, too."""
    left = c.sub(ctx(c, c.arg(0), "threads"), c.shl(c.load("i64", w, WARP["index"], 8), 5))
    count = c.trunc(c.intrinsic("umin", left, const("i64", 32)), "i32")
    return c.lshr(const("i32", -1), c.sub(const("i32", 32), count))


def met_lanes(c: Code, w: V, lane: V) -> V:
    return c.load(_MET, w, c.add(c.shl(c.zext(lane, "i64"), 7), WARP_LANES), 4)


def apart(c: Code, w: V, lane: V, other: V, then: V) -> V:
    """Has another lane of the warp done something at a time since which the two have not met?"""
    since = c.icmp("uge", c.zext(then, "i64"), c.load("i64", w, WARP["together"], 8))
    at = c.add(c.shl(c.zext(lane, "i64"), 7), c.shl(c.zext(other, "i64"), 2))
    met = c.icmp("ugt", c.load("i32", w, c.add(at, WARP_LANES), 4), then)
    return c.and_(c.icmp("ne", lane, other), c.and_(since, c.not_(met)))


def has_learnt(c: Code, w: V, clock: V) -> None:
    """The warp has taken up what its own lanes had done by a clock: all of them come after that."""
    before = c.load("i64", w, WARP["together"], 8)
    after = c.select(c.icmp("eq", clock, 0), const("i64", 0), c.add(c.zext(clock, "i64"), 1))
    c.store(c.intrinsic("umax", before, after), w, WARP["together"], 8)


def granule_shift(c: Code, context: V) -> V:
    """The context's `race` field is the size of a checked granule, the narrowest shared access of the kernel."""
    return c.intrinsic("cttz", ctx(c, context, "race"), False)


@routine("void", "ptr ctx, ptr w, ptr rec, i64 address, i64 width", name="race_{}_run")
def race_run(c: Code, kind: str) -> None:
    """All 32 lanes, side by side from `address`; stores compare with the scratch."""
    context, w, rec, address, width = c.args(5)
    with c.if_(_settled(c, kind), likely=True):
        _note_run(c, kind)
        c.leave()
    base, scratch = c.at(ctx(c, context, "shared", "ptr"), address), c.at(w, WARP_SCRATCH)
    with c.times(const("i64", 32)) as step:
        offset = c.mul(step, width)
        same = const("i32", 0)
        if kind == "st":
            # The first word decides: a store that differs elsewhere only is still taken as a write.
            same = c.zext(c.icmp("eq", c.load("i32", base, offset), c.load("i32", scratch, offset)), "i32")
            same = c.select(c.icmp("eq", width, 4), same, 0)
        c.call(race(kind), context, w, rec, c.add(address, offset), c.trunc(step, "i32"), width, same)
    c.ret_()


def _settled(c: Code, kind: str) -> V:
    """The usual case: all granules were last written (for a store: and read) before the last barrier."""
    context, w, rec, address, width = c.args(5)
    shift = granule_shift(c, context)
    first = c.lshr(address, shift)
    safe = c.load("i64", w, WARP["safe_clock"], 8)
    good = c.var("i32", c.select(c.icmp("ne", c.load("i64", rec, REC["strong"], 8), 3), const("i32", -1), 0))
    with c.times(c.lshr(width, shift)) as chunk:
        word = c.add(first, c.shl(chunk, 5))
        last = c.load("<32 x i64>", c.at(ctx(c, context, "writer", "ptr"), c.shl(word, 3)), 0, 8)
        fine = c.mask_bits(c.icmp("ule", c.lshr(last, 32), c.splat(safe)))
        if kind == "st":
            read = c.load("<32 x i32>", c.at(ctx(c, context, "newest", "ptr"), c.shl(word, 2)), 0, 4)
            fine = c.and_(fine, c.mask_bits(c.icmp("ule", read, c.splat(c.trunc(safe, "i32")))))
        good.set(c.and_(good.get(), fine))
        with c.if_(c.icmp("ne", ctx(c, context, "struck"), 0)):
            struck = c.load("<32 x i32>", c.at(ctx(c, context, "struck", "ptr"), c.shl(word, 2)), 0, 4)
            fine = c.mask_bits(c.icmp("ule", struck, c.splat(c.trunc(safe, "i32"))))
            good.set(c.and_(good.get(), fine))
    return c.icmp("eq", good.get(), -1)


def _note_run(c: Code, kind: str) -> None:
    """Leave the stamps of 32 lanes side by side, 32 granules at a time."""
    context, w, rec, address, width = c.args(5)
    shift = granule_shift(c, context)
    me = c.load("i64", w, WARP["index"], 8)
    clock = c.load("i32", own_clocks(c, context, me), c.shl(me, 2))
    per_lane = c.trunc(c.sub(c.intrinsic("cttz", width, False), shift), "i32")  # its logarithm
    with c.times(c.lshr(width, shift)) as chunk:
        word = c.add(c.lshr(address, shift), c.shl(chunk, 5))
        lanes = c.lshr(c.add(IOTA32, c.splat(c.shl(c.trunc(chunk, "i32"), 5))), c.splat(per_lane))
        lanes = standing(c, rec, lanes)
        if kind == "st":
            stamp = c.or_(c.shl(c.zext(clock, "i64"), 32), c.or_(c.shl(me, 8), c.shl(_site(c, rec), 16)))
            stamps = c.or_(c.splat(stamp), c.zext(lanes, "i64"))
            c.store(stamps, c.at(ctx(c, context, "writer", "ptr"), c.shl(word, 3)), 0, 8)
        else:
            place = c.shl(word, 2)
            reads = c.or_(c.splat(c.or_(c.shl(clock, 5), _strong_read(c, rec))), lanes)
            c.store(reads, c.at(_reads_of(c, context, me), place), 0, 4)
            newest = c.at(ctx(c, context, "newest", "ptr"), place)
            c.store(c.intrinsic("umax", c.load("<32 x i32>", newest, 0, 4), c.splat(clock)), newest, 0, 4)
