"""The race checker of shared memory: per word the last writer and every warp's last read, ordered by vector clocks.

clocks[me][v] is the newest clock of warp v that happens before what warp `me` does now. Barriers join clocks.
writer[word] = clock << 32 | warp << 8 | lane; reader[word][v] = clock of v's last read.
"""

from __future__ import annotations

import re

from evo.device.sim.ir import Code, V, const
from evo.device.sim.layout import MAX_WARPS, WARP
from evo.device.sim.run.base import ctx, report
from evo.device.sim.run.registry import runtime

ROW = 4 * MAX_WARPS


def own_clocks(c: Code, context: V, me: V) -> V:
    return c.at(ctx(c, context, "clocks", "ptr"), c.mul(me, ROW))


@runtime(r"race_(ld|st)")
def _race(m: re.Match[str]) -> Code:
    names = ["ctx", "w", "rec", "word", "lane", "bytes"]
    c = Code("void", m[0], list(zip(["ptr", "ptr", "ptr", "i64", "i32", "i32"], names, strict=True)), "noinline")
    context, w, rec, word, lane, _ = (c.arg(i) for i in range(6))
    me = c.load("i64", w, WARP["index"], 8)
    mine = own_clocks(c, context, me)
    clock = c.load("i32", mine, c.shl(me, 2))
    writer = c.at(ctx(c, context, "writer", "ptr"), c.shl(word, 3))
    readers = c.at(ctx(c, context, "reader", "ptr"), c.mul(word, ROW))
    last = c.load("i64", writer, 0, 8)
    other = c.and_(c.lshr(last, 8), 255)
    seen = c.zext(c.load("i32", mine, c.shl(other, 2)), "i64")
    unordered = c.and_(c.icmp("ne", other, me), c.icmp("ugt", c.lshr(last, 32), seen))
    address = c.shl(word, 2)
    with c.if_(unordered, likely=False):
        who = c.or_(c.and_(last, 0xFFFF), 1 << 16)
        report(c, "race", rec, w, lane, address, extra=who, width=4)
    if m[1] == "st":
        reads = c.load(f"<{MAX_WARPS} x i32>", readers, 0, 4)
        known = c.load(f"<{MAX_WARPS} x i32>", mine, 0, 4)
        late = c.mask_bits(c.icmp("ugt", reads, known))
        late = c.and_(late, c.not_(c.shl(const("i32", 1), c.trunc(me, "i32"))))
        with c.if_(c.icmp("ne", late, 0), likely=False):
            reader = c.zext(c.intrinsic("cttz", late, True), "i64")
            who = c.or_(c.shl(reader, 8), 2 << 16)
            report(c, "race", rec, w, lane, address, extra=who, width=4)
        stamp = c.or_(c.shl(c.zext(clock, "i64"), 32), c.or_(c.shl(me, 8), c.zext(lane, "i64")))
        c.store(stamp, writer, 0, 8)
    else:
        c.store(clock, readers, c.shl(me, 2))
    c.ret_()
    return c


@runtime(r"race_(ld|st)_run")
def _race_run(m: re.Match[str]) -> Code:
    """The same for `count` adjacent words, whose lanes are spread evenly."""
    names = ["ctx", "w", "rec", "word", "count"]
    c = Code("void", m[0], list(zip(["ptr", "ptr", "ptr", "i64", "i64"], names, strict=True)), "noinline")
    context, w, rec, word, count = (c.arg(i) for i in range(5))
    per_lane = c.lshr(count, 5)
    with c.times(count) as step:
        lane = c.trunc(c.bin("udiv", step, per_lane), "i32")
        c.call("void", f"race_{m[1]}", context, w, rec, c.add(word, step), lane, const("i32", 15))
    c.ret_()
    return c


@runtime("race_acquire|race_release")
def _fence(m: re.Match[str]) -> Code:
    """A fence publishes what this warp knows; a fence or atomic by another warp may learn it.

    This errs towards silence: flags built from fences and atomics are never reported.
    """
    c = Code("void", m[0], [("ptr", "ctx"), ("ptr", "w")], "noinline")
    context, w = c.arg(0), c.arg(1)
    with c.if_(c.icmp("ne", ctx(c, context, "race"), 0)):
        me = c.load("i64", w, WARP["index"], 8)
        mine = own_clocks(c, context, me)
        public = ctx(c, context, "fence_clock", "ptr")
        t = f"<{MAX_WARPS} x i32>"
        both = c.intrinsic("umax", c.load(t, mine, 0, 4), c.load(t, public, 0, 4))
        if m[0] == "race_release":
            c.store(both, public, 0, 4)
            place = c.at(mine, c.shl(me, 2))
            c.store(c.add(c.load("i32", place), 1), place)
        else:
            own = c.load("i32", mine, c.shl(me, 2))
            c.store(both, mine, 0, 4)
            c.store(own, mine, c.shl(me, 2))
    c.ret_()
    return c
