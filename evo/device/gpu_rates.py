"""Timing the calibration kernels of `evo.device.calibrate` on the GPU at hand. Lives in a child process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
from cupy.cuda import driver, runtime  # driver is an attribute, not a module of its own
from cupy.cuda.runtime import CUDARuntimeError

from evo.cuda.compile import Binary
from evo.device.calibrate import CHAINS, MMA_FLOP, UNROLL
from evo.device.gpu_context import GpuContext
from evo.device.gpu_load import cuda_trouble, load
from evo.results import Rate

_THREADS = 256
_SUSTAIN_S = 0.5  # a power limit shows within some hundred milliseconds of load
_QUICK_S = 0.1
_LAUNCH_S = 0.002  # long against what a launch costs
_CLOCK_LAUNCH_S = 0.02  # %globaltimer may tick in microseconds
_STREAM_BYTES = 2**30
_LAUNCHES = 300
_MOST_TRIPS = 2**30


def measure_rates(device: GpuContext, binary: Binary, quick: bool) -> dict[str, Rate]:
    """Time every kernel, one after the other. The caller holds the GPU's lock."""
    try:
        return dict(_Rates(device, binary, _QUICK_S if quick else _SUSTAIN_S).all())
    except (CUDARuntimeError, driver.CUDADriverError) as error:
        raise cuda_trouble(error) from error


