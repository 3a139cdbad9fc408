"""Questions about computed values: what stands behind conversions, what was read where, what a loop handed on."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evo.analysis.access.form import Access, Carried, Data, Form
from evo.analysis.access.terms import Term

_DEEPEST = 40


def plain(data: Data | None) -> Data | None:
    """The value behind conversions and names that change nothing."""
    for _ in range(_DEEPEST):
        if data is None or data.op not in ("same", "convert") or not data.args:
            return data
        data = data.args[0]
    return data


def number_in(data: Data | None) -> float:
    """The number that a value is; NaN for anything else."""
    found = plain(data)
    if found is None or found.op not in ("constant", "index"):
        return math.nan
    value = found.detail.value if isinstance(found.detail, Term) else found.detail
    return float(value) if isinstance(value, int | float) else math.nan


def is_number(data: Data | None, wanted: float) -> bool:
    """Whether a value is this number."""
    return number_in(data) == wanted


def is_old(data: Data | None, carried: Carried) -> bool:
    return data is not None and data.op == "carried" and data.detail is carried


def is_same(form: Form, left: Data | None, right: Data | None) -> bool:
    """Whether two values are one, or were read from the same place."""
    if left is None or right is None:
        return False
    first, second = read_of(form, left), read_of(form, right)
    is_one_place = first is not None and second is not None and first.array == second.array
    return left is right or (is_one_place and first.offset == second.offset)  # type: ignore[union-attr]


def mentions(data: Data | None, carried: Carried) -> bool:
    """Whether a value depends on what a loop carries."""
    return any(part.op == "carried" and part.detail is carried for part in parts_of(data))


def parts_of(data: Data | None) -> Iterator[Data]:
    """A value and all that it is computed from, each once."""
    waiting, seen = [data] if data is not None else [], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += part.args
        if part.op == "carried" and isinstance(part.detail, Carried):
            continue


def accesses_in(form: Form, data: Data | None) -> list[Access]:
    """What a value is computed from, without what loops that have ended have read."""
    numbers = {part.detail for part in parts_of(data) if part.op == "read" and isinstance(part.detail, int)}
    return [form.accesses[number] for number in sorted(numbers) if number >= 0]


def read_of(form: Form, data: Data | None) -> Access | None:
    """The access that a value was read by, through conversions and parts."""
    found = plain(data)
    while found is not None and found.op == "part" and found.args:
        found = plain(found.args[0])
    if found is not None and found.op == "read" and isinstance(found.detail, int) and found.detail >= 0:
        return form.accesses[found.detail]
    return None
