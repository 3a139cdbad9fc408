"""Uniform registers, equal in all lanes of a warp, and blocks that may run with lanes missing."""

from __future__ import annotations

from evo.sim.lower.cfg import Block, post_dominators, reach, reads_of
from evo.sim.lower.emitter import special_uniform
from evo.sim.lower.isa.opcode_table import TABLE, defs, results, uses
from evo.sim.ptx.ast import Instr, Operand, PtxFunction, Special, Vec


def uniform_registers(function: PtxFunction, blocks: list[Block], held: set[int]) -> set[str]:
    """Registers equal in all lanes; marks `partial` blocks on the way. Grows the varying set to a fixed point.

    held: blocks of loops whose lanes may leave one by one and go on while the others stay, so nothing after is whole.
    """
    ipdom = post_dominators(blocks)
    varying: set[str] = set()
    partial: set[int] = set()
    split: set[int] = set()
    changed = True
    while changed:
        changed = False
        for block in blocks:
            for ins in block.instructions():
                if _varies(ins, varying, block.number in partial):
                    fresh = set(defs(ins)) - varying
                    varying |= fresh
                    changed |= bool(fresh)
            if block.number not in split and _diverges(block, varying):
                split.add(block.number)
                if len(block.successors()) > 1:
                    partial |= _divergent_region(blocks, block.number, ipdom, apart=block.number in held)
                changed = True
    for number in partial:
        blocks[number].partial = True
    return set(function.registers) - varying


def _divergent_region(blocks: list[Block], number: int, ipdom: list[int], *, apart: bool = False) -> set[int]:
    """Blocks that may run with lanes missing when the branch of this block diverges.

    apart: the lanes need not meet again where the ways join.
    """
    stop = ipdom[number]
    block = blocks[number]
    if apart:
        return reach(blocks, block.successors())
    region = reach(blocks, block.successors(), stop)
    if stop == len(blocks) or any(n >= stop for n in region):
        return reach(blocks, block.successors())
    return region


def _diverges(block: Block, varying: set[str]) -> bool:
    end = block.end
    if end is None:
        return False
    if end.guard is not None and end.guard.name in varying:
        return True
    return end.name == "brx" and any(name in varying for name in reads_of(end.args[0]))


def _varies(ins: Instr, varying: set[str], partial: bool) -> bool:
    spec = TABLE.get(ins.name)
    if spec is None:
        return False
    if partial:
        return True
    if spec.uniform == "always" and ins.guard is None:
        # Lanes with masks of their own form groups, and each group has its own answer.
        return ins.name in ("vote", "redux") and any(name in varying for name in reads_of(ins.args[-1]))
    if spec.uniform == "never":
        return True
    if ins.name == "ld" and not {"global", "shared", "const", "param"} & {m.split("::")[0] for m in ins.mods}:
        return True
    if any(name in varying for name in uses(ins)):
        return True
    return any(_special_varies(arg) for arg in ins.args[results(ins) :])


def _special_varies(arg: Operand) -> bool:
    if isinstance(arg, Vec):
        return any(_special_varies(item) for item in arg.items)
    return isinstance(arg, Special) and not special_uniform(arg.name)
