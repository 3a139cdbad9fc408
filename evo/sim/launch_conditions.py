"""Conditions of a PTX kernel that follow from its launch alone, as functions of scalar parameters and grid.

A comparison of sizes decides for a whole launch. Here each one is computed from the code for many launches at once,
with NumPy and without running anything. So a caller knows which sizes make it true, and which make it false, even where
no number of the source is the threshold. Values that come from memory, loops or lanes are left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.sim.bit_arithmetic import FLOATS, OPERATIONS, Bits, bits_of, converted, cut, masks, packed, tested, typed
from evo.sim.launch_branches import Join, guards_of, joins_of, place_of_use
from evo.sim.lower.isa.opcode_table import TABLE, defs
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Mem, Operand, Pair, PtxFunction, PtxModule, Reg, Special, Sym, Vec
from evo.sim.ptx.parser import parse

OF_LAUNCH = ("ntid.x", "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z")
OF_THREADS = tuple(f"{name}.{axis}" for name in ("ctaid", "tid") for axis in "xyz")  # of a thread in its launch
_ANY_PLACE = "tid.x"  # whose values stand for any small number
_NUMBER = re.compile(r"%r[0-9]+")  # how the compiler names 32 bits
SPLITS = frozenset(("shr", "div", "rem", "and", "bfe", "bfind"))  # results that are zero on one side of a threshold
_GRID = -1  # among the parameters of a value: it follows from the grid or the block
_DEEP = 400  # instructions between a condition and the parameters


_Test: TypeAlias = "tuple[Callable[[Launches], NDArray[np.bool_]], bool]"  # what is asked, and the answer that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCondition:
    """A decision of a kernel that is the same for all threads of a launch.

    parameters: the numbers of those that it follows from. of_grid: sizes of grid or block are among its sources.
    It may stand behind other such decisions (`reached`); what loops, lanes or data decide before it is not known.
    """

    kernel: str
    instruction: str  # its PTX text
    source_line: int | None
    parameters: frozenset[int]
    of_grid: bool
    rehearsed: bool = False  # asked of a run without data
    of_threads: bool = False  # threads of one launch may differ
    _compute: Callable[[Launches], NDArray[np.bool_]] = field(repr=False, compare=False)
    _before: tuple[_Test, ...] = field(default=(), repr=False, compare=False)
    _parts: Mapping[bool, tuple[_Test, ...]] = field(default_factory=dict, repr=False, compare=False)

    def outcomes(self, launches: Launches) -> NDArray[np.bool_]:
        """Of each launch."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(self._compute(launches), (launches.count,))

    def reached(self, launches: Launches) -> NDArray[np.bool_]:
        """Of each launch, whether the decisions before this one lead to it."""
        return np.asarray(self._met(self._before, launches) == len(self._before), np.bool_)

    def steps(self, outcome: bool) -> int:
        """How many tests have to come out right for it to have an outcome."""
        return len(self._before) + len(self._parts[outcome])

    def progress(self, launches: Launches, outcome: bool) -> NDArray[np.int64]:
        """Of each launch, how many of them do."""
        return self._met((*self._before, *self._parts[outcome]), launches)

    def _met(self, tests: tuple[_Test, ...], launches: Launches) -> NDArray[np.int64]:
        met = np.zeros(launches.count, np.int64)
        with np.errstate(all="ignore"):
            for compute, value in tests:
                met += np.asarray(compute(launches) == value)
        return met


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


def launch_conditions(ptx: str) -> dict[str, tuple[LaunchCondition, ...]]:
    """Of each kernel of a module. Raises PtxError for what is not PTX."""
    functions = _parsed(ptx).functions.items()
    return {name: tuple(_conditions(Slices(function))) for name, function in functions if function.entry}


@functools.lru_cache(maxsize=2)
def slices_of_threads(ptx: str) -> dict[str, Slices]:
    """Of each kernel, what its registers follow from, with a thread's place among the sources. Raises PtxError."""
    functions = _parsed(ptx).functions.items()
    return {name: Slices(function, OF_LAUNCH + OF_THREADS) for name, function in functions if function.entry}


@functools.lru_cache(maxsize=8)  # several questions are asked of one text
def _parsed(ptx: str) -> PtxModule:
    return parse(ptx, TABLE)


def compared_constants(ptx: str) -> tuple[int | float, ...]:
    """The numbers that data, or their bits, are compared with or bounded by. Raises PtxError."""
    found: dict[int | float, None] = {}
    for function in _parsed(ptx).functions.values():
        slices = Slices(function)
        for ins in function.body:
            if not isinstance(ins, Instr) or ins.name not in ("setp", "min", "max", "set") or ins.mods[-1] not in WIDTH:
                continue
            others = [arg.name for arg in ins.args[1:3] if isinstance(arg, Reg)]
            if all(slices.parameters(name) is not None for name in others):
                continue
            for arg in ins.args[1:3]:
                for immediate in (arg, slices.constant(arg)):
                    if isinstance(immediate, Imm):
                        found.setdefault(_value_of(immediate, ins.mods[-1]))
    return tuple(found)


