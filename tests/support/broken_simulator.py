"""A simulator with a defect of its own: a KeyError where it should translate `fma`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evo.device import DeviceName
from evo.device.sim_device import SimDevice
from evo.sim.lower.isa import TABLE

OPENER = "broken_simulator:open_device"


def open_device(name: DeviceName) -> Any:
    def emit(*_: object) -> None:
        raise KeyError("no such register")

    TABLE["fma"] = replace(TABLE["fma"], emit=emit)
    return SimDevice(name)
