"""What the threads of a block combine into one number, by trees in shared memory or shuffles, traced back to registers.

Each thread adds up in a register what a loop brings it; what follows, in whatever way, only combines these registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evo.analysis.access.form import THREAD, Access, Carried, Data, Form, is_neutral
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


class _Unfit(Exception):
    """The value is no such combination. Internal."""


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
        except _Unfit:
            return ()
        found.append(BlockResult(access, sums))
    return tuple(found) if any(each.sums for each in found) else ()


def _split(form: Form, data: Data, loops: Collection[Symbol], sums: dict[int, BlockSum], depth: int = 0) -> None:
    """Find the combined values in an expression; all else in it has to be the same for every thread."""
    if depth > _DEEPEST:
        raise _Unfit
    if _is_combined(form, data):
        tracer = _Tracer(form, loops)
        tracer.follow(data)
        if len(tracer.registers) != 1 or tracer.kind is None:
            raise _Unfit
        sums[id(data)] = BlockSum(tracer.kind, tracer.registers[0])
        return
    if data.op == "read":
        assert isinstance(data.detail, int)
        if not form.accesses[data.detail].offset.symbols().isdisjoint(THREAD):
            raise _Unfit
    if data.op in ("carried", "result", "shuffle", "unknown", "select"):
        raise _Unfit
    if data.op == "index" and isinstance(data.detail, Term) and not data.detail.symbols().isdisjoint(THREAD):
        raise _Unfit
    for arg in data.args:
        _split(form, arg, loops, sums, depth + 1)


def _is_combined(form: Form, data: Data) -> bool:
    if data.op == "read":
        assert isinstance(data.detail, int)
        array = form.accesses[data.detail].array
        return array is not None and array.space == "shared"
    return data.op in ("carried", "result", "shuffle")


class _Tracer:
    """Follows a combined value back to the registers that loops over memory leave."""

    def __init__(self, form: Form, loops: Collection[Symbol]) -> None:
        self.form, self.loops = form, loops
        self.kind: str | None = None
        self.registers: list[Carried] = []
        self.seen: set[object] = set()

    def follow(self, data: Data, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise _Unfit
        match data.op:
            case "same" | "convert" | "shuffle":
                self.follow(data.args[0], depth + 1)
            case "constant" | "index" if is_neutral(data):
                return
            case "add" | "max" | "min":
                self._set(_COMBINES[data.op])
                for arg in data.args:
                    self.follow(arg, depth + 1)
            case "select":
                for arg in data.args:
                    self.follow(arg, depth + 1)
            case "carried" | "result" if isinstance(data.detail, Carried):
                self._carried(data.detail, depth)
            case "read":
                self._read(data, depth)
            case _:
                raise _Unfit

    def _set(self, kind: str) -> None:
        if self.kind not in (None, kind):
            raise _Unfit
        self.kind = kind

    def _carried(self, carried: Carried, depth: int) -> None:
        if carried in self.registers or id(carried) in self.seen:
            return
        if carried.loop in self.loops:
            self.registers.append(carried)
            return
        self.seen.add(id(carried))
        if carried.update is None:
            raise _Unfit
        self.follow(carried.initial, depth + 1)
        self.follow(carried.update, depth + 1)

    def _read(self, data: Data, depth: int) -> None:
        assert isinstance(data.detail, int)
        array = self.form.accesses[data.detail].array
        if array is None or array.space != "shared":
            raise _Unfit
        if array.name in self.seen:
            return
        self.seen.add(array.name)
        for each in self.form.of(array):
            if each.is_write:
                if each.value is None or each.mode != "write":
                    raise _Unfit
                self.follow(each.value, depth + 1)
