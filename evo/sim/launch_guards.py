"""Guards of an instruction: the branches that have to go one way for it to be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evo.sim.lower.cfg import Block, split_blocks
from evo.sim.ptx.ast import Instr, Not, Pair, PtxFunction, Reg


class LaunchGuard(NamedTuple):
    """A predicate register, and the value that it has wherever the instruction behind it is reached."""

    register: str
    value: bool


def guards_of(function: PtxFunction) -> Mapping[int, tuple[LaunchGuard, ...]]:
    """Of each instruction, by its id: the outermost branch first."""
    blocks = split_blocks(function)
    entered = _only_entries(blocks)
    over = dominators(blocks)
    found: dict[int, tuple[LaunchGuard, ...]] = {}
    for block in blocks:
        guards = tuple(entered[number] for number in sorted(entered) if over[block.number] >> number & 1)
        for ins in block.instructions():
            found[id(ins)] = guards
    return found


def place_of_use(function: PtxFunction) -> Mapping[str, Instr]:
    """Of each register that one instruction alone reads, that instruction."""
    users: dict[str, list[Instr]] = {}
    for ins in function.body:
        if isinstance(ins, Instr):
            read = [ins.guard] if ins.guard is not None else []
            for arg in ins.args[1:] if ins.name != "bra" else ():
                part = arg.first if isinstance(arg, Pair) else arg
                part = part.reg if isinstance(part, Not) else part
                read += [part] if isinstance(part, Reg) else []
            for register in read:
                users.setdefault(register.name, []).append(ins)
    return {name: found[0] for name, found in users.items() if len(found) == 1}


def _only_entries(blocks: list[Block]) -> dict[int, LaunchGuard]:
    """Blocks that are entered by one edge of one conditional branch alone, and what that edge says."""
    sources: dict[int, list[int]] = {}
    for block in blocks:
        for number in block.successors():
            sources.setdefault(number, []).append(block.number)
    found: dict[int, LaunchGuard] = {}
    for number, before in sources.items():
        guard = edge_guard(blocks[before[0]], number) if len(before) == 1 else None
        if guard is not None:
            found[number] = guard
    return found


def edge_guard(block: Block, number: int) -> LaunchGuard | None:
    """What the branch at the end of a block says where it leads to another; None if it has no condition."""
    end = block.end
    if end is None or end.name != "bra" or end.guard is None:
        return None
    return LaunchGuard(end.guard.name, (number in block.targets) != end.negated)


def dominators(blocks: list[Block]) -> list[int]:
    """Of each block, as bits, the blocks that every way to it goes through."""
    sources: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for number in block.successors():
            sources[number].append(block.number)
    every = (1 << len(blocks)) - 1
    over = [1] + [every] * (len(blocks) - 1)
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            meet = every
            for source in sources[number]:
                meet &= over[source]
            meet |= 1 << number
            if meet != over[number]:
                over[number], changed = meet, True
    return over
