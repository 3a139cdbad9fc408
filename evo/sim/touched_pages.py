"""Which pages of a large array of zeros have been touched, as the system knows: the others hold nothing yet."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_HELD = np.uint64(3 << 62)  # in memory, or swapped out (proc(5), /proc/PID/pagemap)
_PIECE = 1 << 24  # bytes, where the system does not say


def touched(values: NDArray[np.uint8]) -> Iterator[slice]:
    """Slices of a contiguous array of bytes outside of which it is as the system gave it, all zeros."""
    first = values.ctypes.data
    start, end = first // mmap.PAGESIZE, -(-(first + values.size) // mmap.PAGESIZE)
    try:
        with open("/proc/self/pagemap", "rb") as file:
            file.seek(8 * start)
            pages = np.frombuffer(file.read(8 * (end - start)), np.uint64)
    except OSError:
        pages = np.zeros(0, np.uint64)
    if len(pages) != end - start:
        yield from (slice(at, min(at + _PIECE, values.size)) for at in range(0, values.size, _PIECE))
        return
    edges = np.flatnonzero(np.diff(np.pad((pages & _HELD) != 0, 1).astype(np.int8)))
    for low, high in edges.reshape(-1, 2).tolist():
        inside = (int(page) * mmap.PAGESIZE - first for page in (start + low, start + high))
        begin, behind = (min(max(at, 0), values.size) for at in inside)
        yield slice(begin, behind)
