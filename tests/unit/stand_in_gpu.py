"""A device that answers as a GPU would: it runs programs on the simulator, and gives times that are made up."""

from __future__ import annotations

from evo.device import DeviceName, RunRequest, RunResult
from evo.device.samples import BenchRequest, BenchResult, timing_of
from evo.device.simulated import SimDevice
from evo.result import CaseBench


class StandInGpu:
    spent = False

    def __init__(self, name: DeviceName) -> None:
        self.name = name
        self.simulator = SimDevice(DeviceName("sim", "l4"))

    def describe(self) -> dict[str, str]:
        return {"chip": "l4", "gpu": "a stand-in", "capability": "sm_89", "driver": "none"}

    def run(self, request: RunRequest) -> RunResult:
        return self.simulator.run(request)

    def bench(self, request: BenchRequest) -> BenchResult:
        """A microsecond for each thread of a block."""
        return BenchResult(
            child=tuple(
                CaseBench(name=case.program.case, warm=timing_of([float(case.program.launches[0].launch.threads)] * 8))
                for case in request.child
            )
        )
