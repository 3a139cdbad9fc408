"""No result may follow from where buffers lie: a variant could tell devices or allocators apart by it.

Addresses may be read and written at, and compared with others in the same buffer. A thread's own place counts as known:
an address that a block computes for its row is an address too. Alignment may be asked for: every address here is a
multiple of 256, as every allocator's is.
"""

from __future__ import annotations

from collections.abc import Mapping

from evo.evaluate.gate.source_rules import StaticProblem
from evo.results import StaticRule
from evo.sim import PtxError
from evo.sim.address_flow import address_misuses


def address_problem(ptx: str, buffers: Mapping[str, frozenset[int]]) -> StaticProblem | None:
    """The first thing that depends on the address of a buffer, with its source line; None if nothing does.

    buffers: of each kernel, the numbers of the parameters that are given one.
    """
    try:
        misuse = next(address_misuses(ptx, buffers), None)
    except PtxError:  # said elsewhere
        return None
    if misuse is None:
        return None
    what = "decides by" if misuse.instruction.startswith("setp") else "computes with"
    return StaticProblem(StaticRule.ADDRESS, misuse.source_line, f"{what} the address of a buffer")
