"""Clocks, power, temperature and throttle reasons of one GPU, read through NVML; absent where NVML is."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

_IDLE = 0x1  # "clocks are low because nothing runs" says nothing about a measurement


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the clock. Fields are None where the driver does not say."""

    sm_mhz: int | None = None
    throttle: int | None = None


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
        return Reading(self._clock(), int(reasons) & ~_IDLE if reasons is not None else None)

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
        others = self._ask("nvmlDeviceGetComputeRunningProcesses")
        if others is not None:
            found["compute_processes"] = str(len(others))
        return found

    def _clock(self) -> int | None:
        value = self._ask("nvmlDeviceGetClockInfo", arguments=(1,))  # NVML_CLOCK_SM
        return int(value) if value is not None else None

    def _ask(self, *names: str, arguments: tuple[Any, ...] = ()) -> Any:
        """The first of these queries that the driver answers."""
        for name in names:
            with contextlib.suppress(Exception):
                return getattr(self._nvml, name)(self._handle, *arguments)
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
