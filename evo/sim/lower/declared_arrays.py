"""The shared or local array that an instruction accesses, if its address is computed from one alone.

An index beyond the end of an array lies in the next one, and hardware does not mind. Here it is outside its memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.ptx.ast import Imm, Instr, Mem, Reg, Sym

_ASIDE = frozenset(("setp", "set", "ld", "atom", "ldmatrix", "wmma.load", "cp"))  # their results are no addresses


@dataclass(frozen=True, slots=True)
class DeclaredArray:
    """By offsets in the block's shared or the thread's local memory. end: None if the launch says how long it is.

    PTX joins the local arrays of a function in one variable. Each begins where an address in it is made.
    """

    name: str
    space: str  # shared, local
    start: int
    end: int | None

    @property
    def written(self) -> str:
        """As a person reads it: PTX puts the name of the function before that of the array; local ones have none."""
        found = re.match(r"_ZZ.*E(\d+)(\w+)", self.name)
        if self.space == "local":
            return f"at local offset {self.start}"
        return found[2][: int(found[1])] if found else self.name


_Arrays = Mapping[str, DeclaredArray]


def arrays_of_sites(blocks: list[Block], sites: Iterable[Instr], variables: _Arrays) -> dict[int, DeclaredArray]:
    """Number of an instruction in `sites` -> the array that it accesses; without those of which that is not known."""
    code = [ins for block in blocks for ins in block.code]
    arrays = {**variables, **_parts(code, variables)}
    if len({(array.space, array.start) for array in arrays.values()}) < 2:
        return {}
    comes = _comes_from(code, variables)
    found: dict[int, DeclaredArray] = {}
    for number, ins in enumerate(sites):
        spaces = {mod.split("::")[0] for mod in ins.mods}
        base = next((arg.base for arg in ins.args if isinstance(arg, Mem)), None)
        names = comes.get(base.name, frozenset()) if isinstance(base, Reg) else _named((base,), variables)
        array = arrays[next(iter(names))] if len(names) == 1 else None
        if array is not None and array.space in spaces:
            found[number] = array
    return found


def _parts(code: list[Instr], variables: _Arrays) -> dict[str, DeclaredArray]:
    """The arrays within local variables."""
    local = {name: array for name, array in variables.items() if array.space == "local"}
    starts: dict[str, set[int]] = {name: {0} for name in local}
    bases = _bases(code, local)
    for ins in code:
        found = _part(ins, bases)
        if found:
            starts[found[0]].add(found[1])
    parts: dict[str, DeclaredArray] = {}
    for name, offsets in starts.items():
        whole = local[name]
        assert whole.end is not None
        ends = [*sorted(offsets)[1:], whole.end - whole.start]
        for offset, end in zip(sorted(offsets), ends, strict=True):
            here = replace(whole, start=whole.start + offset, end=whole.start + end)
            parts[_name(name, offset)] = here
    return parts


def _name(variable: str, offset: int) -> str:
    return f"{variable}+{offset}"


def _bases(code: list[Instr], local: _Arrays) -> dict[str, str]:
    """Registers that hold the address of a local variable, as it is or as a generic one."""
    bases: dict[str, str] = {}
    for _ in range(2):  # the generic one is made of the other
        for ins in code:
            if ins.name not in ("mov", "cvta") or len(ins.args) != 2:
                continue
            source = ins.args[1]
            name = source.name if isinstance(source, Sym) and not source.offset else ""
            if isinstance(source, Reg):
                name = bases.get(source.name, "")
            if name in local:
                bases.update(dict.fromkeys(defs(ins), name))
    return bases


def _part(ins: Instr, bases: Mapping[str, str]) -> tuple[str, int] | None:
    """The local variable and offset of an array whose address the instruction makes."""
    if ins.name != "add" or len(ins.args) != 3:
        return None
    _, base, offset = ins.args
    if isinstance(base, Reg) and base.name in bases and isinstance(offset, Imm):
        return bases[base.name], int(offset.value)
    return None


def _comes_from(code: list[Instr], variables: _Arrays) -> dict[str, frozenset[str]]:
    """Of each register, the names of the arrays that flow into it."""
    bases = _bases(code, {name: array for name, array in variables.items() if array.space == "local"})
    steps = []
    for ins in code:
        if ins.name in _ASIDE:
            continue
        part = _part(ins, bases)
        own = frozenset((_name(*part),)) if part else _named(ins.args, variables)
        steps.append((tuple(defs(ins)), () if part else tuple(uses(ins)), own))
    found: dict[str, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for targets, sources, own in steps:
            names = own.union(*(found[name] for name in sources if name in found))
            for target in targets if names else ():
                if not names <= found.get(target, frozenset()):
                    found[target] = names | found.get(target, frozenset())
                    changed = True
    return found


def _named(args: Iterable[object], variables: _Arrays) -> frozenset[str]:
    return frozenset(arg.name for arg in args if isinstance(arg, Sym) and arg.name in variables)
