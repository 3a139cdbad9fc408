"""A device whose library calls are made up: what `evo.evaluate.library_baselines` and its command see without a GPU."""

from __future__ import annotations

import numpy as np

from evo.device import DeviceName
from evo.device.timing_types import BenchOptions, LibraryCase, LibraryTimes, timing_of


class RivalDevice:
    spent = False

    def __init__(self, name: DeviceName) -> None:
        self.name = name

    def describe(self) -> dict[str, str]:
        return {"chip": "h200", "gpu": "a stand-in", "capability": "sm_90", "driver": "570.1"}

    def time_library(
        self, library: LibraryCase, options: BenchOptions, thorough: bool = False
    ) -> dict[str, LibraryTimes | str]:
        """Twice x: exact, half a thousandth off, wrong but fastest, not a number, refused, and one without outputs."""
        x = library.inputs["x"].astype(np.float64)

        def figures(us: float, *outputs: object) -> LibraryTimes:
            times = timing_of([us, us, us * 1.1])
            return LibraryTimes(
                warm=times, cold=timing_of([us + 5] * 3), eager=timing_of([us + 40] * 3),
                outputs=tuple(np.asarray(output) for output in outputs),
            )  # fmt: skip

        return {
            "exact": figures(12.0, 2 * x),
            "near": figures(10.0, (2 * x * (1 + 5e-7)).astype(np.float64)),
            "wrong": figures(3.0, 3 * x),
            "nan": figures(2.0, x * np.nan),
            "refusing": "RuntimeError: No available kernel; the head is too wide",
            "silent": figures(20.0),
        }


def open_device(name: DeviceName) -> RivalDevice:
    return RivalDevice(name)
