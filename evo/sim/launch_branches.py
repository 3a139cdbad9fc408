"""Branches of a kernel: which have to go one way for an instruction to be reached, and which setter they choose.

A register that several instructions set is what compilers make of `&&`. Its join is told only where it is exact: every
way to a setter goes through one block, and from there each of its branches is known. What loops set has none, since it
follows from itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from evo.sim.bit_arithmetic import Bits
from evo.sim.lower.cfg import Block, dominators, on_all_ways, predecessors, split_blocks
from evo.sim.lower.isa.opcode_table import defs
from evo.sim.ptx.ast import Imm, Instr, Not, Pair, PtxFunction, Reg

_MOST = 6  # setters of a register


class LaunchGuard(NamedTuple):
    """A predicate register, and the value that it has wherever the instruction behind it is reached."""

    register: str
    value: bool


def guards_of(function: PtxFunction) -> Mapping[int, tuple[LaunchGuard, ...]]:
    """Of each instruction, by its id: the outermost branch first."""
    blocks = split_blocks(function)
    entered, over = _only_entries(blocks), dominators(blocks)
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
    found: dict[int, LaunchGuard] = {}
    for number, before in enumerate(predecessors(blocks)):
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


class JoinPart(NamedTuple):
    """One setter, under a name of its own. It counts if all guards hold and no later part does."""

    guards: tuple[LaunchGuard, ...]
    register: str
    setter: Instr


class Join(NamedTuple):
    """The parts of a register, in the order of the code. The first one always counts, unless another does."""

    parts: tuple[JoinPart, ...]

    def sources(self) -> Iterator[str]:
        """Registers that it follows from."""
        for part in self.parts:
            yield from (guard.register for guard in part.guards)
            yield part.register

    def value(self, known: Mapping[str, Bits]) -> Bits:
        """From the values of its sources."""
        found = known[self.parts[0].register]
        for part in self.parts[1:]:
            counts = np.asarray(True)
            for guard in part.guards:
                counts = counts & ((known[guard.register] != 0) == guard.value)
            found = np.where(counts, known[part.register], found)
        return found

    def conjunction(self, value: bool) -> JoinPart | None:
        """Of a predicate that has this value in one part alone and is constant in the other: that part."""
        if len(self.parts) != 2:
            return None
        first, second = self.parts
        other = first.setter.args[1] if first.setter.name == "mov" else None
        return second if isinstance(other, Imm) and bool(other.value) is not value else None


def joins_of(function: PtxFunction) -> dict[str, Join]:
    """The joins of a function, by register."""
    setters: dict[str, list[tuple[int, Instr]]] = {}
    blocks = split_blocks(function)
    for block in blocks:
        for ins in block.instructions():
            for name in defs(ins):
                setters.setdefault(name, []).append((block.number, ins))
    several = {name: found for name, found in setters.items() if 1 < len(found) <= _MOST}
    several = {name: found for name, found in several.items() if all(ins.guard is None for _, ins in found)}
    if not several:
        return {}
    ways = _Ways(blocks)
    joins = ((name, ways.join(name, found)) for name, found in several.items())
    return {name: join for name, join in joins if join is not None}


class _Ways:
    """How blocks are reached from those that every way to them goes through."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.sources = predecessors(blocks)
        self.over = dominators(blocks)
        self.behind = on_all_ways([block.successors() for block in blocks], range(len(blocks) - 1, -1, -1))
        self._above: dict[int, int | None] = {}

    def up(self, number: int) -> list[tuple[int, tuple[LaunchGuard, ...]]]:
        """The blocks above one, nearest first, each with the guards that hold where the first is reached from it."""
        guards: tuple[LaunchGuard, ...] = ()
        found = [(number, guards)]
        while number:
            sources = self.sources[number]
            if len(sources) == 1:
                guard = edge_guard(self.blocks[sources[0]], number)
                guards = (guard, *guards) if guard is not None else guards
                number = sources[0]
            else:
                above = self._nearest(number)
                if above is None or not self.behind[above] >> number & 1:
                    break  # not all that comes to `above` comes here, and there is no one branch that decides
                number = above
            found.append((number, guards))
        return found

    def _nearest(self, number: int) -> int | None:
        """The last block but itself that every way to a block goes through."""
        if number not in self._above:
            above = [at for at in range(len(self.over)) if self.over[number] >> at & 1 and at != number]
            self._above[number] = max(above, key=lambda at: self.over[at].bit_count(), default=None)
        return self._above[number]

    def join(self, name: str, setters: list[tuple[int, Instr]]) -> Join | None:
        ways = [dict(self.up(number)) for number, _ in setters]
        common = next((at for at in ways[0] if all(at in way for way in ways)), None)
        if common is None:
            return None
        guards = [way[common] for way in ways]
        if guards[0]:  # an if and an else: then the first counts wherever the second does not
            opposite = len(guards) == 2 and guards[1] == (guards[0][0]._replace(value=not guards[0][0].value),)
            if not opposite or len(guards[0]) > 1:
                return None
            guards[0] = ()
        named = [JoinPart(guards[at], f"{name} {at}", ins) for at, (_, ins) in enumerate(setters)]
        return Join(tuple(named))
