"""Registers that are read where nothing can have written them: what they hold is whatever was there before.

Only what is certain is a fault: no way from the start of the kernel passes an instruction that writes the register. A
compiler leaves out what nobody needs, and so moves and masks such registers itself, also in correct kernels (the other
bits of a union, padding). So those that it names must be computed with to count; those that inline assembly declares
within braces count wherever they are read. Where it is not certain, a register holds odd numbers (`fill`). With the
race checker off, neither is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evo.sim.abi import CTX, WARP
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, bits_of, const, elem, is_vec
from evo.sim.lower.cfg import Block
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import CARRY, defs, uses
from evo.sim.ptx.ast import Instr, Vec
from evo.sim.runtime.fault_report import report

OWN = frozenset((CARRY, "@sp", "@overflow", "@stack", "@bit"))  # registers of the simulator, which begin at 0
# Large in every type of float and as an integer, and of both signs: neither a sum nor a maximum nor a minimum that
# begins at it is what it would be from the start.
ODD = 0x7B5A_7B5A_7B5A_7B5A
_SOME_LANES = 0x5A5A_5A5A  # in which a predicate is true
_FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32"))
_MOVES = frozenset(("mov", "ld", "selp", "cvt", "shfl"))
_SUMS = frozenset(("add", "sub", "mul", "mad", "min", "max", "div", "rem", "fma", "mma", "dp4a", "atom", "red"))


def unwritten_reads(blocks: list[Block]) -> dict[int, str]:
    """Of each instruction (by `id`) that uses such a register: its name. Needs `liveness`."""
    if not blocks[0].live_in - OWN:
        return {}
    void: set[int] = set()  # moves of nothing
    while True:
        found = [(ins, name) for ins, names in _reads_of_nothing(blocks, void) for name in names[:1]]
        more = {id(ins) for ins, _ in found if ins.name == "mov" and ins.guard is None} - void
        if not more:
            return {id(ins): name for ins, name in found if _counts(ins, name)}
        void |= more


def demand_written(e: Emitter, ins: Instr) -> None:
    """The instruction reads what nothing has written: a fault, if any lane runs it."""
    c = e.c
    running = e.active()
    watched = c.icmp("ne", c.load("i64", e.ctx, CTX["race"], 8), 0)
    with c.if_(c.and_(watched, c.icmp("ne", running, 0)), likely=False):
        lead = c.intrinsic("cttz", running, False)
        report(c, SimFault.UNWRITTEN_REGISTER, e.site(ins), e.warp, lead, const("i64", 0))


def fill(c: Code, warp: V, slots: Mapping[str, int], types: Mapping[str, str]) -> None:
    """Give registers that may be read before anything is written the odd numbers that they hold until then.

    Both signs are among the lanes of a warp; a register that is the same for all of them has that of the warp.
    """
    block = c.load("i64", c.arg(0), CTX["block_linear"], 8)
    even = c.icmp("eq", c.and_(c.xor(c.load("i64", warp, WARP["index"], 8), block), 1), 0)
    for name, t in types.items():
        kind = elem(t)
        if kind == "i1":
            value = const("i32", _SOME_LANES) if is_vec(t) else c.zext(even, "i8")
        else:
            bits = bits_of(kind)
            pair = ODD >> max(0, 64 - bits), (ODD >> max(0, 64 - bits)) - (1 << bits - 1)
            if is_vec(t):
                value = V(f"<32 x i{bits}>", f"<{', '.join(f'i{bits} {pair[lane & 1]}' for lane in range(32))}>")
            else:
                value = c.select(even, const(f"i{bits}", pair[0]), const(f"i{bits}", pair[1]))
        c.store(value, warp, slots[name], 64 if is_vec(value.t) else 4)


def _counts(ins: Instr, name: str) -> bool:
    """Is it a fault that this reads what is not there?"""
    if "+" in name:  # a piece of a parameter that is passed on
        return False
    if "@" in name.rpartition(".")[2][1:]:  # as the parser tells apart what scopes within the body declare
        return True
    if ins.name == "st":
        return not isinstance(ins.args[1], Vec)  # a structure with padding
    if ins.name == "setp" or ins.name in _SUMS:
        return True
    return bool(_FLOATS & set(ins.mods)) and ins.name not in _MOVES


def _reads_of_nothing(blocks: list[Block], void: set[int]) -> Iterator[tuple[Instr, list[str]]]:
    """Instructions, and what they read that nothing has written; moves only if all that they read is so."""
    for block, before in zip(blocks, _written_before(blocks, void), strict=True):
        written = before | OWN
        for ins in block.instructions():
            read = list(uses(ins))
            missing = [name for name in read if name not in written]
            if missing and (ins.name != "mov" or len(missing) == len(read)):
                yield ins, missing
            if id(ins) not in void:
                written.update(defs(ins))


def _written_before(blocks: list[Block], void: set[int]) -> list[set[str]]:
    """Of each block, the registers that some way to it has written."""
    own = [{name for ins in block.instructions() if id(ins) not in void for name in defs(ins)} for block in blocks]
    before: list[set[str]] = [set() for _ in blocks]
    waiting = list(range(len(blocks)))[::-1]
    while waiting:
        number = waiting.pop()
        after = before[number] | own[number]
        for following in blocks[number].successors():
            if not after <= before[following]:
                before[following] |= after
                waiting.append(following)
    return before
