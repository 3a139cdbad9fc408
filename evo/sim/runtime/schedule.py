"""The scheduler of one block: prepares it, runs its warps round robin, opens barriers, finds deadlocks."""

from __future__ import annotations

from evo.sim.abi import BARRIERS, CTX, DONE, MAX_WARPS, READY, WAITING, WARP, WARP_PEND, WRONG_COUNT
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code, Var
from evo.sim.llvm_values import IOTA32, V, const
from evo.sim.runtime.fault_report import ctx, racing, report
from evo.sim.runtime.inter_block_order import kept, share_at_barrier
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_races import own_clocks

CLOCKS = f"<{MAX_WARPS} x i32>"
BARRIER_SIZE = 256  # arrived threads, then the joined clocks of those that only arrived
BARRIER_CLOCKS = 128
SYNC, POPC, AND, OR = range(4)
_MOST_SQUARED = 1 << 26  # of a block's instructions, so that the sum of 2,000 squares fits


@routine("i64", "ptr ctx, i64 index")
def run_one(c: Code) -> None:
    """Start the listed block of this number; 1 if it waits for another."""
    context, index = c.arg(0), c.arg(1)
    block = c.load("i64", ctx(c, context, "block_ids", "ptr"), c.shl(index, 3), 8)
    c.store(index, context, CTX["slot"], 8)
    c.call(prepare_block(), context, block)
    whole, bound = ctx(c, context, "budget"), ctx(c, context, "block_budget")
    before = c.select(c.icmp("eq", bound, 0), whole, c.intrinsic("smin", whole, bound))
    c.store(before, context, CTX["budget"], 8)
    stalled = c.call(run_block(), context)
    count_done(c, stalled)
    left = ctx(c, context, "budget")
    spent = c.sub(before, left)
    c.store(c.select(c.icmp("slt", left, 0), left, c.sub(whole, spent)), context, CTX["budget"], 8)
    heaviest = c.intrinsic("smax", ctx(c, context, "heaviest"), spent)
    c.store(heaviest, context, CTX["heaviest"], 8)
    bounded = c.intrinsic("smin", spent, const("i64", _MOST_SQUARED))
    c.store(c.add(ctx(c, context, "squares"), c.mul(bounded, bounded)), context, CTX["squares"], 8)
    c.ret_(stalled)


def count_done(c: Code, stalled: V) -> None:
    context = c.arg(0)
    done = c.zext(c.and_(sound(c), c.icmp("eq", stalled, 0)), "i64")
    c.store(c.add(ctx(c, context, "blocks_done"), done), context, CTX["blocks_done"], 8)


def sound(c: Code) -> V:
    """No fault so far, and budget left."""
    context = c.arg(0)
    return c.and_(c.icmp("sge", ctx(c, context, "budget"), 0), c.icmp("eq", ctx(c, context, "fault_count"), 0))


@routine("void", "ptr ctx, i64 block")
def prepare_block(c: Code) -> None:
    context, block = c.arg(0), c.arg(1)
    c.store(block, context, CTX["block_linear"], 8)
    gx, gy = ctx(c, context, "nctaid_x"), ctx(c, context, "nctaid_y")
    c.store(c.bin("urem", block, gx), context, CTX["ctaid_x"], 8)
    rows = c.bin("udiv", block, gx)
    c.store(c.bin("urem", rows, gy), context, CTX["ctaid_y"], 8)
    c.store(c.bin("udiv", rows, gy), context, CTX["ctaid_z"], 8)
    c.store(const("i64", -1), context, CTX["last_sector"], 8)
    c.store(const("i64", -1), context, CTX["last_counted"], 8)
    for name in ("acquired", "copies_head", "copies_tail"):
        c.store(const("i64", 0), context, CTX[name], 8)
    _clear(c, ctx(c, context, "tags", "ptr"), c.mul(ctx(c, context, "tag_sets"), 128), 255)
    _clear(c, ctx(c, context, "state", "ptr"), ctx(c, context, "shared_clear"), 0)
    _clear(c, ctx(c, context, "barriers", "ptr"), const("i64", BARRIERS * BARRIER_SIZE), 0)
    local = c.mul(ctx(c, context, "local_size"), c.shl(ctx(c, context, "warp_count"), 5))
    _clear(c, ctx(c, context, "local_state", "ptr"), local, 0)
    stride = ctx(c, context, "warp_stride")
    count = ctx(c, context, "warp_count")
    with c.times(count) as index:
        w = c.at(ctx(c, context, "warps", "ptr"), c.mul(index, stride))
        for name in (
            "state", "resume", "pending", "queue_head", "queue_tail", "group_committed", "arrived", "ahead",
            "overtaken", "turns", "spent", "alone", "speakers",
        ):  # fmt: skip
            c.store(const("i64", 0), w, WARP[name], 8)
        c.store(c.load("i64", w, WARP["frame"], 8), w, WARP["live"], 8)
        _clear(c, c.at(w, WARP_PEND), c.sub(stride, WARP_PEND), 0)
    with c.if_(racing(c, context)):
        c.call(join_all(), context)
    c.ret_()


