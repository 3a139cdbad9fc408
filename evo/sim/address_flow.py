"""What a kernel does with the addresses of its buffers besides reading and writing there.

Each register is a sum of addresses, each as often as its factor says, plus a number that no address decides. One
address is one; the difference of two in one buffer is none. Shifts, masks, remainders and halves of an address are
`MIXED`, unless they are the same wherever buffers lie: then they ask for alignment alone. Values are computed for
several places of all buffers where they follow from parameters and places of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from evo.sim.launch_branches import Join
from evo.sim.launch_conditions import OF_THREADS, Slices, slices_of_threads
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Mem, Operand, PtxFunction, Reg, Sym, Vec
from evo.sim.register_values import Launches, sources_of

_ALIGNED = 256  # every address of a buffer is a multiple
_MOVES = frozenset(("mov", "cvta", "ld", "mapa"))
_STORES = frozenset(("st", "red", "atom"))
_SAME = frozenset(("shfl",))  # the same, of another thread
_INNER = frozenset(("shared", "local", "param"))  # spaces
_ANY = "?"  # one of several buffers
_PLACES = 500  # where buffers lie
_LENGTHS = (1, 7, 64, 1000, 40_000)
_THREADS = {"ctaid": (0, 1, 5, 0, 19), "tid": (0, 31, 2, 7, 0)}  # of one thread for each length
_ROUNDS = 12  # of a loop, until nothing changes


@dataclass(frozen=True, slots=True)
class AddressFlow:
    """factors: by buffer. narrow: only low bits are kept. part: one half of an address on its way to another thread.

    mixed: bits of addresses; below `aligned` they are the same wherever buffers lie. moved: a number has been added.
    """

    factors: tuple[tuple[str, float], ...] = ()
    narrow: bool = False
    mixed: bool = False
    part: bool = False
    aligned: int = 0
    moved: bool = False

    def same_below(self, unit: int) -> int:
        """Bits below this power of two follow from no address: sums of multiples of the unit have none."""
        if self.mixed or self.part:
            return self.aligned
        return unit // max((Fraction(times).denominator for _, times in self.factors), default=1)

    @property
    def is_number(self) -> bool:
        return not (self.factors or self.mixed or self.part)

    @property
    def is_address(self) -> bool:
        return not self.mixed and not self.narrow and [factor for _, factor in self.factors] == [1]


NUMBER = AddressFlow()
MIXED = AddressFlow(mixed=True)


@dataclass(frozen=True, slots=True)
class Misuse:
    """An instruction to which bits of an address come as if they were a number."""

    source_line: int
    instruction: str


def address_misuses(ptx: str, buffers: Mapping[str, frozenset[int]], unit: int = _ALIGNED) -> Iterator[Misuse]:
    """buffers: of each kernel, the numbers of the parameters that are addresses, multiples of a unit.

    Raises PtxError.
    """
    for name, slices in slices_of_threads(ptx).items():
        yield from _Kernel(slices, buffers.get(name, frozenset()), unit).misuses()


def variable_misuses(ptx: str, unit: int = _ALIGNED) -> Iterator[Misuse]:
    """The same of shared and local memory: where it lies differs from one chip to the next, and from a simulator.

    Addresses in it may be swizzled as one likes, as long as shared or local memory is read and written there.
    Raises PtxError.
    """
    for slices in slices_of_threads(ptx).values():
        yield from _Variables(slices, frozenset(), unit).misuses()


def _trial(function: PtxFunction, pointers: frozenset[int], unit: int) -> Launches:
    """Launches with buffers at many places, all places of one length and thread beside one another."""
    rng = np.random.default_rng(len(function.params))
    lengths = np.repeat(np.asarray(_LENGTHS), _PLACES)
    parameters: dict[int, NDArray[np.generic]] = {
        at: rng.integers(1, 1 << 39, len(lengths)).astype(np.uint64) * np.uint64(unit) if at in pointers else lengths
        for at in range(len(function.params))
    }
    shape = np.ones((3, len(lengths)), np.int64)
    places = {name: np.repeat(np.asarray(_THREADS[name.split(".")[0]]), _PLACES) for name in OF_THREADS}
    return Launches(parameters=parameters, grid=shape, block=shape, places=places)


class _Kernel:
    """pointers: numbers of the parameters that are addresses."""

    def __init__(self, slices: Slices, pointers: frozenset[int], unit: int) -> None:
        self.function, self.slices, self.pointers = slices.function, slices, pointers
        self.flows: dict[str, AddressFlow] = {}
        self.code = [item for item in self.function.body if isinstance(item, Instr)]
        self.defs = {id(ins): tuple(defs(ins)) for ins in self.code}
        self.unit = unit
        self.trial = _trial(self.function, pointers, unit)
        self._same: dict[str, AddressFlow | None] = {}

    def misuses(self) -> Iterator[Misuse]:
        named = self._names()
        if not named:
            return
        for _ in range(_ROUNDS):
            before = dict(self.flows)
            for ins in self.code:
                self._follow(ins, named)
            if self.flows == before:
                break
        for ins in self.code:
            if not self._is_right(ins):
                yield Misuse(ins.loc, " ".join(ins.text.split()))

    def _names(self) -> set[str]:
        """Of what has an address."""
        return {self.function.params[at].name for at in self.pointers if at < len(self.function.params)}

    # Flows ------------------------------------------------------------------------------------------------------

    def of(self, arg: Operand) -> AddressFlow:
        if isinstance(arg, Reg):
            return self.flows.get(arg.name, NUMBER)
        if isinstance(arg, Vec):
            return _joined([self.of(item) for item in arg.items], self.unit)
        return NUMBER

    def _follow(self, ins: Instr, named: set[str]) -> None:
        made = self.defs[id(ins)]
        if not made:
            return
        flow = self._result(ins, named)
        for name in made:
            own = flow
            if self.function.registers.get(name) == "pred":
                own = NUMBER  # asked where it is made
            elif not (flow.is_number or flow.is_address or flow.part):
                own = self._computed(name) or flow
            if name in self.flows:
                own = _joined([self.flows[name], own], self.unit)
            self.flows[name] = own

    def _result(self, ins: Instr, named: set[str]) -> AddressFlow:
        if ins.name == "ld":
            where = ins.args[1]
            base = where.base if isinstance(where, Mem) else None
            if "param" in ins.mods and isinstance(base, Sym) and base.name in named:
                return AddressFlow(((base.name, 1),))
            return NUMBER
        given = [self.of(arg) for arg in ins.args[1:]]
        if ins.name == "mov" and (isinstance(ins.args[0], Vec) or any(isinstance(arg, Vec) for arg in ins.args[1:])):
            return _of_halves(given[0], isinstance(ins.args[0], Vec))
        if all(flow.is_number for flow in given):
            return NUMBER
        if ins.name in ("or", "xor") and (kept := self._with_low_bits(ins, given)) is not None:
            return kept
        rule = _RULES.get(ins.name)
        return rule(ins, given, self.unit) if rule is not None else MIXED

    def _with_low_bits(self, ins: Instr, given: list[AddressFlow]) -> AddressFlow | None:
        """An address of which only bits change that follow from no address, as where an offset is put into it."""
        places = [place for place in (0, 1) if not given[place].is_number]
        if len(places) != 1 or given[places[0]].mixed:
            return None
        flow, most = given[places[0]], self._most(ins.args[2 - places[0]])
        return replace(flow, moved=True) if most is not None and most < flow.same_below(self.unit) else None

    def _most(self, arg: Operand, left: int = _ROUNDS) -> int | None:
        """The largest that a number without a sign can be, if its instructions tell."""
        if isinstance(arg, Imm):
            return arg.value if arg.kind == "int" and arg.value >= 0 else None
        setter = self.slices.setters.get(arg.name) if isinstance(arg, Reg) and left else None
        if not isinstance(setter, Instr) or setter.name not in ("and", "shl", "cvt", "mov"):
            return None
        parts = [self._most(part, left - 1) for part in setter.args[1:]]
        if setter.name == "and":
            return min((part for part in parts if part is not None), default=None)
        if setter.name == "shl":
            shift = _immediate(setter, 2)
            return None if parts[0] is None or shift is None else parts[0] << shift
        return parts[0]

    def _computed(self, name: str) -> AddressFlow | None:
        """What a register holds, judged by its values with buffers at several places; None if they do not tell."""
        if self.slices.parameters(name) is None or not self._is_sure(name):
            return None
        if name not in self._same:
            with np.errstate(all="ignore"):
                values = np.broadcast_to(self.slices.at(self.trial).of(name), self.trial.count)
            rows = values.reshape(-1, _PLACES)
            self._same[name] = NUMBER if (rows == rows[:, :1]).all() else None
        return self._same[name]

    def _is_sure(self, name: str) -> bool:
        """Whether nothing that it follows from is taken for a number and is none."""
        seen, pending = {name}, [name]
        while pending:
            top = pending.pop()
            if top in self.slices.any:
                if top == name or not self.flows.get(top, NUMBER).is_number:
                    return False
                continue
            setter = self.slices.setters.get(top)
            if isinstance(setter, (Instr, Join)):
                fresh = set(sources_of(setter)) - seen
                seen |= fresh
                pending += fresh
        return True

    # Uses -------------------------------------------------------------------------------------------------------

    def _is_right(self, ins: Instr) -> bool:
        """Whether each operand of an instruction may be what it is."""
        reads = [self.flows.get(name, NUMBER) for name in uses(ins)]
        if all(flow.is_number for flow in reads):
            return True
        for arg in ins.args:
            flow = self.flows.get(arg.base.name, NUMBER) if isinstance(arg, Mem) and isinstance(arg.base, Reg) else None
            if flow is not None and not (flow.is_number or flow.is_address):
                return False
        if ins.name == "setp":
            return self._may_compare(ins)
        if ins.name in _STORES and ins.name != "ld":
            to_others = _INNER.isdisjoint(mod.split("::")[0] for mod in ins.mods)
            values = [self.of(arg) for arg in ins.args if not isinstance(arg, Mem)]
            return all(flow.is_number or (flow.is_address and not to_others) for flow in values)
        return bool(self.defs[id(ins)]) or all(not flow.mixed and not flow.narrow for flow in reads)

    def _may_compare(self, ins: Instr) -> bool:
        """Two places in one buffer, whether there is a buffer at all, and whether two are the same. Whether two lie a
        certain number of bytes apart is something else.
        """
        first, second = (self.of(arg) for arg in ins.args[1:3])
        if first.mixed or second.mixed or first.part or second.part:
            return False
        if first.factors == second.factors:
            return True
        nothing = any(isinstance(arg, Imm) and arg.value == 0 for arg in ins.args[1:3])
        others = [flow for flow in (first, second) if not flow.is_number]
        is_one = len(others) > 1 and not (first.moved or second.moved)
        return ins.mods[0] in ("eq", "ne") and all(flow.is_address for flow in others) and (nothing or is_one)


class _Variables(_Kernel):
    """What becomes of the addresses of shared and local memory."""

    def _names(self) -> set[str]:
        text = {arg.name for ins in self.code for arg in ins.args if isinstance(arg, Sym)}
        return text - set(self.function.tables) - {param.name for param in self.function.params}

    def of(self, arg: Operand) -> AddressFlow:
        return AddressFlow(((arg.name, 1),)) if isinstance(arg, Sym) else super().of(arg)

    def _is_right(self, ins: Instr) -> bool:
        spaces = {mod.split("::")[0] for mod in ins.mods}
        if ins.name == "setp":
            return self._may_compare(ins)
        for arg in ins.args if spaces.isdisjoint(_INNER) else ():
            flow = self.of(arg.base) if isinstance(arg, Mem) and isinstance(arg.base, Reg) else NUMBER
            if not (flow.is_number or flow.is_address):
                return False
        if ins.name in _STORES:
            values = [self.of(arg) for arg in ins.args if not isinstance(arg, Mem)]
            return all(f.is_number or not (f.mixed or spaces.isdisjoint(_INNER)) for f in values)
        return True


def _joined(flows: Sequence[AddressFlow], unit: int) -> AddressFlow:
    """What a register is that may be any of these: of several addresses, one of them."""
    kinds = set(flows)
    if len(kinds) == 1:
        return flows[0]
    others = [flow for flow in kinds if not flow.is_number]
    if len({replace(flow, moved=True) for flow in others}) == 1:
        return replace(others[0], moved=any(flow.moved for flow in others))
    if any(flow.mixed for flow in others):
        return AddressFlow(mixed=True, aligned=min(flow.same_below(unit) for flow in others))
    if all(flow.is_address for flow in others):
        return AddressFlow(((_ANY, 1),))
    return AddressFlow(part=True) if all(flow.part for flow in others) else MIXED


def _of_halves(flow: AddressFlow, apart: bool) -> AddressFlow:
    """An address that is taken apart, or put together again."""
    if flow.is_number:
        return NUMBER
    if apart:
        return AddressFlow(part=True) if flow.is_address else MIXED
    return AddressFlow(((_ANY, 1),)) if flow.part else MIXED


def _summed(first: AddressFlow, second: AddressFlow, factor: int) -> AddressFlow:
    if first.mixed or second.mixed or first.part or second.part:
        return MIXED
    factors: dict[str, float] = dict(first.factors)
    for name, times in second.factors:
        factors[name] = factors.get(name, 0) + factor * times
    left = tuple(sorted((name, times) for name, times in factors.items() if times))
    if _ANY in factors and len(left) < len({name for name, _ in (*first.factors, *second.factors)}):
        return NUMBER if not left else AddressFlow(left)
    return AddressFlow(left, narrow=bool(left) and (first.narrow or second.narrow), moved=bool(left))


def _scaled(flow: AddressFlow, factor: float) -> AddressFlow:
    if flow.mixed or flow.part:
        return MIXED
    return AddressFlow(tuple((name, times * factor) for name, times in flow.factors), narrow=flow.narrow)


def _immediate(ins: Instr, place: int) -> int | None:
    arg = ins.args[place] if place < len(ins.args) else None
    return arg.value if isinstance(arg, Imm) and arg.kind == "int" else None


def _product(ins: Instr, given: list[AddressFlow], _unit: int) -> AddressFlow:
    places = [place for place in (0, 1) if not given[place].is_number]
    if len(places) == 2:
        return MIXED
    if not places:
        return given[2] if len(given) > 2 else NUMBER
    factor = _immediate(ins, 2 - places[0])
    found = MIXED if factor is None or "hi" in ins.mods or "wide" in ins.mods else _scaled(given[places[0]], factor)
    return _summed(found, given[2], 1) if len(given) > 2 else found


def _shifted(ins: Instr, given: list[AddressFlow], unit: int) -> AddressFlow:
    """Elements between two buffers are bytes divided, which is exact as long as buffers are aligned."""
    count = _immediate(ins, 2)
    if count is None:
        return MIXED
    if ins.name == "shl":
        return _scaled(given[0], 1 << count)
    if 1 << count <= unit and (ins.mods[-1][0] == "s" or given[0].is_address):
        return _scaled(given[0], 1 / (1 << count))
    return AddressFlow(mixed=True, aligned=given[0].same_below(unit) >> count)


def _field(ins: Instr, given: list[AddressFlow], unit: int) -> AddressFlow:
    """Some bits of an address."""
    first, count = _immediate(ins, 2), _immediate(ins, 3)
    if first is None or count is None:
        return MIXED
    same = given[0].same_below(unit)
    return NUMBER if 1 << (first + count) <= same else AddressFlow(mixed=True, aligned=same >> first)


def _masked(ins: Instr, given: list[AddressFlow], unit: int) -> AddressFlow:
    """Low bits are a matter of alignment, of several addresses at once too; one whose low bits change is one still."""
    places = [place for place in (0, 1) if not given[place].is_number]
    same = min(given[place].same_below(unit) for place in places)
    bits = AddressFlow(mixed=True, aligned=same)
    mask = _immediate(ins, 2 - places[0]) if len(places) == 1 else None
    if mask is None:
        return bits
    flow, width = given[places[0]], WIDTH[ins.mods[-1]]
    mask &= (1 << width) - 1
    if ins.name == "and" and mask < same:
        return NUMBER
    rest = (1 << width) - 1 - mask if ins.name == "and" else mask
    return flow if rest < same and not flow.mixed else bits


def _converted(ins: Instr, given: list[AddressFlow], _unit: int) -> AddressFlow:
    to, origin = ins.mods[-2:]
    flow = given[0]
    if "f" in (to[0], origin[0]) or flow.part:
        return MIXED
    if flow.mixed:
        return flow
    if WIDTH[to] < WIDTH[origin]:
        return AddressFlow(flow.factors, narrow=True)
    return MIXED if flow.narrow and WIDTH[to] > WIDTH[origin] else flow


_RULES: dict[str, Callable[[Instr, list[AddressFlow], int], AddressFlow]] = {
    **dict.fromkeys((*_MOVES, *_SAME), lambda _, given, _unit: given[0]),
    "add": lambda _, given, _unit: _summed(given[0], given[1], 1),
    "sub": lambda _, given, _unit: _summed(given[0], given[1], -1),
    "neg": lambda _, given, _unit: _scaled(given[0], -1),
    "mul": _product, "mad": _product, "shl": _shifted, "shr": _shifted, "bfe": _field, "cvt": _converted,
    "and": _masked, "or": _masked, "xor": _masked,
    "selp": lambda _, given, unit: _joined(given[:2], unit),
    "atom": lambda _ins, _given, _unit: NUMBER,
    "match": lambda _ins, given, _unit: NUMBER if given[0].is_address else MIXED,  # which lanes have the same one
}  # fmt: skip
