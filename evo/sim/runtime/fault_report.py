"""Pieces shared by the run-time functions: reporting a fault, finding a buffer, address predicates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evo.sim.abi import (
    CTX,
    FAULT,
    FAULT_LIMIT,
    FAULT_SIZE,
    MOVES_ONLY,
    REC,
    REC_SIZE,
    ROW,
    ROW_SIZE,
    TRACKED,
    WARP,
    WRITABLE,
)
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import IOTA32, IOTA64, V, const, elem
from evo.sim.runtime.routine import routine

STOP = -(1 << 62)
_MIX = 0x1E3779B97F4A7C15
GRACE = 200_000  # warp instructions after an early read, or a store too early over what was read
ACCESS64 = "ptr ctx, ptr w, ptr rec, <32 x i64> addr, i32 mask"  # what routines for global, local, generic memory take
ACCESS32 = "ptr ctx, ptr w, ptr rec, <32 x i32> addr, i32 mask"  # ... and those for shared memory


def ctx(c: Code, base: V, name: str, t: str = "i64") -> V:
    return c.load(t, base, CTX[name], 8)


def racing(c: Code, context: V) -> V:
    return c.icmp("ne", ctx(c, context, "race"), 0)


def host_of(c: Code, row: V, address: V) -> V:
    """Where the bytes of an address of a buffer are."""
    return c.to_ptr(c.add(address, c.load("i64", row, ROW["delta"], 8)))


def report(c: Code, fault: SimFault, rec: V, w: V, lane: V, address: V, *, extra: V | int = 0, width: int = 0) -> None:
    """Record a fault of the lane (i32) at the address (i64) and make the warp stop at its next block."""
    context = c.arg(0)
    wide = c.zext(lane, "i64") if lane.t == "i32" else lane
    more = extra if isinstance(extra, V) else const("i64", extra)
    c.call(record_fault(), context, const("i64", fault.number), rec, w, wide, address, more, const("i64", width))


def report_place(c: Code, straight: V, rec: V, w: V, lane: V, address: V, *, extra: int, width: int) -> None:
    """An access that has no place: it is misaligned, or it is straight and out of bounds."""
    with c.if_else(straight) as beyond:
        report(c, SimFault.OUT_OF_BOUNDS, rec, w, lane, address, extra=extra, width=width)
        beyond.otherwise()
        report(c, SimFault.MISALIGNED, rec, w, lane, address, extra=extra, width=width)


@routine(
    "void",
    "ptr ctx, i64 kind, ptr rec, ptr w, i64 lane, i64 address, i64 extra, i64 width",
    "noinline cold",
    name="fault",
)
def record_fault(c: Code) -> None:
    context, kind, rec, w, lane, address, extra, width = c.args(8)
    unread = c.icmp("eq", kind, SimFault.UNINITIALISED.number)
    with c.if_(c.and_(unread, c.icmp("ne", c.and_(c.load("i64", rec, REC["marks"], 8), MOVES_ONLY), 0))):
        c.leave()
    # A shared word read too early is often a race: let the block run on for a while, so that its writer shows up.
    early = c.and_(unread, c.icmp("eq", extra, 2))
    # Lanes of one warp that reuse a place early are often ahead of other warps too, which then read a copy in flight.
    own = c.or_(c.shl(c.load("i64", w, WARP["index"], 8), 8), 2 << 16)
    reused = c.icmp("eq", c.and_(extra, ~31), own)
    early = c.or_(early, c.and_(reused, c.icmp("eq", kind, SimFault.RACE.number)))
    early = c.and_(early, racing(c, context))
    budget = ctx(c, context, "budget")
    soft = c.intrinsic("smin", budget, const("i64", GRACE))
    c.store(c.select(early, soft, STOP), context, CTX["budget"], 8)
    count = ctx(c, context, "fault_count")
    rows = ctx(c, context, "faults", "ptr")
    base = c.to_int(ctx(c, context, "counters", "ptr"))
    site = c.bin("udiv", c.sub(c.to_int(rec), base), REC_SIZE)
    known = c.var("i1", V("i1", "false"))
    with c.times(count) as index:
        row = c.at(rows, c.mul(index, FAULT_SIZE))
        again = c.icmp("eq", c.load("i64", row, FAULT["kind"], 8), kind)
        again = c.and_(again, c.icmp("eq", c.load("i64", row, FAULT["instruction"], 8), site))
        known.set(c.or_(known.get(), again))
    with c.if_(c.and_(c.icmp("ult", count, FAULT_LIMIT), c.not_(known.get()))):
        c.store(c.add(count, 1), context, CTX["fault_count"], 8)
        row = c.at(rows, c.mul(count, FAULT_SIZE))
        block = ctx(c, context, "block_linear")
        warp = c.load("i64", w, WARP["index"], 8)
        values = {"kind": kind, "instruction": site, "block": block, "warp": warp, "lane": lane}
        values |= {"address": address, "extra": extra, "width": width}
        for name, value in values.items():
            c.store(value, row, FAULT[name], 8)
    c.ret_()


@routine("ptr", "ptr ctx, ptr w, ptr rec, i64 address, i32 lane, i64 width, i64 used, i64 store", "noinline cold")
def resolve(c: Code) -> None:
    """The buffer row of one lane's access, or null after reporting why there is none.

    Its first `used` bytes lie in the buffer: elements behind them are read with the others, and by nobody used.
    """
    context, w, rec, address, lane, width, used, store = c.args(8)
    found = c.var("ptr", V("ptr", "null"))
    first = c.var("ptr", ctx(c, context, "buffers", "ptr"))
    wide = c.zext(lane, "i64")

    def fail(fault: SimFault) -> None:
        args = (context, const("i64", fault.number), rec, w, wide, address, store, width)
        c.call(record_fault(), *args)

    with c.if_else(c.icmp("ne", c.and_(address, c.sub(width, 1)), 0)) as aligned:
        fail(SimFault.MISALIGNED)
        aligned.otherwise()
        count = c.var("i64", ctx(c, context, "buffer_count"))
        with c.while_() as loop:  # the last of the sorted rows that begins at or below the address
            loop.until(c.icmp("ule", count.get(), 1))
            half = c.lshr(count.get(), 1)
            middle = c.at(first.get(), c.mul(half, ROW_SIZE))
            below = c.icmp("ule", c.load("i64", middle, ROW["low"], 8), address)
            first.set(c.select(below, middle, first.get()))
            count.set(c.sub(count.get(), half))
        row = first.get()
        size = c.load("i64", row, ROW["size"], 8)
        room = c.icmp("ule", c.sub(address, c.load("i64", row, ROW["low"], 8)), c.sub(size, used))
        with c.if_(c.and_(room, c.icmp("uge", size, used))):
            found.set(row)
        with c.if_else(c.icmp("eq", c.to_int(found.get()), 0)) as known:
            fail(SimFault.OUT_OF_BOUNDS)
            known.otherwise()
            _fill_cache(c, rec, found.get(), used)
            flags = c.load("i64", found.get(), ROW["flags"], 8)
            frozen = c.icmp("eq", c.and_(flags, WRITABLE), 0)
            with c.if_(c.and_(frozen, c.icmp("ne", store, 0))):
                fail(SimFault.READ_ONLY)
                found.set(V("ptr", "null"))
    c.ret_(found.get())


def _fill_cache(c: Code, rec: V, row: V, used: V) -> None:
    """Remember the buffer in the instruction's record, unless every access to it needs the slow path."""
    flags = c.load("i64", row, ROW["flags"], 8)
    plain = c.icmp("eq", c.and_(flags, TRACKED), 0)
    allowed = c.or_(c.icmp("ne", c.and_(flags, WRITABLE), 0), c.icmp("eq", c.arg(7), 0))
    with c.if_(c.and_(plain, allowed)):
        c.store(c.load("i64", row, ROW["low"], 8), rec, REC["low"], 8)
        c.store(c.sub(c.load("i64", row, ROW["size"], 8), c.sub(used, 1)), rec, REC["limit"], 8)
        c.store(c.load("i64", row, ROW["delta"], 8), rec, REC["delta"], 8)
        c.store(row, rec, REC["row"], 8)


