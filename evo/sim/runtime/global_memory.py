"""Global loads and stores of a warp: checks, sectors and lines, the L1 tag model, moving the bytes."""

from __future__ import annotations

from evo.sim.abi import CTX, L1_WAYS, READ, REC, ROW, TRACKED, WARP_SCRATCH, WRITTEN, WRITTEN_LATE
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import (
    ACCESS64,
    all_of,
    consecutive,
    count_request,
    ctx,
    each_group,
    host_of,
    is_run,
    lane_of,
    racing,
    report,
    resolve,
    spill,
)
from evo.sim.runtime.inter_block_races import between_warp, watch, watched
from evo.sim.runtime.routine import Routine, loads_and_stores, routine

LINE = 128  # bytes of one tag entry: 4 tags, 4 valid masks, next way


def _kind(store: bool) -> str:
    return "st" if store else "ld"


def _global(c: Code, width: int, store: bool, used: int = 0) -> V:
    context, w, rec, addr, mask = c.args(5)
    scratch = c.at(w, WARP_SCRATCH)
    result = c.var("ptr", scratch)
    with c.if_(c.icmp("ne", mask, 0)):
        offset = c.sub(addr, c.splat(c.load("i64", rec, REC["low"], 8)))
        good = c.icmp("ult", offset, c.splat(c.load("i64", rec, REC["limit"], 8)))
        if width > 1:
            good = c.and_(good, c.icmp("eq", c.and_(addr, width - 1), 0))
        with c.if_else(all_of(c, good, mask), likely=True) as fast:
            result.set(_fast(c, store, width))
            fast.otherwise()
            c.store(addr, w, WARP_SCRATCH + 1024, 8)
            c.call(slow_global(_kind(store), width, used or width), context, w, rec, mask)
    return result.get()


ld_global, st_global = loads_and_stores("global", ACCESS64, _global)


@routine("ptr", ACCESS64)
def ld_global_part(c: Code, width: int, used: int) -> None:
    """A vector of which nobody uses the last elements: a compiler joins three loads to one of four, where an aligned
    one cannot leave the page, so what they hold need not exist.
    """
    c.ret_(_global(c, width, False, used))


def _fast(c: Code, store: bool, width: int) -> V:
    """All lanes lie in the remembered buffer. Returns where the loaded lanes are packed."""
    context, w, rec, addr, mask = c.args(5)
    scratch = c.at(w, WARP_SCRATCH)
    data = c.var("ptr", scratch)
    place = spill(c, addr, 256)
    lead = c.intrinsic("cttz", mask, True)
    first = lane_of(c, place, lead)
    delta = c.load("i64", rec, REC["delta"], 8)
    count_request(c, rec, mask)
    row = c.load("ptr", rec, REC["row"], 8)
    with c.if_(watched(c, row)):
        c.call(between_warp(_kind(store), width), context, w, rec, row, addr, mask)
    straight = c.and_(all_of(c, consecutive(c, addr, first, lead, width), mask), is_run(c, mask, lead))
    with c.if_else(straight) as shape:
        last = c.sub(const("i32", 31), c.intrinsic("ctlz", mask, True))
        end = c.add(lane_of(c, place, last), width - 1)
        c.call(count_run(_kind(store)), context, rec, first, end)
        start = c.sub(first, c.mul(c.zext(lead, "i64"), width))
        host = c.to_ptr(c.add(start, delta))
        if store:
            with c.if_else(c.icmp("eq", mask, -1), likely=True) as full:
                c.copy(host, scratch, const("i64", 32 * width))
                full.otherwise()
                _move(c, store, width, place, delta, mask, scratch)
        else:
            data.set(host)
        shape.otherwise()
        c.call(count_any(_kind(store), width), context, rec, addr, mask)
        _move(c, store, width, place, delta, mask, scratch)
        if store:
            _conflicts(c, width, place, delta, scratch)
    return data.get()