def _clear(c: Code, place: V, size: V, value: int) -> None:
    c.fill(place, const("i8", value), size)


@routine("void", "ptr ctx")
def join_all(c: Code) -> None:
    """A new block: all that came before happens before all that follows."""
    context = c.arg(0)
    joined = c.var(CLOCKS, const(CLOCKS, 0))
    count = const("i64", MAX_WARPS)
    with c.times(count) as index:
        row = c.load(CLOCKS, own_clocks(c, context, index), 0, 4)
        joined.set(c.intrinsic("umax", joined.get(), row))
    all_ = joined.get()
    c.store(all_, ctx(c, context, "clock_base", "ptr"), 0, 4)
    with c.times(count) as index:
        adopt(c, context, index, all_)
    c.ret_()


def adopt(c: Code, context: V, index: V, joined: V) -> None:
    """A warp leaves a barrier: it knows the joined clocks, and its own moves on."""
    mine = own_clocks(c, context, index)
    c.store(joined, mine, 0, 4)
    place = c.at(mine, c.shl(index, 2))
    c.store(c.add(c.load("i32", place), 1), place)
    count = c.trunc(ctx(c, context, "warp_count"), "i32")
    there = c.icmp("ult", IOTA32, c.splat(count))
    own = c.load("i32", place)
    since = c.sub(joined, c.load(CLOCKS, ctx(c, context, "clock_base", "ptr"), 0, 4))
    w = c.at(ctx(c, context, "warps", "ptr"), c.mul(index, ctx(c, context, "warp_stride")))
    with c.if_(c.icmp("ult", index, ctx(c, context, "warp_count"))):
        c.store(c.zext(own, "i64"), w, WARP["together"], 8)
        for name, clocks in (("safe_clock", joined), ("safe_since", since)):
            least = c.extern("i32", f"llvm.vector.reduce.umin.v{MAX_WARPS}i32", c.select(there, clocks, -1))
            c.store(c.zext(least, "i64"), w, WARP[name], 8)


