"""Descriptions of a wrong output: the element, what it holds, and the row of its case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from evo.device import POISON_NAN, Array, Arrays
from evo.results import CaseCheck, Figure, Mismatch, MismatchKind, Status
from evo.spec.blocks import same_bits


def wrong(case: str, found: Mismatch, reason: str) -> CaseCheck:
    """The row of a case whose numbers are wrong."""
    return CaseCheck(name=case, status=Status.WRONG, reason=reason, mismatch=found)


def element_of(
    kind: MismatchKind,
    tensor: str,
    index: Iterable[SupportsInt],
    elements: int | None = None,
    got: np.generic | float | None = None,
    expected: np.generic | float | None = None,
) -> Mismatch:
    """The mismatch of one element. elements: how many there are like it."""

    def figure(value: np.generic | float | None) -> Figure | None:
        return Mismatch.figure(np.asarray(value).item()) if value is not None else None

    return Mismatch(
        kind=kind,
        tensor=tensor,
        index=tuple(int(i) for i in index),
        got=figure(got),
        expected=figure(expected),
        elements=elements,
    )


def placed(row: CaseCheck, index: Sequence[int]) -> CaseCheck:
    """The row with another index of its element: that in the tensor, after a part of the tensor was compared."""
    if row.mismatch is None:
        return row
    there = replace(row.mismatch, index=tuple(int(i) for i in index))
    return replace(row, reason=(row.reason or "").replace(row.mismatch.element, there.element, 1), mismatch=there)


def poisoned(values: Array, poison: int) -> NDArray[np.bool_]:
    """Which elements hold the poison in every byte."""
    raw = np.ascontiguousarray(values)
    pattern = np.frombuffer(bytes([poison]) * raw.itemsize, f"V{raw.itemsize}")[0]
    return np.asarray(raw.view(f"V{raw.itemsize}") == pattern, np.bool_)


def is_poison(value: np.generic) -> bool:
    """Whether one element holds the poison that is a NaN."""
    return value.tobytes() == bytes([POISON_NAN]) * value.itemsize


def first_difference(a: Arrays, b: Arrays) -> Mismatch | None:
    """Where two runs on the same inputs differ in a bit; None if they agree."""
    for name, left in a.items():
        right = b[name]
        if left is right:  # a device hands equal outputs over once
            continue
        if not same_bits(left, right):
            raw = left.dtype.itemsize
            bits = np.frombuffer(left.tobytes(), np.dtype((np.void, raw)))
            other = np.frombuffer(right.tobytes(), np.dtype((np.void, raw)))
            differs = np.flatnonzero(bits != other)
            where = np.unravel_index(int(differs[0]), left.shape)
            return element_of(MismatchKind.UNREPEATABLE, name, where, len(differs), right[where], left[where])
    return None
