"""Loops that wait for what others do: where they begin, which lanes may leave them early, what counts as progress."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from evo.sim.errors import refuse
from evo.sim.lower.cfg import Block, reads_of
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.lower.kernel_traits import STRONG, registers_read
from evo.sim.ptx.ast import Imm, Instr, Special

_SMALL = 6  # blocks of a loop that does little but poll
_LOCKS = frozenset(("cas", "exch"))
_COUNTS = frozenset(("add", "inc", "dec"))
_WRITES = ("st", "red", "cp", "stmatrix", "wmma.store", "mbarrier.arrive", "mbarrier.arrive_drop", "mbarrier.init")
_PLACES = frozenset(("local", "param"))


@dataclass(slots=True)
class SpinLoops:
    """What is known of the waiting loops of a kernel, by block number."""

    heads: dict[int, Instr] = field(default_factory=dict)  # first block -> the instruction that polls
    small: set[int] = field(default_factory=set)  # blocks of short loops: their reads are polls
    held: set[int] = field(default_factory=set)  # blocks of loops that lanes may leave one by one, owning something
    takes: set[int] = field(default_factory=set)  # what follows where the next is taken from a counter of many threads

    @property
    def turns(self) -> set[int]:
        """Where a warp may leave the next turn to others."""
        return self.takes | set(self.heads)


# What may become of a value of the timer: it decides how long to sleep and when to give up, never what is computed.
_OF_TIME = frozenset(
    (
        "mov", "add", "sub", "mul", "mad", "div", "rem", "shl", "shr", "and", "or", "min", "max", "cvt", "setp", "selp",
        "bra", "nanosleep", "mbarrier.try_wait",
    )
)  # fmt: skip


def demand_timer_steers(blocks: list[Block]) -> None:
    """Raise UnsupportedInstruction if a value of %globaltimer gets farther than the conditions of a waiting loop."""
    code = [ins for block in blocks for ins in block.instructions()]
    times = {name for ins in code if Special("globaltimer") in ins.args for name in defs(ins)}
    while times:
        touched = [ins for ins in code if times & set(uses(ins))]
        for ins in touched:
            if ins.name not in _OF_TIME:
                raise refuse(ins, "%globaltimer reaches it; time may only steer a loop that waits")
        more = {name for ins in touched for name in defs(ins)}
        if more <= times:
            return
        times |= more


def spin_loops(blocks: list[Block]) -> SpinLoops:
    """Loops that read what others may change meanwhile."""
    found, read = SpinLoops(), registers_read(blocks)
    found.takes |= {block.next for block in blocks if block.next > 0 and takes_turn(block, read)}
    for first, ways in _ways_back(blocks).items():
        for last in ways:
            body = set(range(first, last + 1))
            small = len(body) <= _SMALL
            if any(
                ins.name == "atom" and _COUNTS & set(ins.mods) and read & set(defs(ins)) for ins in _code(blocks, body)
            ):
                found.takes.add(first)
            polling = [ins for ins in _code(blocks, body) if _polls(ins, small=small)]
            if not polling:
                continue
            found.heads.setdefault(first, polling[0])
            if small:
                found.small |= body
            if any(not ins.name.startswith("mbarrier") for ins in polling):
                found.held |= body
    return found


def takes_turn(block: Block, read: Container[str]) -> bool:
    """Does it end by an atomic that gives one of these, which depends on who comes first? A lock waits by itself."""
    last = block.code[-1] if block.code and block.end is None else None
    if last is None or last.name != "atom" or not _LOCKS.isdisjoint(last.mods):
        return False
    return any(name in read for name in reads_of(last.args[0]))


def _ways_back(blocks: list[Block]) -> dict[int, list[int]]:
    """Of each head of a loop, the blocks that go back to it. Those behind an empty last block are named, not it."""
    found: dict[int, list[int]] = {}
    for last in blocks:
        for first in last.successors():
            if first > last.number:
                continue
            before = [block.number for block in blocks if last.number in block.successors()]
            merged = not last.code and last.end is None and len(before) > 1
            found.setdefault(first, []).extend(before if merged else [last.number])
    return found


def _code(blocks: list[Block], numbers: set[int]) -> Iterator[Instr]:
    for number in sorted(numbers):
        yield from blocks[number].code


def _polls(ins: Instr, *, small: bool) -> bool:
    """May a loop turn until another thread has changed what this reads?"""
    if ins.name in ("mbarrier.test_wait", "mbarrier.try_wait"):
        return True
    if ins.name == "ld":
        return bool(STRONG & set(ins.mods))
    return ins.name == "atom" and (small or bool(_LOCKS & set(ins.mods)))


def changes_memory(ins: Instr, zeros: set[str], *, waits: bool) -> bool:
    """Can another thread see that this ran? Polling atomics, such as adding 0 or trying a lock, do not count.

    zeros: registers that hold 0.
    """
    if ins.name in _WRITES:
        return not _PLACES & set(ins.mods)
    if ins.name != "atom":
        return False
    if not waits:
        return True
    return bool(_COUNTS & set(ins.mods)) and ins.args[-1] != Imm(0) and getattr(ins.args[-1], "name", "") not in zeros
