"""Row-major offsets as subscripts: (b * H + h) * S + s in a tensor [B, H, S] is [b, h, s]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evo.analysis.access.comparisons import Compare, conjuncts
from evo.analysis.access.form import Access
from evo.analysis.access.simplify import divide, remainder, split
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import Op, Term


def with_subscripts(access: Access, bounds: Bounds) -> Access:
    """The access with a subscript for each dimension of its array, if the offset can be taken apart."""
    array, index = access.array, access.index
    if array is None or index is None or not array.shape:
        return access
    if len(array.shape) == 1:
        return replace(access, subscripts=(index,))
    with bounds.assuming(access.conditions):
        found = subscripts(index, array.shape, bounds, tuple(_remainders(access)))
    return replace(access, subscripts=found)


def _remainders(access: Access) -> Iterator[Op]:
    """The remainders that an access is under conditions on."""
    for part in (part for condition in access.conditions for part in conjuncts(condition)):
        if isinstance(part, Compare):
            yield from (op for op in part.term.ops() if op.name == "mod")


def subscripts(index: Term, shape: Sequence[Term], bounds: Bounds, remainders: Sequence[Op] = ()) -> tuple[Term, ...]:
    """One term per dimension, the inner ones proven to be within it; empty if that is not proven.

    What is taken off a dimension is split by its size: what divides as it stands goes on to the next one out. A
    remainder that is not proven to fit is carried over by division, which is right for any index that is not negative.
    remainders: what is known to be tested; `z / H * H + z % H + 1` has become z + 1, which only the test tells apart.
    """
    found: list[Term] = []
    rest = index
    for size in reversed(shape[1:]):
        if size.value == 0:
            return ()
        whole, part = split(rest, size)
        if bounds.within(part, size):
            found.append(part)
            rest = whole
        elif told := _told(whole, part, size, bounds, remainders):
            rest, inside = told
            found.append(inside)
        elif bounds.nonnegative(rest):
            found.append(remainder(bounds, rest, size))
            rest = divide(bounds, rest, size)
        else:
            return ()
    return (rest, *reversed(found))


def _told(whole: Term, part: Term, size: Term, bounds: Bounds, remainders: Sequence[Op]) -> tuple[Term, Term] | None:
    """Quotient and remainder by one that is tested to be within the size."""
    for op in remainders:
        index, by = op.terms
        inside = part - index + Term.of(op)
        if by == size and bounds.within(inside, size):
            return whole + divide(bounds, index, size), inside
    return None
