"""Keeps what printf and assert would print: one record per call and lane, formatted by the host after the launch."""

from __future__ import annotations

from evo.sim.abi import CTX, LOCAL_WINDOW, PRINT, PRINT_DATA, PRINT_LIMIT, PRINT_SIZE, ROW, ROW_SIZE, WARP, WARP_SCRATCH
from evo.sim.llvm_ir import Code, Var
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import ctx, host_of, lane_of, spill
from evo.sim.runtime.routine import routine


def _record(c: Code, lane: V, place: V) -> V:
    """The next record (the last one again when they are used up), with who printed and where the format is."""
    context, w = c.arg(0), c.arg(1)
    count = ctx(c, context, "print_count")
    c.store(c.add(count, 1), context, CTX["print_count"], 8)
    slot = c.intrinsic("umin", count, const("i64", PRINT_LIMIT))
    row = c.at(ctx(c, context, "prints", "ptr"), c.mul(slot, PRINT_SIZE))
    thread = c.add(c.shl(c.load("i64", w, WARP["index"], 8), 5), c.zext(lane, "i64"))
    c.store(ctx(c, context, "block_linear"), row, PRINT["block"], 8)
    c.store(thread, row, PRINT["thread"], 8)
    c.store(place, row, PRINT["format"], 8)
    return row


@routine("void", "ptr ctx, ptr w, <32 x i64> format, <32 x i64> arguments, i32 mask", "noinline cold")
def print_record(c: Code) -> None:
    """The format's address and as many bytes of the lane's argument buffer as fit; the format says how many count."""
    context, w, formats, arguments, mask = c.args(5)
    formats, arguments = spill(c, formats, 256), spill(c, arguments, 256)
    size = ctx(c, context, "local_size")
    warp = c.shl(c.load("i64", w, WARP["index"], 8), 5)
    with c.each_lane(mask) as lane:
        row = _record(c, lane, lane_of(c, formats, lane))
        offset = c.sub(lane_of(c, arguments, lane), LOCAL_WINDOW)
        inside = c.icmp("ult", offset, size)
        length = c.select(inside, c.intrinsic("umin", c.sub(size, offset), const("i64", PRINT_DATA)), 0)
        c.store(length, row, PRINT["length"], 8)
        base = c.add(c.mul(c.add(warp, c.zext(lane, "i64")), size), c.select(inside, offset, 0))
        source = c.at(ctx(c, context, "local", "ptr"), base)
        c.copy(c.at(row, PRINT["data"]), source, length)
        count = c.call(print_arguments(), context, lane_of(c, formats, lane))
        c.store(count, c.at(w, WARP_SCRATCH), c.shl(c.zext(lane, "i64"), 2), 4)
    c.ret_()


@routine("i32", "ptr ctx, i64 place", "noinline cold")
def print_arguments(c: Code) -> None:
    """How many arguments the format string at an address asks for: what printf returns; -1 if there is no string."""
    context, place = c.arg(0), c.arg(1)
    rows = ctx(c, context, "buffers", "ptr")
    total, open_ = c.var("i32", -1), c.var("i1", V("i1", "false"))
    with c.times(ctx(c, context, "buffer_count")) as index:
        row = c.at(rows, c.mul(index, ROW_SIZE))
        offset = c.sub(place, c.load("i64", row, ROW["low"], 8))
        size = c.load("i64", row, ROW["size"], 8)
        with c.if_(c.icmp("ult", offset, size)):
            total.set(0)
            host = host_of(c, row, place)
            with c.times(c.sub(size, offset)) as step:
                byte = c.zext(c.load("i8", c.at(host, step)), "i32")
                with c.if_(c.icmp("eq", byte, 0)):
                    c.leave(total.get())
                with c.if_else(open_.get()) as conversion:
                    _conversion(c, byte, total, open_)
                    conversion.otherwise()
                    open_.set(c.icmp("eq", byte, ord("%")))
    c.ret_(total.get())


def _conversion(c: Code, byte: V, total: Var, open_: Var) -> None:
    """One character after a percent sign: a star and the letter that ends it each take an argument, %% takes none."""
    letter = c.icmp("ult", c.sub(c.or_(byte, 32), ord("a")), 26)
    for size in "hljztL":
        letter = c.and_(letter, c.icmp("ne", byte, ord(size)))
    takes = c.or_(letter, c.icmp("eq", byte, ord("*")))
    total.set(c.add(total.get(), c.zext(takes, "i32")))
    open_.set(c.not_(c.or_(letter, c.icmp("eq", byte, ord("%")))))


@routine(
    "void",
    "ptr ctx, ptr w, <32 x i64> message, <32 x i64> file, <32 x i64> line, <32 x i64> function, i32 mask",
    "noinline cold",
)
def assert_record(c: Code) -> None:
    """Format 0 marks an assertion; its data are the addresses of message, file and function, and the line."""
    places = [spill(c, c.arg(2 + index), 256) for index in range(4)]
    with c.each_lane(c.arg(6)) as lane:
        row = _record(c, lane, const("i64", 0))
        c.store(const("i64", 32), row, PRINT["length"], 8)
        for index, place in enumerate(places):
            c.store(lane_of(c, place, lane), row, PRINT["data"] + 8 * index, 8)
    c.ret_()
