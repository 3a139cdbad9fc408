"""Elements that turn a condition: that it compares as they lie, or that it is computed from.

The code on the way is known, so that thousands of other elements are tried without running the kernel. Those are kept
with which more of a conjunction's parts hold, or what is compared is less far apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.evaluate.gate.distinct_inputs import PLACES, InputSpace, Setting
from evo.results.coverage import CoveragePoint, PointKind
from evo.sim.bit_arithmetic import Bits
from evo.sim.data_conditions import DataConditions, kernels_of
from evo.sim.ptx.ast import WIDTH, Instr, PtxFunction, Reg
from evo.sim.register_values import ValuesOfRegisters

NEAR = 0.9  # of a part that holds, has one that compares equal numbers and does not
_ROWS, _ROUNDS = 512, 12  # elements that are tried, again and again from the best of them
_FEW_VALUES = 1 << 16  # of an element: ids of a table, numbers of 16 bits
_WALKS = 30  # rounds of one element each in which no more parts hold
_HALF_WAY = 0.7  # of what is put beside others lies between two
_TOGETHER = 0.4  # of what is tried sets all elements to the same
_LEAST = 2  # of so many solutions one is that which changes numbers least


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of an input that a register holds: as it lies, beside others, or in a wider type of numbers."""

    register: str
    name: str
    place: int
    dtype: np.dtype[np.generic]
    shift: int = 0
    wide: str | None = None  # the type that the register has its value in

    @property
    def width(self) -> int:
        return 8 * self.dtype.itemsize

    def held(self, bits: int) -> int:
        """Its bits, from the register's."""
        if self.wide is None:
            return bits >> self.shift & ((1 << self.width) - 1)
        number = np.asarray([bits], np.uint64).astype(f"u{self.wide[1]}").view(self.wide)
        return int(number.astype(self.dtype).view(f"u{self.dtype.itemsize}")[0])

    def bits(self, own: Bits) -> Bits:
        """What it adds to the register's bits."""
        if self.wide is None:
            return own << np.uint64(self.shift)
        number = own.astype(f"u{self.dtype.itemsize}").view(self.dtype).astype(self.wide)
        return number.view(f"u{self.wide[1]}").astype(np.uint64)


def _registers(elements: Sequence[_Element], rows: Bits) -> dict[str, Bits]:
    """The bits of all registers that hold elements with these bits."""
    found: dict[str, Bits] = {}
    for at, element in enumerate(elements):
        part = element.bits(rows[:, at])
        found[element.register] = found[element.register] | part if element.register in found else part
    return found


