"""Large arrays in memory that two processes map, so that passing one makes no copy.

The memory is an anonymous file (memfd): it has no name, and is gone with the last process that maps it. Where a system
has none, or a message leaves the machine, arrays are sent as bytes as ever.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import mmap
import os
import pickle
import re
import sys
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_BYTES = 1 << 20  # below, a copy through the socket costs less than a mapping
_PLACE = re.compile(r"/proc/\d+/fd/\d+")

_lock = threading.Lock()
_places: dict[int, tuple[str, int]] = {}  # address -> where other processes find the memory, its size


class _Memory(mmap.mmap):
    """A mapping that knows when nobody uses it any more."""


def shared_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array without values, shared if it is large. Raises MemoryError."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size < LEAST_BYTES or not _can_be_opened():
        return np.empty(shape, dtype)
    try:
        descriptor = os.memfd_create("evo", os.MFD_CLOEXEC)
    except OSError:
        return np.empty(shape, dtype)
    try:
        os.posix_fallocate(descriptor, 0, size)  # memory that is not there is told here, and not by a signal later
    except OSError as error:
        os.close(descriptor)
        raise MemoryError(f"{size} bytes to share: {error.strerror}") from None
    return _mapped(descriptor, shape, dtype, size, mmap.PROT_READ | mmap.PROT_WRITE)


@functools.cache
def _can_be_opened() -> bool:
    """Whether this system has such memory, and lets it be opened by its place: some sandboxes do not."""
    if not hasattr(os, "memfd_create"):
        return False
    try:
        descriptor = os.memfd_create("evo", os.MFD_CLOEXEC)
    except OSError:
        return False
    try:
        os.close(os.open(_place(descriptor), os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _place(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def shared_copy(array: NDArray[Any]) -> NDArray[Any]:
    """The values in shared memory; the array itself if it is small, or lies there already."""
    if place_of(array) is not None:
        return array
    copy = shared_empty(array.shape, array.dtype)
    if place_of(copy) is None:
        return array
    copy[...] = array
    return copy


def place_of(array: NDArray[Any]) -> str | None:
    """Where another process of this user can map the array; None if it is not in shared memory of its own."""
    if array.nbytes < LEAST_BYTES or not array.flags.c_contiguous:
        return None
    with _lock:
        found = _places.get(array.ctypes.data)
    return found[0] if found is not None and found[1] == array.nbytes else None


def opened(place: str, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_read: bool = True) -> NDArray[Any]:
    """The array that lies at a place of another process, read-only. Raises ValueError if none of that size does.

    Read-only by the page tables: a kernel that reaches host memory cannot change what its checker gave it.
    is_read: whether all of it is read here soon; what a process only hands on takes none of its own memory.
    """
    if not _PLACE.fullmatch(place):
        raise ValueError(f"{place} is no place of an array")
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"{place}: {error.strerror}") from None
    if os.fstat(descriptor).st_size != size:
        os.close(descriptor)
        raise ValueError(f"{place} holds another number of bytes than {size}")
    return _mapped(descriptor, shape, dtype, size, mmap.PROT_READ, at_once=is_read)


def _by_place(array: NDArray[Any]) -> Any:
    if (place := place_of(array)) is None:
        return array.__reduce_ex__(5)
    return _handed_on, (place, array.shape, array.dtype)


def _handed_on(place: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    return opened(place, shape, dtype, is_read=False)


class PlacesPickler(pickle.Pickler):
    """Pickles arrays in shared memory by their place: the sender holds them until the receiver has answered."""

    dispatch_table = copyreg.dispatch_table | {np.ndarray: _by_place}


def _mapped(
    descriptor: int, shape: tuple[int, ...], dtype: np.dtype[Any], size: int, access: int, *, at_once: bool = True
) -> NDArray[Any]:
    flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if at_once and sys.platform == "linux" else 0)
    memory = _Memory(descriptor, size, flags=flags, prot=access)
    array: NDArray[Any] = np.frombuffer(memory, dtype).reshape(shape)
    address = array.ctypes.data
    with _lock:
        _places[address] = _place(descriptor), size
    weakref.finalize(memory, _forget, address, descriptor)
    return array


def _forget(address: int, descriptor: int) -> None:
    # Without the lock: garbage is collected in whatever thread, which may hold it.
    _places.pop(address, None)
    with contextlib.suppress(OSError):
        os.close(descriptor)
