"""What PTX registers hold at many launches at once, computed from the instructions that set them.

PTX ISA 8.x, chapter 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evo.sim.bit_arithmetic import OPERATIONS, Bits, bits_of, converted, cut, masks, packed, tested
from evo.sim.launch_branches import Join
from evo.sim.lower.isa.opcode_table import defs
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Mem, Operand, Reg, Special, Sym, Vec

ANY_PLACE = "tid.x"  # whose values stand for any small number
_IN_PAIRS = ("add", "sub", "mul", "fma", "min", "max", "neg", "abs")  # of halves


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Launches of one kernel. parameters: by number, one value a launch or one for all; grid, block: three rows."""

    parameters: Mapping[int, NDArray[np.generic]]
    grid: NDArray[np.int64]
    block: NDArray[np.int64]
    unknown: NDArray[np.bool_] | None = None  # launches whose grid is not known
    sure: bool = False  # to be told of all, however long it takes
    places: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)  # `ctaid.x` and the like, of one thread each

    @property
    def count(self) -> int:
        return int(self.grid.shape[1])


class Setters(Protocol):
    """What sets the registers of a kernel: `Slices`."""

    any: set[str]
    numbers: dict[str, int]
    setters: dict[str, Instr | Join | None]


def sources_of(ins: Instr | Join) -> Iterator[str]:
    if isinstance(ins, Join):
        yield from ins.sources()
        return
    yield from (part.name for part in _parts(ins) if isinstance(part, Reg))


def _parts(ins: Instr) -> list[Operand]:
    return [part for arg in ins.args[1:] for part in (arg.items if isinstance(arg, Vec) else (arg,))]


def is_unpacking(ins: Instr) -> bool:
    """Whether it takes a register apart into equal parts."""
    return ins.name == "mov" and isinstance(ins.args[0], Vec) and ins.mods[-1] in ("b32", "b64")


def _targets(ins: Instr) -> tuple[Operand, ...]:
    return ins.args[0].items if isinstance(ins.args[0], Vec) else ins.args[:1]


def computable(ins: Instr | Join) -> bool:
    if isinstance(ins, Join):
        return True
    kind = ins.mods[-1] if ins.mods else ""
    if is_unpacking(ins):
        return all(isinstance(part, Reg) for part in _targets(ins)) and isinstance(ins.args[1], Reg)
    if len(list(defs(ins))) != 1 or not isinstance(ins.args[0], Reg):
        return False
    if not all(isinstance(part, (Reg, Imm, Special, Mem)) for part in _parts(ins)):
        return False
    if len(_parts(ins)) >= len(ins.args):
        return ins.name == "mov" and kind in ("b32", "b64")
    if ins.name == "cvt":
        return all(mod in WIDTH for mod in ins.mods[-2:]) and not {"bf16", "f16x2", "bf16x2", "tf32"} & set(ins.mods)
    if ins.name == "set" and kind == "f16x2":
        return len(ins.args) == 3 and "ftz" not in ins.mods
    if kind == "f16x2":
        return ins.name in _IN_PAIRS and not {"relu", "sat"} & set(ins.mods)
    if kind not in WIDTH or kind in ("bf16", "bf16x2"):
        return ins.name == "cvta"
    return ins.name in OPERATIONS or ins.name in ("ld", "mov", "cvta", "setp", "selp")


