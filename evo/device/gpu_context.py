"""One GPU in this process: its context, its modules, its lock. What runs and times programs on it builds on this."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime
from cupy.cuda.runtime import CUDARuntimeError

from evo.device import DeviceName, Program, no_gpu
from evo.device.gpu_l2 import PERSISTING_LIMIT
from evo.device.gpu_load import Loaded, load, missing
from evo.device.gpu_lock import held, lock_path
from evo.device.gpu_memory import Arena, HarnessKernels
from evo.device.nvml import Monitor
from evo.errors import HarnessFault
from evo.spec.chips import Chip, chip_by_name, queried

_MAX_MODULES = 64


class GpuContext:
    """One GPU. `spent` is set once its context is lost: the process is then replaced."""

    def __init__(self, name: DeviceName) -> None:
        self.name = name
        self.spent = False
        self.notify: Callable[[str], object] = str  # whose process this is puts its own here
        index = int(name.which)
        try:
            count = runtime.getDeviceCount()
        except CUDARuntimeError as error:  # no driver, or one that is too old
            raise missing(f"CUDA does not start: {' '.join(str(error).split())}") from None
        if index >= count:
            raise no_gpu(name.which)
        cupy.cuda.Device(index).use()
        properties: dict[str, Any] = runtime.getDeviceProperties(index)
        product = bytes(properties["name"]).decode()
        numbers = queried.ATTRIBUTES.items()
        self.chip: Chip = chip_by_name(product) or queried.store(
            product, {name: int(runtime.deviceGetAttribute(number, index)) for name, number in numbers}
        )
        self.product = product
        self.capability = int(properties["major"]) * 10 + int(properties["minor"])
        self.stream = cupy.cuda.Stream(non_blocking=True)
        with contextlib.suppress(Exception):  # not every chip has it, and device code cannot set it
            runtime.deviceSetLimit(PERSISTING_LIMIT, 0)
        l2_bytes = int(properties["l2CacheSize"])
        self.tools = HarnessKernels(
            int(properties["multiProcessorCount"]), l2_bytes, int(properties["sharedMemPerBlockOptin"]), self.stream
        )
        bus = str(runtime.deviceGetPCIBusId(index))
        self.monitor = Monitor(bus)  # CuPy cuts a UUID short at its first zero byte
        self.uuid = self.monitor.uuid or bus
        self._modules: dict[tuple[str, str], Loaded] = {}

    def describe(self) -> dict[str, str]:
        return {
            "chip": self.chip.slug,
            "gpu": self.product,
            "uuid": self.uuid,
            "capability": f"sm_{self.capability}",
            "cupy": cupy.__version__,
            "cuda": _version(runtime.driverGetVersion()),  # the newest that the driver can run
            "driver": f"CUDA {_version(runtime.driverGetVersion())}",  # NVML knows it more exactly
            **self.monitor.describe(),
        }

    def health(self) -> None:
        """A known kernel on fresh memory. Raises HarnessFault when the answer is wrong."""
        arena = Arena({"probe": 4096}, self.tools, key=1)
        data = np.arange(1024, dtype=np.uint32)
        arena.upload("probe", data)
        if not np.array_equal(arena.download("probe", data.dtype, data.shape), data) or arena.broken():
            raise HarnessFault(f"{self.product} returns wrong data", hint="check the GPU's ECC counters and Xid log")

    def load(self, program: Program, copy: str = "") -> Loaded:
        """The program's module in this context; each `copy` is one of its own, at another address."""
        key = (program.binary.key, copy)
        if key not in self._modules:
            if len(self._modules) >= _MAX_MODULES:
                self._modules.clear()
            self._modules[key] = load(program.binary, self.capability)
        return self._modules[key]

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """The GPU to itself; whatever breaks in the middle of a measurement, the next starts in a fresh process."""
        with self.locked(exclusive=True):
            try:
                yield
            except BaseException:
                self.spent = True
                raise

    def locked(self, *, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        """Hold the GPU against other evo processes: any number may check at once, one alone may time."""
        return held(lock_path(self.uuid), exclusive=exclusive, name=str(self.name), notify=self.notify)


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
