"""The run-time support of generated kernels, itself written as LLVM IR: one small function per need, made on demand.

Each module below registers the makers of its functions (`registry.runtime`) when it is imported.
"""

from __future__ import annotations

from evo.sim.runtime import (
    atomics,
    cp_async,
    global_memory,
    lanes,
    local_memory,
    mbarrier,
    printing,
    resident_blocks,
    schedule,
    shared_memory,
    shared_races,
    tensor,
    wmma,
)
from evo.sim.runtime.registry import Runtime, declare

__all__ = [
    "Runtime",
    "atomics",
    "cp_async",
    "declare",
    "global_memory",
    "lanes",
    "local_memory",
    "mbarrier",
    "printing",
    "resident_blocks",
    "schedule",
    "shared_memory",
    "shared_races",
    "tensor",
    "wmma",
]
