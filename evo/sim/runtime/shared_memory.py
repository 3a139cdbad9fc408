"""Shared loads and stores of a warp: bounds, alignment, initialised and pending bits, wavefronts, moving the bytes.

Every 4-byte word has one state byte: low nibble, its bytes that were written; high nibble, bytes that an unfinished
cp.async will still write.
"""

from __future__ import annotations

import math

from evo.sim.abi import ARRAY_BITS, ARRAY_END, ARRAY_START, REC, REC_MEMO, WARP_SCRATCH
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code, Var
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import (
    ACCESS32,
    all_of,
    consecutive,
    count_request,
    ctx,
    lane_of,
    racing,
    report,
    report_place,
    spill,
)
from evo.sim.runtime.routine import loads_and_stores, routine
from evo.sim.runtime.shared_races import race, race_run


def _shared(c: Code, width: int, store: bool) -> V:
    w = c.arg(1)
    scratch = c.at(w, WARP_SCRATCH)
    result = c.var("ptr", scratch)
    mask = checked_mask(c, width)
    with c.if_(c.icmp("ne", mask, 0)):
        count_request(c, c.arg(2), mask)
        if width >= 4:
            _shaped(c, store, width, mask, scratch, result)
        else:
            _scattered(c, store, width, mask, scratch)
    return result.get()


ld_shared, st_shared = loads_and_stores("shared", ACCESS32, _shared)


@routine("ptr", ACCESS32)
def ld_shared_part(c: Code, width: int, used: int) -> None:
    """A vector of which nobody uses the last elements, as `ld_global_part`: of an array that is aligned for it, and
    ends within it.
    """
    each = math.gcd(used, width)
    context, w, rec, addr = c.args(4)
    scratch, data = c.at(w, WARP_SCRATCH), ctx(c, context, "shared", "ptr")
    mask = checked_mask(c, width, used=used)
    place = spill(c, addr, 128)
    with c.if_(c.icmp("ne", mask, 0)):
        count_request(c, rec, mask)
        c.call(waves(max(4, width)), rec, addr, mask)
        for at in range(0, used, each):
            with c.each_lane(mask) as lane:
                host = c.at(data, c.zext(c.add(lane_of(c, place, lane, "i32"), at), "i64"))
                c.store(c.load(f"i{8 * each}", host), c.at(scratch, c.add(c.mul(c.zext(lane, "i64"), width), at)))
            c.call(demand(each), context, w, rec, c.add(addr, c.splat(const("i32", at))), mask)
    c.ret_(scratch)


@routine("ptr", "ptr ctx, ptr w, ptr rec, i32 addr, i32 mask")
def uniform_ld_shared(c: Code, width: int) -> None:
    """One address for the whole warp. Returns where its bytes are."""
    context, w, rec, address, mask = c.args(5)
    result = c.var("ptr", c.at(w, WARP_SCRATCH))
    start, total = array_of(c, rec)
    inside = c.and_(c.icmp("uge", total, width), c.icmp("ule", c.sub(address, start), c.sub(total, width)))
    good = c.and_(inside, c.icmp("eq", c.and_(address, width - 1), 0))
    with c.if_else(c.and_(good, c.icmp("ne", mask, 0)), likely=True) as fine:
        wide = c.zext(address, "i64")
        need = need_of(c, width, address)
        old = c.load(need.t, c.at(ctx(c, context, "state", "ptr"), c.lshr(wide, 2)))
        plain = c.icmp("eq", old if width >= 4 else c.and_(old, c.or_(need, 0xF0)), need)
        checked = c.and_(plain, c.icmp("eq", ctx(c, context, "race"), 0))
        with c.if_(c.not_(checked), likely=False):
            c.call(demand(width), context, w, rec, c.splat(address), _two_of(c, mask))
        count_request(c, rec, mask)
        c.bump(rec, REC["wavefronts"])
        c.bump(rec, REC["ideal"])
        result.set(c.at(ctx(c, context, "shared", "ptr"), wide))
        fine.otherwise()
        c.store(const("i128", 0), c.at(w, WARP_SCRATCH))
        c.call(check_shared(width), context, w, rec, c.splat(address), mask)
    c.ret_(result.get())


@routine("i32", ACCESS32, "noinline cold")
def check_shared(c: Code, width: int) -> None:
    c.ret_(checked_mask(c, width))


