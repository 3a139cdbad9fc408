"""Atomics: lane by lane, from the first or from the last, as one indivisible step each."""

from __future__ import annotations

import re

from evo.sim.abi import CTX, REC, ROW, SHARED_WINDOW, WARP_SCRATCH, WINDOW_SIZE
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code, Var
from evo.sim.llvm_values import V, const
from evo.sim.runtime.fault_report import (
    ACCESS64,
    count_request,
    ctx,
    each_group,
    lane_of,
    mixed,
    racing,
    report,
    report_place,
    resolve,
    spill,
)
from evo.sim.runtime.global_memory import count_by_buffer, keep_row, note_bytes
from evo.sim.runtime.inter_block_races import watch
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_memory import array_of, need_of, waves
from evo.sim.runtime.shared_races import race

OPERAND2 = WARP_SCRATCH + 512  # second operand of cas; the first lies at WARP_SCRATCH, old values go there
_LOCKED = ("add", "min", "max", "and", "or", "xor")


@routine("void", ACCESS64)
def atom(c: Code, space: str, op: str, kind: str) -> None:
    """Old values replace the first operands in the scratch. kind: a float if a `cas` stores a sum of floats."""
    width = {"16": 2, "32": 4, "64": 8}[re.sub(r"\D", "", kind.replace("x2", "")) if "x2" not in kind else "32"]
    rec, addr, mask = c.args(5)[2:]
    place = spill(c, addr, 256)
    with c.if_(c.icmp("ne", mask, 0)):
        count_request(c, rec, mask)
    good, rows = c.var("i32", 0), c.buffer(256)
    backwards = c.icmp("ne", ctx(c, c.arg(0), "backwards"), 0)
    with c.each_lane(c.select(backwards, c.intrinsic("bitreverse", mask), mask)) as turn:
        lane = c.select(backwards, c.sub(const("i32", 31), turn), turn)
        host = c.var("i64", 0)
        host.set(0)
        address = lane_of(c, place, lane)
        if space == "global":
            _global_host(c, host, address, lane, width, rows, op)
        elif space == "shared":
            _shared_host(c, host, address, lane, width, op)
        else:
            near = c.sub(address, SHARED_WINDOW)
            with c.if_else(c.icmp("ult", near, WINDOW_SIZE)) as window:
                _shared_host(c, host, near, lane, width, op)
                window.otherwise()
                _global_host(c, host, address, lane, width, rows, op)
        with c.if_(c.icmp("ne", host.get(), 0)):
            good.set(c.or_(good.get(), c.shl(const("i32", 1), lane)))
            _step(c, op if space == "shared" else f"locked_{op}", kind, width, c.to_ptr(host.get()), lane)
    _count_addresses(c, place, good.get(), space)
    if space == "global":
        count_by_buffer(c, "st", width, addr, rows, good.get())
    elif space == "shared":
        with c.if_(c.icmp("ne", good.get(), 0)):
            c.call(waves(max(4, width)), rec, c.trunc(addr, "i32"), good.get())
    c.ret_()


def _count_addresses(c: Code, place: V, lanes: V, space: str) -> None:
    """Distinct addresses among the lanes, kept as l1_misses, and in global memory the turns, kept as wavefronts.

    Lanes that meet at an address are served one after the other, those at other addresses of a sector meanwhile.
    """
    addresses, rec = c.load("<32 x i64>", place, 0, 8), c.arg(2)
    sectors = c.lshr(addresses, c.splat(const("i64", 5)))
    with each_group(c, sectors, lanes) as (_, of_sector):
        most = c.var("i32", 0)
        most.set(0)
        with each_group(c, addresses, of_sector, place) as (_, same):
            c.bump(rec, REC["l1_misses"])
            most.set(c.intrinsic("umax", most.get(), c.intrinsic("ctpop", same)))
        if space == "global":
            c.bump(rec, REC["wavefronts"], c.zext(most.get(), "i64"))


def _how(op: str) -> str:
    """What an atomic is to the race checkers: one that adds, or one that others may look at meanwhile."""
    return "add" if op in ("add", "inc", "dec") else "at"


def _global_host(c: Code, host: Var, address: V, lane: V, width: int, rows: V, op: str) -> None:
    context, w, rec = c.args(3)
    row = c.call(resolve(), context, w, rec, address, lane, *[const("i64", width)] * 2, const("i64", 1))
    with c.if_(c.icmp("ne", c.to_int(row), 0)):
        keep_row(c, rows, lane, row)
        note_bytes(c, "ld", row, address, lane, width)
        watch(c, _how(op), row, address, lane, const("i64", width))
        host.set(c.add(address, c.load("i64", row, ROW["delta"], 8)))


