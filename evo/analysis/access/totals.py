"""Launches that combine a whole array into one number, or into one for each block, whatever way their blocks take.

Trees in shared memory, shuffles, loops over the grid and pairs of elements per turn differ in the order of the sum
alone. The value that is written is traced back to what is read; that each element is read once is counted out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access.form import BLOCK, Access, Carried, Data, Form, is_neutral
from evo.analysis.access.instances import FormSizes, NoValue, TooMany, column, instances, places
from evo.analysis.access.terms import Term

COUNTED = 1 << 21  # the most elements that are counted out
_DEEPEST = 60
_COMBINES = ("add", "max", "min")


@dataclass(frozen=True, slots=True)
class Total:
    """operation: `add`, `max` or `min` of all `parts`, each a value of one element. write: where the result goes.

    results: accesses whose value is the result, in the value that is written. per_block: one result for each block.
    """

    operation: str
    parts: tuple[Data, ...]
    write: Access
    results: tuple[int, ...]
    per_block: bool


class _Unfit(Exception):
    """The value is no such total. Internal."""


def total_of(form: Form) -> Total | None:
    """The total that a launch writes, or None. See `reads_all_once` for whether it has all elements."""
    writes = [a for a in form.accesses if a.is_write and (a.array is None or a.array.space not in ("shared", "local"))]
    if len(writes) != 1 or form.multiplies or form.blocked or any(a.array is None for a in form.accesses):
        return None
    (write,) = writes
    if write.index is None or write.value is None or (write.mode == "atomic" and write.operation != "add"):
        return None
    per_block = write.index == Term.of(BLOCK[0])
    if not per_block and write.index.value != 0:
        return None
    tracer = _Tracer(form)
    try:
        results = tuple(tracer.results(write.value)) if write.mode == "write" else ()
        if write.mode == "atomic":
            tracer.parts_of(write.value)
        for number in results:
            tracer.parts_of(Data("read", detail=number))
        if write.mode == "write" and not results:
            tracer.parts_of(write.value)
    except _Unfit:
        return None
    if not tracer.parts:
        return None
    return Total(tracer.operation or "add", tuple(tracer.parts), write, results, per_block)


class _Tracer:
    """Follows a total back through registers, shuffles and shared memory to values of elements."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.operation: str | None = None
        self.parts: list[Data] = []
        self.seen: set[object] = set()

    def results(self, data: Data) -> Iterator[int]:
        """Reads of shared memory in an expression of the result."""
        if data.op == "read":
            assert isinstance(data.detail, int)
            array = self.form.accesses[data.detail].array
            if array is not None and array.space == "shared":
                yield data.detail
        for arg in data.args:
            yield from self.results(arg)

    def parts_of(self, data: Data, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise _Unfit
        match data.op:
            case "same" | "convert":
                self.parts_of(data.args[0], depth + 1)
            case "constant" | "index" if is_neutral(data):
                return
            case "add" | "max" | "min" if self._combines(data):
                self._set(data.op)
                for arg in data.args:
                    self.parts_of(arg, depth + 1)
            case "select":
                for arg in data.args:
                    self.parts_of(arg, depth + 1)
            case "shuffle":
                self.parts_of(data.args[0], depth + 1)
            case "carried" | "result" if isinstance(data.detail, Carried):
                self._carried(data.detail, depth)
            case "read":
                self._read(data, depth)
            case _:
                if not self._is_of_element(data):
                    raise _Unfit
                self._part(data)

    def _combines(self, data: Data) -> bool:
        return data.op in _COMBINES and not self._is_of_element(data)

    def _set(self, operation: str) -> None:
        if self.operation not in (None, operation):
            raise _Unfit
        self.operation = operation

    def _carried(self, carried: Carried, depth: int) -> None:
        if id(carried) in self.seen or carried.update is None:
            return
        self.seen.add(id(carried))
        self.parts_of(carried.initial, depth + 1)
        self.parts_of(carried.update, depth + 1)

    def _read(self, data: Data, depth: int) -> None:
        assert isinstance(data.detail, int)
        access = self.form.accesses[data.detail]
        assert access.array is not None
        if access.array.space == "global":
            self._part(data)
            return
        if access.array.space != "shared":
            raise _Unfit
        if access.array.name in self.seen:
            return
        self.seen.add(access.array.name)
        for each in self.form.of(access.array):
            if each.is_write:
                if each.value is None or each.mode != "write":
                    raise _Unfit
                self.parts_of(each.value, depth + 1)

    def _part(self, data: Data) -> None:
        if not any(_same(self.form, data, known) for known in self.parts):
            self.parts.append(data)

    def _is_of_element(self, data: Data) -> bool:
        """Whether a value has elements of tensors in it, and nothing that was combined before."""
        found = False
        waiting = [data]
        while waiting:
            each = waiting.pop()
            if each.op in ("carried", "result", "shuffle", "unknown", "select"):
                return False
            if each.op == "read":
                assert isinstance(each.detail, int)
                array = self.form.accesses[each.detail].array
                if array is None or array.space != "global":
                    return False
                found = True
            waiting += each.args
        return found and not self._adds_elements(data)

    def _adds_elements(self, data: Data) -> bool:
        """Whether it is a sum of elements at different places: those are parts of their own."""
        return data.op in _COMBINES and len({a.index for n in reads_in(data) for a in [self.form.accesses[n]]}) > 1


def _same(form: Form, one: Data, other: Data) -> bool:
    """Two branches of one update may hold the same element."""
    return one is other or (one.op == other.op == "read" and one.detail == other.detail) or (
        one.op == other.op and one.detail == other.detail and len(one.args) == len(other.args) and bool(one.args)
        and all(_same(form, a, b) for a, b in zip(one.args, other.args, strict=True))
    )  # fmt: skip


def reads_in(data: Data) -> Iterator[int]:
    """Numbers of the accesses that a value reads."""
    if data.op == "read":
        assert isinstance(data.detail, int)
        yield data.detail
    for arg in data.args:
        yield from reads_in(arg)


def reads_all_once(form: Form, sizes: FormSizes, total: Total, elements: int) -> bool | None:
    """Whether the parts hold every place 0 .. elements - 1 once; None if there are too many to count."""
    import numpy as np

    if elements > COUNTED or sizes.blocks * sizes.threads > 4 * COUNTED:
        return None
    found = []
    start = places(sizes, range(sizes.blocks), range(sizes.threads))
    for part in total.parts:
        (first, *others) = [form.accesses[number] for number in dict.fromkeys(reads_in(part))]
        if first.index is None or any(each.index != first.index for each in others):
            return False
        try:
            columns = instances(form, first, sizes, start, most=4 * COUNTED)
            found.append(column(first.index, columns, sizes))
        except (NoValue, TooMany):
            return False
    where = np.concatenate(found)
    is_inside = len(where) == elements and where.min(initial=0) >= 0 and where.max(initial=0) < elements
    return bool(is_inside and np.bincount(where, minlength=elements).max(initial=0) <= 1)
