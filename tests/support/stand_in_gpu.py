"""A device that answers as a GPU would: it runs programs on the simulator, and gives times that are made up."""

from __future__ import annotations

import math

import numpy as np

from evo.decide.sequential import Sequential
from evo.device import BenchCase, DeviceName, ExtremesRequest, OutputExtremes, RunRequest, RunResult
from evo.device.protocol import whole_grid_extremes
from evo.device.sim_device import SimDevice
from evo.device.timing_types import BenchRequest, BenchResult, timing_of
from evo.results import CaseBench


class StandInGpu:
    spent = False

    def __init__(self, name: DeviceName) -> None:
        self.name = name
        self.simulator = SimDevice(DeviceName("sim", "l4"))

    def describe(self) -> dict[str, str]:
        return {"chip": "l4", "gpu": "a stand-in", "capability": "sm_89", "driver": "none"}

    def health(self) -> None:
        """A simulator is always well."""

    def run(self, request: RunRequest) -> RunResult:
        return self.simulator.run(request)

    def output_extremes(self, request: ExtremesRequest) -> OutputExtremes:
        return whole_grid_extremes(self, request)

    def bench(self, request: BenchRequest) -> BenchResult:
        """A microsecond for each thread of a block."""
        child, parent = _rows(request.child), _rows(request.parent)
        pairs: list[dict[str, float]] = []
        if parent:
            both = zip(child, parent, strict=True)
            pair = {ours.name: math.log(ours.time_us / theirs.time_us) for ours, theirs in both}
            stop = Sequential(dict.fromkeys(pair, 1.0), request.options.rule)
            while len(pairs) < request.options.rule.max_pairs and stop.verdict is None:
                pairs.append(pair)
                stop.add(pair)
        samples = {row.name: np.full(8, row.time_us, np.float32) for row in child}
        return BenchResult(child=child, parent=parent, pairs=tuple(pairs), samples=samples)


def _rows(cases: tuple[BenchCase, ...]) -> tuple[CaseBench, ...]:
    times = {case.program.case: float(case.program.launches[0].launch.threads) for case in cases}
    return tuple(CaseBench(name=name, warm=timing_of([us] * 8)) for name, us in times.items())
