"""Loops of host code that fill arrays: one turn is run with the counter left open, and shows what each element gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name, text_of
from evo.errors import EvoError
from evo.interop.adopt.fills import PLACE, UNTOLD, LoopCounter, at, filled, has, replaced, summed_up, tidied
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied, substituted
from evo.interop.adopt.host_values import (
    Address,
    Allocation,
    DevicePointer,
    HostArray,
    HostLambda,
    HostVariable,
    Stopped,
)
from evo.interop.adopt.host_vectors import HostVectors

_MOST = 400  # statements of a loop, with those of the functions that it calls
_OF_A_TURN = ("counter", "carry", "item", "untold")
APPENDING = ("push_back", "emplace_back")


@dataclass(slots=True)
class _Assigned:
    """`array[index] = how`, in one turn."""

    array: HostArray | Allocation
    index: object  # None: nobody can tell
    how: object
    counters: tuple[LoopCounter, ...]
    is_appended: bool = False

    @property
    def fill(self) -> object:
        """What the array then holds. Of values that are appended one does not know where, each is like the others."""
        if self.index is None:
            return UNTOLD
        found = filled(self.index, self.how, self.counters)
        if (
            any(has(tidied(counter.end), "random") for counter in self.counters)
            and not self.is_appended
            and found != UNTOLD
        ):
            before = self.array.fill if self.array.fill is not None else 0
            return ("if", ("random", 0, 2), found, before)  # a loop of chance length leaves others as they were
        is_plain = self.is_appended and not has(self.how, *_OF_A_TURN, "sum")
        return self.how if found == UNTOLD and is_plain else found

    @property
    def key(self) -> tuple[object, ...]:
        return id(self.array), self.index, self.counters


class HostFills(HostVectors):
    """What arrays of the host, and managed ones, hold when they are copied or passed."""

    notes: list[str]
    execute: Callable[[Node], None]  # run a statement
    run_lambda: Callable[[HostLambda, Sequence[object]], object]  # where it sees what it saw when it was made

    def __init__(self) -> None:
        self.ticks = 0
        self.counted = set()
        self._counters: list[LoopCounter] = []
        self._assigned: list[_Assigned] = []
        # By leaf: a variable, or a vector whose length it is, and what it was before the loop.
        self._carried: dict[object, tuple[HostVariable | HostArray, object]] = {}
        self._levels: list[list[object]] = []  # the leaves of each loop that is read
        self._own: set[str] = set()  # arrays that the outermost loop assigns to, as they are written
        self._left = _MOST

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
            del self.scopes[already:], self._counters[turns:], self._levels[turns:]
            named, self.notes[:], self.unknown_sizes[:], self.events = before
            self.named.clear()
            self.named.update(named)
        for each in self._assigned if is_outer else ():
            others = {o.fill for o in self._assigned if o.array is each.array and o.is_appended} - {each.fill}
            each.array.fill = UNTOLD if others else each.fill

    def _turn(self, loop: Node, body: Node) -> None:
        counter = self._counter(loop)
        if counter is None:
            self._spoilt(body)
            return
        self._counters.append(counter)
        carried: list[object] = []
        self._levels.append(carried)
        cells: list[HostVariable | HostArray] = [*self.changed(body), *self._appended_to(body)]
        for cell in cells:
            leaf = ("carry", len(self._carried))
            carried.append(leaf)
            self._carried[leaf] = (cell, _before_loop(cell))
            _set(cell, HostNumber(None, leaf))
        earlier = len(self._assigned)
        self.execute(body)
        self._assign_elements(loop)
        sums: dict[object, object] = {leaf: self._before(leaf, counter) for leaf in carried}
        places: dict[object, object] = {leaf: self._place(leaf, counter) for leaf in carried}
        for each in self._assigned[earlier:]:
            each.how = self._recurrence(each, replaced(each.how, sums), counter)
            each.index = replaced(each.index, places)
        for each_leaf in carried:
            _set(self._carried[each_leaf][0], self._after(each_leaf, counter))

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
        held = array_of(self.value(loop.child("right"))) if loop.type == "for_range_loop" else None
        if held is not None:
            value = next(iter(self.scopes[-1].values())).value
            self._assign(held, self._counters[-1].leaf, value if isinstance(value, HostNumber) else UNKNOWN)

    def _assign(
        self, held: HostArray | Allocation, index: object, value: HostNumber, *, is_appended: bool = False
    ) -> None:
        how = value.how if value.how is not None else UNTOLD
        self._assigned.append(_Assigned(held, index, how, tuple(self._counters), is_appended))

    def appended(self, held: HostArray, value: object) -> None:
        """`h.push_back(value)`."""
        number = value if isinstance(value, HostNumber) else UNKNOWN
        place = HostNumber.number(0) if held.is_new else held.length
        is_carried = all(any(self._carried[leaf][0] is held for leaf in level) for level in self._levels)
        if self.is_open:
            self._assign(held, place.how if is_carried else None, number, is_appended=True)
        elif place.value == len(held.items) and number.how is not None:
            held.first = number.how if not held.items else held.first
            held.items = (*held.items, number)
        longer = applied("+", place, HostNumber.number(1))
        if isinstance(place.how, tuple) and place.how[0] == "+" and isinstance(place.how[2], int):
            longer = HostNumber(longer.value, (*place.how[:2], place.how[2] + 1))
        _set(held, longer if is_carried else UNKNOWN)

    def _appended_to(self, body: Node) -> list[HostArray]:
        """The vectors that a loop appends to, as far as they are there before it."""
        calls = (n.child("function") for n in body.walk() if n.type == "call_expression")
        fields = [n for n in calls if n is not None and text_of(n.child("field")) in APPENDING]
        found = (array_of(self.value(n.child("argument"))) for n in fields)
        return list(dict.fromkeys(held for held in found if isinstance(held, HostArray)))

    def either(self, test: object, then: Node | None, otherwise: Node | None) -> None:
        """Under a condition that nobody can work out, both branches; in a loop that is read."""
        if not self.is_open:
            self._default(then)
            return
        how = test.how if isinstance(test, HostNumber) else None
        if how is None or has(how, "carry", "item", "untold"):
            how = ("random", 0, 2)
        branches = [branch for branch in (then, otherwise) if branch is not None]
        cells: list[HostVariable | HostArray] = [cell for b in branches for cell in self.changed(b)]
        cells = list(dict.fromkeys([*cells, *(held for b in branches for held in self._appended_to(b))]))
        before, earlier = [_now(cell) for cell in cells], len(self._assigned)
        sides: list[tuple[dict[object, _Assigned], list[HostNumber]]] = []
        for branch in (then, otherwise):
            if branch is not None:
                self.execute(branch)
            sides.append(({each.key: each for each in self._assigned[earlier:]}, [_now(cell) for cell in cells]))
            del self._assigned[earlier:]
            for cell, value in zip(cells, before, strict=True):
                _set(cell, value)
        (ones, one_values), (others, other_values) = sides
        for key, each in (ones | others).items():
            hows = [side[key].how if key in side else self._held(each) for side in (ones, others)]
            each.how = hows[0] if hows[0] == hows[1] else ("if", how, *hows)
            self._assigned.append(each)
        for cell, one, other in zip(cells, one_values, other_values, strict=True):
            if one != other:
                known = one.how is not None and other.how is not None
                _set(cell, HostNumber(None, ("if", how, one.how, other.how)) if known else UNKNOWN)

    def _default(self, branch: Node | None) -> None:
        """`if (points.empty()) points.resize(n)`: a length that nothing else tells."""
        for call in branch.walk() if branch is not None else ():
            function = call.child("function") if call.type == "call_expression" else None
            if function is not None and text_of(function.child("field")) == "resize":
                held = self.value(function.child("argument"))
                if isinstance(held, HostArray) and held.length.value is None:
                    self.value(call)

    def _held(self, each: _Assigned) -> object:
        """What is at a place where one of two branches leaves it."""
        same = (earlier.how for earlier in reversed(self._assigned) if earlier.key == each.key)
        return next(same, UNTOLD if each.array.fill is None else at(each.array.fill, each.index))

    def changed(self, node: Node) -> list[HostVariable]:
        """Numbers that code assigns to, as far as they are there before it."""
        names = [text_of(n.child("left")) for n in node.walk() if n.type == "assignment_expression"]
        names += [text_of(n.child("argument")) for n in node.walk() if n.type == "update_expression"]
        cells = [cell for name in dict.fromkeys(names) if (cell := self.find(name)) is not None]
        return [cell for cell in cells if isinstance(cell.value, HostNumber)]

    def _before(self, leaf: object, counter: LoopCounter) -> object:
        """What a variable is at the beginning of a turn, if each turn adds to it."""
        cell, first = self._carried[leaf]
        now = _now(cell).how
        if now == leaf:
            return first if first is not None else UNTOLD
        if first is None or not isinstance(now, tuple) or now[0] != "+" or leaf not in now[1:]:
            return UNTOLD
        added = now[2] if now[1] == leaf else now[1]
        return summed_up(added, first, counter, 0)

    def _place(self, leaf: object, counter: LoopCounter) -> object:
        """What a variable is in a turn, if each turn adds the same."""
        cell, first = self._carried[leaf]
        added = _added(_now(cell).how, leaf)
        if added is None or first is None or has(added, *_OF_A_TURN, "random"):
            return UNTOLD
        turn = counter.leaf if counter.start == 0 else ("-", counter.leaf, counter.start)
        by = turn if added == 1 else ("*", turn, added)
        return by if first == 0 else ("+", first, by)

    def _after(self, leaf: object, counter: LoopCounter) -> HostNumber:
        """The length of a vector after a loop that appends to it; of other variables nothing is said."""
        cell, first = self._carried[leaf]
        added = _added(_now(cell).how, leaf)
        if not isinstance(cell, HostArray) or None in (added, first, counter.end):
            return UNKNOWN
        turns = applied("-", self._number(counter.end), self._number(counter.start))
        found = applied("+", applied("*", self._number(added), turns), self._number(first))
        return found if found.value is not None or len(self._levels) > 1 else UNKNOWN

    def _number(self, how: object) -> HostNumber:
        known = {name: value for name, value in self.named.items() if value is not None}
        value = None if has(how, *_OF_A_TURN, "random", "sum") else substituted(how, known)
        return HostNumber(value if isinstance(value, int) else None, how)

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
            held = array_of(self.value(target.child("argument")))
            if held is not None:
                self._assign(held, None, UNKNOWN)
        for vector in self._appended_to(body):
            self._assign(vector, None, UNKNOWN)
            _set(vector, UNKNOWN)

    # What expressions and calls tell while a loop is read.

    def item(self, held: HostArray, index: HostNumber, text: str) -> HostNumber:
        """An element at an open place."""
        if text not in self._own and held.fill is not None:
            return HostNumber(None, at(held.fill, index.how))
        return HostNumber(None, ("item", id(held), index.how))

    def element_assigned(self, left: Node, operator: str, value: object) -> None:
        """`h[i] = value`."""
        held = array_of(self.value(left.child("argument")))
        inside = left.child("indices")
        index = self.size(inside.named_children[0] if inside is not None and inside.named_children else None)
        if held is None:
            return
        number = value if isinstance(value, HostNumber) and operator == "=" else UNKNOWN
        if self.is_open:
            self._assign(held, index.how, number)
        elif index.value == 0:
            held.first = number.how


def _now(cell: HostVariable | HostArray) -> HostNumber:
    """What a variable is, or the length of a vector."""
    if isinstance(cell, HostArray):
        return HostNumber.number(0) if cell.is_new else cell.length
    return cell.value if isinstance(cell.value, HostNumber) else UNKNOWN


def _set(cell: HostVariable | HostArray, number: HostNumber) -> None:
    if isinstance(cell, HostArray):
        cell.length, cell.is_new = number, False
    else:
        cell.value = number


def _added(how: object, leaf: object) -> object:
    """What is added to a leaf; None if it is not just added to."""
    if how == leaf:
        return 0
    if not isinstance(how, tuple) or how[0] != "+":
        return None
    for one, other in (how[1:], how[:0:-1]):
        inner = _added(one, leaf)
        if inner is not None:
            return other if inner == 0 else ("+", inner, other)
    return None


def _before_loop(cell: HostVariable | HostArray) -> object:
    """What a number is; `int total = 0` is no size of its own."""
    if isinstance(cell, HostArray):
        return _now(cell).how
    how = cell.value.how if isinstance(cell.value, HostNumber) else None
    is_its_own = isinstance(how, str) and how.startswith(cell.name)
    return cell.value.value if is_its_own and isinstance(cell.value, HostNumber) else how


def array_of(value: object) -> HostArray | Allocation | None:
    """The memory that a value is, or points to."""
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
