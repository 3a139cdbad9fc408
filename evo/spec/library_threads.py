"""Threads of the linear algebra below a reference: one for small arrays, all of the library's own for large ones.

OpenBLAS wakes its threads for products of a hundred rows, and they wait by spinning: on two busy cores the float64
reference of a small case then takes up to thirty times the processor time. With one thread its sums have the same
order, so the same bits, on every machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGE_BYTES = 16 << 20  # of a call's arrays: its products take a tenth of a second or more
_PREFIXES = (("scipy_openblas", "64_"), ("openblas", "64_"), ("openblas", ""))  # numpy's wheels, and distributions


class LibraryThreads:
    """The libraries that are loaded into this process so far. What cannot be set is left as it is."""

    def __init__(self) -> None:
        self._pools = [pool for path in _loaded() if (pool := _pool_of(path)) is not None]
        self._most = [get() for get, _ in self._pools]
        self._torch: int | None = None  # its own number
        self._is_many: bool | None = None

    def suit(self, size_bytes: int) -> None:
        """Set them for a call with arrays of so many bytes."""
        many = size_bytes >= LARGE_BYTES
        if many is not self._is_many:
            for (_, change), most in zip(self._pools, self._most, strict=True):
                change(most if many else 1)
        torch: Any = sys.modules.get("torch")  # a reference may import it in its first call
        is_new = self._torch is None and hasattr(torch, "get_num_threads")
        if is_new:
            self._torch = int(torch.get_num_threads())
        if self._torch is not None and (is_new or many is not self._is_many):
            torch.set_num_threads(self._torch if many else 1)
        self._is_many = many


def _loaded() -> list[str]:
    try:
        mapped = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    paths = {fields[5] for line in mapped.splitlines() if len(fields := line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if "blas" in path and ".so" in path)


def _pool_of(path: str) -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """How the library is asked for its number of threads, and told another one."""
    with contextlib.suppress(OSError):
        library = ctypes.CDLL(path)
        for before, after in _PREFIXES:
            get = getattr(library, f"{before}_get_num_threads{after}", None)
            change = getattr(library, f"{before}_set_num_threads{after}", None)
            if get is not None and change is not None:
                return get, change
    return None
