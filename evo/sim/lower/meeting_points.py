"""Blocks that all lanes of a warp must run together: what they hold is a fault if some are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from evo.sim.lower.cfg import BARRIERS, Block, is_warp_sync
from evo.sim.lower.isa.opcode_table import defs
from evo.sim.ptx.ast import Imm, Instr, Operand, Reg

_MASKED = ("shfl", "vote", "match", "redux", "elect")  # their last operand names the lanes
_ALIGNED = ("mma", "wmma.mma", "wmma.load", "wmma.store", "ldmatrix", "stmatrix", "movmatrix")
_ALL = 0xFFFFFFFF


def blocks_for_all(blocks: list[Block]) -> set[int]:
    """Numbers of the blocks with a barrier, a matrix instruction, or a vote or shuffle whose mask names all lanes."""
    names = _full_masks(blocks)

    def full(arg: Operand) -> bool:
        return _is_full(arg) or (isinstance(arg, Reg) and arg.name in names)

    def for_all(ins: Instr) -> bool:
        if ins.name in BARRIERS:
            return not is_warp_sync(ins) and "arrive" not in ins.mods
        return ins.name in _ALIGNED or (ins.name in _MASKED and full(ins.args[-1]))

    return {block.number for block in blocks if any(map(for_all, _code(block)))}


def _full_masks(blocks: list[Block]) -> set[str]:
    """Registers that hold the mask of all lanes wherever they are set."""
    full: set[str] = set()
    other: set[str] = set()
    for block in blocks:
        for ins in block.code:
            is_mask = ins.name == "mov" and ins.guard is None and _is_full(ins.args[-1])
            (full if is_mask else other).update(defs(ins))
    return full - other


def _is_full(arg: Operand) -> bool:
    return isinstance(arg, Imm) and arg.value & _ALL == _ALL


def _code(block: Block) -> Iterator[Instr]:
    yield from block.code
    if block.end is not None:
        yield block.end
