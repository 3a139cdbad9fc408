"""What the threads of a block combine into one number, by trees in shared memory or shuffles, traced back to registers.

Each thread adds up in a register what a loop brings it; what follows, in whatever way, only combines these registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evo.analysis.access.combined_values import Follower, Unfit
from evo.analysis.access.form import THREAD, Access, Carried, Data, Form
from evo.analysis.access.terms import Symbol, Term

_DEEPEST = 60
_COMBINES = {"add": "sum", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class BlockSum:
    """One register of each thread of a block, combined. kind: `sum`, `max` or `min`."""

    kind: str
    carried: Carried


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What a block writes once. sums: by the `id` of the value in the written expression that stands for it."""

    write: Access
    sums: Mapping[int, BlockSum]


def block_results(form: Form, loops: Collection[Symbol]) -> tuple[BlockResult, ...]:
    """All that a launch writes, if it is one number for each block and array, of registers that these loops leave.

    Empty if anything else is written, or combined in another way.
    """
    found = []
    for access in form.accesses:
        if not access.is_write or (access.array is not None and access.array.space in ("shared", "local")):
            continue
        if access.mode != "write" or access.array is None or access.index is None or access.value is None:
            return ()
        if access.loops or not access.offset.symbols().isdisjoint(THREAD):
            return ()
        sums: dict[int, BlockSum] = {}
        try:
            _split(form, access.value, loops, sums)
        except Unfit:
            return ()
        found.append(BlockResult(access, sums))
    return tuple(found) if any(each.sums for each in found) else ()


def _split(form: Form, data: Data, loops: Collection[Symbol], sums: dict[int, BlockSum], depth: int = 0) -> None:
    """Find the combined values in an expression; all else in it has to be the same for every thread."""
    if depth > _DEEPEST:
        raise Unfit
    if _is_combined(form, data):
        tracer = _Tracer(form, loops)
        tracer.follow(data)
        if len(tracer.registers) != 1 or tracer.operation is None:
            raise Unfit
        sums[id(data)] = BlockSum(_COMBINES[tracer.operation], tracer.registers[0])
        return
    if data.op == "read":
        assert isinstance(data.detail, int)
        if not form.accesses[data.detail].offset.symbols().isdisjoint(THREAD):
            raise Unfit
    if data.op in ("carried", "result", "shuffle", "unknown", "select"):
        raise Unfit
    if data.op == "index" and isinstance(data.detail, Term) and not data.detail.symbols().isdisjoint(THREAD):
        raise Unfit
    for arg in data.args:
        _split(form, arg, loops, sums, depth + 1)


def _is_combined(form: Form, data: Data) -> bool:
    if data.op == "read":
        assert isinstance(data.detail, int)
        array = form.accesses[data.detail].array
        return array is not None and array.space == "shared"
    return data.op in ("carried", "result", "shuffle")


class _Tracer(Follower):
    """Follows a combined value back to the registers that loops over memory leave."""

    def __init__(self, form: Form, loops: Collection[Symbol]) -> None:
        super().__init__(form)
        self.loops = loops
        self.registers: list[Carried] = []

    def takes(self, data: Data) -> bool:
        carried = data.detail
        if not isinstance(carried, Carried) or carried.loop not in self.loops:
            return False
        if carried not in self.registers:
            self.registers.append(carried)
        return True
