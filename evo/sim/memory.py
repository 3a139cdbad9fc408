"""The virtual address space of a simulated device: named buffers, far apart, at device-like addresses."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from evo.sim.abi import BUFFER_GAP, GLOBAL_BASE

_LAZY = 64 << 20  # bytes; below, copying costs less
_LEAST = 1 << 20  # bytes of one mapping
_MAPPINGS = 8192  # of one array; a process has about 65000
_FIXED, _NO_RESERVE = 0x10, 0x4000  # MAP_FIXED and MAP_NORESERVE of Linux
_HELD = np.uint64(3 << 62)  # in memory, or swapped out (proc(5), /proc/PID/pagemap)
_PIECE = 1 << 24  # bytes, where the system does not say


def is_worthwhile(nbytes: int, period: int) -> bool:
    """Whether so many bytes of a pattern are better mapped than copied."""
    return nbytes >= max(_LAZY, 2 * math.lcm(period, mmap.PAGESIZE)) and hasattr(os, "memfd_create")


def repeated_pages(pattern: NDArray[np.uint8], nbytes: int, lead: int) -> NDArray[np.uint8]:
    """`nbytes` bytes from a page's start on; from byte `lead` on they are the pattern again and again.

    Raises MemoryError if the system has no room for the mappings.
    """
    chunk = math.lcm(pattern.size, mmap.PAGESIZE)
    chunk *= max(1, -(-nbytes // (chunk * _MAPPINGS)), _LEAST // chunk)
    pages = _Pages(nbytes)
    file = os.memfd_create("evo-pattern")
    try:
        with os.fdopen(os.dup(file), "wb") as written:
            written.write(np.roll(_again(pattern, chunk), lead).data)
        for at in range(0, pages.size, chunk):
            pages.show(file, at, min(chunk, pages.size - at))
    finally:
        os.close(file)
    return pages.bytes[:nbytes]


class _Pages:
    """Whole pages of addresses, zeroed, in which files may be shown; what is stored there stays there."""

    def __init__(self, nbytes: int) -> None:
        """Raises MemoryError."""
        self.size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        numbers = (ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
        self._libc.mmap.argtypes = (ctypes.c_void_p, *numbers)
        self._libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        start = self._map(None, self.size, mmap.MAP_ANONYMOUS, -1)
        if start is None or start == ctypes.c_void_p(-1).value:
            raise MemoryError(f"no room for {self.size} bytes of addresses")
        self._start = start
        owner = (ctypes.c_uint8 * self.size).from_address(start)
        weakref.finalize(owner, self._libc.munmap, start, self.size)
        self.bytes: NDArray[np.uint8] = np.ctypeslib.as_array(owner)

    def show(self, file: int, at: int, nbytes: int) -> None:
        """Map the start of an open file at a page's start. Raises MemoryError."""
        if self._map(self._start + at, nbytes, _FIXED, file) != self._start + at:
            raise MemoryError(f"{nbytes} bytes cannot be mapped: {os.strerror(ctypes.get_errno())}")

    def _map(self, start: int | None, nbytes: int, flags: int, file: int) -> int | None:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        found: int | None = self._libc.mmap(start, nbytes, access, mmap.MAP_PRIVATE | _NO_RESERVE | flags, file, 0)
        return found


_ALIGNMENT = 64  # of host memory relative to device addresses: generated code uses aligned moves
SLACK = 1024  # host bytes around each buffer: a packed warp access may read, never use, bytes beside it


