"""What a kernel computes only to store it: it decides no way and no address, so nothing that is counted depends on it.

A first look at a variant counts what a few blocks do, and translating a kernel takes it ten times as long as running
them. So what only ends up in results is left out there. What memory holds is followed by state space: once one value
that is loaded from a space decides something, all that is stored there does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from evo.sim.lower.cfg import Block, reads_of
from evo.sim.lower.isa.opcode_table import TABLE, defs, uses
from evo.sim.ptx.ast import Instr, Operand

GLOBAL, _SHARED = frozenset(("global",)), frozenset(("shared",))
_SPACES = GLOBAL | _SHARED | {"local", "param"}
_COMPUTES = frozenset(("alu", "int", "fp", "sfu", "cvt", "mov", "mma", "shuffle"))  # units without any other effect
_LOADS = ("ld", "ldmatrix", "wmma.load")
_STORES = ("st", "stmatrix", "wmma.store", "red")


class _Step(NamedTuple):
    """One instruction. always: registers that it needs whatever becomes of its results; values: the others."""

    ins: Instr
    results: frozenset[str]
    always: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()  # state spaces
    writes: frozenset[str] = frozenset()
    computes: bool = False  # and does nothing else


class Deciding:
    """Follows what decides backwards from branches, barriers and addresses. spaces: whose values decide something."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._open: list[_Step] = []
        self._needed: set[str] = set()
        self.spaces: set[str] = set()
        for block in blocks:
            for ins in block.instructions():
                step = _step(ins)
                self._needed |= step.always
                self._open.append(step)
        self._open.reverse()  # most of what decides stands before what it decides
        self._settle()

    def add(self, spaces: Iterable[str]) -> None:
        """What lies in these state spaces decides something elsewhere."""
        self.spaces.update(spaces)
        self._settle()

    def idle(self) -> set[int]:
        """By `id`, the instructions that are left out."""
        return {id(step.ins) for step in self._open if step.computes}

    def _settle(self) -> None:
        """Take what is needed for what is needed, until nothing more is."""
        before = -1
        while before != len(self._open):
            before = len(self._open)
            waiting: list[_Step] = []
            for step in self._open:
                if self._needed.isdisjoint(step.results) and self.spaces.isdisjoint(step.writes):
                    waiting.append(step)
                    continue
                self._needed |= step.values
                self.spaces |= step.reads
            self._open = waiting


def _step(ins: Instr) -> _Step:
    results, used, spaces = frozenset(defs(ins)), frozenset(uses(ins)), _spaces_of(ins)
    if ins.name in _LOADS:
        return _Step(ins, results, used, reads=spaces)
    if ins.name == "cp":
        return _Step(ins, results, used, reads=GLOBAL, writes=_SHARED)
    if ins.name in _STORES or ins.name == "atom":
        place, value, *others = ins.args[ins.name == "atom" :]
        compared = frozenset[str]() if ins.name == "wmma.store" else _registers(others)
        values = (_registers([value]) | compared) - _registers([place])
        reads = spaces if ins.name in ("atom", "red") else frozenset[str]()
        return _Step(ins, results, used - values, values, reads, spaces)
    if results and ins.name in TABLE and TABLE[ins.name].unit in _COMPUTES:
        return _Step(ins, results, values=used, computes=True)
    return _Step(ins, results, used)


def _registers(args: Iterable[Operand]) -> frozenset[str]:
    return frozenset(name for arg in args for name in reads_of(arg))


def _spaces_of(ins: Instr) -> frozenset[str]:
    """The state spaces that an access may go to; none for constants, which nothing changes."""
    if ins.name in ("ldmatrix", "stmatrix"):
        return _SHARED
    named = {mod.split("::")[0] for mod in ins.mods}
    return frozenset() if "const" in named else _SPACES & named or _SPACES
