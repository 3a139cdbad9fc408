"""Happens-before between blocks: fences of the whole GPU, then flags, warp by warp and lane by lane.

Each warp of a launch has a voice. A fence notes in it what the fencing lanes know of their block: per warp a bound of
its clock below which all lanes are covered (ALL), and a later one for those lanes that fence by themselves (LEADER,
`speakers`). When a lane that has fenced, or has met one that has, sets a flag, this becomes a numbered record; other
lanes tell the record of the last fence that all of them know (`firm_number`). A flag carries, per warp of the launch,
the newest number. Who looks at the flag takes these up in two rows of its warp: `firm` is what all lanes know, `fresh`
what the lanes that have looked since they all met know as well. Barriers of the block hand both on. The numbers are
kept for all warps, so launches with very many have none (see LaunchContext).

Where the exact order is not kept, it errs towards silence: a record that was overwritten counts as one that covers, and
so does what another warp of the block has learnt since, if it had learnt anything when the two met.
"""

from __future__ import annotations

from evo.sim.abi import (
    DONE,
    FLAG_HEAD,
    FLAG_HEAD_SIZE,
    MAX_WARPS,
    RECORD_SIZE,
    RECORDS,
    STAMP_CLOCKS,
    VOICE,
    VOICE_ALL,
    VOICE_LEADER,
    VOICE_RECORDS,
    VOICE_SIZE,
    WAITING,
    WARP,
)
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import ctx
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_races import apart, begun_lanes, met_lanes, own_clocks

_CLOCKS = f"<{MAX_WARPS} x i32>"
_PIECE = "<32 x i16>"
_LAST_NUMBER = 0xFFFF
_TOLD, _LEARNT = 1, 2  # the news of a warp: what it has fenced, what it has taken up


def kept(c: Code) -> V:
    return c.icmp("ne", ctx(c, c.arg(0), "known"), 0)


def _column(c: Code, slot: V, warp: V) -> V:
    """The number of a warp in the launch."""
    return c.add(c.mul(slot, ctx(c, c.arg(0), "warp_count")), warp)


def _voice(c: Code, column: V) -> V:
    return c.at(ctx(c, c.arg(0), "voices", "ptr"), c.mul(column, VOICE_SIZE))


def _own_voice(c: Code) -> tuple[V, V, V]:
    """This warp's number in the block and in the launch, and its voice."""
    me = c.load("i64", c.arg(1), WARP["index"], 8)
    column = _column(c, ctx(c, c.arg(0), "slot"), me)
    return me, column, _voice(c, column)


def _rows(c: Code, column: V) -> tuple[V, V]:
    """firm and fresh of a warp: an i16 number per warp of the launch."""
    stride = ctx(c, c.arg(0), "known_stride")
    firm = c.at(ctx(c, c.arg(0), "known", "ptr"), c.mul(c.shl(column, 1), stride))
    return firm, c.at(firm, stride)


def _join(c: Code, row: V, other: V) -> None:
    """row = the larger of both, number by number."""
    with c.times(c.lshr(ctx(c, c.arg(0), "known_stride"), 6)) as piece:
        at = c.shl(piece, 6)
        both = c.intrinsic("umax", c.load(_PIECE, row, at, 2), c.load(_PIECE, other, at, 2))
        c.store(both, row, at, 2)


def _get(c: Code, voice: V, name: str) -> V:
    return c.load("i64", voice, VOICE[name], 8)


def _put(c: Code, voice: V, name: str, value: V) -> None:
    c.store(value, voice, VOICE[name], 8)


def _clock(c: Code, me: V) -> V:
    return c.zext(c.load("i32", own_clocks(c, c.arg(0), me), c.shl(me, 2)), "i64")


def _since_start(c: Code, me: V, clock: V) -> V:
    """A clock of a warp, counted from the start of the block."""
    base = c.load("i32", ctx(c, c.arg(0), "clock_base", "ptr"), c.shl(me, 2))
    return c.sub(clock, c.zext(base, "i64"))


def _bit(c: Code, lane: V) -> V:
    return c.zext(c.shl(const("i32", 1), lane), "i64")


