"""What is freed goes back to the system at once, where it is large.

The C library raises the size from which it does so with every large block that is freed, up to 32 MiB, and keeps
smaller ones in an arena for each thread. So a process whose threads compare arrays of some megabytes grows by
hundreds of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

_M_MMAP_THRESHOLD = -3  # of malloc.h
_LARGE_BYTES = 4 << 20


def give_back_freed_arrays() -> None:
    """For this process, from now on; nothing where the C library has no such setting."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
