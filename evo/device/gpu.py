"""The `gpu:` device, over CuPy: runs Programs under guards and poison, and times them. Lives in a child process."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from evo.cuda.compile import Binary
from evo.device import Arrays, ExtremesRequest, OutputExtremes, RunRequest, RunResult, place_of
from evo.device.gpu_context import GpuContext
from evo.device.gpu_extremes import ExtremesOnGpu
from evo.device.gpu_library import compare_with_library, time_library
from evo.device.gpu_load import KernelFault, Sequence, mostly_free
from evo.device.gpu_memory import Arena
from evo.device.gpu_rates import measure_rates
from evo.device.gpu_timing import TimingRun
from evo.device.output_extremes import Extremes, extremes_of
from evo.device.protocol import TimingDevice, whole_grid_extremes
from evo.device.timing_types import BenchOptions, BenchRequest, BenchResult, LibraryCase, LibraryPairs, LibraryTimes
from evo.errors import HarnessFault
from evo.results import Fault, FaultKind, Rate
from evo.spec.dtypes import NUMPY


class GpuDevice(GpuContext, TimingDevice):
    """What is asked of a GPU: runs of programs, measurements, calibration."""

    @functools.cached_property
    def _folds(self) -> ExtremesOnGpu:
        return ExtremesOnGpu(self.stream)

    def run(self, request: RunRequest) -> RunResult:
        """Run a program `repeats` times on poisoned memory, and look at what it touched."""
        outputs = request.program.outputs
        return self._looked_at(
            request, lambda arena: {b.name: arena.download(b.name, NUMPY[b.dtype], b.dims) for b in outputs}
        )

    def _looked_at(self, request: RunRequest, take: Callable[[Arena], Arrays]) -> RunResult:
        """Run a program. take: what of its outputs is moved to the host."""
        with self.locked(exclusive=False):
            started = time.perf_counter()
            try:
                found = self._run(request, take)
            except KernelFault as error:
                self.spent = self.spent or error.sticky
                found = RunResult(outputs=(), faults=(error.fault,))
            return replace(found, held_s=time.perf_counter() - started)

    def bench(self, request: BenchRequest) -> BenchResult:
        with self.timing():
            started = time.perf_counter()
            found = TimingRun(self, request).measure()
            return replace(found, held_s=time.perf_counter() - started)

    def output_extremes(self, request: ExtremesRequest) -> OutputExtremes:
        """Run the whole grid, and reduce all outputs, where they lie if places share inputs."""
        groups, program = request.groups, request.case.program
        if groups is None or request.find is not None:
            return whole_grid_extremes(self, request)
        extremes: dict[str, Extremes] = {}

        def fold(arena: Arena) -> Arrays:
            for output in program.outputs:
                folded = self._folds.of(arena, output, groups)
                if folded is None:
                    values = arena.download(output.name, NUMPY[output.dtype], output.dims).reshape(-1)
                    folded = extremes_of(values, None, groups, output.dtype)
                extremes[output.name] = folded
            return {}

        ran = self._looked_at(RunRequest(program=program, inputs=request.case.inputs), fold)
        if ran.faults:
            return OutputExtremes(whole=True, fault=ran.faults[0])
        return OutputExtremes(whole=True, extremes=extremes)

    def time_library(
        self, library: LibraryCase, options: BenchOptions, thorough: bool = False
    ) -> dict[str, LibraryTimes | str]:
        with self.locked(exclusive=True):
            return time_library(self, library, options, thorough)

    def compare_with_library(
        self, request: BenchRequest, library: LibraryCase, pairs: int
    ) -> dict[str, LibraryPairs | str]:
        with self.timing():
            return compare_with_library(self, request, library, pairs)

    def calibrate(self, kernels: Binary, quick: bool) -> dict[str, Rate]:
        with self.locked(exclusive=True):
            return measure_rates(self, kernels, quick)

    def _run(self, request: RunRequest, take: Callable[[Arena], Arrays]) -> RunResult:
        program = request.program
        outputs = {buffer.name: buffer for buffer in program.outputs}
        places = {name: place_of(program, name) for name in request.inputs}
        sizes = {places[name]: array.nbytes for name, array in request.inputs.items()}
        sizes |= {name: b.size_bytes for name, b in outputs.items()}
        sizes |= {space.name: space.size_bytes for space in program.scratch}
        asked = sum(space.size_bytes for space in program.scratch)
        try:
            arena = Arena(sizes, self.tools, key=secrets.randbits(63), offset_bytes=request.offset_bytes)
        except HarnessFault:
            if asked <= sum(sizes.values()) / 2 or not mostly_free():
                raise
            message = f"its workspaces of {asked} bytes do not fit into the GPU's memory"
            return RunResult(outputs=(), faults=(Fault(kind=FaultKind.LAUNCH, kernel="", message=message),))
        sequence = Sequence(program, self.load(program), {name: arena.address(name) for name in sizes})
        repeats: list[Arrays] = []
        overwritten: set[str] = set()
        with self.stream:
            for name, array in request.inputs.items():
                arena.upload(places[name], array)
            before = {name: arena.digest(places[name]) for name in request.inputs}
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
                    if arena.digest(places[name]) != digest:
                        overwritten.add(name)
                        arena.upload(places[name], request.inputs[name])
                key = hash(tuple(arena.digest(name) for name in outputs))
                if key not in seen:
                    seen[key] = take(arena)
                repeats.append(seen[key])
        return RunResult(outputs=tuple(repeats), overwritten=tuple(sorted(overwritten)), broken_guards=arena.broken())
