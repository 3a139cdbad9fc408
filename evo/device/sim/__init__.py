"""Run real PTX on the CPU: exact results, memory and race faults, event counters, and a modelled latency."""

from __future__ import annotations

from evo.device.sim.errors import PtxError, UnsupportedInstruction
from evo.device.sim.machine import LaunchResult, Module, load
from evo.device.sim.memory import Buffer, Memory

__all__ = ["Buffer", "LaunchResult", "Memory", "Module", "PtxError", "UnsupportedInstruction", "load"]