def _move(c: Code, store: bool, width: int, place: V, delta: V, mask: V, scratch: V) -> None:
    t = f"i{8 * width}"
    with c.each_lane(mask) as lane:
        host = c.to_ptr(c.add(lane_of(c, place, lane), delta))
        packed = c.at(scratch, c.mul(c.zext(lane, "i64"), width))
        if store:
            c.store(c.load(t, packed), host, 0, width)
        else:
            c.store(c.load(t, host, 0, width), packed)


def _conflicts(c: Code, width: int, place: V, delta: V, scratch: V) -> None:
    """Two lanes of one store that leave different values at one address: what remains is undefined."""
    w, rec, mask = c.arg(1), c.arg(2), c.arg(4)
    t = f"i{8 * width}"
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        host = c.to_ptr(c.add(address, delta))
        packed = c.at(scratch, c.mul(c.zext(lane, "i64"), width))
        with c.if_(c.icmp("ne", c.load(t, packed), c.load(t, host, 0, width)), likely=False):
            report(c, SimFault.RACE, rec, w, lane, address, extra=-1, width=width)


@routine("void", "ptr ctx, ptr w, ptr rec, i32 mask", name="slow_{}_global_{}_{}")
def slow_global(c: Code, kind: str, width: int, used: int) -> None:
    """Lane by lane: buffers that track initialisation, lanes in several buffers, faults. Addresses in the scratch."""
    store = kind == "st"
    context, w, rec, mask = c.args(4)
    place, scratch = c.at(w, WARP_SCRATCH + 1024), c.at(w, WARP_SCRATCH)
    good, rows = c.var("i32", 0), c.buffer(256)
    t = f"i{8 * width}"
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        flag = const("i64", int(store))
        row = c.call(resolve(), context, w, rec, address, lane, const("i64", width), const("i64", used), flag)
        packed = c.at(scratch, c.mul(c.zext(lane, "i64"), width))
        with c.if_else(c.icmp("eq", c.to_int(row), 0)) as bad:
            c.store(const(t, 0), packed)
            bad.otherwise()
            host = host_of(c, row, address)
            note_bytes(c, kind, row, address, lane, used)
            same = c.zext(c.icmp("eq", c.load(t, packed), c.load(t, host, 0, width)), "i32") if store else None
            watch(c, kind, row, address, lane, const("i64", used), same)
            if store:
                c.store(c.load(t, packed), host, 0, width)
            else:
                c.store(c.load(t, host, 0, width), packed)
            good.set(c.or_(good.get(), c.shl(const("i32", 1), lane)))
            keep_row(c, rows, lane, row)
    with c.if_(c.icmp("ne", good.get(), 0)):
        count_request(c, rec, good.get())
    count_by_buffer(c, kind, width, c.load("<32 x i64>", place, 0, 8), rows, good.get())
    c.ret_()


def keep_row(c: Code, rows: V, lane: V, row: V) -> None:
    """Note which buffer a lane's address lies in, for `count_by_buffer`."""
    c.store(row, c.at(rows, c.shl(c.zext(lane, "i64"), 3)), 0, 8)


def count_by_buffer(c: Code, kind: str, width: int, addr: V, rows: V, mask: V) -> None:
    """Count lanes whose addresses may lie in several buffers: each buffer has a map of touched sectors of its own."""
    context, rec = c.arg(0), c.arg(2)
    saved = c.load("ptr", rec, REC["row"], 8)
    with each_group(c, c.load("<32 x i64>", rows, 0, 8), mask, rows) as (row, here):
        c.store(row, rec, REC["row"], 8)
        c.call(count_any(kind, width), context, rec, addr, here)
    c.store(saved, rec, REC["row"], 8)


def note_bytes(c: Code, kind: str, row: V, address: V, lane: V, width: int) -> None:
    """Of a buffer that tracks what was written: set its bits (st) or demand them (ld)."""
    context, w, rec = c.args(3)
    with c.if_(c.icmp("ne", c.and_(c.load("i64", row, ROW["flags"], 8), TRACKED), 0)):
        c.call(track(kind), context, w, rec, row, address, lane, const("i64", width))


