"""Host memory that holds a pattern again and again, of which only what is written takes room.

The same pages of a file in memory are mapped over and over, privately, so that a write copies its page. A buffer of
many gigabytes then costs what a launch writes to it.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import weakref

import numpy as np
from numpy.typing import NDArray

_LAZY = 64 << 20  # bytes; below, copying costs less
_LEAST = 1 << 20  # bytes of one mapping
_MAPPINGS = 8192  # of one array; a process has about 65000
_FIXED, _NO_RESERVE = 0x10, 0x4000  # MAP_FIXED and MAP_NORESERVE of Linux


def is_worthwhile(nbytes: int, period: int) -> bool:
    """Whether so many bytes of a pattern are better mapped than copied."""
    return nbytes >= max(_LAZY, 2 * math.lcm(period, mmap.PAGESIZE)) and hasattr(os, "memfd_create")


def repeated_pages(pattern: NDArray[np.uint8], nbytes: int, lead: int) -> NDArray[np.uint8]:
    """`nbytes` bytes from a page's start on; from byte `lead` on they are the pattern again and again.

    Raises MemoryError if the system has no room for the mappings.
    """
    chunk = math.lcm(pattern.size, mmap.PAGESIZE)
    chunk *= max(1, -(-nbytes // (chunk * _MAPPINGS)), _LEAST // chunk)
    whole = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    access = mmap.PROT_READ | mmap.PROT_WRITE
    start = libc.mmap(None, whole, access, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1, 0)
    if start in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"no room for {whole} bytes of addresses")
    owner = (ctypes.c_uint8 * whole).from_address(start)
    weakref.finalize(owner, libc.munmap, start, whole)
    file = os.memfd_create("evo-pattern")
    try:
        with os.fdopen(os.dup(file), "wb") as written:
            written.write(np.roll(np.resize(pattern, chunk), lead).data)
        for at in range(0, whole, chunk):
            size = min(chunk, whole - at)
            if libc.mmap(start + at, size, access, mmap.MAP_PRIVATE | _FIXED | _NO_RESERVE, file, 0) != start + at:
                raise MemoryError(f"{whole} bytes cannot be mapped: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(file)
    return np.ctypeslib.as_array(owner)[:nbytes]
