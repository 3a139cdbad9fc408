"""A matrix in shared memory: the offset of each element, and the defects of the layout, over all addresses.

32 banks of 4 bytes; an access of 4 bytes or less is served a warp at a time, of 8 bytes a half warp, of 16 bytes a
quarter warp. Lanes that read the same word share it. `ways` is the number of words that the busiest bank must serve
one after the other: 1 is free of conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.spec.element_types import DTYPES
from evo.spec.expr import Expression, Number

BANKS, WORD = 32, 4
VECTOR = 16  # bytes of cp.async.cg, of an ldmatrix row and of the widest load
Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """offsets[row, column] in elements from a base that is 16-byte aligned. allocated: elements that there is room for.

    how: the layout in words, e.g. `swizzle c ^ (r & 7)`.
    """

    name: str
    how: str
    itemsize: int
    offsets: Offsets
    allocated: int

    @property
    def rows(self) -> int:
        return int(self.offsets.shape[0])

    @property
    def cols(self) -> int:
        return int(self.offsets.shape[1])

    @property
    def size_bytes(self) -> int:
        return self.allocated * self.itemsize

    @property
    def addresses(self) -> Offsets:
        """Bytes from the base."""
        return self.offsets * self.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found over all addresses of a layout. Counts; `ways` by access.

    faults: why results would be wrong or the kernel would trap; slow: conflicts that cost time only.
    """

    elements: int
    distinct: int
    out_of_bounds: int
    largest_offset: int
    allocated: int
    chunks: int  # 16-byte pieces of rows
    misaligned: int  # of them: not on a multiple of 16 bytes, or torn apart
    first_misaligned: tuple[int, ...]  # their addresses, one to a row
    ways: dict[str, int]
    faults: tuple[str, ...]
    slow: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.faults, *self.slow)

    @property
    def lost(self) -> int:
        return self.elements - self.distinct

    @property
    def sound(self) -> bool:
        return not self.problems


def strided(name: str, rows: int, cols: int, itemsize: int, *, pad: int = 0) -> Layout:
    """Row-major with `pad` elements after each row."""
    stride = cols + pad
    offsets = np.arange(rows, dtype=np.int64)[:, None] * stride + np.arange(cols, dtype=np.int64)[None, :]
    how = (
        f"rows of {cols} + {pad} elements, stride {stride * itemsize} B" if pad else f"row-major, {stride * itemsize} B"
    )
    return Layout(name=name, how=how, itemsize=itemsize, offsets=offsets, allocated=rows * stride)