def array_of(c: Code, rec: V) -> tuple[V, V]:
    """Where the array of an access begins in shared memory, and its bytes; both i32."""
    marks = c.load("i64", rec, REC["marks"], 8)
    start = c.trunc(c.and_(c.lshr(marks, ARRAY_START), (1 << ARRAY_BITS) - 1), "i32")
    return start, c.sub(c.trunc(c.lshr(marks, ARRAY_END), "i32"), start)


def checked_mask(c: Code, width: int, only: int = -1, used: int | None = None) -> V:
    """The lanes whose access is in bounds and aligned; the others are reported. used: bytes that have to be there."""
    _, w, rec, addr, mask = c.args(5)
    mask = c.and_(mask, only)
    start, total = array_of(c, rec)
    needed = width if used is None else used
    fits = c.icmp("uge", total, needed)
    limit = c.select(fits, c.sub(total, needed), 0)
    aligned = c.icmp("eq", c.and_(addr, width - 1), 0)
    good = c.and_(c.icmp("ule", c.sub(addr, c.splat(start)), c.splat(limit)), aligned)
    bits = c.and_(c.select(fits, c.mask_bits(good), 0), mask)
    bad = c.and_(mask, c.not_(bits))
    with c.if_(c.icmp("ne", bad, 0), likely=False):
        place = spill(c, addr, 128)
        lead = c.intrinsic("cttz", bad, True)
        address = lane_of(c, place, lead, "i32")
        straight = c.icmp("eq", c.and_(address, width - 1), 0)
        report_place(c, straight, rec, w, lead, c.zext(address, "i64"), extra=2, width=width)
    return bits


