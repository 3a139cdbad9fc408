"""Loops that keep the few largest or smallest elements so far, in order, maybe with where they stand.

They are found by what they do: a turn that only compares and copies treats numbers by their order alone, so what it
makes of every order that a few of them can have is what it makes of any. Variables and a thread's own array both do.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.access.comparisons import Combined, Compare, Condition, Unsure
from evo.analysis.access.data_values import is_same, parts_of, plain
from evo.analysis.access.form import Access, Array, Branch, Carried, Data, EarlyExit, Form, Loop, Nest, Node, walk
from evo.analysis.access.numeric import NoValue
from evo.analysis.access.terms import Symbol, Term

_MOST = 8  # elements: there are 2 ** 7 orders of so many, equal ones among them
_NEW, _TURN = 1_000, 2_000  # the element and the number of a turn that is looked at
Cell = Carried | tuple[Array, int]  # a variable, or a place in an array of the thread's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """values, the first one outermost, and places, none or as many: how the text spells them."""

    is_largest: bool
    values: tuple[str, ...]
    places: tuple[str, ...]
    arrays: tuple[Array, ...]


@dataclass(slots=True)
class _Turn:
    """One turn of a loop, carried out on numbers. Raises NoValue where it does anything but compare and copy."""

    form: Form
    loop: Loop
    body: tuple[Node, ...]
    cells: dict[Cell, float]
    new: float
    numbers: dict[Symbol, int]
    reads: dict[int, float] = field(default_factory=dict)
    inner: dict[tuple[str, Symbol], float] = field(default_factory=dict)
    element: Data | None = None  # what the new one was read as

    def run(self) -> dict[Cell, float]:
        ended = self._take(self.body)
        if ended == "break" or (ended and self.loop.carried):
            raise NoValue("an end that the updates of variables do not show")
        after = {carried: self._value(carried.update) for carried in self.loop.carried}
        return self.cells | after

    def _take(self, nodes: Sequence[Node]) -> str:
        """How the nodes end: by `break`, by `continue`, or by nothing."""
        for node in nodes:
            ended = ""
            if isinstance(node, Nest):
                self._nest(node)
            elif isinstance(node, Branch):
                ended = self._take(node.then if self._holds(node.condition) else node.otherwise)
            elif isinstance(node, Access) and node.array is not None and node.array.space == "local":
                self._touch(node, node.array)
            elif isinstance(node, EarlyExit) and node.word != "return":
                ended = node.word
            elif not isinstance(node, Access) or node.mode != "read":
                raise NoValue("more than a choice")
            if ended:
                return ended
        return ""

    def _nest(self, node: Nest) -> None:
        loop = node.loop
        start, step = loop.start.substitute(self._known()).value, loop.step.value
        if loop.values is not None or start is None or not step:
            raise NoValue("a loop inside of no known length")
        now = {(each.name, each.loop): self._value(each.initial) for each in loop.carried}
        for turn in range(_MOST + 1):
            self.numbers[loop.symbol] = start + turn * step
            self.inner |= now
            self._look(node.body)
            if not self._holds(loop.condition):
                return
            ended = self._take(node.body)
            now = {(each.name, each.loop): self._value(each.update) for each in loop.carried}
            if ended and loop.carried:
                raise NoValue("an end that the updates of variables do not show")
            if ended == "break":
                return
        raise NoValue("a long loop inside")

    def _look(self, nodes: Sequence[Node]) -> None:
        """Read what a loop's test asks for, which stands in front of its body; a place outside is not asked for."""
        for node in nodes:
            reads = [part for part in walk((node,)) if isinstance(part, Access) and part.mode == "read"]
            if not isinstance(node, Access | Branch) or len(reads) + isinstance(node, Branch) < len([*walk((node,))]):
                return
            for part in reads:
                self.reads.pop(part.number, None)
            with contextlib.suppress(NoValue):
                self._take((node,))

    def _touch(self, access: Access, array: Array) -> None:
        cell = (array, self._place(access))
        if access.mode == "write":
            self.cells[cell] = self._value(access.value)
        elif cell not in self.cells:
            raise NoValue("an element that nothing set")
        else:
            self.reads[access.number] = self.cells[cell]

    def _place(self, access: Access) -> int:
        if access.index is None:
            raise NoValue("no whole element")
        return self._number(access.index)

    def _number(self, term: Term) -> int:
        """A term of the numbers of inner turns and of integers that are kept."""
        term, total = term.substitute(self._known()), 0
        for factors, number in term.parts.items():
            known = [self.form.values.get(factor) for factor in factors if isinstance(factor, Symbol)]
            if len(known) < len(factors) or None in known:
                raise NoValue("a number of the thread")
            total += number * math.prod(self._known_number(each.data) for each in known if each is not None)
        return total

    def _known_number(self, data: Data | None) -> int:
        if data is not None and data.op == "unknown" and data.detail in self.numbers:
            return self.numbers[data.detail]  # type: ignore[index]  # where a loop inside ended
        return int(self._value(data))

    def _known(self) -> dict[Symbol, Term]:
        return {symbol: Term.number(number) for symbol, number in self.numbers.items()}

    def _value(self, data: Data | None) -> float:
        found = plain(data)
        if found is None:
            raise NoValue("no value")
        if found.op == "carried" and isinstance(found.detail, Carried):
            return self._carried(found.detail)
        if found.op == "result" and isinstance(found.detail, Carried):
            return self._carried(found.detail)
        if found.op == "read" and found.detail in self.reads:
            return self.reads[found.detail]
        if found.op == "select":
            return self._value(found.args[0 if self._holds(found.detail) else 1])  # type: ignore[arg-type]
        if found.op in ("max", "min"):
            return (max if found.op == "max" else min)(*map(self._value, found.args))
        if found.op == "index" and isinstance(found.detail, Term):
            return self._index(found.detail)
        if any(part.op in ("carried", "result") or part.detail in self.reads for part in parts_of(found)):
            raise NoValue("a number made of what is kept")
        if self.element is not None and not is_same(self.form, self.element, found):
            raise NoValue("two elements in one turn")
        if not any(part.op == "read" for part in parts_of(found)):
            raise NoValue("a number that is no element")
        self.element = found
        return self.new

    def _carried(self, carried: Carried) -> float:
        if (key := (carried.name, carried.loop)) in self.inner:
            return self.inner[key]
        for cell, value in self.cells.items():
            if isinstance(cell, Carried) and (cell.name, cell.loop) == key:
                return value
        raise NoValue("of another loop")

    def _index(self, term: Term) -> float:
        rise = term.coefficient(self.loop.symbol)
        if rise is not None and (rise.value or 0) > 0:
            return _TURN  # later turns have larger ones
        return self._number(term)

    def _holds(self, condition: Condition) -> bool:
        if isinstance(condition, Combined):
            return (all if condition.word == "and" else any)(map(self._holds, condition.items))
        if isinstance(condition, Unsure):
            known = self.form.values.get(condition.symbol)
            data = known.data if known is not None else None
            if data is None or data.op != "less" or len(data.args) != 2:
                raise NoValue(condition.wording)
            left, right = map(self._value, data.args)
            return (left < right or ("=" in str(data.detail) and left == right)) != condition.is_negated
        return self._compares(condition)

    def _compares(self, condition: Compare) -> bool:
        total = self._number(condition.term)
        return {">=": total >= 0, "==": total == 0, "!=": total != 0}[condition.relation]