def swizzled(name: str, rows: int, cols: int, itemsize: int) -> Layout | None:
    """16-byte chunks of a row permuted by XOR with the row, so that eight rows of a chunk column meet all banks.

    None if a row is not a power of two of chunks below eight, or no multiple of eight: XOR would leave the row.
    """
    per_chunk = VECTOR // itemsize
    if cols % per_chunk:
        return None
    chunks = cols // per_chunk
    span = min(chunks, 8)
    if span & (span - 1) or chunks % span:
        return None
    # Rows narrower than 128 bytes share a line, so there the pattern moves on every few rows only.
    row = np.arange(rows, dtype=np.int64)[:, None]
    column = np.arange(cols, dtype=np.int64)[None, :]
    key = row // (8 // span) % span
    offsets = row * cols + ((column // per_chunk) ^ key) * per_chunk + column % per_chunk
    word = "r & 7" if span == 8 else f"r / {8 // span} % {span}"
    how = f"swizzle: 16-byte chunk c of row r at c ^ ({word})"
    return Layout(name=name, how=how, itemsize=itemsize, offsets=offsets, allocated=rows * cols)


def by_formula(
    name: str,
    rows: int,
    cols: int,
    dtype: str,
    formula: Expression,
    allocated: int | None = None,
    constants: Mapping[str, Number] | None = None,
) -> Layout:
    """offset(row, col) in elements as a file states it. Raises SyntaxInvalid if the formula has no value."""
    names = dict(constants or {})
    offsets = np.array(
        [[int(formula.value({**names, "row": r, "col": c})) for c in range(cols)] for r in range(rows)], np.int64
    ).reshape(rows, cols)
    room = allocated if allocated is not None else max(0, int(offsets.max()) + 1)
    return Layout(name=name, how=formula.text, itemsize=DTYPES[dtype], offsets=offsets, allocated=room)


def prove(layout: Layout, reads: tuple[str, ...] = (), *, vector: bool = True) -> Proof:
    """Look at every address. vector: rows are copied 16 bytes at a time."""
    offsets, size = layout.offsets, layout.itemsize
    distinct = int(np.unique(offsets).size)
    outside = int(((offsets < 0) | (offsets >= layout.allocated)).sum())
    chunks, bad, first = _misaligned(layout)
    found = {read: conflicts(layout, read) for read in reads}
    faults: list[str] = []
    if distinct < offsets.size:
        lost = offsets.size - distinct
        faults.append(f"not injective: {offsets.size} elements at {distinct} addresses, {lost} are lost")
    if outside:
        faults.append(f"{outside} elements out of bounds: largest offset {int(offsets.max())} of {layout.allocated}")
    if (vector or "ldmatrix" in reads or "vector" in reads) and bad:
        listed = ", ".join(f"{address:#x}" for address in first[:3])
        faults.append(f"{bad} of {chunks} 16-byte chunks misaligned, e.g. at {listed}")
    slow = [f"{count}-way bank conflicts by {read} reads" for read, count in found.items() if count > 1]
    return Proof(
        elements=int(offsets.size),
        distinct=distinct,
        out_of_bounds=outside,
        largest_offset=int(offsets.max()) if size else 0,
        allocated=layout.allocated,
        chunks=chunks,
        misaligned=bad,
        first_misaligned=first,
        ways=found,
        faults=tuple(faults),
        slow=tuple(slow),
    )


def conflicts(layout: Layout, access: str) -> int:
    """The most words that one bank serves in one phase of an access. Raises KeyError for an unknown one."""
    phases, width = _ACCESSES[access](layout), _WIDTHS.get(access, layout.itemsize)
    return max((_ways(addresses, width) for addresses in phases), default=1)


def _ways(addresses: Offsets, width: int) -> int:
    words: set[int] = set()
    for address in addresses.tolist():
        words.update(range(address // WORD, (address + width - 1) // WORD + 1))
    per_bank = np.bincount(np.array(sorted(words), np.int64) % BANKS, minlength=BANKS)
    return int(per_bank.max())


def _misaligned(layout: Layout) -> tuple[int, int, tuple[int, ...]]:
    """(chunks, misaligned ones, the first misaligned address of each row). Chunks are whole 16-byte pieces of a row."""
    per_chunk = max(VECTOR // layout.itemsize, 1)
    whole = layout.cols // per_chunk * per_chunk
    if not whole:
        return 0, 0, ()
    pieces = layout.addresses[:, :whole].reshape(layout.rows, -1, per_chunk)
    torn = (np.diff(pieces, axis=2) != layout.itemsize).any(axis=2)
    bad = (pieces[:, :, 0] % VECTOR != 0) | torn
    first = [int(pieces[row, bad[row].argmax(), 0]) for row in range(layout.rows) if bad[row].any()]
    return int(bad.size), int(bad.sum()), tuple(first)


def _eights(layout: Layout) -> Iterator[Offsets]:
    """ldmatrix: eight rows of one 8x8 matrix, 16 bytes each, are one phase."""
    per_chunk = VECTOR // layout.itemsize
    for row in range(0, layout.rows - layout.rows % 8, 8):
        for column in range(0, layout.cols - per_chunk + 1, per_chunk):
            yield layout.addresses[row : row + 8, column]


def _fragments(layout: Layout) -> Iterator[Offsets]:
    """mma fragments by 32-bit loads: lane l reads row l / 4 and the pair 2 (l % 4) of an 8x8 matrix."""
    pair = WORD // layout.itemsize
    lanes = np.arange(32)
    for row in range(0, layout.rows - layout.rows % 8, 8):
        for column in range(0, layout.cols - 4 * pair + 1, 4 * pair):
            yield layout.addresses[row + lanes // 4, column + lanes % 4 * pair]


def _vectors(layout: Layout) -> Iterator[Offsets]:
    """16 bytes to a lane, along the rows: eight lanes are one phase."""
    per_chunk = VECTOR // layout.itemsize
    whole = layout.cols // per_chunk * per_chunk
    starts = layout.addresses[:, :whole:per_chunk].reshape(-1)
    for first in range(0, starts.size, 8):
        yield starts[first : first + 8]


def _along(layout: Layout) -> Iterator[Offsets]:
    """One element to a lane, along the rows."""
    for row in layout.addresses:
        for first in range(0, layout.cols, 32):
            yield row[first : first + 32]


def _down(layout: Layout) -> Iterator[Offsets]:
    """A lane to a row, all at the same column: the column walk of a thread-per-row kernel."""
    for first in range(0, layout.rows, 32):
        for column in range(layout.cols):
            yield layout.addresses[first : first + 32, column]


def _same(layout: Layout) -> Iterator[Offsets]:
    """All lanes read one element."""
    yield layout.addresses[0, :1]


_ACCESSES: dict[str, Callable[[Layout], Iterator[Offsets]]] = {
    "ldmatrix": _eights,
    "fragment": _fragments,
    "vector": _vectors,
    "row": _along,
    "column": _down,
    "broadcast": _same,
}
_WIDTHS = {"ldmatrix": VECTOR, "fragment": WORD, "vector": VECTOR}
