"""Launches that combine a whole array into one number, or into one for each block, whatever way their blocks take.

Trees in shared memory, shuffles, loops over the grid and pairs of elements per turn differ in the order of the sum
alone. The value that is written is traced back to what is read; that each element is read once is counted out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access.combined_values import Follower, Unfit
from evo.analysis.access.data_values import accesses_in, parts_of
from evo.analysis.access.form import BLOCK, Access, Data, Form
from evo.analysis.access.instances import COUNTED, FormSizes, NoValue, TooMany, all_instances, column
from evo.analysis.access.terms import Term

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


def total_of(form: Form) -> Total | None:
    """The total that a launch writes, or None. See `reads_all_once` for whether it has all elements."""
    writes = [a for a in form.accesses if a.is_write and (a.array is None or a.array.space not in ("shared", "local"))]
    if len(writes) != 1 or form.multiplies or form.blocked or any(a.array is None for a in form.accesses):
        return None
    (write,) = writes
    if write.index is None or write.value is None or (write.mode == "atomic" and write.operation not in _COMBINES):
        return None
    per_block = write.index == Term.of(BLOCK[0])
    if not per_block and write.index.value != 0:
        return None
    tracer = _Tracer(form)
    try:
        results = tuple(tracer.results(write.value)) if write.mode == "write" else ()
        if write.mode == "atomic":
            tracer.follow(write.value)
        for number in results:
            tracer.follow(Data("read", detail=number))
        if write.mode == "write" and not results:
            tracer.follow(write.value)
    except Unfit:
        return None
    handed = write.operation or tracer.operation or "add"  # how an atomic adds a part to the others
    if not tracer.parts or tracer.operation not in (None, handed):
        return None
    return Total(handed, tuple(tracer.parts), write, results, per_block)


class _Tracer(Follower):
    """Follows a total back to values of elements."""

    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self.parts: list[Data] = []

    def results(self, data: Data) -> Iterator[int]:
        """Reads of shared memory in an expression of the result."""
        for read in accesses_in(self.form, data):
            if read.memory.space == "shared":
                yield read.number

    def takes(self, data: Data) -> bool:
        """Whether a value has elements of tensors in it, and nothing that was combined before."""
        if any(part.op in ("carried", "result", "shuffle", "unknown", "select") for part in parts_of(data)):
            return False
        reads = accesses_in(self.form, data)
        if not reads or not all(read.is_global for read in reads):
            return False
        if data.op in _COMBINES and len({read.index for read in reads}) > 1:
            return False  # a sum of elements at different places: those are parts of their own
        if not any(_same(self.form, data, known) for known in self.parts):
            self.parts.append(data)
        return True


def _same(form: Form, one: Data, other: Data) -> bool:
    """Two branches of one update may hold the same element."""
    return one is other or (one.op == other.op == "read" and one.detail == other.detail) or (
        one.op == other.op and one.detail == other.detail and len(one.args) == len(other.args) and bool(one.args)
        and all(_same(form, a, b) for a, b in zip(one.args, other.args, strict=True))
    )  # fmt: skip


def reads_all_once(form: Form, sizes: FormSizes, total: Total, elements: int) -> bool | None:
    """Whether the parts hold every place 0 .. elements - 1 once; None if there are too many to count."""
    import numpy as np

    if elements > COUNTED or sizes.blocks * sizes.threads > 4 * COUNTED:
        return None
    found = []
    for part in total.parts:
        first, *others = accesses_in(form, part)
        if first.index is None or any(each.index != first.index for each in others):
            return False
        try:
            found.append(column(first.index, all_instances(form, first, sizes, elements), sizes))
        except (NoValue, TooMany):
            return False
    where = np.concatenate(found)
    is_inside = len(where) == elements and where.min(initial=0) >= 0 and where.max(initial=0) < elements
    return bool(is_inside and np.bincount(where, minlength=elements).max(initial=0) <= 1)