def _shared_host(c: Code, host: Var, address: V, lane: V, width: int, op: str) -> None:
    context, w, rec = c.args(3)
    start, size = (c.zext(part, "i64") for part in array_of(c, rec))
    room = c.and_(c.icmp("uge", size, width), c.icmp("ule", c.sub(address, start), c.sub(size, width)))
    straight = c.icmp("eq", c.and_(address, width - 1), 0)
    with c.if_else(c.and_(room, straight), likely=True) as inside:
        need = need_of(c, width, address)
        state = c.at(ctx(c, context, "state", "ptr"), c.lshr(address, 2))
        old = c.load(need.t, state)
        with c.if_(c.icmp("ne", c.and_(old, need), need), likely=False):
            report(c, SimFault.UNINITIALISED, rec, w, lane, address, extra=2, width=width)
            c.store(c.or_(old, need), state)
        with c.if_(racing(c, context)):
            c.call(race(_how(op)), context, w, rec, address, lane, const("i64", width), const("i32", 0))
        host.set(c.add(c.to_int(ctx(c, context, "shared", "ptr")), address))
        inside.otherwise()
        report_place(c, straight, rec, w, lane, address, extra=2, width=width)


def _step(c: Code, op: str, kind: str, width: int, place: V, lane: V) -> None:
    w = c.arg(1)
    t = f"i{8 * width}"
    mine = c.at(c.at(w, WARP_SCRATCH), c.mul(c.zext(lane, "i64"), width))
    value = c.load(t, mine)
    locked, op = op.startswith("locked_"), op.removeprefix("locked_")
    if locked and op in _LOCKED and kind[0] in "usb" and not kind.startswith("bf"):
        # Blocks in other threads may reduce into the same word.
        name = op if op not in ("min", "max") or kind[0] == "s" else f"u{op}"
        old = c.op(t, f"atomicrmw {name} ptr {place.s}, {t} {value.s} monotonic, align {width}")
        c.store(old, mine)
        return
    old = c.load(t, place)
    halves = op == "add" and kind in ("f16", "bf16", "f16x2", "bf16x2")  # a `cas` may store such a sum
    new = _half_sum(c, kind, old, value) if halves else _update(c, op, kind, t, old, value, lane)
    c.store(new, place)
    c.store(old, mine)
    if kind[0] == "f" or kind.startswith("bf"):
        # Over the launch these differences add up to what the last value of each word gives, whichever word it is.
        c.bump(c.arg(0), CTX["left"], c.sub(mixed(c, new), mixed(c, old)))


def _update(c: Code, op: str, kind: str, t: str, old: V, value: V, lane: V) -> V:
    if op in ("add", "and", "or", "xor") and kind[0] != "f":
        return c.bin(op, old, value)
    if op == "add":
        e = "float" if kind == "f32" else "double"
        return c.bitcast(c.bin("fadd", c.bitcast(old, e), c.bitcast(value, e)), t)
    if op in ("min", "max"):
        return c.intrinsic(f"{'s' if kind[0] == 's' else 'u'}{op}", old, value)
    if op == "exch":
        return value
    if op == "inc":
        return c.select(c.icmp("uge", old, value), const(t, 0), c.add(old, 1))
    if op == "dec":
        low = c.or_(c.icmp("eq", old, 0), c.icmp("ugt", old, value))
        return c.select(low, value, c.sub(old, 1))
    width = int(t[1:]) // 8
    second = c.load(t, c.at(c.at(c.arg(1), OPERAND2), c.mul(c.zext(lane, "i64"), width)))
    return c.select(c.icmp("eq", old, value), second, old)


def _half_sum(c: Code, kind: str, old: V, value: V) -> V:
    """16-bit float sums, rounded once from f32."""
    total: V | None = None
    for shift in (0, 16) if kind.endswith("x2") else (0,):
        parts = [c.trunc(c.lshr(x, shift) if shift else x, "i16") for x in (old, value)]
        if kind.startswith("b"):
            wide = [c.bitcast(c.shl(c.zext(p, "i32"), 16), "float") for p in parts]
            bits = c.bitcast(c.bin("fadd", *wide), "i32")
            out = c.lshr(c.add(c.add(bits, 0x7FFF), c.and_(c.lshr(bits, 16), 1)), 16)
        else:
            halves = [c.op("float", f"fpext half {c.bitcast(p, 'half').s} to float") for p in parts]
            near = c.op("half", f"fptrunc float {c.bin('fadd', *halves).s} to half")
            out = c.zext(c.bitcast(near, "i16"), "i32")
        term = c.shl(out, shift) if shift else out
        total = term if total is None else c.or_(total, term)
    assert total is not None
    return total if kind.endswith("x2") else c.trunc(total, "i16")