@routine("i64", "ptr ctx")
def run_block(c: Code) -> None:
    """Run the block in the context to its end; 1 if all that it does is wait, and other blocks may help."""
    context = c.arg(0)
    warps, stride = ctx(c, context, "warps", "ptr"), ctx(c, context, "warp_stride")
    count = ctx(c, context, "warp_count")
    on = c.var("i1", V("i1", "true"))
    busy = c.var("i1", V("i1", "true"))
    stalled = c.var("i64", 0)
    began = ctx(c, context, "budget")
    fair = c.icmp("ne", ctx(c, context, "fair"), 0)
    with c.while_() as loop:
        loop.until(c.not_(on.get()))
        ready, done, turned = c.var("i64", 0), c.var("i64", 0), c.var("i64", 0)
        for var in (ready, done, turned):
            var.set(0)
        with c.times(count) as turn:
            last = c.sub(c.sub(count, turn), 1)
            index = c.select(c.icmp("eq", ctx(c, context, "backwards"), 0), turn, last)
            w = c.at(warps, c.mul(index, stride))
            state = c.load("i64", w, WARP["state"], 8)
            runs = c.and_(c.icmp("eq", state, READY), c.icmp("sge", ctx(c, context, "budget"), 0))
            with c.if_(runs):
                before = ctx(c, context, "budget")
                code = c.extern("i32", "kernel", context, w)
                _note_spent(c, w, before)
                ready.set(c.add(ready.get(), 1))
                waits, yields = c.icmp("eq", code, 1), c.icmp("eq", code, 3)
                turned.set(c.add(turned.get(), c.zext(yields, "i64")))
                again = c.select(yields, const("i64", READY), const("i64", DONE))
                c.store(c.select(waits, const("i64", WAITING), again), w, WARP["state"], 8)
            finished = c.icmp("eq", c.load("i64", w, WARP["state"], 8), DONE)
            done.set(c.add(done.get(), c.zext(finished, "i64")))
        stopped = c.icmp("slt", ctx(c, context, "budget"), 0)
        over = c.or_(stopped, c.icmp("eq", done.get(), count))
        with c.if_else(over) as end:
            on.set(V("i1", "false"))
            end.otherwise()
            opened = c.call(open_barriers(), context)
            with c.if_(c.icmp("eq", c.add(opened, ready.get()), 0)):
                c.call(deadlock(), context)
            only = c.and_(c.icmp("eq", ready.get(), turned.get()), c.icmp("eq", opened, 0))
            _note_idle(c, c.and_(only, c.icmp("ne", ready.get(), 0)), ready.get(), stalled, on)
            with c.if_(fair, likely=False):
                busy.set(c.not_(only))
                stalled.set(1)
                on.set(V("i1", "false"))
    with c.if_(c.and_(fair, busy.get()), likely=False):
        _note_turn(c, c.sub(began, ctx(c, context, "budget")))
    c.ret_(stalled.get())


def _note_turn(c: Code, spent: V) -> None:
    """Count a short turn in which a block did more than wait."""
    context = c.arg(0)
    c.bump(context, CTX["busy_turns"])
    c.store(c.add(ctx(c, context, "busy"), spent), context, CTX["busy"], 8)
    most = c.intrinsic("smax", ctx(c, context, "longest_turn"), spent)
    c.store(most, context, CTX["longest_turn"], 8)


def _note_spent(c: Code, w: V, before: V) -> None:
    """Add the turn that a warp has taken to what it took before; the longest warp is kept."""
    context = c.arg(0)
    spent = c.add(c.load("i64", w, WARP["spent"], 8), c.sub(before, ctx(c, context, "budget")))
    c.store(spent, w, WARP["spent"], 8)
    c.store(c.intrinsic("smax", ctx(c, context, "longest"), spent), context, CTX["longest"], 8)


def _note_idle(c: Code, idle: V, turns: V, stalled: Var, on: Var) -> None:
    """Count turns in which nobody did more than wait; leave the block to others, or give up after too many."""
    context = c.arg(0)
    changes = ctx(c, context, "changes")
    idle = c.and_(idle, c.icmp("eq", changes, ctx(c, context, "seen_changes")))
    c.store(changes, context, CTX["seen_changes"], 8)
    total = c.select(idle, c.add(ctx(c, context, "idle"), turns), 0)
    c.store(total, context, CTX["idle"], 8)
    oldest = c.icmp("ule", ctx(c, context, "slot"), ctx(c, context, "oldest"))
    with c.if_(c.and_(oldest, c.icmp("ugt", total, ctx(c, context, "idle_limit"))), likely=False):
        c.call(deadlock(), context)
    with c.if_(c.and_(idle, c.icmp("ugt", ctx(c, context, "resident_count"), 1))):
        stalled.set(1)
        on.set(V("i1", "false"))


