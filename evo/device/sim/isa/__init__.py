"""The instruction table: for each mnemonic, its legal modifiers, its results and the function that emits it."""

from __future__ import annotations

from evo.device.sim.isa import control, convert, floating, integer, memory
from evo.device.sim.isa.table import TABLE, Spec, check, defs, uses

__all__ = ["TABLE", "Spec", "check", "control", "convert", "defs", "floating", "integer", "memory", "uses"]
