"""Host memory of launches, kept for the next launch: clearing known pages costs less than touching fresh ones.

Two threads that touch fresh pages at once also wait for one another in the system. Large arrays are not kept, since
most of their pages are never touched and the system backs them with huge pages.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

_LARGEST = 16 << 20  # bytes of one array worth keeping
_MOST = 128 << 20  # bytes kept in all

_LOCK = threading.Lock()
_KEPT: OrderedDict[int, list[NDArray[np.uint8]]] = OrderedDict()  # by size, the size used last at the end
_held = 0


def take(size: int, *, clear: bool = True) -> NDArray[np.uint8]:
    """Bytes that start on a 64-byte boundary; zeroed unless `clear` is false, then of any value."""
    global _held  # noqa: PLW0603 one store per process
    with _LOCK:
        array = None
        if size in _KEPT:
            array = _pop(size)
            _held -= size
    if array is not None:
        if clear:
            array.fill(0)
        return array
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def give_back(array: NDArray[np.uint8]) -> None:
    """Keep what `take` gave, for a later launch. Nobody may use it any more."""
    global _held  # noqa: PLW0603
    size = array.size
    if size > _LARGEST:
        return
    with _LOCK:
        _KEPT.setdefault(size, []).append(array)
        _KEPT.move_to_end(size)
        _held += size
        while _held > _MOST:
            oldest = next(iter(_KEPT))
            _pop(oldest)
            _held -= oldest


def _pop(size: int) -> NDArray[np.uint8]:
    """One of the arrays of a size. A size of which none is left is forgotten."""
    arrays = _KEPT[size]
    array = arrays.pop()
    if not arrays:
        del _KEPT[size]
    return array
