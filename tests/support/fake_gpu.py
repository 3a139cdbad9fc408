"""A GPU that is not there, for tests of survival: computes the task of `tiny` itself and takes times from names.

Opened in the worker's own child process, as the real one is. A kernel's name says what it does to its process or
context: `hang`, `trap`, `stray`, `deep`, `memory`, `crash`, `segfault`, `killed`, `lost`, else `NAME_<microseconds>`.
Files in $FAKE_GPU change the device: `gone` (no driver), `noise` (of a pair, a number), `bias` (of the child's times),
`slow` (all times, the library's too, so many times as long).
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

import numpy as np

from evo.cuda.compile import Binary
from evo.device import BenchCase, DeviceName, ExtremesRequest, OutputExtremes, Program, RunRequest, RunResult
from evo.device.protocol import whole_grid_extremes
from evo.device.timing_types import (
    BenchOptions,
    BenchRequest,
    BenchResult,
    LibraryCase,
    LibraryPairs,
    LibraryTimes,
    timing_of,
)
from evo.errors import Crashed, HarnessFault
from evo.results import CaseBench, Fault, FaultKind, Rate

OPENER = "fake_gpu:FakeGpu"
FAULTS = {"trap": "trap", "stray": "out_of_bounds", "deep": "stack_overflow", "memory": "launch"}


def kernel_of(program: Program) -> str:
    return program.launches[0].launch.kernel


def time_of(case: BenchCase) -> float:
    return float(kernel_of(case.program).rpartition("_")[2])


class FakeGpu:
    def __init__(self, name: DeviceName) -> None:
        if (self.folder / "gone").exists():
            raise HarnessFault("CUDA does not start: no device", hint="look at the driver's log")
        self.name = name
        self.spent = False

    @property
    def folder(self) -> Path:
        return Path(os.environ["FAKE_GPU"])

    def describe(self) -> dict[str, str]:
        return {"chip": "h200", "gpu": "Fake H200", "uuid": "GPU-fake", "driver": "1.2", "cuda": "13.0"}

    def health(self) -> None:
        """Always well."""

    def output_extremes(self, request: ExtremesRequest) -> OutputExtremes:
        return whole_grid_extremes(self, request)

    def calibrate(self, kernels: Binary, quick: bool) -> dict[str, Rate]:
        return {"sm_clock_hz": Rate(value=1.98e9, unit="Hz", condition="made up")}

    def run(self, request: RunRequest) -> RunResult:
        kernel = kernel_of(request.program)
        what = kernel.partition("_")[0]
        if what in FAULTS:
            self.spent = what != "memory"
            fault = Fault(kind=FaultKind(FAULTS[what]), kernel=kernel, message=f"{what} in {kernel}")
            return RunResult(outputs=(), faults=(fault,))
        self.misbehave(what)
        return RunResult(outputs=({"y": 2 * request.inputs["x"]},) * request.repeats)

    def misbehave(self, what: str) -> None:
        if what == "hang":
            time.sleep(3600)
        if what == "segfault":
            ctypes.string_at(0)
        if what == "killed" and not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "lost":
            (self.folder / "gone").touch()
            os._exit(1)

    def setting(self, name: str, usual: float) -> float:
        file = self.folder / name
        return float(file.read_text()) if file.exists() else usual

    def time_library(
        self, library: LibraryCase, options: BenchOptions, thorough: bool = False
    ) -> dict[str, LibraryTimes | str]:
        if (self.folder / "no_torch").exists():
            raise HarnessFault("ModuleNotFoundError: no module named torch", hint="install it")
        slow, fast = (timing_of(us * self.setting("slow", 1.0) * np.ones(64)) for us in (14.0, 12.0))
        return {
            "plain": LibraryTimes(warm=slow),
            "library": LibraryTimes(warm=fast),
            "broken": "RuntimeError: not on this chip",
        }

    def compare_with_library(
        self, request: BenchRequest, library: LibraryCase, pairs: int
    ) -> dict[str, LibraryPairs | str]:
        rng, us, slow = np.random.default_rng(2), time_of(request.child[0]), self.setting("slow", 1.0)
        ratios = tuple(float(ratio) for ratio in np.log(us / 12.0) + rng.normal(0, 0.003, pairs))
        return {
            "library": LibraryPairs(ratios=ratios, variant_us=us * slow, library_us=12.0 * slow),
            "broken": "RuntimeError: not on this chip",
        }

    def bench(self, request: BenchRequest) -> BenchResult:
        rng = np.random.default_rng(1)
        noise, bias = self.setting("noise", 0.003), self.setting("bias", 1.0)
        if kernel_of(request.child[0].program).startswith("crash"):
            self.spent = True
            raise Crashed("illegal memory access while it was timed")

        def rows(cases: tuple[BenchCase, ...]) -> tuple[CaseBench, ...]:
            samples, slow = request.options.samples, self.setting("slow", 1.0)
            slow *= 0.9 if request.options.l2_persist else 1.0
            return tuple(
                CaseBench(
                    name=c.program.case, warm=timing_of(slow * time_of(c) * np.exp(rng.normal(0, 0.003, samples)))
                )
                for c in cases
            )

        pairs: list[dict[str, float]] = []
        if request.parent:
            sides = list(zip(request.child, request.parent, strict=True))
            for _ in range(request.options.rule.max_pairs):
                pairs.append(
                    {
                        c.program.case: float(np.log(bias * time_of(c) / time_of(p)) + rng.normal(0, noise))
                        for c, p in sides
                    }
                )
        child = rows(request.child)
        return BenchResult(
            child=child,
            parent=rows(request.parent),
            pairs=tuple(pairs),
            loaded="ptx_jit",
            captures=tuple(n * request.options.captures // len(pairs) for n in range(len(pairs))),
            samples={r.name: np.full(request.options.samples, r.time_us, np.float32) for r in child},
            launches_per_sample={r.name: 6 for r in child},
        )
