"""`output_extremes.extremes_of` on the GPU: what a large run wrote is folded where it lies, not moved to the host."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime
from numpy.typing import NDArray

from evo.device import Buffer
from evo.device.gpu_memory import Arena
from evo.device.output_extremes import Extremes, in_order_of_groups
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float

_THREADS, _BLOCKS = 256, 2048
_TO_DEVICE, _TO_HOST = 1, 2

# Floats compare as integers of their size whose bits below the sign are turned where it is set; NaN lies outermost.
_SOURCE = r"""
template <typename K> __device__ K turned(K bits) {
    const K most = (K)~((K)1 << (8 * sizeof(K) - 1));
    return bits ^ ((K)(bits >> (8 * sizeof(K) - 1)) & most);
}
template <typename K> __device__ void fold(
    const K* data, const long long* order, const long long* starts, long long groups, long long each, K* low, K* high) {
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < groups * each; i += stride) {
        long long group = i / each, element = i - group * each;
        K least = turned(data[order[starts[group]] * each + element]), most = least;
        for (long long k = starts[group] + 1; k < starts[group + 1]; ++k) {
            K key = turned(data[order[k] * each + element]);
            least = key < least ? key : least;
            most = key > most ? key : most;
        }
        low[i] = turned(least);
        high[i] = turned(most);
    }
}
#define FOLD(name, K) extern "C" __global__ void name(const K* data, const long long* order, const long long* starts, \
    long long groups, long long each, K* low, K* high) { fold(data, order, starts, groups, each, low, high); }
FOLD(fold1, signed char)
FOLD(fold2, short)
FOLD(fold4, int)
FOLD(fold8, long long)
"""


class ExtremesOnGpu:
    """Folds outputs of floats. Its kernels are compiled when they are first needed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._module: Any = None

    def of(self, arena: Arena, buffer: Buffer, groups: NDArray[np.int64]) -> Extremes | None:
        """As `extremes_of`; None for an output of another type, which is folded on the host."""
        kind = NUMPY[buffer.dtype]
        if not is_float(buffer.dtype) or kind.itemsize not in (1, 2, 4, 8):
            return None
        order, starts = in_order_of_groups(groups)
        count, each = len(starts), buffer.size_bytes // kind.itemsize // len(groups)
        size = count * each * kind.itemsize
        places, bounds = self._uploaded(order), self._uploaded(np.r_[starts, len(order)])
        low, high = cupy.cuda.Memory(size), cupy.cuda.Memory(size)
        numbers = (places.ptr, bounds.ptr, count, each, low.ptr, high.ptr)
        with self._stream:
            self._kernel(kind.itemsize)(
                (_BLOCKS,), (_THREADS,), tuple(np.uint64(n) for n in (arena.address(buffer.name), *numbers))
            )
        return Extremes(
            low=self._downloaded(low, kind, count * each),
            high=self._downloaded(high, kind, count * each),
            seen=np.ones(count * each, np.bool_),
        )

    def _kernel(self, itemsize: int) -> Any:
        if self._module is None:
            self._module = cupy.RawModule(code=_SOURCE, options=("--std=c++17",))
        return self._module.get_function(f"fold{itemsize}")

    def _uploaded(self, values: NDArray[np.int64]) -> Any:
        data = np.ascontiguousarray(values, np.int64)
        memory = cupy.cuda.Memory(max(8, data.nbytes))
        runtime.memcpyAsync(memory.ptr, data.ctypes.data, data.nbytes, _TO_DEVICE, self._stream.ptr)
        self._stream.synchronize()
        return memory

    def _downloaded(self, memory: Any, kind: np.dtype[np.generic], count: int) -> NDArray[np.generic]:
        array = np.empty(count, kind)
        runtime.memcpyAsync(array.ctypes.data, memory.ptr, array.nbytes, _TO_HOST, self._stream.ptr)
        self._stream.synchronize()
        return array
