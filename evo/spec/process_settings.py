"""Settings of a whole process: freed memory, garbage collection, how long a thread keeps the interpreter."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import MutableMapping

_M_MMAP_THRESHOLD = -3  # of malloc.h
_LARGE_BYTES = 4 << 20
_TURN_S = 0.0005
_CORES_FOR_ALGEBRA = 4  # of which one is a process's
_STANDARD_FILES = 3
_COLLECT_AFTER = 20_000  # objects; Python's own 700 take a fifth of the time of what reads texts


def give_back_freed_arrays() -> None:
    """Return large freed blocks to the system at once, if the C library has such a setting.

    It raises the size from which it does so with every large block that is freed, up to 32 MiB, and keeps smaller ones
    in an arena for each thread. So a process whose threads compare arrays of some megabytes grows by hundreds of them.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def give_back_freed_pages() -> None:
    """What lies free in the C library's arenas goes back to the system: a process that waits does not need it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def collect_seldom() -> None:
    """Look for garbage after more objects than Python does: a text's tree, or a kernel's translation, is many thousands
    of them, and hardly any is garbage.
    """
    gc.set_threshold(_COLLECT_AFTER)


def take_short_turns() -> None:
    """A thread that got its answer has the interpreter soon, although others compute.

    With Python's 5 ms, a call of a millisecond that lets go of the interpreter twenty times takes a tenth of a second
    beside one thread that does not.
    """
    sys.setswitchinterval(_TURN_S)


def algebra_threads() -> str:
    """The value of `OPENBLAS_NUM_THREADS` that `limit_algebra` sets."""
    return str(max(2, (os.cpu_count() or 1) // _CORES_FOR_ALGEBRA))


def limit_algebra(environment: MutableMapping[str, str]) -> None:
    """How many threads NumPy's products get in a process that begins with this environment, unless that says so.

    They spin where they wait, and a run has a dozen processes: with a thread for each core, each has a machine of its
    own in mind.
    """
    environment.setdefault("OPENBLAS_NUM_THREADS", algebra_threads())


def open_standard_files() -> None:
    """Standard input, output and errors that whoever began this process has closed are nothing from now on; else the
    next file that is opened would be taken for one of them.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < _STANDARD_FILES:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 as long as the process lives