@dataclass(eq=False, slots=True)
class SimBuffer:
    """A range of virtual addresses backed by host memory. `writable=False` makes a store to it a fault."""

    name: str
    address: int
    size_bytes: int
    writable: bool
    data: NDArray[np.uint8] = field(repr=False)  # with slack on both sides
    state: NDArray[np.uint8] | None = field(repr=False, default=None)  # initialised bytes, 4 bits a word

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The contents, without the slack."""
        return self.data[SLACK : SLACK + self.size_bytes]


def _again(pattern: NDArray[np.uint8], nbytes: int) -> NDArray[np.uint8]:
    """So many bytes of a pattern; `np.resize` takes a second for a million times one byte."""
    return np.tile(pattern, -(-nbytes // pattern.size))[:nbytes]


def _aligned_like(address: int, nbytes: int) -> NDArray[np.uint8]:
    """Zeroed host bytes, slack included, on which an aligned device address is an aligned host address too."""
    raw = np.zeros(nbytes + 2 * SLACK + _ALIGNMENT - 1, np.uint8)
    start = (address - raw.ctypes.data - SLACK) % _ALIGNMENT
    return raw[start : start + nbytes + 2 * SLACK]


def _mapped(file: str, nbytes: int) -> NDArray[np.uint8]:
    """The bytes of a file between slacks, without a copy. Raises OSError or MemoryError."""
    lead = -(-SLACK // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = _Pages(lead + nbytes + SLACK)
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size != nbytes:
            raise OSError(f"{file} has not {nbytes} bytes")
        pages.show(descriptor, lead, nbytes)
    finally:
        os.close(descriptor)
    return pages.bytes[lead - SLACK : lead + nbytes + SLACK]


def _filled(address: int, pattern: NDArray[np.uint8], nbytes: int) -> NDArray[np.uint8]:
    """The same with the pattern again and again between the slacks."""
    if is_worthwhile(nbytes, pattern.size):
        shift = address % _ALIGNMENT
        return repeated_pages(pattern, nbytes + shift + 2 * SLACK, SLACK + shift)[shift:]
    data = _aligned_like(address, nbytes)
    inner = data[SLACK : SLACK + nbytes]
    inner[:] = pattern[0] if pattern.size == 1 else _again(pattern, nbytes)
    return data


class Memory:
    """Allocates buffers and copies data in and out. Addresses depend only on the order and size of allocations."""

    def __init__(self, base: int = GLOBAL_BASE) -> None:
        self.buffers: list[SimBuffer] = []
        self._next = base

    def allocate(
        self,
        nbytes: int,
        name: str = "",
        *,
        offset: int = 0,
        writable: bool = True,
        fill: bytes | NDArray[np.uint8] | None = None,
        poison: int = 0,
        file: str | None = None,
    ) -> SimBuffer:
        """A buffer at a 256-byte aligned address plus `offset`.

        fill: the byte pattern to repeat; None leaves the buffer undefined, so that a load before a store is a fault.
        poison: what each of its bytes is then. file: of so many bytes, which it shows from the start and never changes,
        where the system and the address allow it; else it is undefined.
        """
        if nbytes <= 0 or nbytes > 1 << 36:
            raise ValueError(f"buffer {name!r}: {nbytes} bytes is no usable size")
        address = self._next + offset
        self._next += (nbytes + offset + BUFFER_GAP + 255) // 256 * 256 + BUFFER_GAP
        if file is not None and address % _ALIGNMENT == 0:
            with contextlib.suppress(OSError, MemoryError):
                buffer = SimBuffer(
                    name or f"buffer{len(self.buffers)}", address, nbytes, writable, _mapped(file, nbytes)
                )
                self.buffers.append(buffer)
                return buffer
        pattern = np.frombuffer(bytes([poison]) if fill is None else fill, np.uint8)
        data = _filled(address, pattern, nbytes) if pattern.any() else _aligned_like(address, nbytes)
        buffer = SimBuffer(name or f"buffer{len(self.buffers)}", address, nbytes, writable, data)
        if fill is None:
            buffer.state = np.zeros(nbytes // 4 + 2, np.uint8)
        self.buffers.append(buffer)
        return buffer

    def write(self, buffer: SimBuffer, values: NDArray[Any], *, at: int = 0) -> None:
        """Copy an array into a buffer from byte `at`; what is covered counts as initialised."""
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        if at < 0 or at + raw.size > buffer.size_bytes:
            raise ValueError(f"{raw.size} bytes do not fit buffer {buffer.name} of {buffer.size_bytes} bytes at {at}")
        buffer.bytes[at : at + raw.size] = raw
        if buffer.state is None:
            return
        if at == 0 and raw.size == buffer.size_bytes:
            buffer.state = None
            return
        known = np.unpackbits(buffer.state[:, None], axis=1, bitorder="little")[:, :4].reshape(-1)
        known[at : at + raw.size] = 1
        packed = np.packbits(np.pad(known.reshape(-1, 4), ((0, 0), (0, 4))), axis=1, bitorder="little")
        buffer.state = packed.reshape(-1)

    def read(self, buffer: SimBuffer, dtype: DTypeLike, shape: int | tuple[int, ...]) -> NDArray[Any]:
        """A copy of the first elements of a buffer."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        if count * kind.itemsize > buffer.size_bytes:
            raise ValueError(f"{count} x {kind} is more than buffer {buffer.name} of {buffer.size_bytes} bytes")
        return buffer.bytes[: count * kind.itemsize].copy().view(kind).reshape(shape)


def touched(values: NDArray[np.uint8]) -> Iterator[slice]:
    """Slices of a large array of bytes; outside of them it holds the zeros that the system gave it."""
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