@routine("void", "ptr ctx, ptr w, ptr rec, ptr row, i64 address, i32 lane, i64 width")
def track(c: Code, kind: str) -> None:
    _, w, rec, row, address, lane, width = c.args(7)
    state = c.load("ptr", row, ROW["state"], 8)
    start = c.sub(address, c.load("i64", row, ROW["low"], 8))
    with c.times(width) as step:
        at = c.add(start, step)
        word = c.at(state, c.lshr(at, 2))
        bit = c.trunc(c.shl(const("i64", 1), c.and_(at, 3)), "i8")
        old = c.load("i8", word)
        if kind == "st":
            c.store(c.or_(old, bit), word)
        else:
            with c.if_(c.icmp("eq", c.and_(old, bit), 0), likely=False):
                report(c, SimFault.UNINITIALISED, rec, w, lane, c.add(address, step))
                c.store(c.or_(old, bit), word)
    c.ret_()


@routine("void", "ptr ctx, ptr rec, i64 first, i64 last", name="count_{}_run")
def count_run(c: Code, kind: str) -> None:
    """Sectors and lines of the bytes first..last (inclusive), whose words are in as many banks."""
    context, rec, first, last = c.args(4)
    c.bump(rec, REC["passes"], c.add(c.lshr(c.sub(last, first), 7), 1))
    low, high = c.lshr(first, 5), c.lshr(last, 5)
    c.bump(rec, REC["sectors"], c.add(c.sub(high, low), 1))
    line, final = c.lshr(low, 2), c.lshr(high, 2)
    c.bump(rec, REC["lines"], c.add(c.sub(final, line), 1))
    with c.times(c.add(c.sub(final, line), 1)) as step:
        now = c.add(line, step)
        start = c.select(c.icmp("eq", now, line), c.and_(low, 3), 0)
        stop = c.select(c.icmp("eq", now, final), c.and_(high, 3), 3)
        upto = c.sub(c.shl(const("i64", 2), stop), 1)
        sectors = c.trunc(c.and_(upto, c.not_(c.sub(c.shl(const("i64", 1), start), 1))), "i32")
        c.call(_line(kind), context, rec, now, sectors)
    c.ret_()


