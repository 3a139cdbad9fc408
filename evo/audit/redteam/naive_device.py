"""The child side of the naive harness: it runs a program without guards or checkers, as careless harnesses do.

All tensors lie in one pool, as an allocator's would: what is read or written past a tensor's end is a neighbour's.
The module and the pool live for all launches of a request, so that a kernel finds what it left behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from evo.device import Array, Arrays, DeviceName, Program
from evo.device.remote_device import DeviceProcess
from evo.spec.dtypes import NUMPY

if TYPE_CHECKING:
    from evo import sim
    from evo.device.gpu import GpuDevice

_OPENER = "evo.audit.redteam.naive_device:open_naive"
_ALIGNMENT = 256
_TAIL = 1 << 16  # bytes of the allocator after the last tensor
_BUDGET = 10**15  # warp instructions: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class NaiveRequest:
    """One correctness launch, then `runs` timed ones on the same buffers.

    before: what the output memory holds at first, by tensor. answer: arrays that stay in memory behind the outputs.
    cold: time on a cold cache; on a GPU the first call, which also loads the module, as calls of a library do.
    """

    program: Program
    inputs: Arrays
    before: Arrays
    answer: Arrays
    runs: int
    cold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NaiveResult:
    """outputs and inputs are read after the correctness launch; nobody looks at the outputs of timed launches."""

    outputs: Arrays
    inputs: Arrays
    mean_us: float | None = None
    fault: str | None = None


class TensorPool:
    """The offset of each tensor in one allocation, and the initial bytes."""

    def __init__(self, request: NaiveRequest) -> None:
        self.offsets: dict[str, int] = {}
        self.size = 0
        program = request.program
        for name, array in request.inputs.items():
            self._place(name, array.nbytes)
        for output in program.outputs:
            self._place(output.name, int(np.prod(output.dims)) * NUMPY[output.dtype].itemsize)
        for name, array in request.answer.items():
            self._place(f"answer {name}", array.nbytes)
        for space in program.scratch:
            self._place(space.name, space.size_bytes)
        self.used = self.size
        self.size += _TAIL
        self.image = np.zeros(self.size, np.uint8)
        answers = {f"answer {name}": array for name, array in request.answer.items()}
        for name, array in {**request.inputs, **request.before, **answers}.items():
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.image[self.offsets[name] : self.offsets[name] + raw.size] = raw

    def _place(self, name: str, size: int) -> None:
        self.offsets[name] = self.size
        self.size += -(-size // _ALIGNMENT) * _ALIGNMENT

    def cut(self, image: Array, request: NaiveRequest) -> tuple[Arrays, Arrays]:
        """The outputs and the inputs in a copy of the pool."""
        outputs = {b.name: self._array(image, b.name, NUMPY[b.dtype], b.dims) for b in request.program.outputs}
        inputs = {n: self._array(image, n, a.dtype, a.shape) for n, a in request.inputs.items()}
        return outputs, inputs

    def _array(self, image: Array, name: str, dtype: np.dtype[np.generic], dims: tuple[int, ...]) -> Array:
        start = self.offsets[name]
        return image[start : start + int(np.prod(dims)) * dtype.itemsize].copy().view(dtype).reshape(dims)


class NaiveDevice(Protocol):
    """The interface of both naive devices."""

    def run(self, request: NaiveRequest) -> NaiveResult: ...

    def health(self) -> None: ...


class NaiveSim:
    """On the simulator: checkers off if possible, times modelled."""

    def __init__(self, name: DeviceName) -> None:
        from evo.spec.chips import chip

        self.name = name
        self.chip = chip(name.which)

    def health(self) -> None:
        """Nothing to do: a fresh process starts clean."""

    def run(self, request: NaiveRequest) -> NaiveResult:
        from evo import sim

        pool = TensorPool(request)
        memory = sim.Memory()
        buffer = memory.allocate(pool.size, name="pool", fill=b"\0")
        memory.write(buffer, pool.image)
        try:
            module = sim.load(request.program.binary.ptx, chip=self.chip)
        except sim.PtxError as refusal:
            outputs, inputs = pool.cut(pool.image, request)
            return NaiveResult(outputs=outputs, inputs=inputs, fault=refusal.message)
        parts, fault = self._launch(request.program, module, memory, buffer, pool)
        outputs, inputs = pool.cut(memory.read(buffer, np.uint8, pool.size), request)
        if fault is not None:
            return NaiveResult(outputs=outputs, inputs=inputs, fault=fault)
        times = []
        for _ in range(request.runs):
            parts, fault = self._launch(request.program, module, memory, buffer, pool)
            if fault is not None:
                return NaiveResult(outputs=outputs, inputs=inputs, fault=fault)
            times.append(sim.estimate(parts, self.chip, footprint_bytes=pool.used, cold=request.cold).modelled_us)
        mean = float(np.mean(times)) if times else None
        return NaiveResult(outputs=outputs, inputs=inputs, mean_us=mean)

    def _launch(
        self, program: Program, module: sim.Module, memory: sim.Memory, buffer: sim.SimBuffer, pool: TensorPool
    ) -> tuple[list[sim.LaunchCounts], str | None]:
        from evo import sim

        for space in program.scratch:
            if space.init == "zero":
                memory.write(buffer, np.zeros(space.size_bytes, np.uint8), at=pool.offsets[space.name])
        reports = {report.name: report for report in program.binary.kernels}
        parts: list[sim.LaunchCounts] = []
        for bound in program.launches:
            launch = bound.launch
            arguments: list[np.generic] = [
                np.uint64(buffer.address + pool.offsets[a.name]) if a.is_buffer else NUMPY[a.dtype].type(a.value)
                for a in bound.arguments
            ]
            result = module.launch(
                launch.kernel,
                grid=launch.grid,
                block=launch.block,
                shared_bytes=launch.shared_bytes,
                args=arguments,
                memory=memory,
                race=False,
                budget=_BUDGET,
            )
            if result.faults:
                return parts, f"{result.faults[0].kind.words}: {result.faults[0].message}"
            report = reports[launch.kernel]
            parts.append(
                sim.LaunchCounts(
                    counters=result.counters,
                    grid=launch.grid,
                    block=launch.block,
                    shared_bytes=launch.shared_bytes + report.shared_bytes,
                    registers=report.registers,
                    blocks_run=result.blocks_run,
                    blocks_total=result.blocks_total,
                )
            )
        return parts, None


class NaiveGpu:
    """On a GPU: one allocation; each launch is timed by the host's clock."""

    def __init__(self, name: DeviceName) -> None:
        from evo.device.gpu import GpuDevice

        self.name = name
        self._gpu: GpuDevice = GpuDevice(name)

    @property
    def spent(self) -> bool:
        return self._gpu.spent

    @property
    def notify(self) -> Callable[[str], object]:
        """The callback for waiting on the GPU, which no time limit counts."""
        return self._gpu.notify

    @notify.setter
    def notify(self, call: Callable[[str], object]) -> None:
        self._gpu.notify = call

    def health(self) -> None:
        self._gpu.health()

    def run(self, request: NaiveRequest) -> NaiveResult:
        with self._gpu.locked(exclusive=request.runs > 0):
            return self._run(request)

    def _run(self, request: NaiveRequest) -> NaiveResult:
        from evo.device.gpu_load import KernelFault, Sequence
        from evo.device.gpu_memory import Arena

        pool = TensorPool(request)
        arena = Arena({"pool": pool.size}, self._gpu.tools, key=1)
        arena.upload("pool", pool.image)
        start = arena.address("pool")
        addresses = {name: start + offset for name, offset in pool.offsets.items()}
        outputs, inputs = pool.cut(pool.image, request)
        mean: float | None = None
        if request.cold:
            self._gpu.tools.flush_l2()
            self._gpu.stream.synchronize()
        started = time.perf_counter()
        try:
            loaded = self._gpu.load(request.program, "cold" if request.cold else "")
            sequence = Sequence(request.program, loaded, addresses)
            with self._gpu.stream:
                sequence.execute(self._gpu.stream)
                if request.cold and request.runs:
                    mean = (time.perf_counter() - started) * 1e6
                image = arena.download("pool", np.dtype(np.uint8), (pool.size,))
                outputs, inputs = pool.cut(image, request)
                if request.runs and mean is None:
                    mean = self._mean_us(sequence, request)
        except KernelFault as error:
            self._gpu.spent = self._gpu.spent or error.sticky
            return NaiveResult(outputs=outputs, inputs=inputs, fault=error.fault.message)
        return NaiveResult(outputs=outputs, inputs=inputs, mean_us=mean)

    def _mean_us(self, sequence: Any, request: NaiveRequest) -> float:
        from evo.device.gpu_load import blamed_on

        stream = self._gpu.stream
        spent = 0.0
        with blamed_on(sequence.names):
            for _ in range(request.runs):
                started = time.perf_counter()
                sequence.enqueue(stream)
                stream.synchronize()
                spent += time.perf_counter() - started
        return spent / request.runs * 1e6


def open_naive(name: DeviceName) -> NaiveSim | NaiveGpu:
    """Open the device of the naive harness's child process."""
    return NaiveSim(name) if name.kind == "sim" else NaiveGpu(name)


class RemoteNaiveDevice(DeviceProcess):
    """A naive device in its child process."""

    def __init__(self, device: DeviceName) -> None:
        super().__init__(device, opener=_OPENER)

    def run(self, request: NaiveRequest, *, time_limit_s: float) -> NaiveResult:
        """Raises TimedOut or Crashed, or an EvoError."""
        return self._run(NaiveDevice.run, time_limit_s, [request.program], request)