def _value_of(immediate: Imm, kind: str) -> int | float:
    if immediate.kind == "int" and kind not in FLOATS:
        return immediate.value & ((1 << WIDTH[kind]) - 1)
    bits = np.asarray([immediate.value], np.uint64)
    if immediate.kind == "f64":
        return float(bits.view(np.float64)[0])
    kind = immediate.kind if immediate.kind in FLOATS else kind
    return float(typed(bits, kind)[0])


def _conditions(slices: Slices) -> Iterator[LaunchCondition]:
    function = slices.function
    seen: set[tuple[str, int]] = set()
    guards, uses = guards_of(function), place_of_use(function)
    for ins in function.body:
        if not isinstance(ins, Instr) or not _decides(ins):
            continue
        target = ins.args[0]
        target = target.first if isinstance(target, Pair) else target
        if not isinstance(target, Reg):
            continue
        name = target.name
        found = slices.parameters(name)
        if found is None:
            continue
        text = " ".join(ins.text.split())
        if (text, ins.loc) in seen:
            continue
        seen.add((text, ins.loc))
        before = guards[id(uses.get(name, ins))]
        known = [(guard, of) for guard in before if (of := slices.parameters(guard.register)) is not None]
        asked = [test for guard, _ in known for test in slices.tests(guard.register, guard.value)]
        decided = slices.decision(ins, name)
        is_predicate = "pred" in ins.mods or ins.name == "setp"
        yield LaunchCondition(
            kernel=function.name,
            instruction=text,
            source_line=ins.loc or None,
            parameters=found - {_GRID},
            of_grid=_GRID in found.union(*(of for _, of in known)),
            _compute=decided,
            _before=tuple(asked),
            _parts={
                value: tuple(slices.tests(name, value)) if is_predicate else ((decided, value),)
                for value in (False, True)
            },
        )


def _decides(ins: Instr) -> bool:
    if ins.guard is not None:
        return False
    return (
        ins.name in ("setp", "min", "max") or ins.name in SPLITS or (ins.name in ("or", "xor") and "pred" in ins.mods)
    )