@routine("void", "ptr ctx, ptr rec, <32 x i64> addr, i32 mask", name="count_{}_any_{}")
def count_any(c: Code, kind: str, width: int) -> None:
    """Sectors, lines, and the most words that one of 32 banks has to give: those are the passes of the data."""
    context, rec, addr, mask = c.args(4)
    lines = c.lshr(addr, 7)
    bits = c.shl(const("<32 x i32>", 1), c.trunc(c.and_(c.lshr(addr, 5), 3), "i32"))
    words = c.shl(const("<32 x i32>", (1 << max(1, width // 4)) - 1), c.trunc(c.and_(c.lshr(addr, 2), 31), "i32"))
    digits = [c.var("i32", 0) for _ in range(6)]  # of 32 binary numbers, how many words each bank gives
    with each_group(c, lines, mask) as (line, lanes):
        sectors = c.extern("i32", "llvm.vector.reduce.or.v32i32", c.select(c.mask_vec(lanes), bits, 0))
        c.bump(rec, REC["sectors"], c.zext(c.intrinsic("ctpop", sectors), "i64"))
        c.bump(rec, REC["lines"])
        carry = c.extern("i32", "llvm.vector.reduce.or.v32i32", c.select(c.mask_vec(lanes), words, 0))
        for digit in digits:
            old = digit.get()
            digit.set(c.xor(old, carry))
            carry = c.and_(old, carry)
        c.call(_line(kind), context, rec, line, sectors)
    c.bump(rec, REC["passes"], c.zext(_largest(c, [digit.get() for digit in digits]), "i64"))
    c.ret_()


def _largest(c: Code, digits: list[V]) -> V:
    """The largest of 32 numbers whose binary digits are given, lowest first."""
    among, found = const("i32", -1), const("i32", 0)
    for place, digit in reversed(list(enumerate(digits))):
        having = c.and_(digit, among)
        some = c.icmp("ne", having, 0)
        among = c.select(some, having, among)
        found = c.or_(found, c.shl(c.zext(some, "i32"), place))
    return found


def _line(kind: str) -> Routine:
    return line_st() if kind == "st" else line_ld()


@routine("void", "ptr ctx, ptr rec, i64 line, i32 sectors", "")
def line_st(c: Code) -> None:
    context, rec, line, sectors = c.args(4)
    late = c.icmp("uge", c.shl(ctx(c, context, "slot"), 1), ctx(c, context, "blocks"))
    mark = c.select(late, const("i8", WRITTEN_LATE), const("i8", WRITTEN))
    _count_alone(c, rec, sectors)
    _touch(c, c.load("ptr", rec, REC["row"], 8), line, sectors, mark)
    c.ret_()


def _count_alone(c: Code, rec: V, sectors: V) -> None:
    """Whether these sectors of a line are one."""
    alone = c.icmp("eq", c.and_(sectors, c.sub(sectors, 1)), 0)
    c.bump(rec, REC["alone"], c.zext(alone, "i64"))


def _touch(c: Code, row: V, line: V, sectors: V, flag: V | int) -> None:
    """Mark the sectors of a line in the buffer's map of touched sectors."""
    touched = c.load("ptr", row, ROW["touched"], 8)
    base = c.sub(c.shl(line, 2), c.lshr(c.load("i64", row, ROW["low"], 8), 5))
    for sector in range(4):
        wanted = c.icmp("ne", c.and_(sectors, 1 << sector), 0)
        with c.if_(wanted):
            place = c.at(touched, c.add(base, sector))
            c.store(c.or_(c.load("i8", place), flag), place)


@routine("void", "ptr ctx, ptr rec, i64 line, i32 sectors", "")
def line_ld(c: Code) -> None:
    """One line through the L1 tags: count the sectors that miss, mark them as fetched."""
    context, rec, line, sectors = c.args(4)
    sets = ctx(c, context, "tag_sets")
    index = c.and_(c.xor(line, c.lshr(line, 7)), c.sub(sets, 1))
    entry = c.at(ctx(c, context, "tags", "ptr"), c.mul(index, LINE))
    tags = c.load("<4 x i64>", entry, 0, 8)
    hits = c.op("i4", f"bitcast <4 x i1> {c.icmp('eq', tags, c.splat(line, 4)).s} to i4")
    missing = c.var("i32", sectors)
    with c.if_else(c.icmp("ne", hits, 0)) as hit:
        way = c.intrinsic("cttz", c.zext(hits, "i64"), True)
        place = c.at(entry, c.add(c.shl(way, 3), 8 * L1_WAYS))
        valid = c.load("i32", place)
        missing.set(c.and_(sectors, c.not_(valid)))
        c.store(c.or_(valid, sectors), place)
        hit.otherwise()
        turn = c.load("i64", entry, 16 * L1_WAYS, 8)
        turn = c.add(turn, 1)
        turn = c.select(c.icmp("ult", turn, ctx(c, context, "tag_ways")), turn, 0)
        c.store(turn, entry, 16 * L1_WAYS, 8)
        slot = c.shl(turn, 3)
        c.store(line, c.at(entry, slot), 0, 8)
        c.store(sectors, c.at(entry, c.add(slot, 8 * L1_WAYS)))
    left = missing.get()
    with c.if_(c.icmp("ne", left, 0)):
        c.bump(rec, REC["l1_misses"], c.zext(c.intrinsic("ctpop", left), "i64"))
        _count_alone(c, rec, left)
        _touch(c, c.load("ptr", rec, REC["row"], 8), line, left, READ)
    c.ret_()


@routine("ptr", "ptr ctx, ptr w, ptr rec, i64 addr, i32 mask")
def uniform_ld_global(c: Code, width: int) -> None:
    """One address for the whole warp, not in the sector that was read last. Returns where its bytes are."""
    context, w, rec, address, mask = c.args(5)
    scratch = c.at(w, WARP_SCRATCH)
    result = c.var("ptr", scratch)
    lead = c.intrinsic("cttz", mask, True)
    offset = c.sub(address, c.load("i64", rec, REC["low"], 8))
    good = c.icmp("ult", offset, c.load("i64", rec, REC["limit"], 8))
    good = c.and_(good, c.icmp("eq", c.and_(address, width - 1), 0))
    with c.if_else(c.icmp("eq", mask, 0)) as nobody:
        c.store(const("i128", 0), scratch)
        nobody.otherwise()
        row = c.var("ptr", c.load("ptr", rec, REC["row"], 8))
        with c.if_(c.not_(good)):
            row.set(c.call(resolve(), context, w, rec, address, lead, *[const("i64", width)] * 2, const("i64", 0)))
        with c.if_else(c.icmp("eq", c.to_int(row.get()), 0)) as bad:
            c.store(const("i128", 0), scratch)
            bad.otherwise()
            found = row.get()
            note_bytes(c, "ld", found, address, lead, width)
            result.set(host_of(c, found, address))
            watch(c, "ld", found, address, lead, const("i64", width))
            _count_uniform(c, found, good)
    c.ret_(result.get())


def _count_uniform(c: Code, found: V, known: V) -> None:
    """Count the line, unless this instruction has just read the same sector.

    A watched buffer comes here for every load, but must be counted as if it had not.
    """
    context, _, rec, address, _ = c.args(5)
    sector = c.lshr(address, 5)
    again = c.and_(known, c.icmp("eq", sector, ctx(c, context, "last_counted")))
    with c.if_(c.not_(again)):
        saved = c.load("ptr", rec, REC["row"], 8)
        c.store(found, rec, REC["row"], 8)
        bit = c.trunc(c.shl(const("i64", 1), c.and_(c.lshr(address, 5), 3)), "i32")
        c.call(line_ld(), context, rec, c.lshr(address, 7), bit)
        c.store(saved, rec, REC["row"], 8)
        c.store(sector, context, CTX["last_counted"], 8)
    c.store(c.select(watched(c, found), const("i64", -1), sector), context, CTX["last_sector"], 8)


DISCARD_BYTES = 128  # the only size of `discard` that PTX has
_GONE = -1  # NaN in every type of float


@routine("void", ACCESS64)
def discard_global(c: Code) -> None:
    """PTX calls it a weak write of an indeterminate value: it races like a store, and whoever looks must write first.

    The cache may well keep the old bytes, so without checks nothing happens.
    """
    context, w, rec, addr, mask = c.args(5)
    place, size = spill(c, addr, 256), const("i64", DISCARD_BYTES)
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        row = c.call(resolve(), context, w, rec, address, lane, size, size, const("i64", 1))
        with c.if_(c.icmp("ne", c.to_int(row), 0)):
            watch(c, "st", row, address, lane, size)
            with c.if_(racing(c, context)):
                _forget(c, row, address)
    c.ret_()


def _forget(c: Code, row: V, address: V) -> None:
    c.fill(host_of(c, row, address), const("i8", _GONE), const("i64", DISCARD_BYTES))
    with c.if_(c.icmp("ne", c.and_(c.load("i64", row, ROW["flags"], 8), TRACKED), 0)):
        start = c.sub(address, c.load("i64", row, ROW["low"], 8))
        state = c.load("ptr", row, ROW["state"], 8)
        with c.times(const("i64", DISCARD_BYTES)) as step:
            at = c.add(start, step)
            word = c.at(state, c.lshr(at, 2))
            bit = c.trunc(c.shl(const("i64", 1), c.and_(at, 3)), "i8")
            c.store(c.and_(c.load("i8", word), c.not_(bit)), word)
