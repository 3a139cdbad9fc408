"""Tensors that whole numbers lead into, and whose size nothing tells: rows of a table, places, or parts of a list."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.fills import has
from evo.interop.adopt.index_bounds import Tried
from evo.interop.adopt.oracle import Failing
from evo.results import FaultKind

_NUMBERS = (0, 1, 1 << 14)
_ROWS, _IN_A_ROW = 1 << 10, 16  # guesses: rows of a table, elements of a list for each of the longest size
_LENGTH = 53  # of such a size while shapes are found: unlike those of the others


def is_led_into(
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
        found = [_fails_at(trial, tensor, axes, lead, number) for number in _NUMBERS]
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


def _fails_at(
    trial: Tried, tensor: TensorDraft, axes: Mapping[str, int], lead: TensorDraft, number: int
) -> bool | None:
    """Whether the first access outside is of this tensor if another is this number throughout; None if none is."""
    drawn = trial.inputs(axes)[lead.name]
    try:
        trial.run(axes, races=False, others={lead.name: np.full_like(drawn, min(number, _most(drawn)))})
    except Failing as failing:
        fault = failing.fault
        return fault.buffer == tensor.name if fault is not None and fault.kind is FaultKind.OUT_OF_BOUNDS else None
    return False


def _most(array: NDArray[np.generic]) -> int:
    return int(np.iinfo(array.dtype.name).max)