class _Rates:
    def __init__(self, device: GpuContext, binary: Binary, sustain_s: float) -> None:
        self.device, self.sustain_s = device, sustain_s
        self.loaded = load(binary, device.capability)
        self.how = f"{binary.arch}, {self.loaded.how}"
        properties: dict[str, Any] = runtime.getDeviceProperties(int(device.name.which))
        self.sms = int(properties["multiProcessorCount"])
        self.l2_bytes = int(properties["l2CacheSize"])
        free, _ = runtime.memGetInfo()
        self.stream_bytes = min(_STREAM_BYTES, free // 8) // 4096 * 4096
        self.source, self.target = (cupy.cuda.Memory(self.stream_bytes) for _ in range(2))
        self.small = cupy.cuda.Memory(16 * _THREADS * 4)
        # Random bits, since zeros draw less power and can run faster; halves of a size that sums stay finite with.
        device.tools.fill_guard(self.source.ptr, 0, self.stream_bytes, 1)
        device.tools.fill_guard(self.target.ptr, 0, self.stream_bytes, 2)
        device.stream.synchronize()

    def all(self) -> Iterator[tuple[str, Rate]]:
        yield from self._tensor()
        yield from self._scalar()
        yield from self._memory()
        yield from self._launches()

    def _tensor(self) -> Iterator[tuple[str, Rate]]:
        rng = np.random.default_rng(1)
        self._upload((rng.standard_normal(16 * _THREADS * 2) * 0.1).astype(np.float16))
        blocks = self.sms * 2
        clocks = cupy.cuda.Memory(blocks * 16)

        def launch(trips: int) -> None:
            self._start("mma", blocks, self.small.ptr, self.target.ptr, clocks.ptr, np.int32(trips))

        trips = self._trips(launch, _CLOCK_LAUNCH_S)
        seconds = self._sustained(lambda: launch(trips))
        flop = float(trips) * CHAINS * blocks * (_THREADS // 32) * MMA_FLOP
        power = self.device.monitor.power_w()
        counted = np.empty((blocks, 2), np.uint64)
        runtime.memcpy(counted.ctypes.data, clocks.ptr, counted.nbytes, 2)
        load = f"under sustained mma.sync load ({self.sustain_s:g} s)"
        condition = f"mma.sync m16n8k16, fp16 in, fp32 accumulate, random data, sustained; {self.how}"
        yield "mma_f16_flop_per_s", Rate(value=flop / seconds, unit="FLOP/s", condition=condition)
        hertz = float(np.median(counted[:, 0] / counted[:, 1])) * 1e9
        yield "sm_clock_hz", Rate(value=hertz, unit="Hz", condition=f"clock64 over globaltimer, {load}")
        if power is not None:
            yield "power_w", Rate(value=power, unit="W", condition=f"NVML, {load}")

    def _scalar(self) -> Iterator[tuple[str, Rate]]:
        rng = np.random.default_rng(2)
        self._upload(rng.uniform(-1.0, 1.0, 16 * _THREADS).astype(np.float32))
        threads = self.sms * 4 * _THREADS
        for kernel, key, unit, each in (
            ("multiply_add", "fp32_flop_per_s", "FLOP/s", 2),
            ("exponential", "exp_per_s", "1/s", 1),
        ):

            def launch(trips: int, kernel: str = kernel) -> None:
                self._start(kernel, self.sms * 4, self.small.ptr, self.target.ptr, np.int32(trips))

            trips = self._trips(launch, _LAUNCH_S)
            seconds = self._sustained(lambda launch=launch, trips=trips: launch(trips))  # type: ignore[misc]
            count = float(trips) * UNROLL * CHAINS * threads * each
            what = "fma.rn.f32" if kernel == "multiply_add" else "ex2.approx.ftz.f32"
            yield key, Rate(value=count / seconds, unit=unit, condition=f"{what}, {CHAINS} chains a thread; {self.how}")

    def _memory(self) -> Iterator[tuple[str, Rate]]:
        source, target, large = self.source.ptr, self.target.ptr, self.stream_bytes
        blocks, count = self.sms * 8, np.uint64(large // 16)
        size = f"{large // 2**20} MiB"
        seconds = self._sustained(lambda: self._start("copy", blocks, source, target, count))
        yield "dram_copy_bytes_per_s", _bandwidth(2 * large, seconds, f"copy of {size}, read and written; {self.how}")
        seconds = self._sustained(lambda: self._start("read_dram", blocks, source, target, count))
        yield "dram_read_bytes_per_s", _bandwidth(large, seconds, f"reading {size} again and again; {self.how}")
        part = 1 << (min(self.l2_bytes // 3, large).bit_length() - 1)
        seconds = self._sustained(lambda: self._start("read_l2", blocks, source, target, np.uint32(part // 16)))
        condition = f"every block reads the same {part // 2**20} MiB past L1; {self.how}"
        yield "l2_read_bytes_per_s", _bandwidth(blocks * part, seconds, condition)

        def shared(trips: int) -> None:
            self._start("read_shared", self.sms * 4, target, np.int32(trips))

        trips = self._trips(shared, _LAUNCH_S)
        seconds = self._sustained(lambda: shared(trips))
        moved = float(trips) * UNROLL * 16 * _THREADS * self.sms * 4
        yield "shared_read_bytes_per_s", _bandwidth(moved, seconds, f"16 bytes a lane, no conflicts; {self.how}")

    def _launches(self) -> Iterator[tuple[str, Rate]]:
        stream = self.device.stream
        with stream:
            stream.begin_capture()
            for _ in range(_LAUNCHES):
                self._start("empty", 1)
            graph = stream.end_capture()
            graph.upload(stream)
        seconds = self._sustained(lambda: graph.launch(stream)) / _LAUNCHES
        yield "launch_graph_s", Rate(value=seconds, unit="s", condition=f"an empty kernel, {_LAUNCHES} in a graph")

        def eager() -> None:
            for _ in range(_LAUNCHES):
                self._start("empty", 1)

        condition = "an empty kernel, launched one by one through CuPy: mostly the host"
        yield "launch_stream_s", Rate(value=self._sustained(eager) / _LAUNCHES, unit="s", condition=condition)
        single = []
        for _ in range(50):
            stream.synchronize()
            single.append(self._between(lambda: self._start("empty", 1)))
        condition = "two events around one launch of an empty kernel on an idle stream"
        yield "launch_event_s", Rate(value=statistics.median(single), unit="s", condition=condition)

    def _upload(self, array: np.ndarray[Any, Any]) -> None:
        runtime.memcpy(self.small.ptr, array.ctypes.data, array.nbytes, 1)

    def _start(self, kernel: str, blocks: int, *arguments: Any) -> None:
        """Enqueue one launch; plain integers are addresses."""
        packed = tuple(np.uint64(value) if isinstance(value, int) else value for value in arguments)
        with self.device.stream:
            self.loaded.kernel(kernel)((blocks,), (_THREADS,), packed)

    def _between(self, enqueue: Callable[[], None]) -> float:
        """Seconds between two events around what is enqueued."""
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record(self.device.stream)
        enqueue()
        last.record(self.device.stream)
        last.synchronize()
        return float(cupy.cuda.get_elapsed_time(first, last)) * 1e-3

    def _trips(self, launch: Callable[[int], None], wanted_s: float) -> int:
        """A trip count with which a launch takes about so long."""
        trips = 256
        self._between(lambda: launch(trips))  # the first one loads the module
        while trips < _MOST_TRIPS:
            seconds = self._between(lambda count=trips: launch(count))  # type: ignore[misc]
            if seconds > wanted_s / 2:
                return max(1, int(trips * wanted_s / seconds))
            trips *= 4 if seconds < wanted_s / 8 else 2
        return trips

    def _sustained(self, launch: Callable[[], None]) -> float:
        """Seconds of one launch, the median over rounds that keep the GPU busy; the first round warms up."""
        self._between(launch)
        each = max(self._between(launch), 1e-6)
        count = max(1, int(_CLOCK_LAUNCH_S / each))

        def several() -> None:
            for _ in range(count):
                launch()

        self._between(several)
        rounds: list[float] = []
        end = time.monotonic() + self.sustain_s
        while len(rounds) < 3 or time.monotonic() < end:
            rounds.append(self._between(several) / count)
        return statistics.median(rounds)


def _bandwidth(moved: float, seconds: float, condition: str) -> Rate:
    return Rate(value=moved / seconds, unit="B/s", condition=condition)
