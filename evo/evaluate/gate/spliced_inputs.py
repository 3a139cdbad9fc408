"""Inputs whose parts stand at other places too, as fuzzers splice what they have: with another sign, turned, repeated.

What a kernel concludes from a few values is then wrong of the rest: that two rows are one, that a sum cancels, that
there is one peak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from evo.evaluate.gate.tensor_rows import Reals, Rng, some_rows

Splice = Callable[[Reals, int, Reals, Rng], None]  # rows, which one, the rows of another tensor of the same shape

TURNS = 7  # in which every kind of splice is met
_ROWS = 4  # of them are of rows, the others of slices
_ALIKE = 0.7  # of the places along an axis are copies ...
_OTHERS = (0.0, 0.004, 0.03)  # ... of which so many elements are others, and one at least
_SHARE = 0.6  # of the rows
_FAR = (7, 14)  # powers of two by which peaks are above the rest
_LENGTHS = (2, 9, 17, 40, 300)


def spliced(tensors: Mapping[str, Reals], turn: int, rng: Rng) -> dict[str, Reals]:
    """Copies of tensors with rows spliced; each turn has other kinds of splices, 0 any of them."""
    given = {
        name: np.array(values.reshape(-1, values.shape[-1] if values.ndim else 1)) for name, values in tensors.items()
    }
    if turn > _ROWS or (turn == 0 and rng.random() < 1 / TURNS):
        return {name: _sliced(np.array(values), turn - _ROWS - 1, rng) for name, values in tensors.items()}
    kinds = _SPLICES if turn == 0 else _SPLICES[turn - 1 :: _ROWS]
    for name, rows in given.items():
        others = [other for key, other in given.items() if key != name and other.shape == rows.shape]
        for number in (number for number in some_rows(len(rows), rng) if rng.random() < _SHARE):
            other = others[int(rng.integers(len(others)))] if others else rows
            kinds[int(rng.integers(len(kinds)))](rows, number, other, rng)
    return {name: given[name].reshape(tensors[name].shape) for name in given}


def _sliced(values: Reals, which: int, rng: Rng) -> Reals:
    """Whole slices along an axis that are copies of others, near or far, but for a few elements.

    which: of the axes, from the outermost on; any of them if there is no such.
    """
    axes = [axis for axis, length in enumerate(values.shape[:-1]) if length > 1]
    if not axes:
        return values
    axis = axes[which] if 0 <= which < len(axes) else int(rng.choice(axes))
    slices = np.moveaxis(values, axis, 0)
    length = len(slices)
    drawn = np.roll(slices.reshape(length, -1), 1, axis=1).reshape(slices.shape)
    for place in range(length):
        source = (0, place - 1, place - (length + 1) // 2)[int(rng.integers(3))]
        if source < 0 or source == place or rng.random() >= _ALIKE:
            continue
        same = slices[source]
        others = rng.random(same.shape) < _OTHERS[int(rng.integers(len(_OTHERS)))]
        others.reshape(-1)[int(rng.integers(others.size))] = True
        slices[place] = np.where(others, drawn[place], same)
    return values


def _part(length: int, rng: Rng) -> slice:
    """Some of a row: from its start, up to its end, or anywhere."""
    fitting = [few for few in (*_LENGTHS, length // 2, length - 1) if 0 < few <= length]
    count = int(rng.choice(fitting or [length]))
    place = rng.random()
    start = 0 if place < 0.5 else length - count if place < 0.7 else int(rng.integers(length - count + 1))
    return slice(start, start + count)


def _sign(rng: Rng) -> float:
    return float(rng.choice([-1.0, 1.0]))


def _from_row(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    """A part of another row, most often of the one before."""
    source = number - 1 if number and rng.random() < 0.7 else int(rng.integers(len(rows)))
    part = _part(rows.shape[1], rng)
    rows[number, part] = rows[source, part]


def _from_tensor(rows: Reals, number: int, other: Reals, rng: Rng) -> None:
    """A part of the same row of another tensor, or its negative."""
    part = _part(rows.shape[1], rng)
    rows[number, part] = _sign(rng) * other[number, part]


def _pairs(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    """Neighbours that are equal, or cancel."""
    part = rows[number, _part(rows.shape[1], rng)]
    half = len(part) // 2
    part[1 : 2 * half : 2] = _sign(rng) * part[0 : 2 * half : 2]


def _mirrored(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    """The end is the start, backwards or not, or its negative."""
    row = rows[number]
    count = int(rng.integers(len(row) // 2 + 1))
    start = row[:count] * _sign(rng)
    row[len(row) - count :] = start[::-1] if rng.random() < 0.5 else start


def _plateau(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    part = _part(rows.shape[1], rng)
    rows[number, part] = rows[number, part.start]


def _peaks(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    """A few equal values far above the rest, or far below."""
    row = rows[number]
    count = min(len(row), int(rng.integers(2, 5)))
    row[rng.choice(len(row), count, replace=False)] = (
        _sign(rng) * 2.0 ** rng.uniform(2, rng.choice(_FAR)) * (np.abs(row).max() or 1.0)
    )


def _repeated(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    """A period."""
    row = rows[number]
    row[:] = np.resize(row[: min(len(row), int(rng.choice([2, 3, 4, 8, 16, 32])))], len(row))


def _row_again(rows: Reals, number: int, _other: Reals, rng: Rng) -> None:
    """Another row, but for one place."""
    source = number - 1 if number else int(rng.integers(len(rows)))
    place = int(rng.integers(rows.shape[1]))
    kept = rows[number, place]
    rows[number] = rows[source]
    rows[number, place] = kept


_SPLICES: tuple[Splice, ...] = (
    _from_row, _from_tensor, _pairs, _peaks, _mirrored, _plateau, _repeated, _row_again,
)  # fmt: skip