def kept_few(form: Form, loop: Loop) -> Kept | None:
    """What a loop keeps, if it is the few largest or smallest of its elements and nothing else goes on in it."""
    body = next((node.body for node in form.walk() if isinstance(node, Nest) and node.loop is loop), ())
    inside = [node for node in walk(body) if isinstance(node, Access)]
    arrays = tuple(dict.fromkeys(a.array for a in inside if a.array is not None and a.array.space == "local"))
    if (len(loop.carried) < 2 and not arrays) or loop.until is not None or loop.blocked is not None:
        return None
    if any(a.is_write and a.array not in arrays for a in inside):
        return None
    try:
        cells = dict(_begun(form, loop, arrays))
        for is_largest in (True, False):
            found = _ordered(form, loop, body, cells, 1 if is_largest else -1)
            if found is not None:
                values, places = found
                spelled = [tuple(map(_spelled, part)) for part in (values, places)]
                return Kept(is_largest=is_largest, values=spelled[0], places=spelled[1], arrays=arrays)
    except NoValue:
        return None
    return None


def _spelled(cell: Cell) -> str:
    return cell.name if isinstance(cell, Carried) else f"{cell[0].name}[{cell[1]}]"


def _begun(form: Form, loop: Loop, arrays: Sequence[Array]) -> Iterator[tuple[Cell, float]]:
    """What each cell is before the loop: a constant, as every lane may begin with. Raises NoValue."""
    for carried in loop.carried:
        yield carried, _constant(carried.initial)
    for array in arrays:
        size = array.shape[0].value if len(array.shape) == 1 else None
        before = [a for a in form.of(array) if a.is_write and loop.symbol not in a.loops]
        first = next(a for a in form.of(array) if loop.symbol in a.loops)
        if loop.parent is None:  # what is written behind a loop that is not come to again is no beginning
            before = [a for a in before if a.number < first.number]
        here = {*first.conditions} | {form.loops[symbol].condition for each in before for symbol in each.loops}
        numbers = {_constant(access.value) for access in before}
        if size is None or size > _MOST or len(numbers) != 1:
            raise NoValue("an array that is begun in another way")
        if any(a.number > first.number or not here.issuperset(a.conditions) for a in before):
            raise NoValue("an array that is begun again, or not by all")
        yield from (((array, at), numbers.copy().pop()) for at in range(size))


