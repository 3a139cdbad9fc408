"""Loops of host code that fill arrays: one turn is run with the counter left open, and shows what each element gets."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name, text_of
from evo.errors import EvoError
from evo.interop.adopt.fills import PLACE, UNTOLD, LoopCounter, at, filled, replaced, summed_up
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_values import (
    Address,
    Allocation,
    DevicePointer,
    HostArray,
    HostLambda,
    HostRandom,
    HostVariable,
    Stopped,
)
from evo.interop.adopt.host_vectors import HostVectors

_MOST = 400  # statements of a loop, with those of the functions that it calls
_SCANS = ("partial_sum", "inclusive_scan", "exclusive_scan")
FILLING = ("iota", "sequence", "fill", "fill_n", "generate", "sort", "shuffle", "memset", *_SCANS)


@dataclass(slots=True)
class _Assigned:
    """`array[index] = how`, in one turn."""

    array: HostArray | Allocation
    index: object  # None: nobody can tell
    how: object
    counters: tuple[LoopCounter, ...]


class HostFills(HostVectors):
    """What arrays of the host, and managed ones, hold when they are copied or passed."""

    notes: list[str]

    def __init__(self) -> None:
        self.ticks = 0
        self.counted = set()
        self._counters: list[LoopCounter] = []
        self._assigned: list[_Assigned] = []
        self._carried: dict[object, tuple[HostVariable, object]] = {}  # leaf, variable, what it was before the loop
        self._own: set[str] = set()  # arrays that the outermost loop assigns to, as they are written
        self._left = _MOST

    @abc.abstractmethod
    def execute(self, node: Node) -> None:
        """Run a statement."""

    @abc.abstractmethod
    def run_lambda(self, held: HostLambda, arguments: Sequence[object]) -> object:
        """Run a lambda where it sees what it saw when it was made."""

    @property
    def is_open(self) -> bool:
        """Whether a loop is read, with its counter left open."""
        return bool(self._counters)

    def count_statement(self) -> None:
        """Raises Stopped where a loop does more than can be read."""
        self._left -= self.is_open
        if self._left < 0:
            raise Stopped(UNKNOWN)

    def read_fill(self, loop: Node) -> None:
        """What arrays hold after a loop that touches nothing of the GPU. Sizes and notes stay as they are."""
        body = loop.child("body")
        if body is None:
            return
        before = dict(self.named), list(self.notes), list(self.unknown_sizes), self.events
        is_outer, scopes, already = not self.is_open, self.scopes, len(self.scopes)
        if is_outer:
            self._left, self._assigned = _MOST, []
            self._own = {_array_text(target) for target in _targets(body)}
        self.scopes.append({})
        turns = len(self._counters)
        try:
            self._turn(loop, body)
        except (Stopped, EvoError, RecursionError):
            self._spoilt(body)
        finally:
            self.scopes = scopes
            del self.scopes[already:], self._counters[turns:]
            named, self.notes[:], self.unknown_sizes[:], self.events = before
            self.named.clear()
            self.named.update(named)
        for each in self._assigned if is_outer else ():
            each.array.fill = UNTOLD if each.index is None else filled(each.index, each.how, each.counters)

    def _turn(self, loop: Node, body: Node) -> None:
        counter = self._counter(loop)
        if counter is None:
            self._spoilt(body)
            return
        self._counters.append(counter)
        carried = []
        for cell in self.changed(body):
            leaf = ("carry", len(self._carried))
            carried.append(leaf)
            self._carried[leaf] = (cell, _before_loop(cell))
            cell.value = HostNumber(None, leaf)
        earlier = len(self._assigned)
        self.execute(body)
        self._assign_elements(loop)
        sums: dict[object, object] = {leaf: self._before(leaf, counter) for leaf in carried}
        for each in self._assigned[earlier:]:
            each.how = self._recurrence(each, replaced(each.how, sums), counter)
        for leaf in carried:
            self._carried[leaf][0].value = UNKNOWN

    def _counter(self, loop: Node) -> LoopCounter | None:
        """That of a loop which counts by one; None for others. The variable gets its leaf."""
        leaf = ("counter", len(self._counters))
        if loop.type == "for_range_loop":
            held = self.value(loop.child("right"))
            declared = loop.child("declarator")
            name = declarator_name(declared) if declared is not None else None
            if not isinstance(held, HostArray) or name is None:
                return None
            self.scopes[-1][name.lstrip("& ")] = HostVariable(name, held.element or "", UNKNOWN)
            return LoopCounter(leaf, 0, held.length.how)
        start, test, step = (loop.child(part) for part in ("initializer", "condition", "update"))
        if start is None or test is None or step is None or test.type != "binary_expression":
            return None
        inside = (child for child in start.named_children if child.type == "init_declarator")
        place = start.child("declarator") or next(inside, start)
        name = declarator_name(place) if place is not start else text_of(start.child("left"))
        first = self.size(place.child("value") if place is not start else start.child("right"))
        operator, left = text_of(test.child("operator")), text_of(test.child("left"))
        last = self.size(test.child("right"))
        plus = step.text.replace(" ", "") in (f"{name}++", f"++{name}", f"{name}+=1")
        if not plus or name is None or left != name or operator not in ("<", "<=", "!=") or first.how is None:
            return None
        if operator == "<=":
            last = applied("+", last, HostNumber.number(1))
        self.scopes[-1][name] = HostVariable(name, "int", HostNumber(None, leaf))
        return LoopCounter(leaf, first.how, last.how)

    def _assign_elements(self, loop: Node) -> None:
        """Those of `for (auto& x : xs) x = ...`."""
        held = _memory(self.value(loop.child("right"))) if loop.type == "for_range_loop" else None
        if held is not None:
            value = next(iter(self.scopes[-1].values())).value
            self._assign(held, self._counters[-1].leaf, value if isinstance(value, HostNumber) else UNKNOWN)

    def _assign(self, held: HostArray | Allocation, index: object, value: HostNumber) -> None:
        how = value.how if value.how is not None else UNTOLD
        self._assigned.append(_Assigned(held, index, how, tuple(self._counters)))

    def changed(self, node: Node) -> list[HostVariable]:
        """Numbers that code assigns to, as far as they are there before it."""
        names = [text_of(n.child("left")) for n in node.walk() if n.type == "assignment_expression"]
        names += [text_of(n.child("argument")) for n in node.walk() if n.type == "update_expression"]
        cells = [cell for name in dict.fromkeys(names) if (cell := self.find(name)) is not None]
        return [cell for cell in cells if isinstance(cell.value, HostNumber)]

    def _before(self, leaf: object, counter: LoopCounter) -> object:
        """What a variable is at the beginning of a turn, if each turn adds to it."""
        cell, first = self._carried[leaf]
        now = cell.value.how if isinstance(cell.value, HostNumber) else None
        if now == leaf:
            return first if first is not None else UNTOLD
        if first is None or not isinstance(now, tuple) or now[0] != "+" or leaf not in now[1:]:
            return UNTOLD
        added = now[2] if now[1] == leaf else now[1]
        return summed_up(added, first, counter, 0)

    def _recurrence(self, each: _Assigned, how: object, counter: LoopCounter) -> object:
        """`h[i + 1] = h[i] + ...`, and a running sum that was added to before it is stored."""
        if isinstance(how, tuple) and how[0] == "+":
            for one, other in (how[1:], how[:0:-1]):
                if isinstance(one, tuple) and one[0] == "sum" and other == replaced(one[1], {PLACE: counter.leaf}):
                    return ("sum", *one[1:3], ("+", one[3], 1))
                is_own = isinstance(one, tuple) and one[0] == "item" and one[1] == id(each.array)
                if is_own and len(each.counters) == 1 and _is_next(each.index, one[2]):
                    return summed_up(other, each.array.first or 0, counter, 1)
        return how

    def _spoilt(self, body: Node) -> None:
        """Arrays that a loop fills in a way that cannot be read."""
        for target in _targets(body):
            held = _memory(self.value(target.child("argument")))
            if held is not None:
                self._assign(held, None, UNKNOWN)

    # What expressions and calls tell while a loop is read.

    def item(self, held: HostArray, index: HostNumber, text: str) -> HostNumber:
        """An element at an open place."""
        if text not in self._own and held.fill is not None:
            return HostNumber(None, at(held.fill, index.how))
        return HostNumber(None, ("item", id(held), index.how))

    def element_assigned(self, left: Node, operator: str, value: object) -> None:
        """`h[i] = value`."""
        held = _memory(self.value(left.child("argument")))
        inside = left.child("indices")
        index = self.size(inside.named_children[0] if inside is not None and inside.named_children else None)
        if held is None:
            return
        number = value if isinstance(value, HostNumber) and operator == "=" else UNKNOWN
        if self.is_open:
            self._assign(held, index.how, number)
        elif index.value == 0:
            held.first = number.how

    def untold_in(self, branch: Node) -> None:
        """What is assigned under a condition that depends on the turn."""
        if self.is_open:
            self._spoilt(branch)

    def fills(self, name: str, given: Sequence[Node]) -> bool:
        """Whether a call of the library fills an array: `std::iota(h.begin(), h.end(), 0)`."""
        if name not in FILLING or not given:
            return False
        values = [self.value(node) for node in given]
        held, last = _memory(values[0]), values[-1] if isinstance(values[-1], HostNumber) else UNKNOWN
        if held is None:
            return False
        number = last.how if last.how is not None else UNTOLD
        match name:
            case "iota":
                held.fill = ("+", PLACE, number)
            case "sequence":
                third = values[2] if len(values) > 2 and isinstance(values[2], HostNumber) else HostNumber.number(0)
                step = number if len(values) > 3 else 1
                held.fill = ("+", third.how, ("*", PLACE, step))
            case "fill":
                held.fill = number
            case "fill_n":
                held.fill = number
            case "memset":
                byte = values[1] if len(values) > 1 else UNKNOWN
                held.fill = 0 if isinstance(byte, HostNumber) and byte.value == 0 else UNTOLD
            case "generate":
                self._counters.append(LoopCounter(("counter", len(self._counters)), 0, None))
                made = self.run_lambda(values[-1], []) if isinstance(values[-1], HostLambda) else UNKNOWN
                counter = self._counters.pop()
                held.fill = filled(counter.leaf, made.how if isinstance(made, HostNumber) else None, [counter])
            case "sort" | "shuffle":
                known = held.fill is not None and held.fill != UNTOLD
                held.fill = ("sorted" if name == "sort" else "shuffled", held.fill) if known else UNTOLD
            case _:
                self._scanned(name, given, values)
        return True

    def _scanned(self, name: str, given: Sequence[Node], values: Sequence[object]) -> None:
        """`std::partial_sum(a.begin(), a.end(), offsets.begin() + 1)`."""
        source, target = _memory(values[0]), _memory(values[2]) if len(values) > 2 else None
        if source is None or target is None:
            return
        more = int(name != "exclusive_scan") - int(given[2].type == "binary_expression")
        first = values[3].how if len(values) > 3 and isinstance(values[3], HostNumber) else target.first or 0
        known = source.fill is not None and source.fill != UNTOLD
        where = PLACE if more == 0 else ("+", PLACE, more)
        target.fill = ("sum", source.fill, first, where) if known and more >= 0 else UNTOLD

    def random_of(self, kind: str, given: Sequence[Node]) -> HostRandom | None:
        """`std::uniform_int_distribution<int> d(0, n - 1)`."""
        if "uniform_int_distribution" not in kind or len(given) != 2:
            return None
        low, high = (self.size(node).how for node in given)
        return HostRandom(low, ("+", high, 1)) if low is not None and high is not None else None


def _before_loop(cell: HostVariable) -> object:
    """What a number is; `int total = 0` is no size of its own."""
    how = cell.value.how if isinstance(cell.value, HostNumber) else None
    is_its_own = isinstance(how, str) and how.startswith(cell.name)
    return cell.value.value if is_its_own and isinstance(cell.value, HostNumber) else how


def _memory(value: object) -> HostArray | Allocation | None:
    if isinstance(value, Address):
        value = value.cell.value
    if isinstance(value, DevicePointer):
        return value.memory
    return value if isinstance(value, HostArray) else None


def _targets(body: Node) -> list[Node]:
    """The elements that are assigned to."""
    found = [n.child("left") for n in body.walk() if n.type == "assignment_expression"]
    found += [n.child("argument") for n in body.walk() if n.type == "update_expression"]
    return [each for each in found if each is not None and each.type == "subscript_expression"]


def _array_text(target: Node) -> str:
    return text_of(target.child("argument"))


def _is_next(index: object, before: object) -> bool:
    """Whether one index is the other and one."""
    return index == ("+", before, 1) or before == ("-", index, 1)