def _reaches(c: Code, lanes: V, clock: V, lane: V) -> V:
    """Does this lane know what these have done at a clock: is it one of them, or has it met one since?"""
    w = c.arg(1)
    known = c.or_(
        c.icmp("ult", clock, c.load("i64", w, WARP["together"], 8)), c.icmp("ne", c.and_(lanes, _bit(c, lane)), 0)
    )
    found = c.var("i1", known)
    with c.if_(c.not_(known)), c.each_lane(c.trunc(lanes, "i32")) as other:
        met = c.not_(apart(c, w, lane, other, c.trunc(clock, "i32")))
        found.set(c.or_(found.get(), met))
    return found.get()


@routine("void", "ptr ctx, ptr w, i32 lanes", "noinline cold")
def publish(c: Code) -> None:
    """These lanes fence for the whole GPU: what they know goes with the flags that they set from now on."""
    context, w, lanes = c.args(3)
    with c.if_(c.or_(c.not_(kept(c)), c.icmp("eq", ctx(c, context, "race"), 0))):
        c.leave()
    me, _, voice = _own_voice(c)
    settled = c.icmp("ult", _get(c, voice, "fence_clock"), c.load("i64", w, WARP["together"], 8))
    with c.if_(c.and_(settled, c.icmp("ne", _get(c, voice, "version"), 0))):
        # Lanes that do not meet these may still tell what was fenced before.
        _put(c, voice, "firm_number", _record(c, me, voice, const("i32", 0)))
        _put(c, voice, "fencers", const("i64", 0))
    base = c.load(_CLOCKS, ctx(c, context, "clock_base", "ptr"), 0, 4)
    bounds = c.add(c.sub(c.load(_CLOCKS, own_clocks(c, context, me), 0, 4), base), 1)
    now, together = _clock(c, me), c.load("i64", w, WARP["together"], 8)
    there = begun_lanes(c, w)
    whole = c.icmp("eq", c.and_(there, c.not_(lanes)), 0)
    place = c.buffer(4 * MAX_WARPS)
    c.store(bounds, place, 0, 4)
    all_ = c.select(whole, c.add(now, 1), together)
    c.store(c.trunc(_since_start(c, me, all_), "i32"), place, c.shl(me, 2), 4)
    for at, new in ((VOICE_ALL, c.load(_CLOCKS, place, 0, 4)), (VOICE_LEADER, bounds)):
        c.store(c.intrinsic("umax", c.load(_CLOCKS, voice, at, 4), new), voice, at, 4)
    # Lanes that fence together do not know of one another for that: who tells speaks for itself (`_record`).
    speakers = c.var("i32", 0)
    with c.if_(c.not_(whole)), c.each_lane(lanes) as lane:
        met = c.mask_bits(c.icmp("ugt", met_lanes(c, w, lane), c.splat(c.trunc(together, "i32"))))
        speakers.set(c.or_(speakers.get(), c.and_(met, there)))
    _put(c, voice, "speakers", c.or_(_get(c, voice, "speakers"), c.zext(speakers.get(), "i64")))
    _put(c, voice, "fencers", c.or_(_get(c, voice, "fencers"), c.zext(lanes, "i64")))
    _put(c, voice, "fence_clock", now)
    _put(c, voice, "version", c.add(_get(c, voice, "version"), 1))
    _put(c, voice, "news", c.or_(_get(c, voice, "news"), _TOLD))
    c.call(drop_cached(), context)
    c.ret_()


@routine("void", "ptr ctx", "noinline cold")
def drop_cached(c: Code) -> None:
    """A fence or an acquiring access: the SM gives up what its first-level cache holds, for all warps of the block."""
    with c.if_(kept(c)), c.times(ctx(c, c.arg(0), "warp_count")) as warp:
        _put(c, _voice(c, _column(c, ctx(c, c.arg(0), "slot"), warp)), "unfenced", const("i64", 0))
    c.ret_()


