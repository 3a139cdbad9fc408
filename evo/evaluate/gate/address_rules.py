"""Decisions by where buffers lie: no result may follow from it, and a variant could tell devices apart by it.

A thread's own place counts as known: an address that a block computes for its row is an address too.
Alignment may be asked for: every address here is a multiple of 256, as every allocator's is. What is left is whether a
comparison comes out otherwise when all buffers move together.
"""

from __future__ import annotations

import numpy as np

from evo.evaluate.gate.source_rules import StaticProblem
from evo.results import StaticRule
from evo.sim import PtxError
from evo.sim.launch_conditions import Launches, launch_conditions, pointer_parameters

# Where drivers and the simulator put their memory, and places that no list of them has.
_BASES = (0x0700_0000_0000, 0x7F5A_2C00_0000, 0x7F21_1060_0000, 0x0003_0200_0000, 0x0010_0000_0000, 0x7E00_8000_0200)
_APART = 0x0137_0000
_LENGTHS = (1, 7, 64, 1000, 40_000)
_PLACES = {  # of one thread for each length
    **{f"ctaid.{axis}": np.asarray((0, 1, 5, 0, 19)) for axis in "xyz"},
    **{f"tid.{axis}": np.asarray((0, 31, 2, 7, 0)) for axis in "xyz"},
}


def address_problem(ptx: str) -> StaticProblem | None:
    """The first comparison that depends on the address of a buffer, with its source line; None if none does."""
    try:
        kernels = launch_conditions(ptx, of_threads=True)
        pointers = pointer_parameters(ptx)
    except PtxError:  # said elsewhere
        return None
    for name, conditions in kernels.items():
        for condition in conditions:
            if not condition.parameters & pointers[name] or not condition.instruction.startswith("setp"):
                continue
            outcomes = []
            for base in _BASES:
                sizes = np.asarray(_LENGTHS)
                parameters: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {
                    at: np.asarray(base + at * _APART, np.uint64) if at in pointers[name] else sizes
                    for at in condition.parameters
                }
                shape = np.ones((3, len(sizes)), np.int64)
                launches = Launches(parameters=parameters, grid=shape, block=shape, places=_PLACES)
                outcomes.append(condition.outcomes(launches).tolist())
            if any(outcome != outcomes[0] for outcome in outcomes):
                return StaticProblem(
                    StaticRule.ADDRESS, condition.source_line or 0, "decides by the address of a buffer"
                )
    return None
