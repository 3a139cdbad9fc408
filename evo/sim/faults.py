"""Fault records of generated code -> evo.results.Fault, with buffer names, coordinates and one plain sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evo.results import Fault
from evo.sim.abi import (
    BARRIERS,
    FAULT,
    FAULT_SIZE,
    HELD,
    KINDS,
    LOCAL_WINDOW,
    NO_BARRIER,
    NO_MBARRIER,
    OTHER_BLOCK,
    OTHER_READ,
    SHARED_WINDOW,
    SOURCE_LANE,
    TOO_MANY,
    WINDOW_SIZE,
    WRONG_COUNT,
)
from evo.sim.lower.recursion import STACK_BYTES
from evo.sim.memory import Buffer
from evo.sim.ptx.ast import Instr

if TYPE_CHECKING:
    from evo.sim.launch_context import Context
    from evo.sim.lower.kernel import Kernel

_FAR = 1 << 36  # bytes from a buffer within which an address is named by its distance
_UNSIGNED = (1 << 64) - 1
_SHARED, _LOCAL, _PARAM = 2, 3, 4  # in the extra of a fault of memory: which offset its address is


def decode_faults(
    context: Context, kernel: Kernel, name: str, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> tuple[Fault, ...]:
    """Every fault of a launch, at most one per kind and instruction."""
    table = context.kept["faults"].view(np.int64).reshape(-1, FAULT_SIZE // 8)
    out = []
    rows = [{field: int(row[at // 8]) for field, at in FAULT.items()} for row in table[: context.field("fault_count")]]
    for values in _first_causes(rows):
        kind = KINDS[values["kind"]]
        out.append(_decode(values, kind, context, kernel.sites[values["instruction"]], name, grid, block))
    return tuple(out)


def _first_causes(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    """Leave out what only followed: an early read whose writer raced, a budget or deadlock after a fault."""
    raced = any(KINDS[row["kind"]] == "race" for row in rows)
    early = KINDS.index("uninitialised")
    kept = [row for row in rows if not (raced and row["kind"] == early and row["extra"] == 2)]
    return [row for index, row in enumerate(kept) if not index or KINDS[row["kind"]] not in ("budget", "deadlock")]


def _decode(
    values: dict[str, int],
    kind: str,
    context: Context,
    ins: Instr,
    name: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
) -> Fault:
    thread = _thread(values["warp"], values["lane"], block)
    place = _block(values["block"], grid)
    located = kind in ("out_of_bounds", "misaligned", "uninitialised", "race", "read_only", "pending")
    return Fault(
        kind={"pending": "uninitialised"}.get(kind, kind),
        kernel=name,
        message=_sentence(values, kind, context, ins, block),
        source_line=ins.loc or None,
        block=place,
        thread=thread,
        address=_address(values) if located else None,
    )


def _thread(warp: int, lane: int, block: tuple[int, int, int]) -> tuple[int, int, int]:
    linear = 32 * warp + lane
    return (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))


def _action(ins: Instr) -> str:
    if ins.name == "cp":
        return "cp.async"
    return {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic", "ldmatrix": "ldmatrix"}.get(
        ins.name, ins.name
    )


def _sentence(values: dict[str, int], kind: str, context: Context, ins: Instr, block: tuple[int, int, int]) -> str:
    width, address = values["width"], _address(values)
    what = f"{width}-byte {_action(ins)}" if width else _action(ins)
    near = kind in ("race", "pending") and address < WINDOW_SIZE  # only shared memory has such offsets
    place = _place(address, _SHARED if near else values["extra"], ins, context)
    sentences = {
        "out_of_bounds": f"{what} outside its memory: {place}",
        "misaligned": f"{what} at address {address:#x} is not a multiple of its width: {place}",
        "uninitialised": f"{what} reads bytes that were never written: {place}",
        "pending": f"{what} touches bytes that an unfinished cp.async still writes; wait for its group first: {place}",
        "read_only": f"{what} to read-only memory: {place}",
        "trap": _trap(values, ins),
        "stack_overflow": f"calls are nested deeper than the stack of a thread allows ({STACK_BYTES} bytes)",
        "budget": "the instruction budget is used up: an endless loop, or too much work",
        "barrier": _barrier(values, ins, block),
        "deadlock": _deadlock(values, ins),
        "warp_sync": _warp_sync(values, ins, block),
        "race": _race(values, what, place, context, block),
    }
    return sentences.get(kind, kind)


def _address(values: dict[str, int]) -> int:
    """As a person reads it: an offset within shared, local or parameter memory has a sign, an address has none."""
    address = values["address"]
    if values["extra"] == _SHARED and address >= 1 << 31:
        return address - (1 << 32)
    return address if values["extra"] in (_SHARED, _LOCAL, _PARAM) else address & _UNSIGNED


def _deadlock(values: dict[str, int], ins: Instr) -> str:
    if values["address"] >= 0:
        wanted = f" for {values['extra']} threads" if values["extra"] else ""
        return f"every live warp waits; this one{wanted} at barrier {values['address']}, which the others never reach"
    return f"every live warp waits; this one turns in a loop around {ins.spelling} for what no other will change"


def _trap(values: dict[str, int], ins: Instr) -> str:
    if ins.name == "brx":
        return f"{ins.spelling} with an index beyond the {values['extra']} targets of its table"
    return "the kernel executed trap"


def _barrier(values: dict[str, int], ins: Instr, block: tuple[int, int, int]) -> str:
    if values["extra"] & NO_BARRIER:
        return f"{ins.spelling} at barrier {values['address']}, but a block has {BARRIERS}: 0 to {BARRIERS - 1}"
    if values["extra"] & NO_MBARRIER:
        return f"{ins.spelling} at shared offset {values['address']}, where no mbarrier was initialised"
    if values["extra"] & TOO_MANY:
        return f"{ins.spelling} at shared offset {values['address']}: more arrivals than the mbarrier can count"
    if values["extra"] & WRONG_COUNT:
        count = values["extra"] & ~WRONG_COUNT
        why = "another warp waits there for another number" if count % 32 == 0 else "warps arrive whole, 32 at a time"
        return f"{ins.spelling} at barrier {values['address']} waits for {count} threads, but {why}"
    other = _thread(values["warp"], values["extra"], block)
    return f"{ins.spelling} reached while thread {other} of the same warp is elsewhere"


def _warp_sync(values: dict[str, int], ins: Instr, block: tuple[int, int, int]) -> str:
    if values["extra"] & SOURCE_LANE:
        return f"{ins.spelling} reads the value of lane {values['extra'] & 31}, which does not take part"
    if values["extra"] & HELD:
        other = _thread(values["warp"], values["extra"] & 31, block)
        return f"{ins.spelling} waits for thread {other} of its mask, which never comes"
    other = _thread(values["warp"], values["extra"] & 31, block)
    return f"{ins.spelling}: its mask and the lanes that run it differ; thread {other} is on one side only"


def _between(extra: int, what: str, place: str, context: Context, block: tuple[int, int, int]) -> str:
    """A race whose other end is in another block."""
    thread = _thread(0, extra & 1023, block)
    number = int(context.kept["block_ids"].view(np.int64)[(extra & ~(OTHER_BLOCK | OTHER_READ)) >> 16])
    where = _block(number, context.grid)
    access = "read" if extra & OTHER_READ else "write"
    return f"{what} and the {access} of block {where} thread {thread} are not ordered: {place}"


def _block(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    return (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))


def _race(values: dict[str, int], what: str, place: str, context: Context, block: tuple[int, int, int]) -> str:
    extra = values["extra"]
    if extra > 0 and extra & OTHER_BLOCK:
        return _between(extra, what, place, context, block)
    if extra == -1:
        return f"two lanes of one warp store different values to one address in one {what}: {place}"
    warp, lane = extra >> 8 & 255, extra & 255
    access = "write" if extra >> 16 == 1 else "read"
    other = f"the {access} of thread {_thread(warp, lane, block)}"
    if warp == values["warp"]:
        return f"{what} and {other} of the same warp are not ordered by __syncwarp: {place}"
    return f"{what} and {other} are not ordered by a barrier: {place}"


def _place(address: int, extra: int, ins: Instr, context: Context) -> str:
    spaces = [m.split("::")[0] for m in ins.mods]
    if extra == _SHARED or ("shared" in spaces and address < WINDOW_SIZE):
        static = context.shared - context.dynamic
        return f"shared offset {address} of {context.shared} bytes ({static} static, {context.dynamic} dynamic)"
    if extra == _PARAM:
        return f"parameter offset {address} of {context.field('param_size')} bytes"
    if extra == _LOCAL or ("local" in spaces and address < WINDOW_SIZE):
        return f"local offset {address} of {context.field('local_size')} bytes per thread"
    return _global_place(address, context.buffers)


def _global_place(address: int, buffers: list[Buffer]) -> str:
    near = _nearest(address, buffers)
    if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        return f"shared offset {address - SHARED_WINDOW} through a generic address"
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
        return f"local offset {address - LOCAL_WINDOW} through a generic address"
    offset = address - near.address if near is not None else 0
    if near is None or not -_FAR < offset < near.size_bytes + _FAR:
        return f"address {address:#x} belongs to no buffer"
    if 0 <= offset < near.size_bytes:
        return f"byte {offset} of buffer {near.name} ({near.size_bytes} bytes)"
    if offset < 0:
        return f"{-offset} bytes before buffer {near.name} ({near.size_bytes} bytes)"
    return f"byte {offset} of buffer {near.name}, which has {near.size_bytes} bytes"


def _nearest(address: int, buffers: list[Buffer]) -> Buffer | None:
    def distance(buffer: Buffer) -> int:
        return max(buffer.address - address, address - buffer.address - buffer.size_bytes, 0)

    return min(buffers, key=distance, default=None)
