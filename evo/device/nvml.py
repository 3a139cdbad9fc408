"""Clocks, power, temperature and throttle reasons of one GPU, read through NVML (absent where NVML is) or counted."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.spec.proc_files import processes_below

Stamps = NDArray[np.uint64]

_SHORTEST_NS = 100_000
_MOST_CHILDREN = 1000
_IDLE = 0x1  # "clocks are low because nothing runs" says nothing about a measurement


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the GPU after a block. Fields are None if the driver does not say.

    counted_mhz: the SM clock over the block, from the SMs' own cycle and time counters; NVML's is a moment's.
    """

    sm_mhz: int | None = None
    throttle: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    counted_mhz: float | None = None

    @property
    def clock_mhz(self) -> float | None:
        return self.counted_mhz if self.counted_mhz is not None else self.sm_mhz


class Monitor:
    """NVML's view of the GPU at one PCI bus id. Never changes a setting."""

    def __init__(self, bus: str) -> None:
        self.uuid: str | None = None
        self._nvml: Any = None
        self._handle: Any = None
        with contextlib.suppress(Exception):  # a container without NVML measures all the same, and says so
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
            self._nvml = pynvml
            self.uuid = _text(pynvml.nvmlDeviceGetUUID(self._handle))

    def read(self) -> Reading:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        throttle = int(reasons) & ~_IDLE if reasons is not None else None
        return Reading(self._clock(), throttle, self.power_w(), self.temperature_c())

    def others(self) -> int | None:
        """How many compute processes use this GPU beside this run's, the driver and its children; None if unknown.

        In a container the GPU driver's process numbers are not ours, and nobody can tell whose they are.
        """
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses")
        numbers = {int(process.pid) for process in listed or ()}
        if listed is None or (numbers and os.getpid() not in numbers):
            return None
        beside = numbers - {os.getpid(), os.getppid()}
        return len(beside - set(processes_below(os.getppid(), _MOST_CHILDREN))) if beside else 0

    def temperature_c(self) -> int | None:
        value = self._ask("nvmlDeviceGetTemperature", arguments=(0,))
        return int(value) if value is not None else None

    def power_w(self) -> float | None:
        value = self._ask("nvmlDeviceGetPowerUsage")
        return value / 1000 if value is not None else None

    def describe(self) -> dict[str, str]:
        """What belongs in an environment: driver, limits, policy. Reads only."""
        if self._nvml is None:
            return {"nvml": "unavailable"}
        found: dict[str, str] = {}
        with contextlib.suppress(Exception):
            found["driver"] = _text(self._nvml.nvmlSystemGetDriverVersion())
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        if limit is not None:
            found["power_limit_w"] = f"{limit / 1000:g}"
        ecc = self._ask("nvmlDeviceGetEccMode")
        if ecc is not None:
            found["ecc"] = "on" if ecc[0] else "off"
        top = self._ask("nvmlDeviceGetMaxClockInfo", arguments=(1,))
        if top is not None:
            found["sm_clock_max_mhz"] = str(top)
        if (policy := self._clock_policy()) is not None:
            found["clock_policy"] = policy
        return found

    def _clock_policy(self) -> str | None:
        """`default`, or the application clock that somebody has set. A lock by `nvidia-smi -lgc` cannot be read back:
        it shows as a throttle reason (0x2) of the blocks."""
        chosen = self._ask("nvmlDeviceGetApplicationsClock", arguments=(0,))  # NVML_CLOCK_GRAPHICS
        usual = self._ask("nvmlDeviceGetDefaultApplicationsClock", arguments=(0,))
        if chosen is None or usual is None:
            return None
        return "default" if chosen == usual else f"application clock {chosen} MHz"

    def _clock(self) -> int | None:
        value = self._ask("nvmlDeviceGetClockInfo", arguments=(1,))  # NVML_CLOCK_SM
        return int(value) if value is not None else None

    def _ask(self, *names: str, arguments: tuple[Any, ...] = ()) -> Any:
        """The first of these queries that the driver answers."""
        for name in names:
            with contextlib.suppress(Exception):
                return getattr(self._nvml, name)(self._handle, *arguments)
        return None


def clock_between(first: Stamps, second: Stamps) -> float | None:
    """MHz between two stamps, each a row of (cycles, ns) per SM with zeros if none was written; None if unclear.

    The nanosecond counter of some chips moves in steps of a microsecond, so a span of less than 100 us says nothing.
    """
    both = (first[:, 1] > 0) & (second[:, 1] > first[:, 1]) & (second[:, 0] > first[:, 0])
    if not both.any():
        return None
    cycles = (second[both, 0] - first[both, 0]).astype(np.float64)
    ns = (second[both, 1] - first[both, 1]).astype(np.float64)
    if float(np.median(ns)) < _SHORTEST_NS:
        return None
    return float(np.median(cycles / ns)) * 1000


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