def spill(c: Code, x: V, size: int) -> V:
    """A copy of a vector in memory, for access by lane."""
    place = c.buffer(size)
    c.store(x, place, 0, 64)
    return place


def lane_of(c: Code, place: V, lane: V, t: str = "i64") -> V:
    """Element `lane` of a spilled vector."""
    width = {"i64": 8, "i32": 4}[t]
    return c.load(t, place, c.mul(c.zext(lane, "i64"), width), width)


@contextmanager
def each_group(c: Code, keys: V, mask: V, place: V | None = None) -> Iterator[tuple[V, V]]:
    """Once per distinct key of the lanes in a mask: the key, and the lanes that have it. place: the keys, spilled."""
    t = elem(keys.t)
    place = place or spill(c, keys, 4 * int(t[1:]))
    rest = c.var("i32", mask)
    with c.while_() as loop:
        now = rest.get()
        loop.until(c.icmp("eq", now, 0))
        key = lane_of(c, place, c.intrinsic("cttz", now, True), t)
        same = c.and_(c.mask_bits(c.icmp("eq", keys, c.splat(key))), now)
        rest.set(c.and_(now, c.not_(same)))
        yield key, same


def count_request(c: Code, rec: V, mask: V) -> None:
    """One request of memory, by the lanes of a mask."""
    c.bump(rec, REC["requests"])
    c.bump(rec, REC["lanes"], c.zext(c.intrinsic("ctpop", mask), "i64"))


def consecutive(c: Code, addr: V, first: V, lead: V, width: int) -> V:
    """Per lane: does it lie where lane `lead` at `first` and one step of `width` per lane put it?"""
    iota = IOTA64 if addr.t.endswith("i64>") else IOTA32
    t = "i64" if iota is IOTA64 else "i32"
    start = c.sub(first, c.mul(c.zext(lead, t) if t == "i64" else lead, width))
    return c.icmp("eq", addr, c.add(c.splat(start), c.mul(iota, width)))


def all_of(c: Code, per_lane: V, mask: V) -> V:
    """True if every lane of the mask holds."""
    return c.icmp("eq", c.and_(c.not_(c.mask_bits(per_lane)), mask), 0)


def is_run(c: Code, mask: V, lead: V) -> V:
    """True if the set bits of the mask are adjacent."""
    low = c.lshr(mask, lead)
    return c.icmp("eq", c.and_(low, c.add(low, 1)), 0)


def mixed(c: Code, bits: V) -> V:
    """64 bits that differ much between values that differ little: a sum of such numbers names no place and no order."""
    wide = c.mul(bits if bits.t.endswith(("i64", "i64>")) else c.zext(bits, "i64"), _MIX)
    return c.mul(c.bin("xor", wide, c.lshr(wide, 29)), _MIX)
