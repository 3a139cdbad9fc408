"""The instruction table: for each mnemonic, its legal modifiers, its results and the function that emits it."""

from __future__ import annotations

from evo.device.sim.isa import (
    atomic,
    bits,
    control,
    convert,
    copy,
    floating,
    integer,
    mbarrier,
    memory,
    printing,
    tensor,
    video,
    warp,
    wmma,
)
from evo.device.sim.isa.table import TABLE, Spec, check, defs, uses

__all__ = [
    "TABLE",
    "Spec",
    "atomic",
    "bits",
    "check",
    "control",
    "convert",
    "copy",
    "defs",
    "floating",
    "integer",
    "mbarrier",
    "memory",
    "printing",
    "tensor",
    "uses",
    "video",
    "warp",
    "wmma",
]