@routine("void", "ptr ctx", "noinline cold")
def deadlock(c: Code) -> None:
    """Report a warp that polls; if there is none, one that waits at a barrier."""
    context = c.arg(0)
    warps, stride = ctx(c, context, "warps", "ptr"), ctx(c, context, "warp_stride")
    told = c.var("i64", 0)
    for state in (READY, WAITING):
        with c.times(ctx(c, context, "warp_count")) as index:
            w = c.at(warps, c.mul(index, stride))
            waits = c.icmp("eq", c.load("i64", w, WARP["state"], 8), state)
            with c.if_(c.and_(waits, c.icmp("eq", told.get(), 0))):
                told.set(1)
                live = c.trunc(c.load("i64", w, WARP["live" if state == WAITING else "pending"], 8), "i32")
                site = c.load("ptr", w, WARP["barrier_site"], 8)
                barrier = c.load("i64", w, WARP["barrier_id"], 8) if state == WAITING else const("i64", -1)
                wanted = c.load("i64", w, WARP["barrier_count"], 8) if state == WAITING else 0
                report(c, SimFault.DEADLOCK, site, w, c.intrinsic("cttz", live, False), barrier, extra=wanted)
    c.ret_()


@routine("i64", "ptr ctx")
def open_barriers(c: Code) -> None:
    """Open every barrier whose threads have all arrived. Returns how many warps became ready."""
    context = c.arg(0)
    total = c.var("i64", 0)
    with c.times(const("i64", BARRIERS)) as ident:
        total.set(c.add(total.get(), c.call(open_barrier(), context, ident)))
    c.ret_(total.get())


@routine("i64", "ptr ctx, i64 ident")
def open_barrier(c: Code) -> None:
    context, ident = c.arg(0), c.arg(1)
    warps, stride = ctx(c, context, "warps", "ptr"), ctx(c, context, "warp_stride")
    count = ctx(c, context, "warp_count")
    barrier = c.at(ctx(c, context, "barriers", "ptr"), c.mul(ident, BARRIER_SIZE))
    waiting, gone, wanted = c.var("i64", 0), c.var("i64", 0), c.var("i64", 0)
    joined = c.var(CLOCKS, c.load(CLOCKS, barrier, BARRIER_CLOCKS, 4))
    races = racing(c, context)
    fenced = c.icmp("ne", ctx(c, context, "fenced"), 0)
    told = c.var(CLOCKS, const(CLOCKS, 0))  # a fence before the barrier counts for flags behind it
    votes = [c.var("i64", 0), c.var("i64", 1), c.var("i64", 0)]
    with c.times(count) as index:
        w = c.at(warps, c.mul(index, stride))
        state = c.load("i64", w, WARP["state"], 8)
        gone.set(c.add(gone.get(), c.zext(c.icmp("eq", state, DONE), "i64")))
        here = _waits(c, w, state, ident)
        with c.if_(here):
            asked = c.load("i64", w, WARP["barrier_count"], 8)
            _demand_count(c, w, asked, wanted.get(), waiting.get(), ident)
            waiting.set(c.add(waiting.get(), 1))
            wanted.set(c.intrinsic("umax", wanted.get(), asked))
            with c.if_(races):
                joined.set(c.intrinsic("umax", joined.get(), c.load(CLOCKS, own_clocks(c, context, index), 0, 4)))
            with c.if_(fenced, likely=False):
                told.set(c.intrinsic("umax", told.get(), c.load(CLOCKS, _told_by(c, index), 0, 4)))
            _vote(c, w, votes)
    arrived = c.add(c.load("i64", barrier, 0, 8), c.shl(waiting.get(), 5))
    everyone = c.shl(c.sub(count, gone.get()), 5)
    need = c.select(c.icmp("eq", wanted.get(), 0), everyone, wanted.get())
    opens = c.and_(c.icmp("ne", waiting.get(), 0), c.icmp("uge", arrived, need))
    woken = c.var("i64", 0)
    with c.if_(opens):
        with c.if_(c.and_(fenced, kept(c)), likely=False):
            c.call(share_at_barrier(), context, ident)
        with c.times(count) as index:
            w = c.at(warps, c.mul(index, stride))
            with c.if_(_waits(c, w, c.load("i64", w, WARP["state"], 8), ident)):
                c.store(const("i64", READY), w, WARP["state"], 8)
                woken.set(c.add(woken.get(), 1))
                _answer(c, w, votes)
                with c.if_(races):
                    adopt(c, context, index, joined.get())
                with c.if_(fenced, likely=False):
                    c.store(told.get(), _told_by(c, index), 0, 4)
        c.store(const("i64", 0), barrier, 0, 8)
        c.store(const(CLOCKS, 0), barrier, BARRIER_CLOCKS, 4)
    c.ret_(woken.get())


