"""A machine instruction as the scheduler of an SM sees it: the words between the compiler and the timing model."""

from __future__ import annotations

from typing import NamedTuple

NO_SCOREBOARD = 7


class MachineInstruction(NamedTuple):
    """One instruction, as far as the scheduler sees it.

    opcode: the base mnemonic, empty if unknown. stall: clocks until the warp may issue again. sets: the scoreboard
    (0 to 5) that its result counts down, or NO_SCOREBOARD; frees: likewise, when it has read its sources. waits: bits
    of the scoreboards to wait for. target: the address that it branches to, or None. line: of the PTX, 0 if unknown.
    helper: part of a function that ptxas added.
    """

    address: int
    opcode: str
    guarded: bool
    stall: int
    sets: int
    frees: int
    waits: int
    target: int | None
    line: int
    helper: bool
