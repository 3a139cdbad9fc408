"""cp.async: the bytes move at once, but the words stay pending until the warp has waited for their group."""

from __future__ import annotations

from evo.sim.abi import QUEUE_ENTRY, QUEUE_GROUP, QUEUE_LENGTH, QUEUE_MASK, QUEUE_SIZE, REC, WARP, WARP_SCRATCH
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import ctx, host_of, lane_of, racing, report, resolve, spill
from evo.sim.runtime.global_memory import ld_global, note_bytes
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_memory import checked_mask, waves
from evo.sim.runtime.shared_races import granule_shift, own_clocks, race


@routine("void", "ptr ctx, ptr w, ptr rec, <32 x i32> to, i32 mask, <32 x i64> source, <32 x i32> sizes")
def cp_async(c: Code, width: int) -> None:
    """Copy `sizes` bytes per lane from global, zero the rest of the width, mark pending, enqueue."""
    context, w, rec, to, _, source, sizes = c.args(7)
    good = checked_mask(c, width)
    with c.if_(c.icmp("ne", good, 0)):
        short = c.and_(c.mask_bits(c.icmp("ne", sizes, width)), good)
        with c.if_else(c.icmp("eq", short, 0), likely=True) as full:
            data = c.call(ld_global(width), context, w, rec, source, good)
            _deliver(c, width, data, good)
            full.otherwise()
            _partial(c, width, good)
        c.call(waves(max(4, width)), rec, to, good)
        _enqueue(c, width, good)
    c.ret_()


