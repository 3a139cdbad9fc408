"""Whether a kernel's timer says anything but how long a waiting loop sleeps.

The barriers and semaphores of libcu++ sleep the longer, the longer they have waited: they read `%globaltimer`, compare
it and sleep. Nothing else may follow from the time: no value, and no way that ends elsewhere than the other one does.
"""

from __future__ import annotations

from collections.abc import Iterator

from evo.sim.launch_conditions import parsed
from evo.sim.lower.cfg import Block, split_blocks
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.ptx.ast import Instr, Special

_TIMER = Special("globaltimer")
_QUIET = frozenset(
    (
        "mov", "add", "sub", "mul", "mad", "div", "rem", "shl", "shr", "and", "or", "xor", "not", "min", "max", "cvt",
        "setp", "selp", "nanosleep",
    )
)  # fmt: skip
_OF_TIME = _QUIET | {"bra"}


def decided_by_time(ptx: str) -> Iterator[int]:
    """The source lines of what the timer decides besides how long a thread sleeps. Raises PtxError."""
    for function in parsed(ptx).functions.values():
        if any(isinstance(item, Instr) and _TIMER in item.args for item in function.body):
            yield from _decided(split_blocks(function))


def _decided(blocks: list[Block]) -> Iterator[int]:
    code = [ins for block in blocks for ins in block.instructions()]
    times = _registers_of_time(code)
    yield from (ins.loc for ins in code if ins.name not in _OF_TIME and times & set(uses(ins)))
    quiet = _quiet_blocks(blocks)
    for block in blocks:
        if block.end is not None and times & set(uses(block.end)) and len(_next_loud(blocks, block, quiet)) > 1:
            yield block.end.loc


def _registers_of_time(code: list[Instr]) -> set[str]:
    found = {name for ins in code if _TIMER in ins.args for name in defs(ins)}
    while more := {name for ins in code if found & set(uses(ins)) for name in defs(ins)} - found:
        found |= more
    return found


def _quiet_blocks(blocks: list[Block]) -> set[int]:
    """Blocks that nobody notices but by the clock: they compute what no other block reads, and sleep."""
    quiet = {
        block.number
        for block in blocks
        if all(ins.name in _QUIET for ins in block.code) and (block.end is None or block.end.name == "bra")
    }
    while True:
        read = {
            name for block in blocks if block.number not in quiet for ins in block.instructions() for name in uses(ins)
        }
        heard = {n for n in quiet if any(read & set(defs(ins)) for ins in blocks[n].code)}
        if not heard:
            return quiet
        quiet -= heard


def _next_loud(blocks: list[Block], start: Block, quiet: set[int]) -> set[int]:
    """The blocks to which quiet ones lead; an end of the thread is one too."""
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [*start.targets, start.next]
    while waiting:
        number = waiting.pop()
        if number in quiet and number not in seen:
            seen.add(number)
            waiting += [*blocks[number].targets, *([blocks[number].next] if blocks[number].next != -1 else [])]
        elif number not in quiet:
            found.add(number)
    return found
