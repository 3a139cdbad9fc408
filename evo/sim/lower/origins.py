"""Origins of a register's value: parameters, special registers, memory."""

from __future__ import annotations

from collections.abc import Mapping

from evo.results.coverage import MEMORY
from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import defs, results, uses
from evo.sim.ptx.ast import Instr, Mem, Operand, Reg, Special, Sym

Origins = frozenset[str]


def origins_of(blocks: list[Block], params: Mapping[str, int]) -> dict[str, Origins]:
    """Of each register, over all places that set it. Only data flows count, not the branches on the way.

    params: names of the kernel's parameters -> their numbers.
    """
    code = [ins for block in blocks for ins in (*block.code, *((block.end,) if block.end else ()))]
    found: dict[str, Origins] = {}
    steps = [(tuple(defs(ins)), tuple(uses(ins)), _own(ins, params)) for ins in code]
    changed = True
    while changed:
        changed = False
        for targets, sources, own in steps:
            if not targets:
                continue
            # What an address is made of does not say what lies there.
            comes = own if MEMORY in own else own.union(*(found.get(name, frozenset()) for name in sources))
            for name in targets:
                before = found.get(name)
                if before is None or not comes <= before:
                    found[name] = comes | (before or frozenset())
                    changed = True
    return found


def joined(blocks: list[Block]) -> frozenset[str]:
    """Registers that several blocks set, and what is computed from them: branches decide their values too."""
    code = [(block.number, ins) for block in blocks for ins in block.code]
    setters: dict[str, set[int]] = {}
    for number, ins in code:
        for name in defs(ins):
            setters.setdefault(name, set()).add(number)
    found = {name for name, numbers in setters.items() if len(numbers) > 1}
    steps = [(tuple(defs(ins)), tuple(uses(ins))) for _, ins in code if MEMORY not in _own(ins, {})]
    changed = True
    while changed:
        changed = False
        for targets, sources in steps:
            if not found.isdisjoint(sources) and not found.issuperset(targets):
                found.update(targets)
                changed = True
    return frozenset(found)


def origins_of_operand(arg: Operand, found: Mapping[str, Origins]) -> tuple[str, ...]:
    if isinstance(arg, Reg):
        return tuple(sorted(found.get(arg.name, ())))
    return (arg.name,) if isinstance(arg, Special) else ()


def _own(ins: Instr, params: Mapping[str, int]) -> Origins:
    """What the instruction itself brings in."""
    if ins.name in ("ld", "atom"):
        (address,) = [arg for arg in ins.args[results(ins) :] if isinstance(arg, Mem)][:1] or [Mem(None)]
        if "param" in ins.mods and isinstance(address.base, Sym) and address.base.name in params:
            return frozenset((f"param {params[address.base.name]}",))
        return frozenset((MEMORY,))
    if ins.name in ("ldmatrix", "wmma.load"):
        return frozenset((MEMORY,))
    return frozenset(arg.name for arg in ins.args[results(ins) :] if isinstance(arg, Special))
