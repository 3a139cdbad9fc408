"""The blocks of a launch: one after another, or several in flight in kernels in which a block may wait for another."""

from __future__ import annotations

from evo.sim.abi import BLOCK_AT, BLOCK_SIZE, CTX, IDLE_PER_WARP, RESIDENT_SIZE, WARP_SYNC
from evo.sim.llvm_ir import Code, Var
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import ctx
from evo.sim.runtime.routine import routine
from evo.sim.runtime.schedule import count_done, run_block, run_one, sound


@routine("void", "ptr ctx")
def run_grid(c: Code) -> None:
    """Run listed blocks until none is left or one faults; other parts of the launch draw from the same list."""
    context = c.arg(0)
    with c.if_(c.icmp("ne", ctx(c, context, "resident_count"), 0)):
        c.call(run_together(), context)
        c.leave()
    ticket = ctx(c, context, "next_block", "ptr")
    with c.while_() as loop:
        loop.until(c.not_(sound(c)))
        index = c.op("i64", f"atomicrmw add ptr {ticket.s}, i64 1 monotonic, align 8")
        loop.until(c.icmp("uge", index, ctx(c, context, "blocks")))
        c.call(run_one(), context, index)
    c.ret_()


@routine("void", "ptr ctx")
def run_together(c: Code) -> None:
    """Blocks that may wait for one another: as many are under way as the chip would hold.

    A block runs until it ends or only waits. Then the next one is started; when one has ended, all that wait go on.
    """
    context = c.arg(0)
    table = ctx(c, context, "residents", "ptr")
    most, total = ctx(c, context, "resident_count"), ctx(c, context, "blocks")
    next_, active, used = c.var("i64", 0), c.var("i64", 0), c.var("i64", 0)
    with c.while_() as loop:
        over = c.and_(c.icmp("eq", active.get(), 0), c.icmp("eq", next_.get(), total))
        loop.until(c.or_(over, c.not_(sound(c))))
        first = c.var("i1", V("i1", "true"))
        first.set(V("i1", "true"))
        with c.times(used.get()) as slot:
            row = c.at(table, c.mul(slot, RESIDENT_SIZE))
            there = c.icmp("ne", c.load("i64", row, BLOCK_SIZE, 8), 0)
            with c.if_(c.and_(there, sound(c))):
                _exchange(c, row, out=False)
                number = c.select(first.get(), ctx(c, context, "slot"), ctx(c, context, "oldest"))
                c.store(number, context, CTX["oldest"], 8)
                first.set(V("i1", "false"))
                stalled = c.call(run_block(), context)
                count_done(c, stalled)
                _exchange(c, row, out=True)
                c.store(stalled, row, BLOCK_SIZE, 8)
                active.set(c.sub(active.get(), c.sub(const("i64", 1), stalled)))
        _start(c, table, most, total, next_, active, used)
        # In the order of their start: who hands on in one turn what the next one waits for, delays nobody.
        c.bump(context, CTX["rounds"])
        c.store(c.add(ctx(c, context, "critical"), ctx(c, context, "longest_turn")), context, CTX["critical"], 8)
        c.store(const("i64", 0), context, CTX["longest_turn"], 8)
    c.ret_()


def _start(c: Code, table: V, most: V, total: V, next_: Var, active: Var, used: Var) -> None:
    """Start blocks while each of them comes to wait and there is room."""
    context = c.arg(0)
    with c.while_() as loop:
        room = c.and_(c.icmp("ult", next_.get(), total), c.icmp("ult", active.get(), most))
        loop.until(c.not_(c.and_(room, sound(c))))
        slot = c.var("i64", 0)
        slot.set(0)
        with c.while_() as search:
            free = c.load("i64", c.at(table, c.mul(slot.get(), RESIDENT_SIZE)), BLOCK_SIZE, 8)
            search.until(c.icmp("eq", free, 0))
            slot.set(c.add(slot.get(), 1))
        row = c.at(table, c.mul(slot.get(), RESIDENT_SIZE))
        _exchange(c, row, out=False)
        with c.if_(c.icmp("ne", slot.get(), 0)):
            _copy_warps(c)
        number = next_.get()
        next_.set(c.add(number, 1))
        stalled = c.call(run_one(), context, number)
        _exchange(c, row, out=True)
        c.store(stalled, row, BLOCK_SIZE, 8)
        active.set(c.add(active.get(), stalled))
        used.set(c.intrinsic("umax", used.get(), c.add(slot.get(), 1)))
        more = c.mul(stalled, c.mul(ctx(c, context, "warp_count"), IDLE_PER_WARP))
        c.store(c.add(ctx(c, context, "idle_limit"), more), context, CTX["idle_limit"], 8)
        # One has ended: those that wait may go on.
        loop.until(c.and_(c.icmp("eq", stalled, 0), c.icmp("ne", active.get(), 0)))


def _exchange(c: Code, row: V, *, out: bool) -> None:
    """The fields of a block from its row to the context, or back."""
    here = c.at(c.arg(0), BLOCK_AT)
    pair = (row, here) if out else (here, row)
    c.copy(*pair, const("i64", BLOCK_SIZE))


def _copy_warps(c: Code) -> None:
    """Give the warps of this block what never changes: their numbers, thread ids and live lanes."""
    context = c.arg(0)
    stride = ctx(c, context, "warp_stride")
    with c.times(ctx(c, context, "warp_count")) as index:
        at = c.mul(index, stride)
        pair = (c.at(ctx(c, context, "warps", "ptr"), at), c.at(ctx(c, context, "template", "ptr"), at))
        c.copy(*pair, const("i64", WARP_SYNC))