def _constant(data: Data | None) -> float:
    found = plain(data)
    if found is not None and found.op == "neg":
        return -_constant(found.args[0])
    value = found.detail if found is not None and found.op in ("constant", "index") else None
    value = value.value if isinstance(value, Term) else value
    if not isinstance(value, int | float) or math.isnan(value):
        raise NoValue("no constant")
    return value


def _ordered(
    form: Form, loop: Loop, body: tuple[Node, ...], begun: Mapping[Cell, float], sign: int
) -> tuple[list[Cell], list[Cell]] | None:
    """The cells of values and of places in order, if each turn puts its element in behind all that are not less."""

    def turned(cells: Mapping[Cell, float], new: float) -> dict[Cell, float]:
        return _Turn(form, loop, body, dict(cells), sign * new, {}).run()

    # Each lower than the one before: which cell a turn sets tells which is next.
    values, places = list[Cell](), list[Cell]()
    now: dict[Cell, float] = dict.fromkeys(begun, 0)
    for step in range(len(begun)):
        after = turned(now, _NEW - step)
        changed = [cell for cell in begun if after[cell] != now[cell]]
        values += [cell for cell in changed if after[cell] == sign * (_NEW - step)]
        places += [cell for cell in changed if after[cell] == _TURN]
        now = {cell: step - _TURN if after[cell] == _TURN else after[cell] for cell in begun}
    count = len(values)
    if not 2 <= count <= _MOST or len(places) not in (0, count) or {*values, *places} != set(begun):
        return None
    if len({begun[cell] for cell in values}) != 1 or len({begun[cell] for cell in places}) > 1:
        return None  # lanes would count what one of them begins with more than once
    for equal in itertools.product((False, True), repeat=count - 1):
        ranks = [*itertools.accumulate(equal, lambda rank, same: rank - (0 if same else 2), initial=2 * count)]
        for new in range(ranks[-1] - 1, ranks[0] + 2):
            had = [(rank, at) for at, rank in enumerate(ranks)]
            cells = {cell: sign * rank for cell, (rank, _) in zip(values, had, strict=True)}
            cells |= {cell: at for cell, (_, at) in zip(places, had, strict=False)}
            after = turned(cells, new)
            wanted = sorted([*had, (new, _TURN)], key=lambda pair: -pair[0])[:count]
            if [after[cell] for cell in values] != [sign * rank for rank, _ in wanted]:
                return None
            if places and [after[cell] for cell in places] != [at for _, at in wanted]:
                return None
    return values, places
