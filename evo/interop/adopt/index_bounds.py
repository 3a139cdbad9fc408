"""Below what the whole numbers of an original are drawn, if they lead outside a tensor: found by running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.errors import TaskInvalid
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_parts import AS_FILLED, TensorDraft
from evo.interop.adopt.host_numbers import names_of, written
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.task_texts import elements, value_of
from evo.results import FaultKind
from evo.spec.element_types import is_float


class Tried(Protocol):
    """A draft that can be run."""

    draft: Draft

    def changed(self) -> None: ...

    def inputs(self, axes: Mapping[str, int]) -> Arrays: ...

    def run(
        self, axes: Mapping[str, int], *, races: bool, others: Mapping[str, NDArray[np.generic]] | None = None
    ) -> Arrays: ...


def narrower(trial: Tried, tensor: TensorDraft, axes: Mapping[str, int]) -> bool:
    """Draw whole numbers that lead outside this tensor from fewer: whether another bound was found.

    First as places in it, then as places along one of its dimensions, then below every table there is.
    """
    draft = trial.draft
    whole = [t for t in draft.given if t.role != "out" and t.is_whole]
    if (told := next((t for t in whole if t.is_told and not t.drawn), None)) is not None:
        others = [t for t in draft.given if t.role != "out" and t is not told and not t.drawn]
        # The same inputs for every seed are no test, and of indices one by one others show more than these.
        told.draw_as_filled("values" if others and told.has_order else "range")
        return True
    filled, whole = [t for t in whole if t.drawn], [t for t in whole if not t.drawn]
    whole.sort(key=lambda t: t.high is not None)  # what leads into another tensor already comes last
    others = [other for other in whole if other is not tensor]
    length = max(1, elements(tensor, {**axes, **draft.knobs}))
    has_names = any(names_of(dim) for dim in tensor.dims or [])
    places = " * ".join(tensor.shape) if has_names else str(length)
    for other in others:
        if other.high == places or isinstance(other.high, str):
            continue
        if other.high is None or other.high > length:
            other.high = places if has_names else length
            other.why += f", below {places} as places in {tensor.name}"
            return True
    for other in others:
        if has_names and len(tensor.dims or []) > 1 and other.high == places:
            _along_a_dimension(trial, tensor, other, axes)
            return True
    rows = [t.shape[0] for t in draft.given if t.role == "in" and is_float(t.dtype)]
    least = f"min({', '.join(dict.fromkeys(rows))}, 2**31)" if rows else ""
    for other in whole:
        if least and other.high != least:
            other.high, other.why = least, f"copied to the GPU, below {least} as an index"
            return True
    for other in filled:  # it was read wrongly
        other.drawn, other.fill, other.why = "", None, other.why.removesuffix(AS_FILLED)
        return True
    return False


def _along_a_dimension(trial: Tried, tensor: TensorDraft, other: TensorDraft, axes: Mapping[str, int]) -> None:
    """Below the longest dimension of a tensor all of whose places the original can take; else below its first."""
    sizes = {**axes, **trial.draft.knobs}
    dims = dict.fromkeys(written(dim) for dim in tensor.dims or [])
    first, before = tensor.shape[0], other.why.rpartition(", below ")[0]
    for dim in sorted(dims, key=lambda text: -value_of(text, sizes)):
        other.high = dim
        trial.changed()
        if _stays_inside(trial, tensor, other, axes, value_of(dim, sizes)):
            break
    else:
        other.high = dim = first
    what = "rows of" if dim == first else "places along a row of"
    other.why = f"{before}, below {dim} as {what} {tensor.name}"


def _stays_inside(trial: Tried, tensor: TensorDraft, other: TensorDraft, axes: Mapping[str, int], high: int) -> bool:
    drawn = trial.inputs(axes)[other.name]
    for values in (drawn, np.full(drawn.shape, high - 1, drawn.dtype)):
        try:
            trial.run(axes, races=False, others={other.name: values})
        except TaskInvalid:
            return False
        except Failing as failing:
            fault = failing.fault
            if fault is not None and fault.kind is FaultKind.OUT_OF_BOUNDS and fault.buffer == tensor.name:
                return False
    return True
