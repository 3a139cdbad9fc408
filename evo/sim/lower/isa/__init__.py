"""The instruction table: for each mnemonic, its legal modifiers, its results and the function that emits it."""

from __future__ import annotations

from evo.sim.lower.isa import (  # noqa: F401 - each adds its rows to the table
    accesses,
    asynchronous,
    bits,
    control,
    convert,
    floating,
    integer,
    printing,
    tensor,
    video,
    warp,
    wmma,
)
from evo.sim.lower.isa.opcode_table import TABLE

__all__ = ["TABLE"]
