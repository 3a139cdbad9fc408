"""Turns of a loop: what its integers are in each, where it ends, how often it runs."""

from __future__ import annotations

from dataclasses import dataclass

from evo.analysis.access.comparisons import (
    ALWAYS,
    NEVER,
    Compare,
    Condition,
    Unsure,
    all_of,
    any_of,
    compare,
    conjuncts,
    told_apart,
)
from evo.analysis.access.evolution import Evolution
from evo.analysis.access.form import Carried, Data
from evo.analysis.access.induction import (
    TurnEffect,
    bounding,
    ratio,
)
from evo.analysis.access.inlining import Calls
from evo.analysis.access.simplify import divide, larger, remainder
from evo.analysis.access.terms import ZERO, Op, Symbol, Term, apply
from evo.analysis.access.values import Cell, Number, Pointer, Value
from evo.cuda.source.parser import Node


@dataclass(frozen=True, slots=True)
class LoopSyntax:
    """The syntax of a loop."""

    node: Node
    test: Node | None
    update: Node | None
    body: Node | None
    is_do: bool = False


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """A turn with symbols in place of the integers: what became of them, and the loop's condition in terms of them."""

    changes: dict[Cell, TurnEffect]
    phis: dict[Cell, Symbol]
    after: dict[Cell, Term]
    test: Condition
    leaves: bool  # whether the loop can be left early
    newest: int = 0  # symbols numbered above it arose in the turn


@dataclass(slots=True)
class LoopProgress:
    """How a loop runs: its symbol, and what its integers are in a turn."""

    symbol: Symbol
    start: Term
    step: Term
    primary: Cell | None
    changes: dict[Cell, TurnEffect]
    before: dict[Cell, Value]
    trial: LoopTurn
    arrays: frozenset[Symbol]  # of the thread's own, that a turn writes
    values: tuple[int, ...] | None = None