class SolvedConditions:
    """The conditions of one kernel."""

    def __init__(self, function: PtxFunction) -> None:
        self.conditions = DataConditions(function)
        self.lines: dict[int, list[Instr]] = {}  # several where a function is called at several places
        for ins in function.body:
            if isinstance(ins, Instr):
                self.lines.setdefault(ins.line, []).append(ins)

    def settings(
        self, point: CoveragePoint, inputs: Arrays, space: InputSpace, rng: np.random.Generator
    ) -> tuple[Setting, ...]:
        """What turns the condition; nothing if no element is known, or none is found that does."""
        known = {leaf.register: leaf.bits for leaf in point.leaves}
        condition = self._condition(point, known)
        if condition is None:
            return ()
        data = {leaf.register: leaf.bits for leaf in point.leaves if leaf.is_data}
        elements = [*_elements(data, self.conditions.types, inputs, space, rng)]
        if not elements:
            return ()
        with np.errstate(all="ignore"):
            found = self._solved(condition, known, elements, space, rng)
            if found is None and len(elements) > 1:
                found = self._walked(condition, known, elements, space, rng.spawn(1)[0])
        if found is None:
            return ()
        changed = [(e, bits) for e, bits in zip(elements, found, strict=True) if int(bits) != e.held(known[e.register])]
        return tuple((e.name, e.place, _number(bits, e.dtype)) for e, bits in changed)

    def counts(
        self, point: CoveragePoint, counted: Sequence[str], size: int, space: InputSpace, rng: np.random.Generator
    ) -> dict[str, int]:
        """What registers that hold counts, none above a size, have to hold for the condition to turn, as little else as
        may be; nothing if that is not known.
        """
        known = {leaf.register: leaf.bits for leaf in point.leaves}
        condition = self._condition(point, known)
        if condition is None:
            return {}
        kind = np.dtype(np.int32)
        elements = [_Element(name, name, at, kind) for at, name in enumerate(counted)]
        space = replace(space, bounds={**space.bounds, **dict.fromkeys(counted, (0, size))})
        with np.errstate(all="ignore"):
            found = self._solved(condition, known, elements, space, rng, least=1)
        return {} if found is None else {name: int(bits) for name, bits in zip(counted, found, strict=True)}

    def nearness(self, point: CoveragePoint) -> float:
        """How near the condition is to coming out otherwise: how many of its parts would hold, and how far apart the
        numbers of the others are; minus infinity if what it is computed from is not known.
        """
        known = {leaf.register: leaf.bits for leaf in point.leaves}
        condition = self._condition(point, known)
        if condition is None:
            return -math.inf
        values = self.conditions.values({name: np.asarray([bits], np.uint64) for name, bits in known.items()})
        with np.errstate(all="ignore"):
            wanted = not bool(self.conditions.of(condition, values)[0])
            return float(self._score(condition, wanted, values)[0])

    def _condition(self, point: CoveragePoint, known: Mapping[str, int]) -> Instr | str | None:
        """A comparison, or a predicate that others make: that of its copies which follows from what is known."""
        for ins in self.lines.get(point.ptx_line, ()):
            if " ".join(ins.text.split()) != point.instruction:
                continue
            found: Instr | str | None = ins
            if point.kind is PointKind.SELECT:
                found = ins.args[3].name if isinstance(ins.args[3], Reg) else None
            elif point.kind is not PointKind.COMPARISON:
                found = ins.guard.name if ins.guard is not None else None
            leaves = self.conditions.leaves(found) if found is not None else ()
            if leaves and known.keys() >= set(leaves):
                return found
        return None

    def _solved(
        self,
        condition: Instr | str,
        known: Mapping[str, int],
        elements: Sequence[_Element],
        space: InputSpace,
        rng: np.random.Generator,
        least: int = _LEAST,
    ) -> Bits | None:
        """The elements' bits with which the condition is another than it was. least: of so many one is the nearest."""
        fixed = {name: np.asarray([bits], np.uint64) for name, bits in known.items()}
        wanted = not bool(self.conditions.of(condition, self.conditions.values(fixed))[0])
        best = np.asarray([element.held(known[element.register]) for element in elements], np.uint64)
        pool = _pool(self.conditions.constants(condition), known, elements)
        score = -1.0
        for turn in range(_ROUNDS):
            distinct = turn % 2 == 0
            rows = _every_value(best, elements, space, rng) if distinct else _tried(best, elements, pool, rng)
            values = self.conditions.values(fixed | _registers(elements, rows))
            turned = np.broadcast_to((self.conditions.of(condition, values) != 0) == wanted, (len(rows),))
            allowed = turned & _allowed(rows, elements, space)
            if allowed.any():
                changed = (rows[allowed] != best).sum(axis=1)
                found = rows[allowed][changed == changed.min()]
                found = found if distinct else np.unique(found, axis=0)
                at = int(rng.integers(len(found)))
                if at % least == 0:  # or the next condition of a chain has no room
                    at = int(_apart(found, best, elements).argmin())
                return np.asarray(found[at], np.uint64)
            scores = np.broadcast_to(self._score(condition, wanted, values), (len(rows),))
            if float(scores.max()) > score:
                best, score = rows[int(scores.argmax())], float(scores.max())
        return None

    def _walked(
        self,
        condition: Instr | str,
        known: Mapping[str, int],
        elements: Sequence[_Element],
        space: InputSpace,
        rng: np.random.Generator,
    ) -> Bits | None:
        """The same, found one element at a time: in a chain of orders each part that is mended may spoil the next, and
        the end mends all. So what leads to parts that seldom held together counts as a step, too.
        """
        fixed = {name: np.asarray([bits], np.uint64) for name, bits in known.items()}
        wanted = not bool(self.conditions.of(condition, self.conditions.values(fixed))[0])
        at = np.asarray([element.held(known[element.register]) for element in elements], np.uint64)
        most, in_vain, seen = -1, 0, Counter[int]()
        while in_vain < _WALKS:
            rows = _beside(at, elements, rng)
            values = self.conditions.values(fixed | _registers(elements, rows))
            turned = np.broadcast_to((self.conditions.of(condition, values) != 0) == wanted, (len(rows),))
            allowed = _allowed(rows, elements, space)
            if (turned & allowed).any():
                return np.asarray(rows[int((turned & allowed).argmax())], np.uint64)
            count, which = np.where(allowed, 0, -1), np.zeros(len(rows), np.int64)
            for part, value in self.conditions.parts(condition, wanted):
                holds = (self.conditions.of(part, values) != 0) == value
                count, which = count + holds, 2 * which + holds
            step = max(range(len(rows)), key=lambda row: (count[row], -seen[int(which[row])]))
            in_vain = 0 if count[step] > most else in_vain + 1
            at, most = rows[step], max(most, int(count[step]))
            seen[int(which[step])] += 1
        return None

    def _score(self, condition: Instr | str, wanted: bool, values: ValuesOfRegisters) -> NDArray[np.float64]:
        """How many parts of the condition hold, and how near the others are."""
        total = np.zeros(1)
        for part, value in self.conditions.parts(condition, wanted):
            holds = (self.conditions.of(part, values) != 0) == value
            apart = self.conditions.distance(part, values)
            near = 0.0 if apart is None else NEAR / (1 + np.nan_to_num(apart, nan=np.inf))
            total = total + np.where(holds, 1.0, near)
        return total


