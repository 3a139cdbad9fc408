"""Puts every array that generated code may touch into a mapping of its own, with a GiB of nothing on both sides.

A stray read or write then ends the process at once instead of changing a byte of something else.
"""

from __future__ import annotations

import ctypes
import mmap
import types
import weakref
from typing import Any

import numpy as np

from evo.sim import memory
from evo.sim import page_pool as pages

_FIRST, _STEP = 0x1000_0000_0000, 1 << 30  # far from where the system places mappings
_PAGE = mmap.PAGESIZE
_NO_REPLACE = 0x100000  # MAP_FIXED_NOREPLACE
_TRIES = 1000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_next = 0


def zeros(shape: Any, dtype: Any = float) -> Any:
    """np.zeros whose last byte is the last one before unmapped addresses."""
    global _next  # noqa: PLW0603 one address space per process
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    if not size:
        return np.zeros(shape, dtype)
    length = -(-size // _PAGE) * _PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_REPLACE
    for _ in range(_TRIES):  # after a while the places begin anew, and some are still in use
        place = _FIRST + _next
        _next = (_next + (length // _STEP + 2) * _STEP) % (1 << 45)
        base = _libc.mmap(place, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if base == place:
            break
    else:
        raise MemoryError(f"no fenced mapping of {length} bytes: error {ctypes.get_errno()}")
    raw = (ctypes.c_uint8 * size).from_address(base + length - size)
    array = np.frombuffer(raw, kind).reshape(shape)
    weakref.finalize(raw, _libc.munmap, base, length)
    return array


def install() -> None:
    """From now on the simulator of this process works on fenced memory."""
    fenced = types.ModuleType("fenced_numpy")
    fenced.__dict__.update(vars(np))
    fenced.zeros = zeros  # type: ignore[attr-defined]
    pages.np = memory.np = fenced  # type: ignore[attr-defined]
