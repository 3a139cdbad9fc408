"""Tensors that whole numbers lead into, and whose size nothing tells: rows of a table, places, or parts of a list."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.errors import SyntaxInvalid
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.fills import has
from evo.interop.adopt.index_bounds import Tried
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.task_texts import elements, value_of
from evo.results import FaultKind
from evo.spec.element_types import is_float

_OTHERWISE = "?"  # it fails, but leaves no tensor
_NUMBERS = (0, 1, 1 << 14)
_ROWS, _IN_A_ROW = 1 << 10, 16  # guesses: rows of a table, elements of a list for each of the longest size
_LENGTH = 53  # of such a size while shapes are found: unlike those of the others


def drawn_as_counts(trial: Tried, candidates: Mapping[str, list[list[object]]], axes: Mapping[str, int]) -> bool:
    """Whether whole numbers count what is read along a size, as lengths of rows do. They are then drawn up to it.

    That is so if tensors of known sizes suffice where all are 0 or this size, and not where they are one more.
    candidates: extents that the other tensors may have.
    """
    for lead in trial.draft.given:
        if lead.role != "in" or not lead.is_whole or lead.high is not None or lead.drawn or lead.is_told:
            continue
        unknown = [tensor for tensor in trial.draft.tensors if candidates.get(tensor.name)]
        before = [tensor.dims for tensor in unknown]
        for tensor in unknown:
            tensor.dims = candidates[tensor.name][-1]  # the largest
        trial.changed()
        known = [tensor.name for tensor in trial.draft.tensors if tensor not in unknown and tensor is not lead]
        axis = next((axis for axis, length in axes.items() if _counts_to(trial, lead, length, axes, known)), None)
        for tensor, dims in zip(unknown, before, strict=True):
            tensor.dims = dims
        trial.changed()
        if axis is not None:
            lead.counts, lead.high, lead.why = axis, f"{axis} + 1", f"{lead.why}, up to {axis}: it counts along that"
            return True
    return False


def _counts_to(trial: Tried, lead: TensorDraft, length: int, axes: Mapping[str, int], known: Collection[str]) -> bool:
    """Whether none of the known tensors is left at 0 or this many, and one is at one more."""
    left = [_left_at(trial, lead, number, axes) for number in (length + 1, length, 0)]
    return left[0] in known and left[1] is None and left[2] is None


def _left_at(trial: Tried, lead: TensorDraft, number: int, axes: Mapping[str, int]) -> str | None:
    """The tensor that is left first if whole numbers are this one throughout; None if none is."""
    drawn = trial.inputs(axes)[lead.name]
    return _left_first(trial, axes, {lead.name: np.full_like(drawn, min(number, _most(drawn)))})


def _left_first(trial: Tried, axes: Mapping[str, int], others: Arrays | None = None) -> str | None:
    try:
        trial.run(axes, races=False, others=others)
    except Failing as failing:
        fault = failing.fault
        return fault.buffer if fault is not None and fault.kind is FaultKind.OUT_OF_BOUNDS else _OTHERWISE
    return None


def drawn_as_indices(
    trial: Tried, tensor: TensorDraft, candidates: Mapping[str, list[list[object]]], axes: dict[str, int]
) -> bool:
    """Whether a tensor has the right extents but for where whole numbers lead. The numbers are then drawn below that.

    If it suffices for zeros and not for ones, they lead to rows; if not for large ones, to places. If it suffices
    whatever they all are, it is their differences that lead on: where parts of a list begin.
    candidates: other extents that tensors may have.
    """
    for lead in trial.draft.given:
        if lead is tensor or lead.role != "in" or not lead.is_whole or lead.high is not None or lead.drawn:
            continue
        left = [_left_at(trial, lead, number, axes) for number in _NUMBERS]
        found = [name == tensor.name if name != _OTHERWISE else None for name in left]
        if found[:2] == [False, True]:
            rows = _new_size(trial.draft, f"{tensor.name}_rows", axes, _ROWS)
            tensor.dims, lead.high = [rows, *(tensor.dims or [])], rows
            candidates[tensor.name].clear()
        elif found == [False, False, True] and len(tensor.dims or []) == 1:
            lead.high = tensor.shape[0]
        elif found == [False, False, False] and len(tensor.dims or []) == 1:
            many = _IN_A_ROW * max(trial.draft.axes.values(), default=1)
            length = _new_size(trial.draft, f"{tensor.name}_length", axes, many)
            tensor.dims, lead.high = [length], length
            if has(lead.fill, "random"):  # parts of random lengths end anywhere but at this one
                lead.fill = None
            for waiting in candidates.values():
                waiting.insert(0, [length])
        else:
            continue
        lead.why += f", below {lead.high} as places in {tensor.name}"
        return True
    return False


def _new_size(draft: Draft, name: str, axes: dict[str, int], value: int) -> str:
    """A size that no kernel is told: one that the launcher is given and does nothing with, or one of this name."""
    host = draft.program.host
    spare = [word for word in host.unknown_sizes if word not in draft.axes and word in host.named]
    word = spare[0] if len(spare) == 1 else name
    draft.axes[word] = host.named[word] = host.given.get(word, value)
    if word not in (*host.given, *host.unknown_sizes):
        host.unknown_sizes.append(word)
    axes[word] = _LENGTH
    return word


def _most(array: NDArray[np.generic]) -> int:
    return int(np.iinfo(array.dtype.name).max)


def take_larger(
    trial: Tried, tensor: TensorDraft, candidates: Mapping[str, list[list[object]]], axes: Mapping[str, int]
) -> bool:
    """Give a tensor the next of its shapes, or the smallest of the others that is not left as well.

    What else waits for a shape has its largest one meanwhile, so that nothing hides what is read of this one.
    """
    sizes, waiting = {**axes, **trial.draft.knobs}, candidates[tensor.name]
    ends: list[list[object]] = [
        [("+", *dims, 1)] for dims in waiting if len(dims) == 1 and isinstance(dims[0], str)
    ]  # of n parts
    more = [*waiting[1:], *(dims for dims in ends if dims not in waiting)]
    waiting[1:] = sorted(more, key=lambda dims: elements(replace(tensor, dims=dims), sizes))
    others = [(each, each.dims) for each in trial.draft.tensors if each is not tensor and candidates.get(each.name)]
    for other, _ in others:
        other.dims = candidates[other.name][-1]

    def holds(place: int) -> bool:
        tensor.dims = waiting[place]
        trial.changed()
        return _left_first(trial, axes) != tensor.name

    last = len(waiting) - 1
    place = 0 if holds(0) else min(last, 1 + bisect.bisect_left(range(1, last + 1), True, key=holds))
    tensor.dims = waiting[place]
    del waiting[: place + 1]
    for other, dims in others:
        other.dims = dims
    return True


def draw_distinct(given: Sequence[TensorDraft], sizes: Mapping[str, int]) -> bool:
    """Writes that meet: where whole numbers lead, no two of those are one, as slots of a cache; else numbers are drawn
    as the host code fills them, since what is no distance may be written where others read. Whether that is new.
    """
    leads = [t for t in given if t.role == "in" and t.high is not None and not is_float(t.dtype)]
    found = [tensor for tensor in leads if not tensor.is_distinct and not tensor.is_ordered]
    found = [tensor for tensor in found if _has_room(tensor, sizes)]
    for tensor in found:
        tensor.is_distinct = True
        tensor.why += ", each once: writes would meet"
    filled = [tensor for tensor in given if tensor.drawn == "range" and not found]
    for tensor in filled:
        tensor.drawn, tensor.why = "values", f"{tensor.why}, exactly: writes would meet"
    told = [tensor for tensor in given if tensor.is_told and not tensor.drawn and not found]
    for tensor in told:
        tensor.ends = None
        tensor.draw_as_filled("range")
    return bool(found or filled or told)


def _has_room(tensor: TensorDraft, sizes: Mapping[str, int]) -> bool:
    """Whether there are as many numbers as elements, as edges of a graph have not."""
    try:
        return elements(tensor, sizes) <= value_of(str(tensor.high), sizes)
    except SyntaxInvalid:  # a limit of another form than sizes have, `min(n, 2**31)`
        return True
