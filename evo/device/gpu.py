"""The `gpu:` device, over CuPy: runs Programs under guards and poison, and times them. Lives in the worker's child."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime
from cupy.cuda.runtime import CUDARuntimeError

from evo.cuda.compile import Binary
from evo.device import Arrays, DeviceName, Program, RunRequest, RunResult, no_gpu
from evo.device.calibrate import Rate
from evo.device.gpu_l2 import PERSISTING_LIMIT
from evo.device.gpu_load import KernelFault, Loaded, Sequence, load, missing, mostly_free
from evo.device.gpu_lock import held, lock_path
from evo.device.gpu_memory import Arena, Tools
from evo.device.nvml import Monitor
from evo.device.timing_types import BenchOptions, BenchRequest, BenchResult, RivalFigures, RivalPairs
from evo.errors import HarnessFault
from evo.results import Fault, Timing
from evo.spec.chips import Chip, chip_by_name, queried
from evo.spec.dtypes import NUMPY

_MAX_MODULES = 64


class GpuDevice:
    """One GPU. `spent` is set once its context is lost: the worker then replaces the process."""

    def __init__(self, name: DeviceName) -> None:
        self.name = name
        self.spent = False
        self.notify: Callable[[str], object] = str  # the worker puts its own here
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
        self.tools = Tools(
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

    def health(self) -> str:
        """A known kernel on fresh memory. Raises HarnessFault when the answer is wrong."""
        arena = Arena({"probe": 4096}, self.tools, key=1)
        data = np.arange(1024, dtype=np.uint32)
        arena.upload("probe", data)
        if not np.array_equal(arena.download("probe", data.dtype, data.shape), data) or arena.broken():
            raise HarnessFault(f"{self.product} returns wrong data", hint="check the GPU's ECC counters and Xid log")
        return "ok"

    def load(self, program: Program, copy: str = "") -> Loaded:
        """The program's module in this context; each `copy` is one of its own, at another address."""
        key = (program.binary.key, copy)
        if key not in self._modules:
            if len(self._modules) >= _MAX_MODULES:
                self._modules.clear()
            self._modules[key] = load(program.binary, self.capability)
        return self._modules[key]

    def run(self, request: RunRequest) -> RunResult:
        """Run a program `repeats` times on poisoned memory, and look at what it touched."""
        with self.locked(exclusive=False):
            started = time.perf_counter()
            try:
                found = self._run(request)
            except KernelFault as error:
                self.spent = self.spent or error.sticky
                found = RunResult(outputs=(), faults=(error.fault,))
            return replace(found, held_s=time.perf_counter() - started)

    def bench(self, request: BenchRequest) -> BenchResult:
        from evo.device.gpu_timing import Bench

        with self._timing():
            started = time.perf_counter()
            found = Bench(self, request).measure()
            return replace(found, held_s=time.perf_counter() - started)

    def rivals(
        self, folder: str, axes: dict[str, int], inputs: Arrays, options: BenchOptions | None = None
    ) -> dict[str, Timing | str]:
        from evo.device.gpu_rivals import time_rivals

        with self.locked(exclusive=True):
            return time_rivals(self, Path(folder), axes, inputs, options or BenchOptions())

    def baseline(
        self, folder: str, axes: dict[str, int], inputs: Arrays, options: BenchOptions
    ) -> dict[str, RivalFigures | str]:
        from evo.device.gpu_rivals import measure_rivals

        with self.locked(exclusive=True):
            return measure_rivals(self, Path(folder), axes, inputs, options)

    def versus(
        self, request: BenchRequest, folder: str, axes: dict[str, int], pairs: int
    ) -> dict[str, RivalPairs | str]:
        from evo.device.gpu_rival_pairs import pair_rivals

        with self._timing():
            return pair_rivals(self, request, Path(folder), axes, pairs)

    def calibrate(self, kernels: Binary, quick: bool) -> dict[str, Rate]:
        from evo.device.gpu_rates import measure_rates

        with self.locked(exclusive=True):
            return measure_rates(self, kernels, quick)

    def _run(self, request: RunRequest) -> RunResult:
        program = request.program
        outputs = {buffer.name: buffer for buffer in program.outputs}
        sizes = {name: array.nbytes for name, array in request.inputs.items()}
        sizes |= {name: _size(b.dims, b.dtype) for name, b in outputs.items()}
        sizes |= {space.name: space.size_bytes for space in program.scratch}
        asked = sum(space.size_bytes for space in program.scratch)
        try:
            arena = Arena(sizes, self.tools, key=secrets.randbits(63), offset_bytes=request.offset_bytes)
        except HarnessFault:
            if asked <= sum(sizes.values()) / 2 or not mostly_free():
                raise
            message = f"its workspaces of {asked} bytes do not fit into the GPU's memory"
            return RunResult(outputs=(), faults=(Fault(kind="launch", kernel="", message=message),))
        sequence = Sequence(program, self.load(program), {name: arena.address(name) for name in sizes})
        repeats: list[Arrays] = []
        overwritten: set[str] = set()
        with self.stream:
            for name, array in request.inputs.items():
                arena.upload(name, array)
            before = {name: arena.digest(name) for name in request.inputs}
            seen: dict[int, Arrays] = {}  # outputs by digest: equal ones are moved to the host once
            for _ in range(request.repeats):
                for name in (*outputs, *(space.name for space in program.scratch)):
                    arena.fill(name, request.poison)
                self.tools.dirty_shared(request.poison)
                self.stream.synchronize()
                try:
                    sequence.execute(self.stream)
                except KernelFault as error:
                    self.spent = self.spent or error.sticky
                    return RunResult(outputs=tuple(repeats), faults=(error.fault,))
                for name, digest in before.items():
                    if arena.digest(name) != digest:
                        overwritten.add(name)
                        arena.upload(name, request.inputs[name])
                key = hash(tuple(arena.digest(name) for name in outputs))
                if key not in seen:
                    seen[key] = {n: arena.download(n, NUMPY[b.dtype], b.dims) for n, b in outputs.items()}
                repeats.append(seen[key])
        return RunResult(outputs=tuple(repeats), overwritten=tuple(sorted(overwritten)), broken_guards=arena.broken())

    @contextlib.contextmanager
    def _timing(self) -> Iterator[None]:
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


def _size(dims: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(dims, dtype=np.int64)) * NUMPY[dtype].itemsize


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
