"""bar.sync, bar.red and barrier: the end of a block where the warp hands back to the block scheduler."""

from __future__ import annotations

from evo.sim.abi import WARP
from evo.sim.errors import refuse
from evo.sim.faults import SimFault
from evo.sim.llvm_values import V, const
from evo.sim.lower.branching import BARRIER, EXIT_RESUME, Branching
from evo.sim.lower.cfg import EXIT, Block
from evo.sim.lower.isa.control import barrier_number, barrier_operand
from evo.sim.ptx.ast import Instr, Operand, Pair
from evo.sim.runtime.fault_report import report

_KINDS = {"popc": 1, "and": 2, "or": 3}
_LEGAL = {"sync", "red", "aligned", "cta", "popc", "and", "or", "u32", "pred"}


def emit_barrier(flow: Branching, block: Block, end: Instr) -> None:
    """Wait: store what survives, say which barrier, return to the scheduler; continue at the next block."""
    c, e = flow.code, flow.e
    mods = set(end.mods)
    if not mods <= _LEGAL or ("sync" in mods) == ("red" in mods):
        raise refuse(end)
    args = list(end.args)
    if len(args) < (3 if "red" in mods else 1):
        raise refuse(end, "operands")
    result = args.pop(0) if "red" in mods else None
    value = args.pop() if "red" in mods else None
    if not 1 <= len(args) <= 2 or (result is not None and isinstance(result, Pair)):
        raise refuse(end, "operands")
    site = e.site(end)
    guard = flow.guard_of(end)
    if guard is not None:
        _guarded(flow, block, guard, site)
    ident = barrier_number(e, args[0], site)
    count = barrier_operand(e, args[1]) if len(args) > 1 else const("i64", 0)
    _demand_whole(flow, site)
    if value is not None:
        bits = e.vector(e.src(value, "pred"))
        c.store(c.zext(c.mask_bits(bits), "i64"), e.warp, WARP["barrier_value"], 8)
    e.flush()
    kind = next((_KINDS[m] for m in end.mods if m in _KINDS), 0)
    where = block.next if block.next >= 0 else EXIT
    flow.resume_points.append(where)
    resume = where if where >= 0 else EXIT_RESUME
    fields = {"resume": const("i64", resume), "barrier_id": ident, "barrier_count": count}
    fields |= {"barrier_kind": const("i64", kind), "live": c.zext(e.live.get(), "i64"), "barrier_site": site}
    if result is not None:
        # The answer is read when the warp runs again, in a block of its own.
        resume = -1 - len(flow.blocks) - len(flow.resume_points)
        raise_ = _resume_with_answer(flow, block, end, result, fields)
        if raise_:
            return
    for name, field in fields.items():
        c.store(field, e.warp, WARP[name], 8)
    c.ret_(const("i32", BARRIER))


def _demand_whole(flow: Branching, site: V) -> None:
    c, e = flow.code, flow.e
    missing = c.xor(e.bits(), e.live.get())
    with c.if_ends(c.icmp("ne", missing, 0), likely=False):
        lead = c.intrinsic("cttz", e.bits(), False)
        absent = c.intrinsic("cttz", missing, False)
        report(c, SimFault.BARRIER, site, e.warp, lead, const("i64", 0), extra=c.zext(absent, "i64"))
        c.br("stopped")


def _guarded(flow: Branching, block: Block, guard: V, site: V) -> None:
    """A guarded barrier: nobody may skip it while others wait."""
    c, e = flow.code, flow.e
    dirty = set(e.dirty)
    e.lanes()  # both branches use it: it must be made before they part
    bits = c.select(guard, e.bits(), 0) if guard.t == "i1" else c.and_(e.bits(), c.mask_bits(guard))
    with c.if_ends(c.icmp("eq", bits, 0)):
        e.flush()
        flow.goto(block, block.next)
    e.dirty = dirty
    with c.if_ends(c.icmp("ne", bits, e.bits()), likely=False):
        missing = c.and_(e.bits(), c.not_(bits))
        lead = c.intrinsic("cttz", bits, True)
        absent = c.zext(c.intrinsic("cttz", missing, True), "i64")
        report(c, SimFault.BARRIER, site, e.warp, lead, const("i64", 0), extra=absent)
        c.br("stopped")


def _resume_with_answer(flow: Branching, block: Block, end: Instr, result: Operand, fields: dict[str, V]) -> bool:
    """Emit the wait and, at the resume point, the write of the result before the next block."""
    c, e = flow.code, flow.e
    point = len(flow.blocks) + len(flow.resume_points)
    flow.resume_points[-1] = point
    fields["resume"] = const("i64", point)
    for name, field in fields.items():
        c.store(field, e.warp, WARP[name], 8)
    c.ret_(const("i32", BARRIER))
    c.label(f"b{point}")
    e.start(block)
    value = c.load("i64", e.warp, WARP["barrier_value"], 8)
    if "popc" in end.mods:
        e.dst(result, c.trunc(value, "i32"))
    else:
        e.dst(result, c.trunc(value, "i1"))
    e.flush()
    flow.goto(block, block.next)
    return True
