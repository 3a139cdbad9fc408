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

from evo.sim.bit_arithmetic import FLOATS, typed
from evo.sim.launch_branches import Join, guards_of, joins_of, place_of_use
from evo.sim.lower.isa.opcode_table import TABLE, defs
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Mem, Operand, Pair, PtxFunction, PtxModule, Reg, Special, Sym
from evo.sim.ptx.parser import parse
from evo.sim.register_values import ANY_PLACE, Launches, ValuesOfRegisters, computable, sources_of

OF_LAUNCH = ("ntid.x", "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z")
OF_THREADS = tuple(f"{name}.{axis}" for name in ("ctaid", "tid") for axis in "xyz")  # of a thread in its launch
_NUMBER = re.compile(r"%r[0-9]+")  # how the compiler names 32 bits
SPLITS = frozenset(("shr", "div", "rem", "and", "bfe", "bfind"))  # results that are zero on one side of a threshold
_GRID = -1  # among the parameters of a value: it follows from the grid or the block
_ROUNDING = 2.0**21  # beyond it, constants are added to round, as exponentials do
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


def launch_conditions(ptx: str) -> dict[str, tuple[LaunchCondition, ...]]:
    """Of each kernel of a module. Raises PtxError for what is not PTX."""
    functions = parsed(ptx).functions.items()
    return {name: tuple(_conditions(Slices(function))) for name, function in functions if function.entry}


@functools.lru_cache(maxsize=2)
def slices_of_threads(ptx: str) -> dict[str, Slices]:
    """Of each kernel, what its registers follow from, with a thread's place among the sources. Raises PtxError."""
    functions = parsed(ptx).functions.items()
    return {name: Slices(function, OF_LAUNCH + OF_THREADS) for name, function in functions if function.entry}


@functools.lru_cache(maxsize=8)  # several questions are asked of one text
def parsed(ptx: str) -> PtxModule:
    """A text, read once. Raises PtxError."""
    return parse(ptx, TABLE)


def compared_constants(ptx: str) -> tuple[int | float, ...]:
    """The numbers that data, or their bits, are compared with or bounded by, and then those at which a sum of data and
    a constant vanishes: what follows smoothly from such a difference may be large there alone. Raises PtxError.
    """
    found: dict[int | float, None] = {}
    roots: dict[int | float, None] = {}
    for function in parsed(ptx).functions.values():
        slices = Slices(function)
        for ins in function.body:
            if not isinstance(ins, Instr) or not ins.mods or ins.mods[-1] not in WIDTH:
                continue
            is_compared = ins.name in ("setp", "min", "max", "set")
            if not (is_compared or (ins.name in ("add", "sub", "fma") and ins.mods[-1] in ("f32", "f64"))):
                continue
            others = [arg.name for arg in ins.args[1:] if isinstance(arg, Reg)]
            if all(slices.parameters(name) is not None for name in others[:2]):
                continue
            if is_compared:
                for arg in ins.args[1:3]:
                    for immediate in (arg, slices.constant(arg)):
                        if isinstance(immediate, Imm):
                            found.setdefault(_value_of(immediate, ins.mods[-1]))
            elif (root := _root(slices, ins)) is not None:
                roots.setdefault(root)
    return (*found, *(root for root in roots if root not in found))


def _root(slices: Slices, ins: Instr) -> float | None:
    """Where a sum of one number and a constant, or of its multiple and one, is zero."""
    numbers = [
        immediate if isinstance(immediate, Imm) else None
        for immediate in (arg if isinstance(arg, Imm) else slices.constant(arg) for arg in ins.args[1:])
    ]
    known = [None if number is None else float(_value_of(number, ins.mods[-1])) for number in numbers]
    if ins.name == "fma":
        factor, other = next((pair for pair in ((known[0], known[1]), (known[1], known[0])) if pair[0]), (None, None))
        addend = known[2]
        root = None if factor is None or other is not None or addend is None else -addend / factor
    elif known.count(None) == 1:
        constant = next(value for value in known if value is not None)
        root = constant if ins.name == "sub" else -constant
    else:
        root = None
    return root if root and abs(root) < _ROUNDING else None


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
        if ANY_PLACE not in self.specials or not _NUMBER.fullmatch(name):
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
