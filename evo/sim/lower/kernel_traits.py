"""Static properties of a kernel: its narrowest accesses, its flush mode, whether blocks may run in parallel."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import defs, reached, uses
from evo.sim.lower.isa.wmma import access_bytes
from evo.sim.ptx.ast import WIDTH, Instr, Operand, Sink

STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
_ELSEWHERE = frozenset(("shared", "shared::cta", "param", "local", "const"))
_MEMORY = ("ld", "st", "atom", "red", "discard")
_TILES = ("wmma.load", "wmma.store")
_COMMUTES = frozenset(("add", "min", "max", "and", "or", "xor"))
_MOVES = ("ld", "st", "mov", "mma", "wmma", "shfl", "selp", "neg", "abs", "copysign", "red", "atom")
_ROUNDS = ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "setp", "set", "min", "max")
_ARITHMETIC = {"mov", "selp", "cvt", "neg", "abs", *_ROUNDS} - {"setp", "set"}
_HALVES = (*_ROUNDS, "ex2", "tanh")  # what there is in bf16, computed in f32 or f64


def _instructions(blocks: list[Block]) -> Iterator[Instr]:
    for block in blocks:
        yield from block.code


def mentions(blocks: list[Block], word: str) -> bool:
    """Is there an instruction with this word in its mnemonic or modifiers?"""
    return any(word in ins.spelling for ins in _instructions(blocks))


def beyond_block(ins: Instr) -> bool:
    """May the instruction touch global memory?"""
    return not _ELSEWHERE & set(ins.mods) and not ins.name.startswith("mbarrier")


def _width(ins: Instr) -> int:
    return max(1, WIDTH.get(ins.mods[-1] if ins.mods else "", 32) // 8)


def is_strong(ins: Instr) -> bool:
    """A synchronising access: never one end of a race between blocks or between the lanes of a warp."""
    return bool(STRONG & set(ins.mods)) or ins.name.startswith("mbarrier")


def race_granule(blocks: list[Block]) -> int:
    """Races are tracked in units of the narrowest shared (or generic) access, at most 4 bytes."""
    elsewhere = {"global", "param", "local", "const"}
    widths = [_width(i) for i in _instructions(blocks) if i.name in _MEMORY and not elsewhere & set(i.mods)]
    tiles = [access_bytes(i) for i in _instructions(blocks) if i.name in _TILES]
    return min([4, *widths, *tiles])


def global_granule(blocks: list[Block]) -> int:
    """The same for global memory; 0 if nothing but atomics of the whole GPU writes there."""
    touching = [i for i in _instructions(blocks) if i.name in _MEMORY and beyond_block(i)]
    tiles = [i for i in _instructions(blocks) if i.name in _TILES and beyond_block(i)]
    writes = [i for i in (*touching, *tiles) if i.name in ("st", "wmma.store", "discard") or "cta" in i.mods]
    return min([4, *map(_width, touching), *map(access_bytes, tiles)]) if writes else 0


def strikes_shared(blocks: list[Block]) -> bool:
    """May there be atomics on shared memory?"""
    return any(i.name in ("atom", "red") and "global" not in i.mods for i in _instructions(blocks))


def points_at_params(blocks: list[Block]) -> bool:
    """Does the kernel make generic addresses of its parameters?"""
    return any(i.name == "cvta" and "param" in i.mods and "to" not in i.mods for i in _instructions(blocks))


def blocks_can_part(blocks: list[Block]) -> bool:
    """Do all orders of blocks give the same bits? Then they may run at the same time.

    Plain loads and stores do (a race is found and settled), and so do integer reductions without a result.
    """
    read = registers_read(blocks)
    for ins in _instructions(blocks):
        if ins.name in _MEMORY and beyond_block(ins):
            if ins.name == "discard" or (ins.name in ("ld", "st") and is_strong(ins)):
                return False
            if ins.name in ("atom", "red") and not _commutes(ins, read):
                return False
    return True


def registers_read(blocks: list[Block]) -> set[str]:
    """Every register that some instruction reads."""
    return {name for block in blocks for ins in block.instructions() for name in uses(ins)}


def only_ever(blocks: list[Block], value: Callable[[Operand], bool]) -> set[str]:
    """Registers that get nothing but such a value, by whatever moves."""
    sources: dict[str, list[Operand]] = {}
    for ins in _instructions(blocks):
        for name in defs(ins):
            moved = ins.name == "mov" and ins.guard is None
            sources.setdefault(name, []).append(ins.args[-1] if moved else Sink())
    found = set(sources)
    while lost := {n for n in found if not all(value(s) or getattr(s, "name", "") in found for s in sources[n])}:
        found -= lost
    return found


def float_registers(blocks: list[Block]) -> tuple[set[str], set[str], set[str]]:
    """Registers that may hold a sum of floats; ones that may hold a result in f32; and ones that global memory gets.

    Either as a float or as its bits.
    """
    return _from(blocks, _adds), _from(blocks, _computes), _stored(blocks)


def threads_meet(blocks: list[Block]) -> bool:
    """Is there an atomic or a flag? The order in which threads meet there may be in what is stored, then or later."""
    return any(ins.name in ("atom", "red") or is_strong(ins) for ins in _instructions(blocks))


def _stored(blocks: list[Block]) -> set[str]:
    """Registers from which global memory gets a number by moves and arithmetic."""
    stored = [name for i in _instructions(blocks) if i.name == "st" and beyond_block(i) for name in uses(i)]
    return reached(stored, ((defs(ins), uses(ins)) for ins in _instructions(blocks) if ins.name in _ARITHMETIC))


def _from(blocks: list[Block], makes: Callable[[Instr], bool]) -> set[str]:
    """Registers that some such instruction writes, and those that they are moved to."""
    made = [name for ins in _instructions(blocks) if makes(ins) for name in defs(ins)]
    return reached(made, ((uses(i), defs(i)) for i in _instructions(blocks) if i.name in ("mov", "selp", "cvt")))


def _computes(ins: Instr) -> bool:
    return "f32" in ins.mods and ins.name not in _MOVES


def _adds(ins: Instr) -> bool:
    return ins.name in ("add", "sub", "fma", "mad") and any(mod[0] == "f" or mod[:2] == "bf" for mod in ins.mods)


def _commutes(ins: Instr, read: set[str]) -> bool:
    unused = ins.name == "red" or isinstance(ins.args[0], Sink) or not set(defs(ins)) & read
    return unused and ins.mods[-1][0] in "usb" and ins.mods[-1][:2] != "bf" and bool(_COMMUTES & set(ins.mods))


def flush_mode(blocks: list[Block]) -> bool:
    """True if denormals can be flushed by the processor's mode: all f32 arithmetic says .ftz, and there is none in f64
    or bf16 (whose denormals are denormals of f32 and stay)."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    flushing = plain = False
    for ins in _instructions(blocks):
        if "f64" in ins.mods or (ins.name in _HALVES and not {"bf16", "bf16x2"}.isdisjoint(ins.mods)):
            return False
        if "f32" not in ins.mods or ins.name in _MOVES:
            continue
        if "ftz" in ins.mods:
            flushing = True
        elif ins.name in _ROUNDS:
            plain = True
    return flushing and not plain