@routine("i1", "ptr ctx, ptr w, i64 slot, i64 thread, i64 then, i64 reader, i64 by, i64 at", "noinline cold")
def cached_before(c: Code) -> None:
    """May the first-level cache of this warp's SM hold what a thread of block `slot` wrote over `then`?

    It may if the block has not fenced since it took up the flag, and a third block, the reader, read the same sector by
    a warp `at` a clock, and knows nothing of that store or knew nothing yet: the two may share an SM.
    """
    context, w, slot, thread, then, reader, by, at = c.args(8)
    mine = ctx(c, context, "slot")
    voice = _voice(c, _column(c, mine, c.load("i64", w, WARP["index"], 8)))
    third = c.and_(c.icmp("ne", reader, mine), c.icmp("ne", reader, slot))
    found = c.var("i1", c.and_(third, c.icmp("ne", _get(c, voice, "unfenced"), 0)))
    heard = _get(c, _voice(c, _column(c, reader, by)), "first_learnt")
    with c.if_(c.and_(found.get(), c.icmp("uge", at, heard))), c.times(ctx(c, context, "warp_count")) as warp:
        for row in _rows(c, _column(c, reader, warp)):
            knows = c.call(row_covers(), context, row, slot, thread, then, const("i32", 0))
            found.set(c.and_(found.get(), c.not_(knows)))
    c.ret_(found.get())


def _record(c: Code, me: V, voice: V, lane: V) -> V:
    """The number of a record of what this warp has fenced; a new one if the last says less."""
    together = c.load("i64", c.arg(1), WARP["together"], 8)
    met = c.icmp("ult", _get(c, voice, "fence_clock"), together)
    key = c.or_(c.shl(_get(c, voice, "version"), 1), c.zext(met, "i64"))
    with c.if_(c.icmp("ne", key, _get(c, voice, "recorded"))):
        _put(c, voice, "recorded", key)
        number = c.intrinsic("umin", c.add(_get(c, voice, "number"), 1), const("i64", _LAST_NUMBER))
        _put(c, voice, "number", number)
        record = _record_at(c, voice, number)
        c.copy(record, c.at(voice, VOICE_ALL), const("i64", 8 * MAX_WARPS))
        with c.if_(c.not_(met)):
            # All lanes have fenced, but they have not met since: each one speaks for itself.
            own = c.at(record, c.shl(me, 2))
            since = c.trunc(_since_start(c, me, together), "i32")
            c.store(c.intrinsic("umin", c.load("i32", own), since), own)
    fencers = _get(c, voice, "fencers")
    partly = c.icmp("ne", c.and_(c.zext(begun_lanes(c, c.arg(1)), "i64"), c.not_(fencers)), 0)
    speaks = c.select(met, c.select(partly, fencers, 0), _bit(c, lane))
    _put(c, voice, "speakers", c.or_(_get(c, voice, "speakers"), speaks))
    number = _get(c, voice, "number")
    c.store(_since_start(c, me, _clock(c, me)), _record_at(c, voice, number), 8 * MAX_WARPS, 8)
    return number


def _record_at(c: Code, voice: V, number: V) -> V:
    return c.at(voice, c.add(c.mul(c.and_(number, RECORDS - 1), RECORD_SIZE), VOICE_RECORDS))


def _flag(c: Code, address: V) -> V:
    word = c.lshr(address, 2)
    number = c.and_(c.xor(word, c.lshr(word, 14)), c.sub(ctx(c, c.arg(0), "known_rows"), 1))
    size = c.add(ctx(c, c.arg(0), "known_stride"), FLAG_HEAD_SIZE)
    return c.at(ctx(c, c.arg(0), "known_flags", "ptr"), c.mul(number, size))