def _deliver(c: Code, width: int, data: V, mask: V) -> None:
    context, w, rec, to = c.args(4)
    place = spill(c, to, 128)
    base, states = ctx(c, context, "shared", "ptr"), ctx(c, context, "state", "ptr")
    t, words = f"i{8 * width}", max(1, width // 4)
    mark = const(f"i{8 * words}", int.from_bytes(b"\xf0" * words, "little"))
    with c.each_lane(mask) as lane:
        offset = c.zext(lane_of(c, place, lane, "i32"), "i64")
        value = c.load(t, data, c.mul(c.zext(lane, "i64"), width))
        c.store(value, c.at(base, offset))
        state = c.at(states, c.lshr(offset, 2))
        with c.if_(c.icmp("ne", c.and_(c.load(mark.t, state), mark), 0), likely=False):
            report(c, SimFault.PENDING, rec, w, lane, offset, extra=2, width=width)
        c.store(mark, state)
    with c.if_(racing(c, context), likely=False), c.each_lane(mask) as lane:
        offset = c.zext(lane_of(c, place, lane, "i32"), "i64")
        c.call(race("st"), context, w, rec, offset, lane, const("i64", width), const("i32", 0))


def _partial(c: Code, width: int, mask: V) -> None:
    """Some lanes copy fewer bytes than the width; bytes beyond their size are never read, and become zero."""
    context, w, rec, _, _, source, sizes = c.args(7)
    addresses, lengths = spill(c, source, 256), spill(c, sizes, 128)
    packed = c.buffer(32 * 16)
    c.fill(packed, const("i8", 0), const("i64", 512))
    with c.each_lane(mask) as lane:
        size = c.zext(lane_of(c, lengths, lane, "i32"), "i64")
        address = lane_of(c, addresses, lane)
        into = c.at(packed, c.mul(c.zext(lane, "i64"), width))
        with c.if_(c.icmp("ne", c.and_(address, width - 1), 0), likely=False):
            report(c, SimFault.MISALIGNED, rec, w, lane, address, width=width)
        with c.if_(c.icmp("ugt", size, width), likely=False):
            report(c, SimFault.SOURCE_SIZE, rec, w, lane, address, extra=size, width=width)
        with c.times(c.intrinsic("umin", size, const("i64", width))) as step:
            at = c.add(address, step)
            row = c.call(resolve(), context, w, rec, at, lane, *[const("i64", 1)] * 2, const("i64", 0))
            with c.if_(c.icmp("ne", c.to_int(row), 0)):
                note_bytes(c, "ld", row, at, lane, 1)
                host = host_of(c, row, at)
                c.store(c.load("i8", host), c.at(into, step))
    whole = c.and_(mask, c.mask_bits(c.icmp("eq", sizes, width)))
    c.store(c.load("<512 x i8>", packed), w, WARP_SCRATCH + 1024)
    with c.if_(c.icmp("ne", whole, 0)):
        c.call(ld_global(width), context, w, rec, source, whole)
    # The remembered buffer was set for one-byte accesses: forget it.
    c.store(const("i64", 0), rec, REC["limit"], 8)
    _deliver(c, width, packed, mask)


def _enqueue(c: Code, width: int, mask: V) -> None:
    context, w, _, to = c.args(4)
    tail = c.load("i64", w, WARP["queue_tail"], 8)
    head = c.load("i64", w, WARP["queue_head"], 8)
    with c.if_(c.icmp("uge", c.sub(tail, head), QUEUE_LENGTH), likely=False):
        # Out of room: finish the oldest entry early, which can hide a fault but never invent one.
        c.call(finish_copy(), context, w, clock_of(c, w))
    entry = c.call(queue_entry(), context, w, tail)
    c.store(to, entry, 0, 4)
    c.store(c.zext(mask, "i64"), entry, QUEUE_MASK, 8)
    c.store(const("i64", width), entry, QUEUE_SIZE, 8)
    c.store(c.load("i64", w, WARP["group_committed"], 8), entry, QUEUE_GROUP, 8)
    c.store(c.add(tail, 1), w, WARP["queue_tail"], 8)


@routine("ptr", "ptr ctx, ptr w, i64 index", "")
def queue_entry(c: Code) -> None:
    context, w, index = c.args(3)
    warp = c.mul(c.load("i64", w, WARP["index"], 8), QUEUE_LENGTH)
    slot = c.add(warp, c.and_(index, QUEUE_LENGTH - 1))
    c.ret_(c.at(ctx(c, context, "queue", "ptr"), c.mul(slot, QUEUE_ENTRY)))


def clock_of(c: Code, w: V) -> V:
    """The warp's own clock."""
    me = c.load("i64", w, WARP["index"], 8)
    return c.load("i32", own_clocks(c, c.arg(0), me), c.shl(me, 2))


@routine("void", "ptr ctx, ptr w, i32 clock")
def finish_copy(c: Code) -> None:
    """The oldest entry of the warp has arrived: its bytes are initialised, and written by this warp at that clock."""
    context, w, clock = c.args(3)
    head = c.load("i64", w, WARP["queue_head"], 8)
    entry = c.call(queue_entry(), context, w, head)
    c.store(c.add(head, 1), w, WARP["queue_head"], 8)
    states = ctx(c, context, "state", "ptr")
    mask = c.trunc(c.load("i64", entry, QUEUE_MASK, 8), "i32")
    size = c.load("i64", entry, QUEUE_SIZE, 8)
    checked = racing(c, context)
    with c.each_lane(mask) as lane:
        offset = c.zext(c.load("i32", entry, c.shl(c.zext(lane, "i64"), 2), 4), "i64")
        with c.times(c.lshr(size, 2)) as step:
            c.store(const("i8", 15), c.at(states, c.add(c.lshr(offset, 2), step)))
        with c.if_(checked, likely=False):
            c.call(race_stamp(), context, w, offset, lane, size, clock)
    c.ret_()


@routine("void", "ptr ctx, ptr w, i64 address, i32 lane, i64 size, i32 clock", "")
def race_stamp(c: Code) -> None:
    """Make this warp, at that clock, the last writer of some bytes."""
    context, w, address, lane, size, clock = c.args(6)
    me = c.load("i64", w, WARP["index"], 8)
    stamp = c.or_(c.shl(c.zext(clock, "i64"), 32), c.or_(c.shl(me, 8), c.zext(lane, "i64")))
    shift = granule_shift(c, context)
    with c.times(c.lshr(size, shift)) as step:
        word = c.add(c.lshr(address, shift), step)
        c.store(stamp, ctx(c, context, "writer", "ptr"), c.shl(word, 3), 8)
    c.ret_()


@routine("void", "ptr w", "")
def cp_commit(c: Code) -> None:
    c.bump(c.arg(0), WARP["group_committed"])
    c.ret_()


@routine("void", "ptr ctx, ptr w, i64 limit")
def cp_wait(c: Code) -> None:
    """Finish every entry of a group older than `limit`."""
    context, w, limit = c.args(3)
    with c.while_() as loop:
        head = c.load("i64", w, WARP["queue_head"], 8)
        empty = c.icmp("eq", head, c.load("i64", w, WARP["queue_tail"], 8))
        entry = c.call(queue_entry(), context, w, head)
        group = c.load("i64", entry, QUEUE_GROUP, 8)
        loop.until(c.or_(empty, c.icmp("sge", group, limit)))
        c.call(finish_copy(), context, w, clock_of(c, w))
    c.ret_()
