"""Every time an access is carried out by chosen threads, with its indices and its offset, as NumPy columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evo.analysis.access.form import BLOCK, THREAD, Access, Form, Loop
from evo.analysis.access.numeric import NoValue, masks_of, number_of, numbers_of
from evo.analysis.access.terms import Symbol, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = dict[Symbol, NDArray[Any]]

MOST_ROWS = 1 << 22
COUNTED = 1 << 21  # the most elements that are counted out
_BEFORE_GUARDS, _FEW = 8, 1 << 16  # rows for each element, until guards leave some out; what is always listed
_MOST_TURNS = 1 << 16


class TooMany(Exception):
    """More instances than are worth listing. Internal: callers take fewer threads or say that they do not know."""


@dataclass(frozen=True, slots=True)
class FormSizes:
    """The numbers of a form at one case. values: axes, derived sizes and the chip's, by symbol."""

    values: dict[Symbol, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def middle(self) -> int:
        """The number of the block in the middle."""
        x, y, z = self.grid
        return x // 2 + x * (y // 2 + y * (z // 2))


def sizes_of(form: Form, axes: Mapping[Symbol, int]) -> FormSizes | None:
    """The numbers at a case; None if an extent of the launch has none."""
    values = dict(axes)
    for symbol, term in form.derived.items():
        number = number_of(term, values)
        if number is not None:
            values[symbol] = number
    grid, block = ([number_of(term, values) for term in extents] for extents in (form.grid, form.block))
    if None in grid or None in block:
        return None
    gx, gy, gz, bx, by, bz = (int(n or 0) for n in (*grid, *block))
    return FormSizes(values, (gx, gy, gz), (bx, by, bz))


def places(sizes: FormSizes, blocks: Sequence[int], threads: Sequence[int]) -> Columns:
    """One row for each thread of each block, by linear numbers."""
    import numpy as np

    block = np.repeat(np.asarray(blocks, np.int64), len(threads))
    thread = np.tile(np.asarray(threads, np.int64), len(blocks))
    columns: Columns = {}
    for symbols, extents, linear in ((BLOCK, sizes.grid, block), (THREAD, sizes.block, thread)):
        columns[symbols[0]] = linear % extents[0]
        columns[symbols[1]] = linear // extents[0] % extents[1]
        columns[symbols[2]] = linear // (extents[0] * extents[1])
    return columns


def instances(
    form: Form, access: Access, sizes: FormSizes, start: Columns, *, most: int = MOST_ROWS, turns: int | None = None
) -> Columns:
    """All instances of an access in the given threads: a column for each index of a thread and a loop.

    turns: look at no more turns of each loop than that. Raises TooMany, and NoValue if data decides.
    """
    columns = dict(start)
    for part in access.context:
        if isinstance(part, Symbol):
            columns = _repeated(form.loops[part], columns, sizes, most, turns)
        else:
            columns = _kept(columns, masks_of(part, {**sizes.values, **columns}))
    return columns


def all_instances(form: Form, access: Access, sizes: FormSizes, elements: int) -> Columns:
    """Those of all threads of an access that touches each of so many elements once, if it does.

    Raises TooMany if it would be too many, or cannot, and NoValue if data decides.
    """
    most = min(4 * COUNTED, max(_BEFORE_GUARDS * elements, _FEW))
    if elements > COUNTED or sizes.blocks * sizes.threads > most:
        raise TooMany("threads")
    return instances(form, access, sizes, places(sizes, range(sizes.blocks), range(sizes.threads)), most=most)


def rows_in(columns: Columns) -> int:
    return len(columns[THREAD[0]])


def offsets(access: Access, columns: Columns, sizes: FormSizes) -> NDArray[Any]:
    """The first byte of each instance, from the beginning of the array."""
    return column(access.offset, columns, sizes)


def column(term: Term, columns: Columns, sizes: FormSizes) -> NDArray[Any]:
    """A term for each row."""
    import numpy as np

    found = numbers_of(term, {**sizes.values, **columns})
    return np.broadcast_to(np.asarray(found, np.int64), (rows_in(columns),))


def _kept(columns: Columns, mask: Any) -> Columns:
    import numpy as np

    mask = np.broadcast_to(np.asarray(mask), (rows_in(columns),))
    if mask.all():
        return columns
    return {symbol: values[mask] for symbol, values in columns.items()}


def _repeated(loop: Loop, columns: Columns, sizes: FormSizes, most: int, turns: int | None) -> Columns:
    """Each row once for every turn of a loop."""
    import numpy as np

    first, step = column(loop.start, columns, sizes), column(loop.step, columns, sizes)
    if loop.values is not None:
        taken = loop.values[:turns]
        counts = np.full(len(first), len(taken), np.int64)
    elif loop.trip is not None and loop.until is None:
        counts = np.maximum(column(loop.trip, columns, sizes), 0)
        counts = counts if turns is None else np.minimum(counts, turns)
    else:
        return _stepped(loop, columns, sizes, most, turns)
    total = int(counts.sum())
    if total > most:
        raise TooMany(loop.symbol.name)
    row = np.repeat(np.arange(len(first)), counts)
    turn = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    found = {symbol: values[row] for symbol, values in columns.items()}
    if loop.values is not None:
        found[loop.symbol] = np.asarray(loop.values, np.int64)[turn]
    else:
        found[loop.symbol] = first[row] + turn * step[row]
    return found


def _stepped(loop: Loop, columns: Columns, sizes: FormSizes, most: int, turns: int | None) -> Columns:
    """Turn by turn, for loops whose end is no formula of their beginning."""
    import numpy as np

    alive = np.arange(rows_in(columns))
    value = column(loop.start, columns, sizes).copy()
    step = column(loop.step, columns, sizes)
    kept_rows, kept_values = [], []
    total = 0
    for _ in range(_MOST_TURNS if turns is None else turns):
        now = {symbol: values[alive] for symbol, values in columns.items()}
        now[loop.symbol] = value[alive]
        known: dict[Symbol, NDArray[Any] | int] = {**sizes.values, **now}
        alive = alive[np.broadcast_to(masks_of(loop.condition, known), alive.shape)]
        if not len(alive):
            break
        kept_rows.append(alive)
        kept_values.append(value[alive])
        total += len(alive)
        if total > most:
            raise TooMany(loop.symbol.name)
        if loop.until is not None:
            now = {symbol: values[alive] for symbol, values in columns.items()}
            now[loop.symbol] = value[alive]
            done = np.broadcast_to(masks_of(loop.until, {**sizes.values, **now}), alive.shape)
            alive = alive[~done]
        value[alive] += step[alive]
    else:
        if turns is None:
            raise TooMany(loop.symbol.name)
    rows = np.concatenate(kept_rows) if kept_rows else np.empty(0, np.int64)
    found = {symbol: values[rows] for symbol, values in columns.items()}
    found[loop.symbol] = np.concatenate(kept_values) if kept_values else np.empty(0, np.int64)
    return found


__all__ = [
    "MOST_ROWS", "FormSizes", "NoValue", "TooMany", "column", "instances", "offsets", "places", "rows_in", "sizes_of",
]  # fmt: skip