@routine("void", "ptr ctx, ptr w, i64 address, i32 lane", "noinline cold")
def tell_blocks(c: Code) -> None:
    """A lane sets a flag that other blocks may see."""
    _, _, address, lane = c.args(4)
    me, column, voice = _own_voice(c)
    fenced, learnt = _get(c, voice, "fence_clock"), _get(c, voice, "fresh_clock")
    speaks = c.icmp("ne", _get(c, voice, "version"), 0)
    speaks = c.and_(speaks, _reaches(c, _get(c, voice, "fencers"), fenced, lane))
    heard = c.icmp("ne", _get(c, voice, "first_learnt"), 0)
    silent = c.icmp("eq", c.or_(_get(c, voice, "version"), _get(c, voice, "first_learnt")), 0)
    with c.if_(silent):
        c.leave()
    number = c.var("i64", 0)
    with c.if_else(speaks) as fences:
        number.set(_record(c, me, voice, lane))
        fences.otherwise()
        number.set(_get(c, voice, "firm_number"))
    # What was taken up after the fence needs another one before it is handed on.
    relays = c.and_(speaks, c.icmp("uge", fenced, learnt))
    flag = _flag(c, address)
    key = c.or_(c.or_(c.shl(number.get(), 40), c.shl(learnt, 1)), c.zext(relays, "i64"))
    said = c.icmp("eq", c.load("i64", flag, FLAG_HEAD["teller"], 8), c.add(column, 1))
    said = c.and_(said, c.icmp("eq", c.load("i64", flag, FLAG_HEAD["told"], 8), key))
    with c.if_(said):
        c.leave()
    c.store(c.add(column, 1), flag, FLAG_HEAD["teller"], 8)
    c.store(key, flag, FLAG_HEAD["told"], 8)
    c.bump(flag, FLAG_HEAD["count"])
    row = c.at(flag, FLAG_HEAD_SIZE)
    own = c.at(row, c.shl(column, 1))
    before = c.load("i16", own, 0, 2)
    c.store(c.intrinsic("umax", before, c.trunc(number.get(), "i16")), own, 0, 2)
    with c.if_(heard):
        firm, fresh = _rows(c, column)
        _join(c, row, firm)
        with c.if_(relays):
            _join(c, row, fresh)
    c.ret_()


@routine("void", "ptr ctx, ptr w, i64 address, i32 lane", "noinline cold")
def learn_from_blocks(c: Code) -> None:
    """A lane looks at a flag that another block may have set."""
    _, w, address, lane = c.args(4)
    me, column, voice = _own_voice(c)
    now, together = _clock(c, me), c.load("i64", w, WARP["together"], 8)
    bit = _bit(c, lane)
    acquired = _get(c, voice, "acquired_clock")
    with c.if_(c.icmp("eq", acquired, 0)):
        _put(c, voice, "acquired_clock", now)
        _put(c, voice, "acquired_since", _since_start(c, me, now))
    _put(c, voice, "acquirers", c.or_(_get(c, voice, "acquirers"), bit))
    flag = _flag(c, address)
    count = c.load("i64", flag, FLAG_HEAD["count"], 8)
    with c.if_(c.icmp("eq", count, 0)):
        c.leave()
    settled = c.icmp("ult", _get(c, voice, "fresh_clock"), together)
    place = c.to_int(flag)
    again = c.icmp("eq", _get(c, voice, "seen_flag"), place)
    again = c.and_(again, c.icmp("eq", _get(c, voice, "seen_count"), count))
    with c.if_(again):
        with c.if_(c.not_(settled)):
            _put(c, voice, "learners", c.or_(_get(c, voice, "learners"), bit))
        c.leave()
    firm, fresh = _rows(c, column)
    with c.if_(settled):
        with c.if_(c.icmp("ne", _get(c, voice, "first_learnt"), 0)):
            _join(c, firm, fresh)
        _put(c, voice, "learners", const("i64", 0))
    _join(c, fresh, c.at(flag, FLAG_HEAD_SIZE))
    _put(c, voice, "learners", c.or_(_get(c, voice, "learners"), bit))
    _put(c, voice, "fresh_clock", now)
    _put(c, voice, "seen_flag", place)
    _put(c, voice, "seen_count", count)
    _put(c, voice, "news", c.or_(_get(c, voice, "news"), _LEARNT))
    _put(c, voice, "unfenced", const("i64", 1))
    with c.if_(c.icmp("eq", _get(c, voice, "first_learnt"), 0)):
        _put(c, voice, "first_learnt", _since_start(c, me, now))
    c.ret_()


