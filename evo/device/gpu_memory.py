"""The arena that a program runs in: raw memory, guard zones between buffers, poison; and the harness's own kernels."""

from __future__ import annotations

import bisect
import contextlib
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import cupy
import numpy as np
from cupy.cuda import runtime
from cupy.cuda.runtime import CUDARuntimeError

from evo.device import Array
from evo.device.gpu_load import cuda_trouble
from evo.device.nvml import clock_between
from evo.spec.shared_arrays import shared_empty

GUARD_BYTES = 64 * 1024
_ALIGNMENT = 512
_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
_THREADS = 256
_SM_IDS = 512  # more than any GPU has SMs; ids need not be contiguous
_COPIED_BYTES = 1 << 20  # of an input, from which on a second copy from the host costs more than keeping the first
_COPIES_SHARE = 1 / 16  # of the GPU's memory

_SOURCE = r"""
typedef unsigned long long u64;
__device__ u64 mix(u64 x) {
    x ^= x >> 33; x *= 0xff51afd7ed558ccdULL; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL; x ^= x >> 33;
    return x;
}
__device__ unsigned char guard(u64 i, u64 key) { return (unsigned char)(mix((i >> 3) ^ key) >> ((i & 7) * 8)); }

// Byte i of the arena is a function of i and the key, so that a copied guard is a broken guard.
extern "C" __global__ void fill_guard(unsigned char* base, u64 begin, u64 end, u64 key) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = begin + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < end; i += stride) base[i] = guard(i, key);
}
extern "C" __global__ void check_guard(const unsigned char* base, u64 begin, u64 end, u64 key, u64* first) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = begin + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < end; i += stride)
        if (base[i] != guard(i, key)) atomicMin(first, i);
}
extern "C" __global__ void digest(const unsigned char* data, u64 size, u64* out) {
    u64 stride = (u64)gridDim.x * blockDim.x, sum = 0, words = size / 4;
    u64 start = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned* p = (const unsigned*)data;
    for (u64 i = start; i < words; i += stride) sum += mix((i << 32) ^ (i >> 20) ^ p[i]);
    if (start < (size & 3)) sum += mix(~(words * 4 + start) ^ ((u64)data[words * 4 + start] << 40));
    if (sum) atomicAdd(out, sum);
}
extern "C" __global__ void dirty_shared(unsigned word, unsigned count) {
    extern __shared__ unsigned pool[];
    volatile unsigned* p = pool;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) p[i] = word;
}
// Each SM's own cycle counter beside the time in ns: two stamps around a block give the clock that it ran at.
extern "C" __global__ void stamp(u64* out) {
    unsigned sm;
    u64 ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    if (threadIdx.x == 0) { out[2 * sm] = (u64)clock64(); out[2 * sm + 1] = ns; }
}
// Reading, not writing: a written flush leaves dirty lines whose write-back the next kernel would pay for.
extern "C" __global__ void flush_read(const uint4* data, u64 count, unsigned* sink) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    unsigned sum = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        uint4 v = data[i];
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u) *sink = sum;
}
"""


