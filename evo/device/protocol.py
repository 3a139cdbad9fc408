"""The device protocol. `SimDevice` and `GpuDevice` implement it in this process, `RemoteDevice`s in a child.

Three protocols, since a simulator cannot time a library call and a GPU cannot model a time: code that needs one or the
other says so in its types. A candidate's failure is part of a result (`Fault`), or `TimedOut` or `Crashed` where it
takes a child process along; everything else that is raised is an EvoError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evo.cuda.compile import Binary
from evo.device import (
    BenchCase,
    ExtremesRequest,
    OutputExtremes,
    Program,
    RehearsalRequest,
    RunRequest,
    RunResult,
    SampledRun,
    SampleRequest,
)
from evo.device.output_extremes import reduced
from evo.device.timing_types import BenchOptions, BenchRequest, BenchResult, LibraryCase, LibraryPairs, LibraryTimes
from evo.results import CaseBench, Fault, Rate


@runtime_checkable
class Device(Protocol):
    """What every device can do."""

    def describe(self) -> dict[str, str]:
        """Chip, driver, clock policy and whatever else belongs in an Environment's detail."""
        ...

    def health(self) -> None:
        """Check that the device works, as after a fault. Raises HarnessFault if it does not."""
        ...

    def run(self, request: RunRequest) -> RunResult:
        """Run a program on poisoned memory and read what it wrote. Faults of the program are in the result."""
        ...

    def output_extremes(self, request: ExtremesRequest) -> OutputExtremes:
        """Run a bench case for its numbers alone, reduced over places that have the same inputs."""
        ...


@runtime_checkable
class ModellingDevice(Device, Protocol):
    """A simulator: it counts what a program executes and models its time."""

    def estimate(self, cases: Sequence[BenchCase]) -> tuple[CaseBench, ...] | Fault:
        """Model the time of each case, or the fault that one of them ended in."""
        ...

    def screen(self, cases: Sequence[BenchCase]) -> tuple[CaseBench, ...] | Fault:
        """Quicker estimates from a few blocks, to choose between proposals; never recorded."""
        ...

    def translate(self, program: Program) -> None:
        """Have the code of a program's kernels at hand in the cache; what cannot be translated is told when it runs."""
        ...

    def rehearse(self, request: RehearsalRequest) -> NDArray[np.uint8]:
        """Of each size and each point of a launch's rehearsal (`evo.sim.rehearsal`), the outcomes as bits."""
        ...

    def run_sample(self, request: SampleRequest) -> SampledRun:
        """Run some blocks of a bench case, or all, with races checked; their outputs, and a modelled time."""
        ...


@runtime_checkable
class TimingDevice(Device, Protocol):
    """A GPU: it measures times, of candidates and of library calls."""

    def bench(self, request: BenchRequest) -> BenchResult:
        """Time candidates, in interleaved pairs with their parents if there are any."""
        ...

    def time_library(
        self, library: LibraryCase, options: BenchOptions, thorough: bool = False
    ) -> dict[str, LibraryTimes | str]:
        """Time each library call of a case; in words, why one cannot run here. thorough: cold, eager, outputs too."""
        ...

    def compare_with_library(
        self, request: BenchRequest, library: LibraryCase, pairs: int
    ) -> dict[str, LibraryPairs | str]:
        """Time the request's one case in interleaved pairs with each library call, or say why one cannot run here."""
        ...

    def calibrate(self, kernels: Binary, quick: bool) -> dict[str, Rate]:
        """Measure the chip's rates with the kernels of `evo.device.calibrate`."""
        ...


def whole_grid_extremes(device: Device, request: ExtremesRequest) -> OutputExtremes:
    """`Device.output_extremes` from one run of all blocks."""
    program = request.case.program
    ran = device.run(RunRequest(program=program, inputs=request.case.inputs))
    if ran.faults:
        return OutputExtremes(whole=True, fault=ran.faults[0])
    dtypes = {output.name: output.dtype for output in program.outputs}
    extremes, place = reduced(ran.outputs[0], dtypes, dict.fromkeys(dtypes), request.groups, request.find)
    return OutputExtremes(whole=True, extremes=extremes, place=place)