@routine("void", "ptr ctx, i64 ident", "noinline cold")
def share_at_barrier(c: Code) -> None:
    """The warps that leave a barrier together all know what each of them has fenced and taken up."""
    context, ident = c.args(2)
    warps, stride = ctx(c, context, "warps", "ptr"), ctx(c, context, "warp_stride")
    count, slot = ctx(c, context, "warp_count"), ctx(c, context, "slot")
    news, absent, first, unfenced = c.var("i64", 0), c.var("i64", 0), c.var("i64", -1), c.var("i64", 1)
    told = [c.var(_CLOCKS, const(_CLOCKS, 0)) for _ in range(2)]

    def here(index: V) -> V:
        w = c.at(warps, c.mul(index, stride))
        waits = c.icmp("eq", c.load("i64", w, WARP["state"], 8), WAITING)
        return c.and_(waits, c.icmp("eq", c.load("i64", w, WARP["barrier_id"], 8), ident))

    with c.times(count) as index, c.if_else(here(index)) as waits:
        voice = _voice(c, _column(c, slot, index))
        first.set(c.select(c.icmp("eq", first.get(), -1), index, first.get()))
        news.set(c.or_(news.get(), _get(c, voice, "news")))
        heard = c.icmp("ne", c.and_(_get(c, voice, "news"), _LEARNT), 0)
        unfenced.set(c.and_(unfenced.get(), c.select(heard, _get(c, voice, "unfenced"), 1)))
        for var, at in zip(told, (VOICE_ALL, VOICE_LEADER), strict=True):
            var.set(c.intrinsic("umax", var.get(), c.load(_CLOCKS, voice, at, 4)))
        waits.otherwise()
        state = c.load("i64", c.at(warps, c.mul(index, stride)), WARP["state"], 8)
        absent.set(c.or_(absent.get(), c.zext(c.icmp("ne", state, DONE), "i64")))
    with c.if_(c.icmp("eq", news.get(), 0)):
        c.leave()
    learnt = c.icmp("ne", c.and_(news.get(), _LEARNT), 0)
    gathered, _ = _rows(c, _column(c, slot, first.get()))
    with c.if_(learnt), c.times(count) as index:
        voice = _voice(c, _column(c, slot, index))
        # Who has no news knows nothing that has not been handed on to all warps already.
        with c.if_(c.and_(here(index), c.icmp("ne", c.and_(_get(c, voice, "news"), _LEARNT), 0))):
            for row in _rows(c, _column(c, slot, index)):
                _join(c, gathered, row)
    with c.times(count) as index, c.if_(here(index)):
        column = _column(c, slot, index)
        voice = _voice(c, column)
        _put(c, voice, "news", c.select(c.icmp("eq", absent.get(), 0), const("i64", 0), news.get()))
        with c.if_(c.icmp("ne", c.and_(news.get(), _TOLD), 0)):
            for var, at in zip(told, (VOICE_ALL, VOICE_LEADER), strict=True):
                c.store(var.get(), voice, at, 4)
            _put(c, voice, "fencers", const("i64", 0xFFFF_FFFF))
            _put(c, voice, "version", c.add(_get(c, voice, "version"), 1))
        with c.if_(learnt):
            _put(c, voice, "unfenced", unfenced.get())
            with c.if_(c.icmp("ne", index, first.get())):
                c.copy(_rows(c, column)[0], gathered, ctx(c, context, "known_stride"))
            with c.if_(c.icmp("eq", _get(c, voice, "first_learnt"), 0)):
                _put(c, voice, "first_learnt", c.add(_since_start(c, index, _clock(c, index)), 1))
    c.ret_()


