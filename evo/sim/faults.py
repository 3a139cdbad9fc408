"""The faults that generated code reports: the number in a fault record, the kind of result, and the sentence for it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from evo.results import FaultKind
from evo.sim.abi import (
    BARRIERS,
    HELD,
    NO_BARRIER,
    NO_MBARRIER,
    OTHER_BLOCK,
    OTHER_READ,
    SOURCE_LANE,
    STACK_BYTES,
    STILL_VALID,
    TOO_MANY,
    WRONG_COUNT,
)
from evo.sim.ptx.ast import Instr

Triple = tuple[int, int, int]

_MISALIGNED = "{at.action} at address {at.address:#x} is not a multiple of its width: {at.place}"
_OVERFLOW = f"calls are nested deeper than the stack of a thread allows ({STACK_BYTES} bytes)"
_REGISTER = "{at.ins.spelling} reads a register that no instruction has written"
_STALE = "{at.action} through the read-only cache (ld.global.nc) of what this launch has written: {at.place}"
_UNACQUIRED = (
    "{at.action} may get an old value from the first-level cache: there is no fence between the flag that another block"
    " has set and this access: {at.place}"
)
_SOURCE = "{at.action} is given {at.extra} bytes of source, more than it copies (undefined)"
_PENDING = "{at.action} touches bytes that an unfinished cp.async still writes; wait for its group first: {at.place}"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One fault as it happened. `extra` means what the fault's sentence makes of it."""

    ins: Instr
    action: str  # `4-byte load`
    place: str  # `byte 12 of buffer x (4096 bytes)`
    address: int  # as a person reads it; the number of the barrier, for barriers
    extra: int
    warp: int
    block_size: Triple
    block_of: Callable[[int], Triple]  # the block that is the n-th of the launch

    def thread(self, lane: int, warp: int | None = None) -> Triple:
        return thread_of(self.warp if warp is None else warp, lane, self.block_size)


def thread_of(warp: int, lane: int, block: Triple) -> Triple:
    """The (x, y, z) of a lane in a block of this size."""
    linear = 32 * warp + lane
    return (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))


def _trap(at: Occurrence) -> str:
    if at.ins.name == "brx":
        return f"{at.ins.spelling} with an index beyond the {at.extra} targets of its table"
    return "the kernel executed trap"


def _deadlock(at: Occurrence) -> str:
    if at.address >= 0:
        wanted = f" for {at.extra} threads" if at.extra else ""
        return f"every live warp waits; this one{wanted} at barrier {at.address}, which the others never reach"
    return f"every live warp waits; this one loops at {at.ins.spelling} for a change that no warp will make"


def _barrier(at: Occurrence) -> str:
    what = at.ins.spelling
    if at.extra & NO_BARRIER:
        return f"{what} at barrier {at.address}, but a block has {BARRIERS}: 0 to {BARRIERS - 1}"
    if at.extra & NO_MBARRIER:
        return f"{what} at shared offset {at.address}, where no mbarrier was initialised"
    if at.extra & TOO_MANY:
        return f"{what} at shared offset {at.address}: more arrivals than the mbarrier can count"
    if at.extra & STILL_VALID:
        return f"{what} at shared offset {at.address}, where an earlier mbarrier was not invalidated (undefined)"
    if at.extra & WRONG_COUNT:
        count = at.extra & ~WRONG_COUNT
        why = "another warp waits there for another number" if count % 32 == 0 else "warps arrive whole, 32 at a time"
        return f"{what} at barrier {at.address} waits for {count} threads, but {why}"
    return f"{what} reached while thread {at.thread(at.extra)} of the same warp is elsewhere"


def _warp_sync(at: Occurrence) -> str:
    if at.extra & SOURCE_LANE:
        return f"{at.ins.spelling} reads the value of lane {at.extra & 31}, which does not take part"
    other = at.thread(at.extra & 31)
    if at.extra & HELD:
        return f"{at.ins.spelling} waits for thread {other} of its mask, which never comes"
    return f"{at.ins.spelling}: its mask and the lanes that run it differ; thread {other} is on one side only"


def _race(at: Occurrence) -> str:
    if at.extra > 0 and at.extra & OTHER_BLOCK:
        thread = at.thread(at.extra & 1023, warp=0)
        block = at.block_of((at.extra & ~(OTHER_BLOCK | OTHER_READ)) >> 16)
        access = "read" if at.extra & OTHER_READ else "write"
        return f"{at.action} and the {access} of block {block} thread {thread} are not ordered: {at.place}"
    if at.extra == -1:
        return f"two lanes of one warp store different values to one address in one {at.action}: {at.place}"
    warp, lane = at.extra >> 8 & 255, at.extra & 255
    other = f"the {'write' if at.extra >> 16 == 1 else 'read'} of thread {at.thread(lane, warp)}"
    if warp == at.warp:
        return f"{at.action} and {other} of the same warp are not ordered by __syncwarp: {at.place}"
    return f"{at.action} and {other} are not ordered by a barrier: {at.place}"


class SimFault(enum.Enum):
    """Number in a fault record, kind of result, sentence (or what makes it), whether its address is a place in memory.

    A sentence as text is filled in with the `at` of the occurrence.
    """

    OUT_OF_BOUNDS = (1, FaultKind.OUT_OF_BOUNDS, "{at.action} outside its memory: {at.place}", True)
    MISALIGNED = (2, FaultKind.MISALIGNED, _MISALIGNED, True)
    UNINITIALISED = (3, FaultKind.UNINITIALISED, "{at.action} reads bytes that were never written: {at.place}", True)
    RACE = (4, FaultKind.RACE, _race, True)
    BARRIER = (5, FaultKind.BARRIER, _barrier, False)
    READ_ONLY = (6, FaultKind.READ_ONLY, "{at.action} to read-only memory: {at.place}", True)
    BUDGET = (7, FaultKind.BUDGET, "the instruction budget is used up: an endless loop, or too much work", False)
    DEADLOCK = (8, FaultKind.DEADLOCK, _deadlock, False)
    TRAP = (9, FaultKind.TRAP, _trap, False)
    STACK_OVERFLOW = (10, FaultKind.STACK_OVERFLOW, _OVERFLOW, False)
    PENDING = (11, FaultKind.UNINITIALISED, _PENDING, True)
    WARP_SYNC = (12, FaultKind.WARP_SYNC, _warp_sync, False)
    STALE = (13, FaultKind.RACE, _STALE, True)
    UNWRITTEN_REGISTER = (14, FaultKind.UNINITIALISED, _REGISTER, False)
    SOURCE_SIZE = (15, FaultKind.OUT_OF_BOUNDS, _SOURCE, False)
    UNACQUIRED = (16, FaultKind.RACE, _UNACQUIRED, True)

    def __init__(self, number: int, kind: FaultKind, text: str | Callable[[Occurrence], str], located: bool) -> None:
        self.number, self.kind, self._text, self.located = number, kind, text, located

    def sentence(self, at: Occurrence) -> str:
        return self._text.format(at=at) if isinstance(self._text, str) else self._text(at)


BY_NUMBER = {fault.number: fault for fault in SimFault}
