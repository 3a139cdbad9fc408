"""Fault records of generated code -> evo.results.Fault, with buffer names, coordinates and one plain sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evo.results import Fault
from evo.sim.abi import FAULT, FAULT_SIZE, LOCAL_WINDOW, REC_SIZE, SHARED_WINDOW, WINDOW_SIZE
from evo.sim.faults import BY_NUMBER, Occurrence, SimFault, Triple, thread_of
from evo.sim.launch_context import LaunchContext
from evo.sim.lower.kernel import Kernel
from evo.sim.memory import SimBuffer
from evo.sim.ptx.ast import Instr

_Found = list[tuple[SimFault, dict[str, int]]]

_FAR = 1 << 36  # bytes from a buffer within which an address is named by its distance
_UNSIGNED = (1 << 64) - 1
_SHARED, _LOCAL, _PARAM = 2, 3, 4  # in the extra of a fault of memory: which offset its address is
_ACTIONS = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic", "cp": "cp.async"}


def decode_faults(context: LaunchContext, kernel: Kernel, block_size: Triple) -> tuple[Fault, ...]:
    """Every fault of a launch, at most one per kind and instruction."""
    table = context.kept["faults"].view(np.int64).reshape(-1, FAULT_SIZE // 8)
    rows = [{field: int(row[at // 8]) for field, at in FAULT.items()} for row in table[: context.field("fault_count")]]
    found = [(BY_NUMBER[row["kind"]], row) for row in rows]
    return tuple(_decode(what, row, context, kernel, block_size) for what, row in _first_causes(found, kernel.sites))


def notes_of(context: LaunchContext) -> tuple[str, ...]:
    """What is no fault, but worth a look."""
    record = context.field("equal_stores")
    if not record:
        return ()
    ins = context.kernel.sites[(record - context.field("counters")) // REC_SIZE]
    place = f"line {ins.loc}" if ins.loc else f"PTX line {ins.line}"
    return (f"{place}: {ins.spelling} of several blocks leaves the same value at one address, in no order",)


def _first_causes(found: _Found, sites: Sequence[Instr]) -> _Found:
    """Leave out what only followed: an early read whose writer raced, a budget or deadlock after a fault.

    If a warp reads a copy in flight, a cp.async over what its own warp has read goes too: both come of a buffer that is
    refilled before all have read it, and the __syncwarp that the latter asks for would not mend that.
    """
    if any(what is SimFault.PENDING for what, _ in found):
        found = [(what, row) for what, row in found if not (what is SimFault.RACE and _is_reuse(row, sites))]
    raced = any(what is SimFault.RACE for what, _ in found)
    kept = [
        (what, row) for what, row in found if not (raced and what is SimFault.UNINITIALISED and row["extra"] == _SHARED)
    ]
    ends = (SimFault.BUDGET, SimFault.DEADLOCK)
    return [(what, row) for index, (what, row) in enumerate(kept) if not index or what not in ends]


def _is_reuse(row: dict[str, int], sites: Sequence[Instr]) -> bool:
    """Whether a race is of a cp.async with an earlier read of the same warp."""
    own = row["extra"] >> 8 == 2 << 8 | row["warp"]
    return own and sites[row["instruction"]].name == "cp"


def _decode(what: SimFault, row: dict[str, int], context: LaunchContext, kernel: Kernel, block_size: Triple) -> Fault:
    ins, address, extra = kernel.sites[row["instruction"]], _address(row), row["extra"]
    action = _ACTIONS.get(ins.name, ins.name)
    near = what in (SimFault.RACE, SimFault.PENDING) and address < WINDOW_SIZE  # only shared memory has such offsets
    block_ids = context.kept["block_ids"].view(np.int64)
    occurrence = Occurrence(
        ins=ins,
        action=f"{row['width']}-byte {action}" if row["width"] else action,
        place=_place(address, _SHARED if near else extra, ins, context) + _beyond(what, row, address, kernel),
        address=address if what.located else row["address"],
        extra=extra,
        warp=row["warp"],
        block_size=block_size,
        block_of=lambda number: _block(int(block_ids[number]), context.grid),
    )
    buffer, offset = (None, None) if near else _buffer_at(address, context.buffers)
    return Fault(
        kind=what.kind,
        kernel=kernel.name,
        message=what.sentence(occurrence),
        buffer=buffer.name if buffer is not None else None,
        offset=offset,
        source_line=ins.loc or None,
        block=_block(row["block"], context.grid),
        thread=thread_of(row["warp"], row["lane"], block_size),
        address=address if what.located else None,
    )


def _address(row: dict[str, int]) -> int:
    """As a person reads it: an offset within shared, local or parameter memory has a sign, an address has none."""
    address = row["address"]
    if row["extra"] == _SHARED and address >= 1 << 31:
        return address - (1 << 32)
    return address if row["extra"] in (_SHARED, _LOCAL, _PARAM) else address & _UNSIGNED


def _beyond(what: SimFault, row: dict[str, int], address: int, kernel: Kernel) -> str:
    """Which array an access in shared memory has left, if it has."""
    array = kernel.arrays.get(row["instruction"]) if what is SimFault.OUT_OF_BOUNDS else None
    if array is None:
        return ""
    if address < array.start:
        return f", {array.start - address} bytes before array {array.written}"
    if array.end is None:
        return ""
    return f", outside array {array.written}, whose {array.end - array.start} bytes begin at {array.start}"


def _block(number: int, grid: Triple) -> Triple:
    return (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))


def _place(address: int, extra: int, ins: Instr, context: LaunchContext) -> str:
    spaces = [m.split("::")[0] for m in ins.mods]
    if extra == _SHARED or ("shared" in spaces and address < WINDOW_SIZE):
        static = context.shared - context.dynamic
        return f"shared offset {address} of {context.shared} bytes ({static} static, {context.dynamic} dynamic)"
    if extra == _PARAM:
        return f"parameter offset {address} of {context.field('param_size')} bytes"
    if extra == _LOCAL or ("local" in spaces and address < WINDOW_SIZE):
        return f"local offset {address} of {context.field('local_size')} bytes per thread"
    return _global_place(address, context.buffers)


def _buffer_at(address: int, buffers: list[SimBuffer]) -> tuple[SimBuffer, int] | tuple[None, None]:
    """The buffer that an address is in or not far from, and its offset there."""
    near = _nearest(address, buffers)
    offset = address - near.address if near is not None else 0
    return (near, offset) if near is not None and -_FAR < offset < near.size_bytes + _FAR else (None, None)


def _global_place(address: int, buffers: list[SimBuffer]) -> str:
    near, offset = _buffer_at(address, buffers)
    if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        return f"shared offset {address - SHARED_WINDOW} through a generic address"
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
        return f"local offset {address - LOCAL_WINDOW} through a generic address"
    if near is None or offset is None:
        return f"address {address:#x} belongs to no buffer"
    if 0 <= offset < near.size_bytes:
        return f"byte {offset} of buffer {near.name} ({near.size_bytes} bytes)"
    if offset < 0:
        return f"{-offset} bytes before buffer {near.name} ({near.size_bytes} bytes)"
    return f"byte {offset} of buffer {near.name}, which has {near.size_bytes} bytes"


def _nearest(address: int, buffers: list[SimBuffer]) -> SimBuffer | None:
    def distance(buffer: SimBuffer) -> int:
        return max(buffer.address - address, address - buffer.address - buffer.size_bytes, 0)

    return min(buffers, key=distance, default=None)
