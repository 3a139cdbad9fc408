"""In which order the sizes of a tensor are its extents: `w * h` elements that are read at `y * w + x` are [h, w]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evo.analysis.access.read import read_forms
from evo.analysis.access.terms import Symbol, Term
from evo.errors import EvoError
from evo.interop.adopt.texts import variant_text
from evo.interop.adopt.trial import DraftTrial
from evo.spec.chips import chip
from evo.spec.variant import parse_variant


def order_extents(trial: DraftTrial) -> None:
    """Put the extents that index expressions multiply most often last. What no index tells stays as it is."""
    draft = trial.draft
    if all(len(tensor.dims or []) < 2 for tensor in draft.tensors):
        return
    try:
        variant = parse_variant(variant_text(draft, trial.name), path=f"{trial.name}.cu")
        forms = read_forms(variant, trial.task(), {axis: draft.axes[axis] for axis in draft.compiled}, chip("l4"))
    except EvoError:
        return
    indices: dict[str, list[Term]] = {}
    for form in forms:
        for access in form.accesses:
            if access.array is not None and access.index is not None:
                indices.setdefault(access.array.name, []).append(access.index)
    orders: dict[frozenset[str], list[str]] = {}
    values = {axis: draft.axes[axis] for axis in draft.compiled}
    for tensor in draft.tensors:
        names = [dim for dim in tensor.dims or [] if isinstance(dim, str)]
        if (order := _order(names, indices.get(tensor.name, []), values)) is not None:
            orders.setdefault(frozenset(names), order)
            tensor.dims = _reordered(tensor.dims or [], order)
    for tensor in draft.tensors:  # elements one after the other tell nothing: as another tensor of these sizes
        names = [dim for dim in tensor.dims or [] if isinstance(dim, str)]
        if len(set(names)) == len(names) > 1 and _order(names, indices.get(tensor.name, []), values) is None:
            tensor.dims = _reordered(tensor.dims or [], orders.get(frozenset(names), names))
    trial.changed()


def _order(names: Sequence[str], indices: Sequence[Term], values: Mapping[str, int]) -> list[str] | None:
    """The names, the outermost extent first; None if no index multiplies by one of them.

    values: of those that are compiled in, which an index has as numbers.
    """
    counts: Mapping[str, int] = {}
    if len(names) < 2 or len(set(names)) < len(names):
        return None
    for index in indices:
        found = {name: _times(index, name, values.get(name)) for name in names}
        if sum(found.values()) > sum(counts.values()):
            counts = found
    return sorted(names, key=lambda name: counts[name]) if counts else None


def _times(index: Term, name: str, value: int | None) -> int:
    """How many terms of an index are multiplied by this extent."""
    if value is None:
        return sum(Symbol(name, "axis") in monomial for monomial in index.parts)
    return sum(by % value == 0 for by in index.parts.values()) if value > 1 else 0


def _reordered(dims: Sequence[object], order: Sequence[str]) -> list[object]:
    """Names in this order; numbers stay behind them, and what holds a quotient or a sum stays as it is."""
    if any(not isinstance(dim, str | int) for dim in dims):
        return list(dims)
    return [*order, *(dim for dim in dims if not isinstance(dim, str))]
