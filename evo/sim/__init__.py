"""Run real PTX on the CPU: exact results, memory and race faults, event counters, and a modelled latency.

    module = load(ptx, chip=CHIPS["l4"])              refuses unknown instructions by name
    memory = Memory(); x = memory.allocate(4096, name="x")
    memory.write(x, array)
    result = module.launch("kernel", grid=(8,), block=(128,), args=[x, np.int32(7)], memory=memory)
    result.faults, result.counters.totals(), memory.read(x, np.float32, 1024)

Everything that a kernel does is checked while it runs; `race=False` switches the race checker off.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evo.sim.counters import Counters
    from evo.sim.errors import PtxError, UnsupportedInstruction
    from evo.sim.memory import Memory, SimBuffer
    from evo.sim.module import DEFAULT_BUDGET, LaunchResult, Module, load
    from evo.sim.timing_model import MODEL_VERSION, LaunchCounts, estimate, occupancy

VERSION = "5"  # of the simulator's results: bump when the same PTX may give other values, faults or counts

__all__ = [
    "DEFAULT_BUDGET", "MODEL_VERSION", "VERSION", "Counters", "LaunchCounts", "LaunchResult", "Memory", "Module",
    "PtxError", "SimBuffer", "UnsupportedInstruction", "estimate", "load", "occupancy",
]  # fmt: skip

_HOMES = {
    "counters": ("Counters",),
    "errors": ("PtxError", "UnsupportedInstruction"),
    "memory": ("Memory", "SimBuffer"),
    "module": ("DEFAULT_BUDGET", "LaunchResult", "Module", "load"),
    "timing_model": ("MODEL_VERSION", "LaunchCounts", "estimate", "occupancy"),
}


def __getattr__(name: str) -> object:
    """Import what is asked for: who reads PTX alone needs no compiler of it."""
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"evo.sim.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
