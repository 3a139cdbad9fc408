"""Stations as child processes of this one, without Ray: one per GPU of this machine, or per simulator."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any

from evo.device import DeviceName
from evo.device.worker import STARTUP_LIMIT_S, Child, Died, exit_words
from evo.search.cluster.protocol import StationLost

_OPENER = "evo.search.cluster.remote_worker:open_station"


class ProcessSite:
    """The GPUs of this machine from the device's number on, or as many simulators of its chip."""

    def __init__(self, device: DeviceName, *, measuring: int, compiling: int) -> None:
        self._device = device
        self.measuring = measuring
        self.compiling = compiling

    def open(self, role: str, index: int) -> ProcessLink:
        own = role == "measure" and self._device.kind == "gpu"
        name = DeviceName("gpu", str(int(self._device.which) + index)) if own else self._device
        return ProcessLink(name)

    def close(self) -> None:
        """Nothing is left: each link ends its own process."""


class ProcessLink:
    """One child process. One thread at a time may call."""

    def __init__(self, device: DeviceName) -> None:
        self._child = Child(device, _OPENER, lambda: None)
        self._answered(None, STARTUP_LIMIT_S)

    def call(self, method: str, *args: object, limit_s: float) -> Any:
        return self._answered((method, args), limit_s)

    def close(self) -> None:
        self._child.process.kill()  # the process alone: a call in flight in another thread reads on, and sees the end
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.process.wait(timeout=10)

    def _answered(self, request: tuple[str, tuple[object, ...]] | None, limit_s: float) -> Any:
        try:
            kind, value, _ = self._child.ask(*request, limit_s) if request else self._child.first(limit_s)
        except TimeoutError:
            raise StationLost(f"no answer in {limit_s:.0f} s") from None
        except Died as death:
            raise StationLost(exit_words(death)) from None
        if kind == "error":
            raise value
        return value