class LoopTurns(Calls):
    """Integers from turn to turn."""

    def _held(self, value: Value, phi: Term) -> Value:
        """An integer becomes the symbol, a pointer is moved by it."""
        if isinstance(value, Pointer):
            return Pointer(value.term + phi, value.of)
        assert isinstance(value, Number)
        return Number(phi, value.type)

    def _declare_start(self, course: LoopProgress) -> None:
        if course.values is not None:
            ends = (Term.number(n) for n in (min(course.values, default=0), max(course.values, default=0)))
            self.bounds.declare(course.symbol, *ends)
        elif self.bounds.nonnegative(course.step):
            self.bounds.declare(course.symbol, lower=course.start)
        elif self.bounds.nonnegative(-course.step):
            self.bounds.declare(course.symbol, upper=course.start)

    def _in_turn(self, course: LoopProgress, cell: Cell, how: TurnEffect, node: Node) -> Value:
        """The value of an integer at the beginning of a turn."""
        before = course.before[cell]
        symbol = Term.of(course.symbol)
        if cell is course.primary:
            return self._held(before, symbol)
        found: Term | None = None
        if course.values is None:
            times = ratio(how.by, course.step) if how.kind == "step" and how.by is not None else None
            first = term_in(before)
            if times is not None and first is not None:
                found = first + times * (symbol - course.start)
            else:
                found = self._after_turns(course, cell, how, self._turn(course))
        if found is None:
            found = self.named_unknown(
                cell.name, node, f"`{cell.name}` changes from turn to turn in a way that has no formula",
                self._handed_on(course, cell, before),
            )  # fmt: skip
        return self._as_before(before, found, cell)

    def _handed_on(self, course: LoopProgress, cell: Cell, before: Value) -> Data | None:
        """An integer that data changes, as what a loop hands from turn to turn."""
        if not isinstance(before, Number):
            return None
        record = Carried(name=cell.name, loop=course.symbol, initial=self.computed(before.term))
        self.handed_on[course.symbol, cell] = record
        return Data("carried", detail=record)

    def _as_before(self, before: Value, term: Term, cell: Cell) -> Value:
        if isinstance(before, Pointer):
            return Pointer(term, before.of)
        return Number(term, before.type if isinstance(before, Number) else cell.type)

    def _after_turns(self, course: LoopProgress, cell: Cell, how: TurnEffect, turns: Term) -> Term | None:
        """What an integer is after so many turns, if there is a formula."""
        first = term_in(course.before[cell])
        if first is None:
            return None
        if how.kind == "step" and how.by is not None:
            return first + how.by * turns
        if how.kind == "ring" and how.modulus is not None and how.by is not None:
            is_inside = self.bounds.within(first, how.modulus)
            return remainder(self.bounds, first + how.by * turns, how.modulus) if is_inside else None
        if how.kind == "flip":
            return self._flipped(first, how, turns)
        if how.kind == "other":
            return self._evolved(course, cell, turns)
        return None

    def _evolved(self, course: LoopProgress, cell: Cell, turns: Term) -> Term | None:
        """After so many turns of a change under conditions. Pointers are taken as displacements."""
        first: dict[Symbol, Term] = {}
        after: dict[Symbol, Term] = {}
        if cell not in course.trial.after:
            return None
        for other, phi in course.trial.phis.items():
            before, now = course.before[other], course.trial.after.get(other)
            start = term_in(before)
            if start is not None and now is not None:
                is_pointer = isinstance(before, Pointer)
                first[phi] = ZERO if is_pointer else start
                after[phi] = _moved_back(now, start) if is_pointer else now
        steps = {
            course.trial.phis[other]: how.by
            for other, how in course.changes.items()
            if how.kind == "step" and how.by is not None
        }
        if any(
            symbol.number > course.trial.newest and symbol not in first
            for symbol in after[course.trial.phis[cell]].symbols()
        ):
            return None
        found = Evolution(self.bounds, first, after, steps).turned(course.trial.phis[cell], turns)
        start = term_in(course.before[cell])
        if found is None or start is None or found.symbols() & frozenset(course.trial.phis.values()):
            return None
        return found + start if isinstance(course.before[cell], Pointer) else found

    def _turn(self, course: LoopProgress) -> Term:
        """The number of the turn, from 0."""
        return divide(self.bounds, Term.of(course.symbol) - course.start, course.step)

    def _flipped(self, first: Term, how: TurnEffect, turn: Term) -> Term | None:
        if how.by is None:
            return None
        odd = remainder(self.bounds, turn, Term.number(2))
        if how.operation == "minus":
            return first + (how.by - first * 2) * odd
        start, mask = first.value, how.by.value
        return None if start is None or mask is None else first + ((start ^ mask) - start) * odd

    def _tested(self, parts: LoopSyntax, course: LoopProgress) -> Condition:
        if course.values is not None or parts.test is None:
            return ALWAYS
        if not parts.is_do:
            return told_apart(self.condition(parts.test))
        # The turn after the first one: the test held at the end of the turn before.
        back = {course.symbol: Term.of(course.symbol) - course.step}
        earlier: dict[Symbol, Term] = {}
        for cell in course.changes:
            now, before = term_in(cell.value), term_in(course.before[cell])
            if now is not None and before is not None:
                moved = now - before if isinstance(cell.value, Pointer) else now
                earlier[course.trial.phis[cell]] = moved.substitute(back)
        later = told_apart(course.trial.test.substitute(earlier))
        if self._holds(later.substitute({course.symbol: course.start})):
            return later  # in the first turn too, which is not tested
        return any_of((compare(Term.of(course.symbol) - course.start, "=="), later))

    def _holds(self, condition: Condition) -> bool:
        """Whether a comparison is known to hold."""
        if not isinstance(condition, Compare):
            return condition == ALWAYS
        if condition.relation == ">=":
            return self.bounds.nonnegative(condition.term)
        apart = (condition.term - 1, -condition.term - 1)
        return condition.relation == "!=" and any(map(self.bounds.nonnegative, apart))

    def _declare_end(self, course: LoopProgress, condition: Condition) -> None:
        """The last value of the variable, from the condition."""
        end = self._end(course, condition)
        if end is not None:
            is_up, step = self.bounds.nonnegative(course.step), course.step.value
            if is_up and step is not None and step > 1 and self.bounds.divides(end + 1 - course.start, step):
                end = end + 1 - step  # the last turn is a whole one
            self.bounds.declare(course.symbol, **{"upper" if is_up else "lower": end})

    def _end(self, course: LoopProgress, condition: Condition) -> Term | None:
        if course.values is not None:
            return None
        part = bounding(condition, course.symbol)
        if part is None or isinstance(condition, Unsure):
            return None
        weight = part.term.coefficient(course.symbol)
        number = weight.value if weight is not None else None
        if number is None:
            return None
        rest = part.term.without((course.symbol,))
        is_up, is_down = self.bounds.nonnegative(course.step), self.bounds.nonnegative(-course.step)
        if part.relation == "!=" and abs(number) == 1:
            limit = rest * -number
            return limit - 1 if is_up else limit + 1 if is_down else None
        if part.relation == ">=" and number < 0 and is_up:
            return rest if number == -1 else divide(self.bounds, rest, Term.number(-number))
        if part.relation == ">=" and number > 0 and is_down:
            return -rest if number == 1 else -divide(self.bounds, rest, Term.number(number))
        return None

    def _is_given(self, condition: Condition, course: LoopProgress) -> bool:
        """Whether the loop's end is data, and the same from its first turn to its last one."""
        part = bounding(condition, course.symbol)
        if part != condition or not is_unsure(condition):
            return False
        return all(self._is_settled(symbol, course) for symbol in condition.symbols())

    def _is_settled(self, symbol: Symbol, course: LoopProgress) -> bool:
        """Whether a symbol in a loop's test stands for what no turn changes; an input may be read in each of them."""
        if symbol.kind != "value" or symbol.number <= course.trial.newest:
            return True
        place = self.loaded_from.get(symbol)
        return place is not None and all(
            each != course.symbol and self._is_settled(each, course) for each in place.symbols()
        )

    def _left_early(self, first: int, inside: int, *, is_turn: bool = False) -> Condition | None:
        """When the loop is left early; is_turn: when a turn is, by `continue`."""
        found = []
        for exit_ in self.exits[first:]:
            if (exit_.word == "continue") == is_turn and len(exit_.context) >= inside:
                rest = exit_.context[inside:]
                loops = frozenset(part for part in rest if isinstance(part, Symbol))
                taken = all_of(part for part in rest if not isinstance(part, Symbol))
                found.append(self.unsure("left from an inner loop") if loops & taken.symbols() else taken)
        taken = any_of(found)
        return taken if taken != NEVER else None

    def _trip(self, course: LoopProgress, condition: Condition, until: Condition | None) -> Term | None:
        if course.values is not None:
            return Term.number(len(course.values))
        if until is not None or len(conjuncts(condition)) != 1:
            return None
        end = self._end(course, condition)
        if end is None:
            return None
        if self.bounds.nonnegative(course.step):
            span, step = end - course.start, course.step
        else:
            span, step = course.start - end, -course.step
        turns = divide(self.bounds, span + step, step)
        return turns if self.bounds.nonnegative(span + step) else larger(self.bounds, ZERO, turns)


def _moved_back(term: Term, start: Term) -> Term:
    """A pointer as its displacement from where it was before the loop, in choices too."""
    for mono in term.parts:
        for atom in mono:
            if isinstance(atom, Op) and atom.name == "select" and mono == (atom,):
                condition, (left, right) = atom.args[0], atom.terms
                rest = term - Term.of(atom)
                sides = (_moved_back(left + rest, start), _moved_back(right + rest, start))
                return apply("select", condition, *sides)
    return term - start


def term_in(value: Value | None) -> Term | None:
    return value.term if isinstance(value, Number | Pointer) else None


def is_unsure(condition: Condition) -> bool:
    return any(isinstance(part, Unsure) for part in _parts(condition)) or any(
        symbol.kind == "value" for symbol in condition.symbols()
    )


def _parts(condition: Condition) -> list[Condition]:
    items = getattr(condition, "items", None)
    return [condition] if items is None else [inner for item in items for inner in _parts(item)]