@dataclass(slots=True)
class ValuesOfRegisters:
    """Values of registers at some launches, as bits."""

    slices: Setters
    launches: Launches
    known: dict[str, Bits] = field(default_factory=dict)

    def of(self, name: str) -> Bits:
        order: list[str] = [name]
        while order:  # without recursion, which long chains would exhaust
            top = order[-1]
            if top in self.slices.any:
                self.known[top] = self.launches.places[ANY_PLACE].astype(np.uint64)
                order.pop()
                continue
            ins = self.slices.setters[top]
            assert ins is not None
            missing = [source for source in sources_of(ins) if source not in self.known]
            if top not in self.known and missing:
                order += missing
                continue
            if top not in self.known:
                self._compute(top, ins)
            order.pop()
        return self.known[name]

    def _compute(self, name: str, ins: Instr | Join) -> None:
        if isinstance(ins, Join) or not is_unpacking(ins):
            self.known[name] = self.computed(ins)
            return
        whole = self.of_operand(ins.args[1], ins.mods[-1])
        width = WIDTH[ins.mods[-1]] // len(_targets(ins))
        for at, part in enumerate(_targets(ins)):
            assert isinstance(part, Reg)
            self.known[part.name] = cut(whole >> np.uint64(width * at), f"b{width}")

    def of_operand(self, arg: Operand, kind: str) -> Bits:
        if isinstance(arg, Reg):
            return cut(self.known[arg.name] if arg.name in self.known else self.of(arg.name), kind)
        if isinstance(arg, Special) and arg.name in self.launches.places:
            return self.launches.places[arg.name].astype(np.uint64)
        if isinstance(arg, Special):
            rows = self.launches.grid if arg.name.startswith("nctaid") else self.launches.block
            row: Bits = rows["xyz".index(arg.name[-1])].astype(np.uint64)
            return row
        assert isinstance(arg, Imm)
        value = arg.value
        if arg.kind == "f64" and kind == "f32":
            value = int(np.uint64(value).view(np.float64).astype(np.float32).view(np.uint32))
        return np.asarray(value & ((1 << WIDTH[kind]) - 1), np.uint64)

    def computed(self, ins: Instr | Join) -> Bits:
        if isinstance(ins, Join):
            return ins.value(self.known)
        kind = ins.mods[-1] if ins.mods else "b64"
        if ins.name == "ld":
            address = ins.args[1]
            assert isinstance(address, Mem)
            assert isinstance(address.base, Sym)
            return bits_of(self.launches.parameters[self.slices.numbers[address.base.name]], kind)
        if isinstance(ins.args[1], Vec):
            width = WIDTH[kind] // len(parts := _parts(ins))
            return packed([self.of_operand(part, f"b{width}") for part in parts], kind)
        if ins.name in ("mov", "cvta"):
            return self.of_operand(ins.args[1], kind if kind in WIDTH else "b64")
        if ins.name == "cvt":
            return converted(self.of_operand(ins.args[1], kind), ins.mods)
        if ins.name == "setp":
            return self._compared(ins, kind)
        if ins.name == "set":
            return masks(ins.mods[0], ins.mods[-2], *(self.of_operand(arg, "b32") for arg in ins.args[1:]))
        if ins.name == "selp":
            first, second = (self.of_operand(arg, kind) for arg in ins.args[1:3])
            return np.where(self.of_operand(ins.args[3], "pred") != 0, first, second)
        if kind == "f16x2":
            both = [self.of_operand(arg, kind) for arg in ins.args[1:]]
            halves = ([cut(value >> np.uint64(shift), "f16") for value in both] for shift in (0, 16))
            return packed([OPERATIONS[ins.name]("f16", ins.mods, *some) for some in halves], kind)
        given = [self.of_operand(arg, _kind_of(ins, place, kind)) for place, arg in enumerate(ins.args[1:])]
        return OPERATIONS[ins.name](kind, ins.mods, *given)

    def _compared(self, ins: Instr, kind: str) -> Bits:
        found = tested(ins.mods[0], kind, *(self.of_operand(arg, kind) for arg in ins.args[1:3]))
        if len(ins.args) > 3:
            other = self.of_operand(ins.args[3], "pred") != 0
            joined = ins.mods[1]
            found = found & other if joined == "and" else found | other if joined == "or" else found ^ other
        return np.asarray(found, np.uint64)


def _kind_of(ins: Instr, place: int, kind: str) -> str:
    """The type of a source operand."""
    if ins.name in ("shl", "shr", "bfe") and place:
        return "u32"
    return "u64" if ins.name == "mad" and "wide" in ins.mods and place == 2 else kind
