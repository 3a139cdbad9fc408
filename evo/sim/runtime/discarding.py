"""discard.L2: bytes that hold nothing from then on, as if they had never been written."""

from __future__ import annotations

from evo.sim.abi import ROW, TRACKED
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import ACCESS64, ctx, lane_of, resolve, spill
from evo.sim.runtime.inter_block_races import watch
from evo.sim.runtime.routine import routine

SIZE = 128  # the only one that PTX has
_GONE = -1  # NaN in every type of float


@routine("void", ACCESS64)
def discard_global(c: Code) -> None:
    """PTX calls it a weak write of an indeterminate value: it races like a store, and whoever looks must write first.

    The cache may well keep the old bytes, so without checks nothing happens.
    """
    context, w, rec, addr, mask = c.args(5)
    place, size = spill(c, addr, 256), const("i64", SIZE)
    with c.each_lane(mask) as lane:
        address = lane_of(c, place, lane)
        row = c.call(resolve(), context, w, rec, address, lane, size, const("i64", 1))
        with c.if_(c.icmp("ne", c.to_int(row), 0)):
            watch(c, "st", row, address, lane, size)
            with c.if_(c.icmp("ne", ctx(c, context, "race"), 0)):
                _forget(c, row, address)
    c.ret_()


def _forget(c: Code, row: V, address: V) -> None:
    c.fill(c.to_ptr(c.add(address, c.load("i64", row, ROW["delta"], 8))), const("i8", _GONE), const("i64", SIZE))
    with c.if_(c.icmp("ne", c.and_(c.load("i64", row, ROW["flags"], 8), TRACKED), 0)):
        start = c.sub(address, c.load("i64", row, ROW["low"], 8))
        state = c.load("ptr", row, ROW["state"], 8)
        with c.times(const("i64", SIZE)) as step:
            at = c.add(start, step)
            word = c.at(state, c.lshr(at, 2))
            bit = c.trunc(c.shl(const("i64", 1), c.and_(at, 3)), "i8")
            c.store(c.and_(c.load("i8", word), c.not_(bit)), word)
