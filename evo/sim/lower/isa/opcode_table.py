"""The opcode table and what can be asked of it without emitting anything."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, is_vec
from evo.sim.lower.cfg import reads_of
from evo.sim.lower.emitter import Emitter
from evo.sim.ptx.ast import WIDTH, Instr, Operand, Pair, Reg, Vec

Emit = Callable[[Emitter, Instr], None]

CARRY = "@carry"  # the condition code register, a predicate like any other


@dataclass(frozen=True, slots=True)
class Spec:
    """One row. `unit` names the pipe for the timing model; `uniform`: inputs, never or always (given whole warps)."""

    emit: Emit
    mods: frozenset[str]
    unit: str
    results: int = 1
    uniform: str = "inputs"
    operands: tuple[int, int] = (0, 8)


TABLE: dict[str, Spec] = {}


def opcode(
    names: str, mods: str, unit: str, *, results: int = 1, uniform: str = "inputs", operands: tuple[int, int] = (1, 5)
) -> Callable[[Emit], Emit]:
    """Register an emitter for space-separated mnemonics with the modifiers it understands."""

    def register(emit: Emit) -> Emit:
        for name in names.split():
            TABLE[name] = Spec(emit, frozenset(mods.split()), unit, results, uniform, operands)
        return emit

    return register


def check(ins: Instr) -> Spec:
    """The row of an instruction. Raises UnsupportedInstruction when the mnemonic or a modifier is not in the table."""
    spec = TABLE.get(ins.name)
    if spec is None:
        raise refuse(ins)
    for mod in ins.mods:
        if mod not in spec.mods:
            raise refuse(ins, f".{mod}")
    low, high = spec.operands
    if not low <= len(ins.args) <= high:
        raise refuse(ins, f"{len(ins.args)} operands")
    return spec


def type_of(ins: Instr, legal: Container[str] = WIDTH) -> str:
    """The type that an instruction ends with."""
    if not ins.mods or ins.mods[-1] not in WIDTH or ins.mods[-1] not in legal:
        raise refuse(ins, f"type .{ins.mods[-1]}" if ins.mods else "it needs a type")
    return ins.mods[-1]


def types_of(ins: Instr) -> tuple[str, ...]:
    """The types of an instruction that has two."""
    types = tuple(mod for mod in ins.mods if mod in WIDTH)
    if len(types) != 2:
        raise refuse(ins, "it needs 2 types")
    return types


def one_of(ins: Instr, *choices: str) -> str:
    """The one modifier of these that an instruction has."""
    found = [mod for mod in ins.mods if mod in choices]
    if len(found) != 1:
        raise refuse(ins, f"it needs one of {', '.join(f'.{choice}' for choice in choices)}")
    return found[0]


def items_of(ins: Instr, index: int, count: int) -> tuple[Operand, ...]:
    """The parts of a vector operand, of which there must be so many; a plain one is one part."""
    arg = ins.args[index]
    items = arg.items if isinstance(arg, Vec) else (arg,)
    if len(items) != count:
        raise refuse(ins, "vector length")
    return items


def only(ins: Instr, *legal: str) -> None:
    """Refuse every other modifier before the type."""
    for mod in ins.mods[:-1]:
        if mod not in legal:
            raise refuse(ins, f".{mod}")


def alike(e: Emitter, *values: V) -> tuple[V, ...]:
    """Values of one shape: vectors if one of them is one."""
    return tuple(map(e.vector, values)) if any(is_vec(value.t) for value in values) else values


def _registers(arg: object) -> Iterator[str]:
    if isinstance(arg, Reg):
        yield arg.name
    elif isinstance(arg, Vec):
        for item in arg.items:
            yield from _registers(item)
    elif isinstance(arg, Pair):
        yield from _registers(arg.first)
        yield from _registers(arg.second)


def results(ins: Instr) -> int:
    spec = TABLE.get(ins.name)
    if spec is None:
        return 0
    if ins.name in ("bar", "barrier"):
        return 1 if "red" in ins.mods else 0
    return spec.results


def defs(ins: Instr) -> tuple[str, ...]:
    """Registers that the instruction writes."""
    if ins.writes is None:
        ins.writes = tuple(_written(ins))
    return ins.writes


def _written(ins: Instr) -> Iterator[str]:
    for arg in ins.args[: results(ins)]:
        yield from _registers(arg)
    if "cc" in ins.mods:
        yield CARRY


def uses(ins: Instr) -> tuple[str, ...]:
    """Registers that the instruction reads, its guard included."""
    if ins.reads is None:
        ins.reads = tuple(_read(ins))
    return ins.reads


def _read(ins: Instr) -> Iterator[str]:
    if ins.guard is not None:
        yield ins.guard.name
    for arg in ins.args[results(ins) :]:
        yield from reads_of(arg)
    if ins.name in ("brx",):
        yield from reads_of(ins.args[0])
    if ins.name in ("addc", "subc", "madc"):
        yield CARRY


def reached(names: Iterable[str], steps: Iterable[tuple[Iterable[str], Iterable[str]]]) -> set[str]:
    """These registers, and those that steps lead to, each of which leads from any of some registers to others."""
    onward: dict[str, list[tuple[str, ...]]] = {}
    for sources, targets in steps:
        ends = tuple(targets)
        for name in sources:
            onward.setdefault(name, []).append(ends)
    found = set(names)
    pending = list(found)
    while pending:
        for ends in onward.get(pending.pop(), ()):
            pending += [name for name in ends if name not in found]
            found.update(ends)
    return found