class Slices:
    """The registers of one kernel that are set once, and from what."""

    def __init__(self, function: PtxFunction, specials: tuple[str, ...] = OF_LAUNCH) -> None:
        self.function = function
        self.specials = specials  # that a value may follow from
        self.any: set[str] = set()  # registers that are taken to hold any small number
        self.numbers = {param.name: number for number, param in enumerate(function.params)}
        self.setters: dict[str, Instr | Join | None] = {}
        for ins in function.body:
            if isinstance(ins, Instr):
                for name in defs(ins):
                    alone = name not in self.setters and ins.guard is None
                    self.setters[name] = ins if alone else None
        for name, join in joins_of(function).items():
            self.setters[name] = join
            self.setters |= {part.register: part.setter for part in join.parts}
        self._known: dict[str, frozenset[int] | None] = {}
        self._values: ValuesOfRegisters | None = None  # at the launches that were asked for last

    def parameters(self, name: str) -> frozenset[int] | None:
        """The parameters that a register follows from; None if from anything else than them and the grid."""
        pending = [name]
        while pending:
            top = pending[-1]
            if top in self._known:
                pending.pop()
                continue
            ins = self.setters.get(top)
            if ins is None or not computable(ins) or len(pending) > _DEEP:
                self._known[top] = self._unknown(top)
                continue
            sources = list(sources_of(ins))
            missing = [source for source in sources if source not in self._known and source not in pending]
            if missing:
                pending += missing
                continue
            parts = [self._known.get(source) for source in sources]
            own = self._own(ins)
            if own is None or any(part is None for part in parts):
                self._known[top] = self._unknown(top)
            else:
                self._known[top] = own.union(*(part for part in parts if part is not None))
        return self._known[name]

    def _unknown(self, name: str) -> frozenset[int] | None:
        """What is known of a register that loops or memory decide: of threads, that 32 bits are no address."""
        if _ANY_PLACE not in self.specials or not _NUMBER.fullmatch(name):
            return None
        self.any.add(name)
        return frozenset((_GRID,))

    def _own(self, ins: Instr | Join) -> frozenset[int] | None:
        if isinstance(ins, Join):
            return frozenset()
        if ins.name == "ld":
            address = ins.args[1]
            if "param" in ins.mods and isinstance(address, Mem) and isinstance(address.base, Sym):
                number = self.numbers.get(address.base.name)
                return frozenset((number,)) if number is not None and not address.offset else None
            return None
        specials = [arg.name for arg in ins.args if isinstance(arg, Special)]
        if not all(name in self.specials for name in specials):
            return None
        return frozenset((_GRID,)) if specials else frozenset()

    def constant(self, arg: Operand) -> Imm | None:
        """The number that a register was set to, if it is one."""
        ins = self.setters.get(arg.name) if isinstance(arg, Reg) else None
        if isinstance(ins, Instr) and ins.name == "mov" and isinstance(ins.args[1], Imm):
            return ins.args[1]
        return None

    def tests(self, name: str, value: bool) -> Iterator[_Test]:
        """What has to hold for a predicate to have a value: of a conjunction, each of its parts."""
        for part, wanted in self.parts(name, value):
            yield self._nonzero(part), wanted

    def parts(self, name: str, value: bool) -> Iterator[tuple[str, bool]]:
        """The predicates of a conjunction, and what each has to be."""
        ins = self.setters.get(name)
        if isinstance(ins, Join):
            alone = ins.conjunction(value)
            if alone is None:
                yield name, value
                return
            for guard in alone.guards:
                yield from self.parts(guard.register, guard.value)
            yield from self.parts(alone.register, value)
            return
        parts = [arg.name for arg in ins.args[1:] if isinstance(arg, Reg)] if ins is not None else []
        joined = ins is not None and "pred" in ins.mods and ins.name == ("and" if value else "or") and len(parts) == 2
        if joined:
            for part in parts:
                yield from self.parts(part, value)
        elif ins is not None and "pred" in ins.mods and ins.name == "not" and parts:
            yield from self.parts(parts[0], not value)
        else:
            yield name, value

    def _nonzero(self, name: str) -> Callable[[Launches], NDArray[np.bool_]]:
        return lambda launches: np.asarray(self.at(launches).of(name) != 0)

    def at(self, launches: Launches) -> ValuesOfRegisters:
        if self._values is None or self._values.launches is not launches:
            self._values = ValuesOfRegisters(self, launches)
        return self._values

    def decision(self, ins: Instr, name: str) -> Callable[[Launches], NDArray[np.bool_]]:
        def compute(launches: Launches) -> NDArray[np.bool_]:
            values = self.at(launches)
            if ins.name in ("min", "max"):
                first = values.of_operand(ins.args[1], ins.mods[-1])
                return np.asarray(values.of(name) == first)
            return np.asarray(values.of(name) != 0)

        return compute


def sources_of(ins: Instr | Join) -> Iterator[str]:
    if isinstance(ins, Join):
        yield from ins.sources()
        return
    yield from (part.name for part in _parts(ins) if isinstance(part, Reg))


def _parts(ins: Instr) -> list[Operand]:
    return [part for arg in ins.args[1:] for part in (arg.items if isinstance(arg, Vec) else (arg,))]


def computable(ins: Instr | Join) -> bool:
    if isinstance(ins, Join):
        return True
    if len(list(defs(ins))) != 1 or not isinstance(ins.args[0], Reg):
        return False
    kind = ins.mods[-1] if ins.mods else ""
    if not all(isinstance(part, (Reg, Imm, Special, Mem)) for part in _parts(ins)):
        return False
    if len(_parts(ins)) >= len(ins.args):
        return ins.name == "mov" and kind in ("b32", "b64")
    if ins.name == "cvt":
        return all(mod in WIDTH for mod in ins.mods[-2:]) and not {"bf16", "f16x2", "bf16x2", "tf32"} & set(ins.mods)
    if ins.name == "set" and kind == "f16x2":
        return len(ins.args) == 3 and "ftz" not in ins.mods
    if kind not in WIDTH or kind in ("bf16", "f16x2", "bf16x2"):
        return ins.name == "cvta"
    return ins.name in OPERATIONS or ins.name in ("ld", "mov", "cvta", "setp", "selp")


@dataclass(slots=True)
class ValuesOfRegisters:
    """Values of registers at some launches, as bits."""

    slices: Slices
    launches: Launches
    known: dict[str, Bits] = field(default_factory=dict)

    def of(self, name: str) -> Bits:
        order: list[str] = [name]
        while order:  # without recursion, which long chains would exhaust
            top = order[-1]
            if top in self.slices.any:
                self.known[top] = self.launches.places[_ANY_PLACE].astype(np.uint64)
                order.pop()
                continue
            ins = self.slices.setters[top]
            assert ins is not None
            missing = [source for source in sources_of(ins) if source not in self.known]
            if top not in self.known and missing:
                order += missing
                continue
            if top not in self.known:
                self.known[top] = self.computed(ins)
            order.pop()
        return self.known[name]

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
