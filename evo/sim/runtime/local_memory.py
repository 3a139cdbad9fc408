"""Local memory (per thread) and generic addresses."""

from __future__ import annotations

from evo.sim.abi import (
    ARRAY_BITS,
    ARRAY_END,
    ARRAY_START,
    IN_LOCAL,
    LOCAL_WINDOW,
    REC,
    SHARED_WINDOW,
    SOURCE_LANE,
    WARP,
    WARP_SCRATCH,
    WINDOW_SIZE,
)
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import IOTA32, IOTA64, V, const
from evo.sim.runtime.fault_report import ACCESS64, count_request, ctx, each_group, lane_of, report, report_place, spill
from evo.sim.runtime.global_memory import ld_global, st_global
from evo.sim.runtime.routine import Routine, loads_and_stores, routine
from evo.sim.runtime.shared_memory import ld_shared, st_shared


def _local(c: Code, width: int, store: bool, used: int | None = None) -> V:
    """used: bytes that have to be written before they are read."""
    context, w, rec, addr, mask = c.args(5)
    scratch = c.at(w, WARP_SCRATCH)
    place = spill(c, addr, 256)
    size = ctx(c, context, "local_size")
    marks = c.load("i64", rec, REC["marks"], 8)
    known = c.icmp("ne", c.and_(marks, IN_LOCAL), 0)
    start = c.select(known, c.and_(c.lshr(marks, ARRAY_START), (1 << ARRAY_BITS) - 1), 0)
    room_of_array = c.sub(c.select(known, c.lshr(marks, ARRAY_END), size), start)
    data, states = ctx(c, context, "local", "ptr"), ctx(c, context, "local_state", "ptr")
    warp = c.shl(c.load("i64", w, WARP["index"], 8), 5)
    t = f"i{8 * width}"
    ones = const(t, int.from_bytes(b"\x01" * (width if used is None else used), "little"))
    count_request(c, rec, mask)
    _count_interleaved(c, width)
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        packed = c.at(scratch, c.mul(c.zext(lane, "i64"), width))
        room = c.and_(
            c.icmp("uge", room_of_array, width), c.icmp("ule", c.sub(address, start), c.sub(room_of_array, width))
        )
        straight = c.icmp("eq", c.and_(address, width - 1), 0)
        with c.if_else(c.and_(room, straight), likely=True) as inside:
            base = c.add(c.mul(c.add(warp, c.zext(lane, "i64")), size), address)
            host, state = c.at(data, base), c.at(states, base)
            if store:
                c.store(c.load(t, packed), host)
                c.store(ones, state)
            else:
                with c.if_(c.icmp("ne", c.and_(c.load(t, state), ones), ones), likely=False):
                    report(c, SimFault.UNINITIALISED, rec, w, lane, address, extra=3, width=width)
                c.store(c.load(t, host), packed)
            inside.otherwise()
            report_place(c, straight, rec, w, lane, address, extra=3, width=width)
            if not store:
                c.store(const(t, 0), packed)
    return scratch


ld_local, st_local = loads_and_stores("local", ACCESS64, _local)


@routine("ptr", ACCESS64)
def ld_local_part(c: Code, width: int, used: int) -> None:
    """A vector of which nobody uses the last elements, as `ld_global_part`: a thread's memory is padded for it."""
    c.ret_(_local(c, width, False, used))


@routine("ptr", ACCESS64)
def ld_param(c: Code, width: int) -> None:
    """Parameters at offsets that lanes have computed."""
    context, w, rec, addr, mask = c.args(5)
    scratch, place = c.at(w, WARP_SCRATCH), spill(c, addr, 256)
    size, params = ctx(c, context, "param_size"), ctx(c, context, "params", "ptr")
    t = f"i{8 * width}"
    c.fill(scratch, const("i8", 0), const("i64", 32 * width))
    with c.each_lane(mask) as lane:
        offset = lane_of(c, place, lane)
        room = c.and_(c.icmp("uge", size, width), c.icmp("ule", offset, c.sub(size, width)))
        straight = c.icmp("eq", c.and_(offset, width - 1), 0)
        with c.if_else(c.and_(room, straight), likely=True) as inside:
            c.store(c.load(t, c.at(params, offset)), c.at(scratch, c.mul(c.zext(lane, "i64"), width)))
            inside.otherwise()
            report_place(c, straight, rec, w, lane, offset, extra=4, width=width)
    c.ret_(scratch)