class HarnessKernels:
    """The harness's kernels, compiled for the GPU at hand, and the small buffers that they need."""

    def __init__(self, sms: int, l2_bytes: int, shared_optin: int, stream: Any) -> None:
        module = cupy.RawModule(code=_SOURCE, options=("--std=c++17",))
        self.stream = stream
        self._grid = (sms * 8,)
        self._sms = sms
        self._kernels = {
            name: module.get_function(name)
            for name in ("fill_guard", "check_guard", "digest", "dirty_shared", "flush_read", "stamp")
        }
        self._shared_words = (shared_optin - 1024) // 4
        self._kernels["dirty_shared"].max_dynamic_shared_size_bytes = self._shared_words * 4
        self._word = cupy.cuda.Memory(_ALIGNMENT)
        self._flush_bytes = 2 * l2_bytes
        self._flush: Any = None
        self._stamp_words = 2 * _SM_IDS
        self._stamps = cupy.cuda.Memory(2 * self._stamp_words * 8)
        self.copies = InputCopies(self, int(_COPIES_SHARE * runtime.memGetInfo()[1]))
        self._start()

    def _start(self) -> None:
        """Launch a first graph: what the driver sets up with it is no variant's time."""
        with self.stream:
            self.stream.begin_capture()
            self._run("digest", self._word.ptr, 0, self._word.ptr)
            graph = self.stream.end_capture()
            graph.upload(self.stream)
            graph.launch(self.stream)
        self.stream.synchronize()

    def fill_guard(self, base: int, begin: int, end: int, key: int) -> None:
        self._run("fill_guard", base, begin, end, key)

    def first_broken(self, base: int, begin: int, end: int, key: int) -> int | None:
        """Offset of the first byte that is not the guard's, or None."""
        runtime.memsetAsync(self._word.ptr, 0xFF, 8, self.stream.ptr)
        self._run("check_guard", base, begin, end, key, self._word.ptr)
        first = self._read_word()
        return None if first == 2**64 - 1 else first

    def digest(self, address: int, size: int) -> int:
        """A 64-bit digest of device memory, without moving it to the host."""
        runtime.memsetAsync(self._word.ptr, 0, 8, self.stream.ptr)
        self._run("digest", address, size, self._word.ptr)
        return self._read_word()

    def dirty_shared(self, byte: int) -> None:
        """Leave a pattern in the shared memory of every SM, so that a kernel that reads before it writes shows it."""
        arguments = (np.uint32(byte * 0x01010101), np.uint32(self._shared_words))
        with self.stream:
            self._kernels["dirty_shared"]((self._sms * 2,), (_THREADS,), arguments, shared_mem=self._shared_words * 4)

    def flush_l2(self) -> None:
        """Enqueue a read of twice the L2, so that the next kernel starts cold."""
        if self._flush is None:
            self._flush = cupy.cuda.Memory(self._flush_bytes)
            runtime.memsetAsync(self._flush.ptr, 1, self._flush_bytes, self.stream.ptr)
        self._run("flush_read", self._flush.ptr, self._flush_bytes // 16, self._word.ptr)

    def stamp(self, number: int) -> None:
        """Enqueue stamp 0 or 1: every SM writes down its cycle counter and the time."""
        address = self._stamps.ptr + number * self._stamp_words * 8
        runtime.memsetAsync(address, 0, self._stamp_words * 8, self.stream.ptr)
        with self.stream:
            self._kernels["stamp"]((self._sms * 2,), (32,), (np.uint64(address),))

    def clock_mhz(self) -> float | None:
        """The SM clock between the two stamps: the median over the SMs that wrote both. Waits for the stream."""
        words = np.empty((2, _SM_IDS, 2), np.uint64)
        runtime.memcpyAsync(words.ctypes.data, self._stamps.ptr, words.nbytes, _TO_HOST, self.stream.ptr)
        self.stream.synchronize()
        return clock_between(words[0], words[1])

    def _run(self, name: str, *values: int) -> None:
        with self.stream:
            self._kernels[name](self._grid, (_THREADS,), tuple(np.uint64(value) for value in values))

    def _read_word(self) -> int:
        word = np.empty(1, np.uint64)
        runtime.memcpyAsync(word.ctypes.data, self._word.ptr, 8, _TO_HOST, self.stream.ptr)
        self.stream.synchronize()
        return int(word[0])


class _Copy(NamedTuple):
    """Where an array lies on the GPU, and the digest of what was put there."""

    array: weakref.ref[Array]
    memory: Any
    digest: int


class InputCopies:
    """Copies on the GPU of large arrays that are uploaded again and again: they cross the bus once.

    A kernel may write wherever it likes, so a copy is of use while its digest is the one that it had.
    """

    def __init__(self, tools: HarnessKernels, limit_bytes: int) -> None:
        self._tools, self._limit_bytes = tools, limit_bytes
        self._known: OrderedDict[int, _Copy] = OrderedDict()  # by the array's id, the latest used last

    def upload(self, address: int, array: Array) -> None:
        """Put an array there, and wait for it."""
        stream = self._tools.stream
        known = self._known.pop(id(array), None)
        if known is not None and known.array() is array and self._is_intact(known, array.nbytes):
            self._known[id(array)] = known
            runtime.memcpyAsync(address, known.memory.ptr, array.nbytes, _ON_DEVICE, stream.ptr)
        else:
            data = np.ascontiguousarray(array)
            runtime.memcpyAsync(address, data.ctypes.data, data.nbytes, _TO_DEVICE, stream.ptr)
            if data is array and array.nbytes >= _COPIED_BYTES and not array.flags.writeable:
                self._keep(address, array)
        stream.synchronize()

    def _is_intact(self, copy: _Copy, size: int) -> bool:
        return self._tools.digest(copy.memory.ptr, size) == copy.digest

    def _keep(self, address: int, array: Array) -> None:
        for key in [key for key, copy in self._known.items() if copy.array() is None]:
            del self._known[key]
        while self._known and self._held() + array.nbytes > self._limit_bytes:
            self._known.popitem(last=False)
        if array.nbytes > self._limit_bytes:
            return
        try:
            memory = cupy.cuda.Memory(array.nbytes)
        except CUDARuntimeError:  # who needs the rest of the memory more is told there
            self._known.clear()
            return
        runtime.memcpyAsync(memory.ptr, address, array.nbytes, _ON_DEVICE, self._tools.stream.ptr)
        self._known[id(array)] = _Copy(weakref.ref(array), memory, self._tools.digest(memory.ptr, array.nbytes))

    def _held(self) -> int:
        return sum(int(copy.memory.size) for copy in self._known.values())

    def drop(self) -> None:
        """Free all of them."""
        self._known.clear()


class Arena:
    """Named buffers in one raw allocation, each between guard zones. sizes in bytes."""

    def __init__(self, sizes: Mapping[str, int], tools: HarnessKernels, *, key: int, offset_bytes: int = 0) -> None:
        self._tools, self._key = tools, key
        self._offsets: dict[str, int] = {}
        self._sizes = dict(sizes)
        end = 0
        for name, size in sizes.items():
            start = -(-(end + 2 * GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT + offset_bytes
            self._offsets[name] = start
            end = start + size
        self._total = end + 2 * GUARD_BYTES
        self._memory = self._allocated()  # raw: a pool would hide overruns, and reuse old results
        tools.fill_guard(self._memory.ptr, 0, self._total, key)

    def _allocated(self) -> Any:
        with contextlib.suppress(CUDARuntimeError):
            return cupy.cuda.Memory(self._total)
        self._tools.copies.drop()
        try:
            return cupy.cuda.Memory(self._total)
        except CUDARuntimeError as error:
            raise cuda_trouble(error) from error

    def address(self, name: str) -> int:
        return int(self._memory.ptr) + self._offsets[name]

    def upload(self, name: str, array: Array) -> None:
        self._tools.copies.upload(self.address(name), array)

    def download(self, name: str, dtype: np.dtype[np.generic], dims: tuple[int, ...]) -> Array:
        array = shared_empty(dims, dtype)  # which the driver and the judge map
        runtime.memcpyAsync(array.ctypes.data, self.address(name), array.nbytes, _TO_HOST, self._tools.stream.ptr)
        self._tools.stream.synchronize()
        return array

    def fill(self, name: str, byte: int) -> None:
        runtime.memsetAsync(self.address(name), byte, self._sizes[name], self._tools.stream.ptr)

    def copy(self, to: str, of: str) -> None:
        """Copy one buffer over another of the same size, on the device."""
        size, stream = self._sizes[of], self._tools.stream.ptr
        runtime.memcpyAsync(self.address(to), self.address(of), size, _ON_DEVICE, stream)

    def digest(self, name: str) -> int:
        return self._tools.digest(self.address(name), self._sizes[name])

    def broken(self) -> tuple[str, ...]:
        """Buffers next to a guard zone that was written to; the nearer one of two."""
        names = list(self._offsets)
        starts = [self._offsets[name] for name in names]
        ends = [self._offsets[name] + self._sizes[name] for name in names]
        found: set[str] = set()
        for begin, end in zip([0, *ends], [*starts, self._total], strict=True):
            first = self._tools.first_broken(self._memory.ptr, begin, end, self._key)
            if first is not None:
                after = min(bisect.bisect_right(starts, first), len(names) - 1)
                before = max(after - 1, 0) if first < starts[after] else after
                nearer = after if starts[after] - first < first - ends[before] else before
                found.add(names[nearer])
        return tuple(name for name in names if name in found)
