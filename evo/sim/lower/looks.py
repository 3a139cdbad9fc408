"""What a load is for, where other threads may change the place meanwhile: it waits, it peeks, or it takes a value.

A load that waits turns in a loop until it sees what it wants. One that peeks only decides whether and how an atomic of
its own goes on (a compare-and-swap loop begins so), or where to branch. Neither relies on what was there at the time. A
load that takes a value on, volatile or not, must come after what put it there. One that only moves bits relies on none
of them: it writes a bit field and keeps the bits beside it, or moves a structure with its padding.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from evo.sim.lower.cfg import BARRIERS, Block, is_warp_sync, reads_of
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.lower.kernel_traits import is_strong
from evo.sim.ptx.ast import Imm, Instr, Mem, Operand, Reg, Sym

_ATOMICS = ("atom", "red")
_TAKES = ("st", "atom", "red", "stmatrix", "wmma.store", "mma", "wmma.mma", "cp")  # what a value ends in
_COMPARES = ("setp", "set")
_MERGES = ("mov", "and", "or", "not", "shl", "shr", "shf", "bfi", "bfe", "prmt", "lop3", "selp", "st")
_ELSEWHERE = frozenset(("param", "local", "const"))


class Look(enum.Enum):
    """What is not plain from the instruction itself."""

    PEEKS = enum.auto()  # a plain load that may meet the atomics of others
    TAKES = enum.auto()  # a strong load that must come after the stores of others
    MOVES = enum.auto()  # a load of what nobody need have written


def looks(blocks: list[Block], *, debug: bool = False) -> dict[int, Look]:
    """Of the loads of a kernel, by `id`. debug: it is compiled for a debugger, as no variant may be."""
    return (_moves(blocks) if debug else {}) | _meetings(blocks)


def _moves(blocks: list[Block]) -> dict[int, Look]:
    kernel = _Kernel(blocks)
    loads = (ins for block in blocks for ins in block.code if ins.name == "ld" and "param" not in ins.mods)
    return {id(ins): Look.MOVES for ins in loads if kernel.moves(ins)}


def _meetings(blocks: list[Block]) -> dict[int, Look]:
    """Where a kernel has atomics or strong loads."""
    found: dict[int, Look] = {}
    loads = [(block, at) for block in blocks for at, ins in enumerate(block.code) if _may_meet(ins)]
    strong = any(is_strong(block.code[at]) for block, at in loads)
    if not loads or not (strong or any(ins.name in _ATOMICS for block in blocks for ins in block.code)):
        return found
    kernel = _Kernel(blocks)
    waits = {kernel.place(block.code[at]) for block, at in loads if kernel.waits(block, block.code[at])}
    for block, at in loads:
        ins = block.code[at]
        peeks = kernel.peeks(block, at)
        if not is_strong(ins) and peeks:
            found[id(ins)] = Look.PEEKS
        elif (
            is_strong(ins)
            and "acquire" not in ins.mods
            and not peeks
            and kernel.place(ins) not in waits
            and kernel.taken(ins)
        ):
            found[id(ins)] = Look.TAKES
    return found


def _may_meet(ins: Instr) -> bool:
    return ins.name == "ld" and not _ELSEWHERE & set(ins.mods)


class _Kernel:
    """The instructions of a kernel by what they read and set."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.readers: dict[str, list[Instr]] = {}
        self.setters: dict[str, list[Instr]] = {}
        for block in blocks:
            for ins in block.instructions():
                read = ins.args if ins.name in _TAKES else ()
                for name in {name for arg in read for name in reads_of(arg)} if read else uses(ins):
                    self.readers.setdefault(name, []).append(ins)
                for name in defs(ins):
                    self.setters.setdefault(name, []).append(ins)

    def place(self, ins: Instr) -> str:
        """A name for the address of a load or an atomic: equal ones have the same base."""
        memory = ins.args[0 if ins.name == "red" else 1]
        base: Operand | None = memory.base if isinstance(memory, Mem) else None
        seen: set[str] = set()
        while isinstance(base, Reg) and base.name not in seen:
            seen.add(base.name)
            set_by = self.setters.get(base.name, [])
            if len(set_by) == 1 and _keeps(set_by[0]):
                base = set_by[0].args[1]
        return base.name if isinstance(base, (Reg, Sym)) else ""

    def _behind(self, ins: Instr, *, decides: bool = False) -> tuple[set[str], list[Instr]]:
        """Registers that follow from what a load gives, and the instructions that read one of them.

        decides: also what follows from a comparison with it.
        """
        names = set(defs(ins))
        waiting, readers, seen = list(names), [], {id(ins)}
        while waiting:
            for reader in self.readers.get(waiting.pop(), ()):
                if id(reader) in seen:
                    continue
                seen.add(id(reader))
                readers.append(reader)
                if reader.name not in _TAKES and reader.name != "ld" and (decides or reader.name not in _COMPARES):
                    more = set(defs(reader)) - names
                    names |= more
                    waiting += more
        return names, readers

    def taken(self, ins: Instr) -> bool:
        """Is its value computed on to what is stored, not only compared?"""
        return any(reader.name in _TAKES for reader in self._behind(ins)[1])

    def moves(self, ins: Instr) -> bool:
        """Are its bits only stored: beside those of a bit field, or from a local variable?"""
        names, readers = set(defs(ins)), list[Instr]()
        waiting = list(names)
        while waiting:
            new = self.readers.get(waiting.pop(), ())
            if not all(map(_moves_bits, new)):
                return False
            readers += new
            more = {name for reader in new if reader.name != "st" for name in defs(reader)} - names
            names |= more
            waiting += more
        stores = [reader for reader in readers if reader.name == "st"]
        if any(names & {*reads_of(one.args[0])} for one in stores):
            return False
        is_field = any(one.name == "bfi" or (one.name == "and" and isinstance(one.args[2], Imm)) for one in readers)
        return bool(stores) and (is_field or "__local_depot" in self.place(ins))

    def waits(self, block: Block, ins: Instr) -> bool:
        """Is it in a loop that it may end?"""
        if not is_strong(ins):
            return False
        ends = {id(reader) for reader in self._behind(ins, decides=True)[1]}
        for last in self.blocks:
            for first in last.successors():
                if not first <= block.number <= last.number:
                    continue
                body = self.blocks[first : last.number + 1]
                ways = (b for b in body if any(not first <= to <= last.number for to in (*b.targets, b.next)))
                if any(id(b.end) in ends for b in ways):
                    return True
        return False

    def peeks(self, block: Block, at: int) -> bool:
        """Does an atomic on the same place follow, before any barrier, and go by what the load gives?"""
        ins = block.code[at]
        place = self.place(ins)
        atomics = [one for one in self._ahead(block, at) if one.name in _ATOMICS and self.place(one) == place]
        if not place or not atomics:
            return False
        names, readers = self._behind(ins)
        if any("cas" in one.mods and isinstance(old := one.args[-2], Reg) and old.name in names for one in atomics):
            return True
        same = {id(one) for one in atomics}
        return all(reader.name not in _TAKES or id(reader) in same for reader in readers)

    def _ahead(self, block: Block, at: int) -> Iterator[Instr]:
        """What may run after an instruction without a barrier of the block between."""
        waiting, seen = [(block, at + 1)], set[int]()
        while waiting:
            block, start = waiting.pop()
            yield from block.code[start:]
            if block.end is not None and block.end.name in BARRIERS and not is_warp_sync(block.end):
                continue
            for number in block.successors():
                if number not in seen:
                    seen.add(number)
                    waiting.append((self.blocks[number], 0))


def _moves_bits(ins: Instr) -> bool:
    return ins.name in _MERGES or (ins.name == "cvt" and not any("f" in mod for mod in ins.mods))


def _keeps(ins: Instr) -> bool:
    """Is its result an address with the same base?"""
    moves = ins.name in ("mov", "cvta") or (ins.name == "add" and isinstance(ins.args[2], Imm))
    return moves and isinstance(ins.args[1], (Reg, Sym))