def _told_by(c: Code, warp: V) -> V:
    return c.at(ctx(c, c.arg(0), "told", "ptr"), c.mul(warp, 4 * MAX_WARPS))


def _demand_count(c: Code, w: V, asked: V, wanted: V, waiting: V, ident: V) -> None:
    """Whole warps meet at a barrier, and all of them name the same number of threads."""
    whole = c.icmp("eq", c.and_(asked, 31), 0)
    same = c.or_(c.icmp("eq", waiting, 0), c.icmp("eq", asked, wanted))
    with c.if_(c.not_(c.and_(whole, same)), likely=False):
        live = c.trunc(c.load("i64", w, WARP["live"], 8), "i32")
        site = c.load("ptr", w, WARP["barrier_site"], 8)
        extra = c.or_(asked, WRONG_COUNT)
        report(c, SimFault.BARRIER, site, w, c.intrinsic("cttz", live, False), ident, extra=extra)


def _waits(c: Code, w: V, state: V, ident: V) -> V:
    return c.and_(c.icmp("eq", state, WAITING), c.icmp("eq", c.load("i64", w, WARP["barrier_id"], 8), ident))


def _vote(c: Code, w: V, votes: list[Var]) -> None:
    """bar.red: count the true predicates of the live lanes."""
    live = c.load("i64", w, WARP["live"], 8)
    value = c.and_(c.load("i64", w, WARP["barrier_value"], 8), live)
    total, every, some = votes
    total.set(c.add(total.get(), c.intrinsic("ctpop", value)))
    same = c.zext(c.icmp("eq", value, live), "i64")
    every.set(c.and_(every.get(), same))
    some.set(c.or_(some.get(), c.zext(c.icmp("ne", value, 0), "i64")))


def _answer(c: Code, w: V, votes: list[Var]) -> None:
    kind = c.load("i64", w, WARP["barrier_kind"], 8)
    total, every, some = (v.get() for v in votes)
    value = c.select(c.icmp("eq", kind, AND), every, c.select(c.icmp("eq", kind, OR), some, total))
    c.store(value, w, WARP["barrier_value"], 8)


@routine("void", "ptr ctx, ptr w, i64 ident")
def bar_arrive(c: Code) -> None:
    """bar.arrive: count the warp's threads and publish its clocks, without waiting."""
    context, w, ident = c.args(3)
    barrier = c.at(ctx(c, context, "barriers", "ptr"), c.mul(c.and_(ident, BARRIERS - 1), BARRIER_SIZE))
    c.bump(barrier, 0, 32)
    me = c.load("i64", w, WARP["index"], 8)
    mine = own_clocks(c, context, me)
    both = c.intrinsic("umax", c.load(CLOCKS, mine, 0, 4), c.load(CLOCKS, barrier, BARRIER_CLOCKS, 4))
    c.store(both, barrier, BARRIER_CLOCKS, 4)
    place = c.at(mine, c.shl(me, 2))
    c.store(c.add(c.load("i32", place), 1), place)
    c.ret_()


@routine("void", "ptr ctx, ptr w, ptr rec, i32 mask", "noinline cold")
def out_of_budget(c: Code) -> None:
    """The budget ran below zero: report it, unless another fault set it there."""
    context, w, rec, mask = c.args(4)
    with c.if_(c.icmp("sgt", ctx(c, context, "budget"), -(1 << 61))):
        report(c, SimFault.BUDGET, rec, w, c.intrinsic("cttz", mask, False), const("i64", 0))
    c.ret_()