def _shaped(c: Code, store: bool, width: int, mask: V, scratch: V, result: Var) -> None:
    """Adjacent lanes on adjacent initialised words take the short way, everything else goes lane by lane."""
    context, w, rec, addr = c.args(4)
    place = spill(c, addr, 128)
    lead = c.intrinsic("cttz", mask, True)
    first = lane_of(c, place, lead, "i32")
    states = ctx(c, context, "state", "ptr")
    straight = c.and_(all_of(c, consecutive(c, addr, first, lead, width), mask), c.icmp("eq", mask, -1))
    word = c.zext(c.lshr(first, 2), "i64")
    count = 8 * width
    where = c.at(states, word)
    old = c.load(f"<{count} x i8>", where)
    fine = c.icmp("ult", old, 16) if store else c.icmp("eq", old, 15)  # nothing pending; or all of it initialised
    whole = c.op(f"i{count}", f"bitcast {fine.t} {fine.s} to i{count}")
    straight = c.and_(straight, c.icmp("eq", whole, -1))
    with c.if_else(straight, likely=True) as shape:
        host = c.at(ctx(c, context, "shared", "ptr"), c.zext(first, "i64"))
        c.bump(rec, REC["wavefronts"], width // 4)
        c.bump(rec, REC["ideal"], width // 4)
        with c.if_(racing(c, context), likely=False):
            c.call(race_run("st" if store else "ld"), context, w, rec, c.shl(word, 2), const("i64", width))
        if store:
            c.store(const(f"<{count} x i8>", 15), where)
            c.copy(host, scratch, const("i64", 32 * width))
        else:
            result.set(host)
        shape.otherwise()
        if store:
            _scattered(c, store, width, mask, scratch, place)
            return
        equal = all_of(c, c.icmp("eq", addr, c.splat(first)), mask)
        with c.if_else(c.and_(equal, _ready(c, states, word, width))) as broadcast:
            _broadcast(c, width, mask, first, lead, scratch)
            broadcast.otherwise()
            _scattered(c, store, width, mask, scratch, place)


def _ready(c: Code, states: V, word: V, width: int) -> V:
    """Are all bytes of one lane's access initialised and at rest?"""
    need = need_of(c, width, word)
    return c.icmp("eq", c.load(need.t, states, word), need)


def _broadcast(c: Code, width: int, mask: V, first: V, lead: V, scratch: V) -> None:
    """All lanes read one place: one check, one load, and as many wavefronts as lane groups."""
    context, w, rec = c.args(3)
    address = c.zext(first, "i64")
    one = c.load(f"<{width // 4} x i32>", ctx(c, context, "shared", "ptr"), address)
    c.store(c.shuffle(one, None, [i % (width // 4) for i in range(8 * width)]), scratch)
    groups: V | None = None
    for start in range(0, 32, 128 // width):
        part = ((1 << 128 // width) - 1) << start
        used = c.zext(c.icmp("ne", c.and_(mask, part), 0), "i64")
        groups = used if groups is None else c.add(groups, used)
    assert groups is not None
    c.bump(rec, REC["wavefronts"], groups)
    c.bump(rec, REC["ideal"], groups)
    with c.if_(racing(c, context), likely=False):
        second = c.intrinsic("cttz", c.and_(_two_of(c, mask), c.sub(mask, 1)), False)
        again = c.select(c.icmp("ult", second, 32), second, lead)
        for lane in (lead, again):
            c.call(race("ld"), context, w, rec, address, lane, const("i64", width), const("i32", 0))


def _two_of(c: Code, mask: V) -> V:
    """The two lowest lanes: one of them is not the lane that wrote what all lanes read."""
    low = c.and_(mask, c.sub(const("i32", 0), mask))
    rest = c.and_(mask, c.not_(low))
    return c.or_(low, c.and_(rest, c.sub(const("i32", 0), rest)))


def _scattered(c: Code, store: bool, width: int, mask: V, scratch: V, place: V | None = None) -> None:
    context, w, rec, addr = c.args(4)
    place = place or spill(c, addr, 128)
    t = f"i{8 * width}"
    data = ctx(c, context, "shared", "ptr")
    c.call(waves(max(4, width)), rec, addr, mask)
    if not store:
        _gather(c, width, mask, place, scratch)
        return
    c.call(mark(width), context, w, rec, addr, mask)
    with c.each_lane(mask) as lane:
        host = c.at(data, c.zext(lane_of(c, place, lane, "i32"), "i64"))
        packed = c.at(scratch, c.mul(c.zext(lane, "i64"), width))
        c.store(c.load(t, packed), host)
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane, "i32")
        host = c.at(data, c.zext(address, "i64"))
        packed = c.at(scratch, c.mul(c.zext(lane, "i64"), width))
        with c.if_(c.icmp("ne", c.load(t, packed), c.load(t, host)), likely=False):
            report(c, SimFault.RACE, rec, w, lane, c.zext(address, "i64"), extra=-1, width=width)


def need_of(c: Code, width: int, address: V) -> V:
    """The state bits that an access of this width at the address (i32 or i64) concerns."""
    t = f"i{8 * max(1, width // 4)}"
    if width >= 4:
        return const(t, int.from_bytes(b"\x0f" * (width // 4), "little"))
    return c.trunc(c.shl(const(address.t, (1 << width) - 1), c.and_(address, 3)), "i8")


def _gather(c: Code, width: int, mask: V, place: V, scratch: V) -> None:
    """Load lane by lane; anything unusual about the states is sorted out afterwards, by `demand`."""
    context, w, rec, addr = c.args(4)
    states, data = ctx(c, context, "state", "ptr"), ctx(c, context, "shared", "ptr")
    t, s = f"i{8 * width}", f"i{8 * max(1, width // 4)}"
    odd = c.var(s, 0)
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane, "i32")
        offset = c.zext(address, "i64")
        need = need_of(c, width, address)
        state = c.load(s, c.at(states, c.lshr(offset, 2)))
        odd.set(c.or_(odd.get(), c.xor(c.and_(state, c.or_(need, c.shl(need, 4))), need)))
        c.store(c.load(t, c.at(data, offset)), c.at(scratch, c.mul(c.zext(lane, "i64"), width)))
    strange = c.or_(c.icmp("ne", odd.get(), 0), racing(c, context))
    with c.if_(strange, likely=False):
        c.call(demand(width), context, w, rec, addr, mask)


@routine("void", ACCESS32)
def mark(c: Code, width: int) -> None:
    """Per lane: set the initialised bits, refuse pending words, then the race check."""
    _state(c, width, store=True)


@routine("void", ACCESS32)
def demand(c: Code, width: int) -> None:
    """Per lane: demand the initialised bits, refuse pending words, then the race check."""
    _state(c, width, store=False)


def _state(c: Code, width: int, *, store: bool) -> None:
    context, w, rec, addr, mask = c.args(5)
    place = spill(c, addr, 128)
    states = ctx(c, context, "state", "ptr")
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane, "i32")
        where = c.at(states, c.zext(c.lshr(address, 2), "i64"))
        need = need_of(c, width, address)
        old = c.load(need.t, where)
        waiting = c.and_(old, c.shl(need, 4))
        with c.if_(c.icmp("ne", waiting, 0), likely=False):
            report(c, SimFault.PENDING, rec, w, lane, c.zext(address, "i64"), extra=int(store), width=width)
        if store:
            c.store(c.or_(old, need), where)
        else:
            with c.if_(c.icmp("ne", c.and_(c.or_(old, c.lshr(old, 4)), need), need), likely=False):
                report(c, SimFault.UNINITIALISED, rec, w, lane, c.zext(address, "i64"), extra=2, width=width)
                c.store(c.or_(old, need), where)
    with c.if_(racing(c, context), likely=False), c.each_lane(mask) as lane:
        address = c.zext(lane_of(c, place, lane, "i32"), "i64")
        same = const("i32", 0)
        if store:
            whole = f"i{8 * width}"
            new = c.load(whole, c.at(w, WARP_SCRATCH), c.mul(c.zext(lane, "i64"), width))
            old = c.load(whole, c.at(ctx(c, context, "shared", "ptr"), address))
            same = c.zext(c.icmp("eq", old, new), "i32")
        c.call(race("st" if store else "ld"), context, w, rec, address, lane, const("i64", width), same)
    c.ret_()


@routine("void", "ptr rec, <32 x i32> addr, i32 mask")
def waves(c: Code, unit: int) -> None:
    """Count wavefronts of a shared access; the last pattern of each instruction is remembered.

    Lanes are served 32, 16 or 8 at a time (4, 8, 16 bytes each); one wavefront serves one unit per bank group.
    """
    rec, addr, mask = c.args(3)
    units = c.lshr(addr, unit.bit_length() - 1)
    base = c.extern("i32", "llvm.vector.reduce.umin.v32i32", c.select(c.mask_vec(mask), units, -1))
    relative = c.select(c.mask_vec(mask), c.sub(units, c.splat(base)), 0)
    seen = c.load("<32 x i32>", rec, REC_MEMO, 4)
    same = c.icmp("eq", c.mask_bits(c.icmp("eq", relative, seen)), -1)
    same = c.and_(same, c.icmp("eq", c.load("i64", rec, REC["memo_mask"], 8), c.zext(mask, "i64")))
    with c.if_(c.not_(same)):
        c.store(relative, rec, REC_MEMO, 4)
        c.store(c.zext(mask, "i64"), rec, REC["memo_mask"], 8)
        rounds, ideal = _rounds(c, relative, mask, unit)
        c.store(rounds, rec, REC["memo_waves"], 8)
        c.store(ideal, rec, REC["memo_ideal"], 8)
    c.bump(rec, REC["wavefronts"], c.load("i64", rec, REC["memo_waves"], 8))
    c.bump(rec, REC["ideal"], c.load("i64", rec, REC["memo_ideal"], 8))
    c.ret_()


def _rounds(c: Code, units: V, mask: V, unit: int) -> tuple[V, V]:
    """Rounds until every lane was served, and the least possible number for as many distinct units."""
    place = spill(c, units, 128)
    group, banks = 128 // unit, 128 // unit
    waves, ideal = c.var("i64", 0), c.var("i64", 0)
    table = c.buffer(128)
    for start in range(0, 32, group):
        part = ((1 << group) - 1) << start
        rest = c.var("i32", c.and_(mask, part))
        distinct = c.var("i64", 0)
        with c.while_() as loop:
            now = rest.get()
            loop.until(c.icmp("eq", now, 0))
            waves.set(c.add(waves.get(), 1))
            with c.each_lane(now) as lane:
                value = lane_of(c, place, lane, "i32")
                c.store(value, c.at(table, c.zext(c.shl(c.and_(value, banks - 1), 2), "i64")))
            used = c.var("i32", 0)
            with c.each_lane(now) as lane:
                value = lane_of(c, place, lane, "i32")
                bank = c.and_(value, banks - 1)
                winner = c.load("i32", table, c.zext(c.shl(bank, 2), "i64"))
                with c.if_(c.icmp("eq", winner, value)):
                    rest.set(c.and_(rest.get(), c.not_(c.shl(const("i32", 1), lane))))
                    used.set(c.or_(used.get(), c.shl(const("i32", 1), bank)))
            distinct.set(c.add(distinct.get(), c.zext(c.intrinsic("ctpop", used.get()), "i64")))
        least = c.lshr(c.add(distinct.get(), banks - 1), banks.bit_length() - 1)
        ideal.set(c.add(ideal.get(), least))
    return waves.get(), ideal.get()