@routine("i1", "ptr ctx, ptr row, i64 slot, i64 thread, i64 then, i32 of_atomic", "noinline cold")
def row_covers(c: Code) -> None:
    """Is what a thread of another block did at a clock of its warp in one of the records that a row names?

    of_atomic: it was an atomic, which may have been the flag itself.
    """
    context, row, slot, thread, then, of_atomic = c.args(6)
    warp, lane = c.lshr(thread, 5), c.trunc(c.and_(thread, 31), "i32")
    theirs = _voice(c, _column(c, slot, warp))
    speaks = c.icmp("ne", c.and_(_get(c, theirs, "speakers"), _bit(c, lane)), 0)
    found = c.var("i1", V("i1", "false"))
    with c.times(ctx(c, context, "warp_count")) as teller:
        column = _column(c, slot, teller)
        number = c.zext(c.load("i16", row, c.shl(column, 1), 2), "i64")
        with c.if_(c.icmp("ne", number, 0)):
            voice = _voice(c, column)
            gone = c.icmp("uge", c.sub(_get(c, voice, "number"), number), RECORDS)
            gone = c.or_(gone, c.or_(c.icmp("eq", number, _LAST_NUMBER), c.icmp("eq", then, STAMP_CLOCKS)))
            record = _record_at(c, voice, number)
            all_, leader = (
                c.zext(c.load("i32", record, c.add(c.shl(warp, 2), at)), "i64") for at in (0, 4 * MAX_WARPS)
            )
            covered = c.or_(c.icmp("ult", then, all_), c.and_(speaks, c.icmp("ult", then, leader)))
            own = c.and_(c.icmp("eq", teller, warp), c.icmp("ne", of_atomic, 0))
            own = c.and_(own, c.icmp("ule", then, c.load("i64", record, 8 * MAX_WARPS, 8)))
            found.set(c.or_(found.get(), c.or_(gone, c.or_(covered, own))))
    c.ret_(found.get())


@routine("i1", "ptr ctx, ptr w, i32 lane, i64 slot, i64 thread, i64 then, i32 of_atomic", "noinline cold")
def comes_after(c: Code) -> None:
    """Does this lane come after what a thread of another block did at a clock?"""
    context, _, lane, slot, thread, then, of_atomic = c.args(7)
    me, column, voice = _own_voice(c)
    found = c.var("i1", V("i1", "false"))

    def look(row: V) -> None:
        found.set(c.or_(found.get(), c.call(row_covers(), context, row, slot, thread, then, of_atomic)))

    with c.if_(c.icmp("ne", _get(c, voice, "first_learnt"), 0)):
        firm, fresh = _rows(c, column)
        look(firm)
        with c.if_(_reaches(c, _get(c, voice, "learners"), _get(c, voice, "fresh_clock"), lane)):
            look(fresh)
    others = c.select(found.get(), const("i64", 0), ctx(c, context, "warp_count"))
    with c.times(others) as other, c.if_(_has_met(c, me, other, "first_learnt")):
        for row in _rows(c, _column(c, ctx(c, context, "slot"), other)):
            look(row)
    c.ret_(found.get())


def _has_met(c: Code, me: V, other: V, since: str) -> V:
    """Does this warp know another one's clock at which that had first done something?"""
    theirs = _get(c, _voice(c, _column(c, ctx(c, c.arg(0), "slot"), other)), since)
    known = c.zext(c.load("i32", own_clocks(c, c.arg(0), me), c.shl(other, 2)), "i64")
    met = c.icmp("uge", _since_start(c, other, known), theirs)
    return c.and_(c.and_(c.icmp("ne", theirs, 0), met), c.icmp("ne", other, me))


@routine("i1", "ptr ctx, ptr w, i32 lane", "noinline cold")
def has_acquired(c: Code) -> None:
    """Has this lane, or one that it has met since, looked at any atomic or strong word?"""
    context, _, lane = c.args(3)
    me, _, voice = _own_voice(c)
    clock = _get(c, voice, "acquired_clock")
    found = c.var("i1", V("i1", "false"))
    with c.if_(c.icmp("ne", clock, 0)):
        found.set(_reaches(c, _get(c, voice, "acquirers"), clock, lane))
    with c.times(ctx(c, context, "warp_count")) as other:
        found.set(c.or_(found.get(), _has_met(c, me, other, "acquired_since")))
    c.ret_(found.get())
