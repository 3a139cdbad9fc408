"""The instruction table: for each mnemonic, its legal modifiers, its results and the function that emits it."""

from __future__ import annotations

from evo.sim.lower.isa import (
    atomic,
    bits,
    control,
    convert,
    cp_async,
    floating,
    integer,
    load_store,
    mbarrier,
    printing,
    tensor,
    video,
    warp,
    wmma,
)
from evo.sim.lower.isa.opcode_table import TABLE, Spec, check, defs, uses

__all__ = [
    "TABLE",
    "Spec",
    "atomic",
    "bits",
    "check",
    "control",
    "convert",
    "cp_async",
    "defs",
    "floating",
    "integer",
    "load_store",
    "mbarrier",
    "printing",
    "tensor",
    "uses",
    "video",
    "warp",
    "wmma",
]
