"""CuPy arrays for the judge: a context of its own, a bounded pool, and the lock that keeps it off a measurement."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

os.environ["CUPY_ACCELERATORS"] = ""  # CUB's reductions take 5.6 s to compile on a new machine, plain ones 0.3 s

import cupy
from cupy.cuda import runtime
from numpy.typing import NDArray

from evo.device.error_sums import ErrorSums, TruthSums
from evo.device.gpu_error_sums import GpuErrorSums
from evo.device.gpu_lock import held, lock_path
from evo.device.nvml import Monitor
from evo.spec.shared_arrays import shared_empty

POOL_BYTES = 12 << 30  # truths that are kept, and what a float64 reference of the largest case takes on the way
_SHARE = 0.4  # of the GPU's memory at most


class GpuArrays:
    """Arrays on one GPU."""

    np = cupy

    def __init__(self, index: int) -> None:
        cupy.cuda.Device(index).use()
        bus = str(runtime.deviceGetPCIBusId(index))
        self._name, self._lock = f"gpu:{index}", lock_path(Monitor(bus).uuid or bus)
        total = runtime.memGetInfo()[1]
        self._pool = cupy.get_default_memory_pool()
        self._pool.set_limit(size=min(POOL_BYTES, int(_SHARE * total)))

    @functools.cached_property
    def _sums(self) -> GpuErrorSums:
        return GpuErrorSums(cupy)

    def error_sums(self, got: Any, truth: Any, rtol: float, atol: float) -> ErrorSums:
        return self._sums.errors(got, truth, rtol, atol)

    def truth_sums(self, truth: Any, most: float) -> TruthSums:
        return self._sums.truths(truth, most)

    def is_array(self, value: object) -> bool:
        return isinstance(value, cupy.ndarray)

    def upload(self, array: NDArray[Any]) -> Any:
        return cupy.asarray(array)

    def download(self, array: Any) -> NDArray[Any]:
        found = shared_empty(array.shape, array.dtype)
        if array.size:
            cupy.ascontiguousarray(array).get(out=found)
        return found

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """Work, beside others' checks, but never while times are taken; memory that is free again is given back."""
        with held(self._lock, exclusive=False, name=self._name):
            try:
                yield
                cupy.cuda.Device().synchronize()
            finally:
                self._pool.free_all_blocks()