def _count_interleaved(c: Code, width: int) -> None:
    """Local memory is interleaved by lane in hardware: one word of 32 lanes is a line, that of 8 lanes a sector."""
    rec, addr, mask = c.arg(2), c.arg(3), c.arg(4)
    words = c.lshr(addr, 2)
    for name, keys in (("lines", words), ("sectors", c.or_(c.shl(words, 2), c.lshr(IOTA64, 3)))):
        with each_group(c, keys, mask):
            c.bump(rec, REC[name], max(1, width // 4))


def _window(c: Code, addr: V, base: int) -> V:
    return c.icmp("ult", c.sub(addr, base), WINDOW_SIZE)


def _generic(c: Code, width: int, store: bool) -> V:
    """Sort lanes by the window their address lies in; all lanes in one window is the common case."""
    context, w, rec, addr, mask = c.args(5)
    scratch = c.at(w, WARP_SCRATCH)
    shared = c.and_(c.mask_bits(_window(c, addr, SHARED_WINDOW)), mask)
    local = c.and_(c.mask_bits(_window(c, addr, LOCAL_WINDOW)), mask)
    rest = c.and_(mask, c.not_(c.or_(shared, local)))
    gathered = c.buffer(32 * width)
    with c.if_(c.icmp("ne", rest, mask)):
        with c.if_(c.icmp("ne", shared, 0)):
            near = c.trunc(c.sub(addr, SHARED_WINDOW), "i32")
            _part(c, (st_shared if store else ld_shared)(width), width, near, shared, gathered)
        with c.if_(c.icmp("ne", local, 0)):
            _part(c, (st_local if store else ld_local)(width), width, c.sub(addr, LOCAL_WINDOW), local, gathered)
        with c.if_(c.icmp("ne", rest, 0)):
            _part(c, (st_global if store else ld_global)(width), width, addr, rest, gathered)
        if not store:
            c.copy(scratch, gathered, const("i64", 32 * width))
        c.leave(None if store else scratch)
    return c.call((st_global if store else ld_global)(width), context, w, rec, addr, mask)


ld_generic, st_generic = loads_and_stores("generic", ACCESS64, _generic)


def _part(c: Code, access: Routine, width: int, addr: V, mask: V, gathered: V) -> None:
    data = c.call(access, *c.args(3), addr, mask)
    if data.t == "void":
        return
    t = f"i{8 * width}"
    with c.each_lane(mask) as lane:
        offset = c.mul(c.zext(lane, "i64"), width)
        c.store(c.load(t, c.at(data, offset)), c.at(gathered, offset))


@routine("void", "ptr w", name="permute")
def permute_lanes(c: Code) -> None:
    """scratch[256..] = scratch[0..] picked by the lane numbers at scratch[128..]."""
    scratch = c.at(c.arg(0), WARP_SCRATCH)
    with c.times(const("i64", 32)) as lane:
        at = c.shl(lane, 2)
        source = c.zext(c.load("i32", c.at(scratch, c.add(at, 128)), 0, 4), "i64")
        c.store(c.load("i32", c.at(scratch, c.shl(source, 2)), 0, 4), c.at(scratch, c.add(at, 256)), 0, 4)
    c.ret_()


@routine(
    "void",
    "ptr ctx, ptr w, ptr rec, <32 x i32> lanes, <32 x i32> control, <32 x i32> members, i32 running",
    "noinline cold",
)
def demand_shfl(c: Code, mode: str) -> None:
    """The source lanes of the running lanes must run too, where the shuffle's segment does not clamp them.

    An indexed lane, or one across, must be named by the mask: whoever runs beside with another mask takes no part. Up
    and down may read lanes outside the mask, and down may read an absent lane in a lane at or beyond the distance:
    a reduction throws those results away.
    """
    _, w, rec, lanes, control, members, running = c.args(7)
    clamp, segment = c.and_(control, 31), c.and_(c.lshr(control, 8), 31)
    bottom = c.and_(IOTA32, segment)
    top = c.or_(bottom, c.and_(clamp, c.not_(segment)))
    near = c.and_(lanes, 31)
    if mode in ("idx", "bfly"):
        source = c.xor(IOTA32, near) if mode == "bfly" else c.or_(bottom, c.and_(near, c.not_(segment)))
        used = c.icmp("sle", source, top)
        running_too = c.and_(c.splat(running), members)
    else:
        running_too = c.splat(running)
        source = c.sub(IOTA32, near) if mode == "up" else c.add(IOTA32, near)
        named = c.icmp("ne", c.and_(c.lshr(members, c.and_(source, 31)), 1), 0)
        inside = c.icmp("sge", source, top) if mode == "up" else c.icmp("sle", source, top)
        used = c.and_(named, inside)
        if mode == "down":
            used = c.and_(used, c.icmp("slt", c.sub(IOTA32, bottom), near))
    absent = c.icmp("eq", c.and_(c.lshr(running_too, c.and_(source, 31)), 1), 0)
    wrong = c.and_(c.mask_bits(c.and_(absent, used)), running)
    with c.if_(c.icmp("ne", wrong, 0), likely=False):
        lane = c.intrinsic("cttz", wrong, True)
        from_ = lane_of(c, spill(c, source, 128), lane, "i32")
        report(c, SimFault.WARP_SYNC, rec, w, lane, const("i64", 0), extra=c.or_(c.zext(from_, "i64"), SOURCE_LANE))
    c.ret_()