def solved_conditions(ptx: str) -> dict[str, SolvedConditions]:
    """Of each kernel. Raises PtxError."""
    return {name: SolvedConditions(function) for name, function in kernels_of(ptx).items()}


def _elements(
    known: Mapping[str, int],
    types: Mapping[str, str],
    inputs: Arrays,
    space: InputSpace,
    rng: np.random.Generator,
) -> Iterator[_Element]:
    """Which element each register holds, where that can be told; each element once."""
    taken: set[tuple[str, int]] = set()
    for register, bits in known.items():
        found = [
            (name, way)
            for name in space.free
            for way in _ways_to_hold(
                bits, WIDTH[types[register]], inputs[name].reshape(-1), is_real=name not in space.bounds
            )
        ]
        if not 0 < len(found) <= PLACES:
            continue
        name, (first, count, wide) = found[int(rng.integers(len(found)))]
        places = range(first, first + count)
        if taken.isdisjoint((name, place) for place in places):
            taken.update((name, place) for place in places)
            dtype = inputs[name].dtype
            for at, place in enumerate(places):
                yield _Element(register, name, place, dtype, at * 8 * dtype.itemsize, wide)


def _ways_to_hold(
    bits: int, width: int, array: NDArray[np.generic], *, is_real: bool
) -> list[tuple[int, int, str | None]]:
    """Where elements of a tensor lie whose bits a register may hold: the first, how many, and the type of its value."""
    size = array.dtype.itemsize
    own = 8 * size
    if own > width:
        return []
    if bits < 1 << own and (same := _places(array.view(f"u{size}"), bits)):
        return [(place, 1, None) for place in same]
    count = width // own
    if count > 1 and (same := _places(array[: len(array) // count * count].view(f"u{width // 8}"), bits)):
        return [(count * place, count, None) for place in same]
    if count > 1 and width in (32, 64) and is_real:
        wide = f"f{width // 8}"
        return [(place, 1, wide) for place in _places(array.astype(wide).view(f"u{width // 8}"), bits)]
    return []


def _places(raw: NDArray[np.generic], bits: int) -> list[int]:
    found: list[int] = np.flatnonzero(raw == raw.dtype.type(bits))[: PLACES + 1].tolist()
    return found


def _pool(constants: frozenset[int], known: Mapping[str, int], elements: Sequence[_Element]) -> Bits:
    """Bits of numbers that may turn it: small ones, those in the code, and what the other registers hold."""
    types = {element.dtype for element in elements}
    found = {0, 1, *known.values()} | {constant & (2**64 - 1) for constant in constants}
    for dtype in types:
        for number in (0.0, 1.0, -1.0, 2.0, 3.0, *(float(c) for c in constants if c < 1 << 24)):
            found.add(int(np.asarray([number]).astype(dtype).view(f"u{dtype.itemsize}")[0]))
        for bits in constants if dtype.kind == "f" else ():  # a number as wider types have it
            for wide in ("f4", "f8"):
                value = np.asarray([bits & ((1 << 8 * int(wide[1])) - 1)], f"u{wide[1]}").view(wide)
                for either in (value, -value):  # a difference is the sum with the negative
                    found.add(int(either.astype(dtype).view(f"u{dtype.itemsize}")[0]))
    return np.asarray(sorted(found), np.uint64)


def _tried(best: Bits, elements: Sequence[_Element], pool: Bits, rng: np.random.Generator) -> Bits:
    """Rows of elements: some of the best ones changed, alone or all in the same way."""
    shape = (_ROWS, len(elements))
    masks = np.asarray([(1 << element.width) - 1 for element in elements], np.uint64)
    one = np.uint64(1)
    shifts = rng.integers(0, masks.max().item().bit_length(), shape).astype(np.uint64)
    few = np.bitwise_or.reduce(
        one << rng.integers(0, 16, (6, *shape)).astype(np.uint64) * (rng.random((6, *shape)) < 0.4)
    )
    ways = np.stack(
        [
            rng.choice(pool, shape),
            best >> shifts << shifts,
            best & ((one << shifts) - one),
            best ^ (one << shifts),
            one << shifts,
            few,
            (best >> shifts << shifts) | (rng.choice(pool, shape) & ((one << shifts) - one)),
            rng.integers(0, 1 << 62, shape).astype(np.uint64),
        ]
    )
    way = rng.integers(0, len(ways), shape)
    together = rng.random(_ROWS) < _TOGETHER
    way[together] = way[together, :1]
    rows = np.take_along_axis(ways, way[None], axis=0)[0]
    rows[together] = np.where(way[together] == 0, rows[together, :1], rows[together])
    kept = rng.random(shape) < rng.uniform(0, 1, (_ROWS, 1))
    kept[together] = False
    return np.where(kept, best, rows & masks)


def _beside(best: Bits, elements: Sequence[_Element], rng: np.random.Generator) -> Bits:
    """Rows in which one element lies half-way between two others, or as far from one as two lie apart: orders and steps
    are mended by that.
    """
    numbers = np.asarray([float(_number(bits, at.dtype)) for bits, at in zip(best, elements, strict=True)])
    one, other, third = rng.choice(numbers, (3, _ROWS))
    found = np.where(rng.random(_ROWS) < _HALF_WAY, (one + other) / 2, one + (other - third))
    places, rows = rng.integers(0, len(elements), _ROWS), np.repeat(best[None], _ROWS, axis=0)
    for at, element in enumerate(elements):
        kind = np.dtype(np.int64) if element.dtype.kind in "iu" else element.dtype
        own = np.nan_to_num(found).astype(kind).astype(element.dtype).view(f"u{element.dtype.itemsize}")
        rows[:, at] = np.where(places == at, own.astype(np.uint64), rows[:, at])
    return rows


def _every_value(best: Bits, elements: Sequence[_Element], space: InputSpace, rng: np.random.Generator) -> Bits:
    """Rows in which an element has each value that it may have, if those are few: no slope leads to a hash."""
    at = int(rng.integers(len(elements)))
    low, high = space.bounds.get(elements[at].name, (0, (1 << elements[at].width) - 1))
    rows = np.repeat(best[None], high - low + 1 if high - low < _FEW_VALUES else 1, axis=0)
    if len(rows) > 1:
        rows[:, at] = np.arange(low, high + 1).astype(np.uint64) & np.uint64((1 << elements[at].width) - 1)
    return rows


def _allowed(rows: Bits, elements: Sequence[_Element], space: InputSpace) -> NDArray[np.bool_]:
    """Rows whose elements are finite numbers that their inputs may hold."""
    good = np.ones(len(rows), np.bool_)
    for at, element in enumerate(elements):
        values = rows[:, at].astype(f"u{element.dtype.itemsize}").view(element.dtype).astype(np.float64)
        good &= np.isfinite(values) & space.fits(element.name, values)
    return good


def _apart(rows: Bits, best: Bits, elements: Sequence[_Element]) -> NDArray[np.float64]:
    """How far the numbers of each row are from the best ones."""
    total = np.zeros(len(rows))
    for at, element in enumerate(elements):
        own, other = (
            bits.astype(f"u{element.dtype.itemsize}").view(element.dtype).astype(np.float64)
            for bits in (rows[:, at], best[at : at + 1])
        )
        total += np.abs(own - other)
    return total


def _number(bits: np.uint64, dtype: np.dtype[np.generic]) -> np.generic:
    value: np.generic = np.asarray([bits]).astype(f"u{dtype.itemsize}").view(dtype)[0]
    return value
