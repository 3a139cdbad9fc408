"""The nouns of a PTX program: operands, instructions, variables, functions. No behaviour beyond small look-ups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

WIDTH: dict[str, int] = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32,
    "e4m3x2": 16, "e5m2x2": 16,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64, "b128": 128,
}  # fmt: skip


class Reg(NamedTuple):
    name: str


class Special(NamedTuple):
    name: str  # tid.x, laneid, ...


class Imm(NamedTuple):
    """An immediate: the integer value, or the bit pattern of a float literal (kind f32 or f64)."""

    value: int
    kind: str = "int"


class Sym(NamedTuple):
    """A variable, label or function name, with an optional byte offset."""

    name: str
    offset: int = 0


class Mem(NamedTuple):
    base: Reg | Sym | None
    offset: int = 0


class Vec(NamedTuple):
    items: tuple[Operand, ...]


class Pair(NamedTuple):
    """`%r1|%p1`: a value and a predicate result."""

    first: Operand
    second: Operand


class Not(NamedTuple):
    reg: Reg


class Sink(NamedTuple):
    """`_`: a result nobody wants."""


Operand: TypeAlias = Reg | Special | Imm | Sym | Mem | Vec | Pair | Not | Sink


@dataclass(slots=True)
class Instr:
    """One instruction. `mods` are the dotted parts after the mnemonic, types included."""

    name: str
    mods: tuple[str, ...]
    args: tuple[Operand, ...]
    line: int = 0  # PTX line
    loc: int = 0  # source line of the last .loc, 0 if none
    text: str = ""
    guard: Reg | None = None
    negated: bool = False
    implied: bool = False  # it is none of the text: what another instruction decides is compared beside it
    # The names of the registers that it reads and writes, once somebody has asked.
    reads: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    writes: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def spelling(self) -> str:
        return ".".join((self.name, *self.mods))

    def become(self, args: tuple[Operand, ...], name: str | None = None, mods: tuple[str, ...] | None = None) -> None:
        """Get other operands, and perhaps be another instruction."""
        self.args, self.reads, self.writes = args, None, None
        self.name, self.mods = name or self.name, self.mods if mods is None else mods


@dataclass(slots=True)
class Label:
    name: str
    line: int = 0


@dataclass(slots=True)
class Variable:
    """A variable in some state space. `init` is its bytes, None if zero or uninitialised; `patches` hold addresses."""

    name: str
    space: str
    align: int
    size: int
    init: bytes | None = None
    patches: tuple[tuple[int, str, int], ...] = ()  # (offset, symbol, addend)
    extern: bool = False


@dataclass(slots=True)
class PtxParam:
    name: str
    type: str
    size: int
    align: int
    register: bool = False  # a register of the function, not a place in parameter space


@dataclass(slots=True)
class PtxFunction:
    """A kernel (`entry`) or a device function. `body` mixes instructions and labels in program order."""

    name: str
    entry: bool
    params: list[PtxParam] = field(default_factory=list)
    results: list[PtxParam] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name -> declared type
    variables: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # .branchtargets
    body: list[Instr | Label] = field(default_factory=list)
    line: int = 0
    max_threads: tuple[int, int, int] | None = None
    exact_threads: bool = False
    debug: bool = False  # compiled for a debugger: every value lives in memory, and whole structures are moved

    def param_offsets(self) -> tuple[dict[str, int], int]:
        """Where each parameter lies in parameter space, and the bytes of all of them."""
        offsets, end = {}, 0
        for param in self.params:
            offsets[param.name] = end = -(-end // max(1, param.align)) * max(1, param.align)
            end += param.size
        return offsets, end


@dataclass(slots=True)
class PtxModule:
    functions: dict[str, PtxFunction] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    target: str = ""
    version: str = ""
    files: dict[int, str] = field(default_factory=dict)
