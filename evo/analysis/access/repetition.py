"""Loops: which variable runs over what, what the others are in terms of it, and what is handed from turn to turn."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access.comparisons import ALWAYS, Condition
from evo.analysis.access.declarators import function_params
from evo.analysis.access.form import Carried, Data, Loop
from evo.analysis.access.form import Node as FormNode
from evo.analysis.access.induction import (
    TurnEffect,
    assigned_names,
    bounding,
    change,
    closures_in,
    numbers_in,
    scaled_values,
)
from evo.analysis.access.state import Frame
from evo.analysis.access.terms import ONE, ZERO, Symbol, Term
from evo.analysis.access.turns import LoopProgress, LoopSyntax, LoopTurn, LoopTurns, is_unsure, term_in
from evo.analysis.access.values import ArrayPlace, Cell, Closure, Number, Pointer, Real, Value
from evo.cuda.source import Span
from evo.cuda.source.parser import Node

_UNROLL = re.compile(r"#\s*pragma\s+unroll\b\s*\(?\s*([^()\n]*?)\s*\)?\s*$")
_WAYS_OUT = ("break_statement", "return_statement", "goto_statement")


class Repetition(LoopTurns):
    """Reads loops."""

    def loop(self, parts: LoopSyntax) -> None:
        if self.is_dead:
            return
        if parts.is_do and self._runs_once(parts):
            return
        inside, arrays = self._changed(parts.body)
        test, _ = self._changed(parts.test)
        update, _ = self._changed(parts.update)
        before = {cell: cell.value for cell in dict.fromkeys([*test, *update, *inside]) if cell.value is not None}
        trial = self._trial(parts, before, arrays, reads_body=bool(inside))
        course = self._course(trial, before, arrays)
        if self.dry:
            self._skip(parts, course)
        else:
            self._turns(parts, course)

    def _runs_once(self, parts: LoopSyntax) -> bool:
        """`do { ... } while (0)` is its body."""
        if parts.test is None or parts.body is None or parts.test.text.strip("() ") not in ("0", "false"):
            return False
        depth, first, facts = len(self.context), len(self.exits), len(self.bounds.facts)
        self.loop_marks.append(depth)
        self.execute(parts.body)
        self.loop_marks.pop()
        if any(exit_.word != "return" for exit_ in self.exits[first:]):
            del self.context[depth:], self.bounds.facts[facts:]
        self.exits[first:] = [exit_ for exit_ in self.exits[first:] if exit_.word == "return"]
        return True

    def _changed(self, node: Node | None) -> tuple[list[Cell], frozenset[Symbol]]:
        """Integers, pointers and arrays of the thread from outside that a stretch of text may change."""
        found: dict[Cell, None] = {}
        arrays: set[Symbol] = set()
        if node is not None:
            self._gather(node, found, arrays, set())
        return list(found), frozenset(arrays)

    def _gather(self, node: Node, found: dict[Cell, None], arrays: set[Symbol], seen: set[int]) -> None:
        bindings = [self.lookup(name) for name in dict.fromkeys(assigned_names(node, self._hands_over))]
        this = self.lookup("this")
        if bindings and this is not None:
            bindings.append(this)
        found.update(dict.fromkeys(numbers_in(bindings)))
        for binding in bindings:
            if isinstance(binding, ArrayPlace):
                arrays |= {symbol for symbol in binding.term.symbols() if symbol.kind == "address"}
        named = [self.lookup(name) for name in dict.fromkeys(n.text for n in node.walk() if n.type == "identifier")]
        kept = (self.home_at(b.value.term) for b in named if isinstance(b, Cell) and isinstance(b.value, Pointer))
        found.update(dict.fromkeys(numbers_in(kept)))  # `*where = i` through the address of a variable
        for closure in closures_in(named):
            if closure.node.start_byte not in seen:
                seen.add(closure.node.start_byte)
                outside, self.scopes = self.scopes, list(closure.scopes or self.scopes)
                self._gather(closure.node, found, arrays, seen)
                self.scopes = outside

    def _forget(self, arrays: frozenset[Symbol]) -> None:
        self.tables = {address: kept for address, kept in self.tables.items() if address not in arrays}

    def _hands_over(self, name: str, at: int) -> bool:
        """Whether a function may change its argument number `at`."""
        bound = self.lookup(name)
        closure = bound.value if isinstance(bound, Cell) else None
        nodes = [closure.node] if isinstance(closure, Closure) else self.functions.get(name, [])
        for node in nodes:
            params = function_params(node)
            declarator = params[at].child("declarator") if at < len(params) else None
            if declarator is not None and any(n.type.endswith("reference_declarator") for n in declarator.walk()):
                return True
        return not nodes and isinstance(bound, Cell)

    # A turn with symbols in place of the integers: what becomes of them?

    def _trial(
        self, parts: LoopSyntax, before: dict[Cell, Value], arrays: frozenset[Symbol], *, reads_body: bool
    ) -> LoopTurn:
        leaves = parts.body is not None and any(n.type in _WAYS_OUT for n in parts.body.walk())
        if not before:
            return LoopTurn({}, {}, {}, ALWAYS, leaves)
        newest, mark = self.fresh(), self.mark
        phis = {cell: Symbol(cell.name, "value", self.fresh()) for cell in before}
        held = {cell: self._held(value, Term.of(phis[cell])) for cell, value in before.items()}
        first, tables = len(self.exits), dict(self.tables)
        returned = len(self.returned[-1]) if self.returned else 0
        self.dry += 1
        self.frames.append(Frame(self.fresh(), Symbol("", "loop", self.fresh()), len(self.context)))
        for cell, value in held.items():
            self.write(cell, value)
        self._forget(arrays)
        with self.collecting(), self.under():
            test = self.condition(parts.test) if parts.test is not None and not parts.is_do else ALWAYS
            if parts.body is not None and reads_body:
                with self.under(test):
                    self.loop_marks.append(len(self.context))
                    self.execute(parts.body)
                    self.loop_marks.pop()
            if parts.update is not None:
                self.evaluate(parts.update)
            if parts.is_do and parts.test is not None:
                test = self.condition(parts.test)
        after = {cell: term for cell in before if (term := term_in(cell.value)) is not None}
        self.undo(mark)
        self.frames.pop()
        self.dry -= 1
        del self.exits[first:]
        if self.returned:
            del self.returned[-1][returned:]
        self.tables = tables
        changes = {}
        for cell, was in held.items():
            now, start = after.get(cell), term_in(was)
            changes[cell] = (
                TurnEffect("other") if now is None or start is None else change(start, now, phis[cell], newest)
            )
        return LoopTurn(changes, phis, after, test, leaves, newest)

    def _skip(self, parts: LoopSyntax, course: LoopProgress) -> None:
        """A loop inside a turn that is only tried: nothing but what it leaves is wanted."""
        mark = self.mark
        self._declare_start(course)
        now = {cell: self._in_turn(course, cell, how, parts.node) for cell, how in course.changes.items()}
        values: dict[Symbol, Term] = {}
        for cell, value in now.items():
            term, before = term_in(value), term_in(course.before[cell])
            if term is not None and before is not None:
                values[course.trial.phis[cell]] = term - before if isinstance(value, Pointer) else term
        condition = course.trial.test.substitute(values)
        trip = None if course.trial.leaves or parts.is_do else self._trip(course, condition, None)
        self._after(course, Frame(self.fresh(), course.symbol, 0), mark, trip, parts)

    def _course(self, trial: LoopTurn, before: dict[Cell, Value], arrays: frozenset[Symbol]) -> LoopProgress:
        moving = {cell: how for cell, how in trial.changes.items() if how.kind != "kept"}
        common = (moving, before, trial, arrays)
        for cell, how in moving.items():
            if how.kind == "step" and how.by is not None and bounding(trial.test, trial.phis[cell]) is not None:
                start = term_in(before[cell]) if isinstance(before[cell], Number) else ZERO
                symbol = Symbol(cell.name, "loop", self.fresh())
                return LoopProgress(symbol, start or ZERO, how.by, cell, *common)
        for cell, how in moving.items():
            first = term_in(before[cell])
            if how.kind == "scale" and first is not None and first.value is not None:
                values = scaled_values(first.value, how, trial.test, trial.phis[cell])
                if values is not None:
                    symbol = Symbol(cell.name, "loop", self.fresh())
                    return LoopProgress(symbol, first, ZERO, cell, *common, values)
        return LoopProgress(Symbol("turn", "loop", self.fresh()), ZERO, ONE, None, *common)

    # The turns themselves.

    def _turns(self, parts: LoopSyntax, course: LoopProgress) -> None:
        outer, first, mark = len(self.context), len(self.exits), self.mark
        facts = len(self.bounds.facts)
        frame = Frame(self.fresh(), course.symbol, outer)
        self.frames.append(frame)
        self._forget(course.arrays)
        self.context.append(course.symbol)
        self._declare_start(course)
        for cell, how in course.changes.items():
            self.write(cell, self._in_turn(course, cell, how, parts.node))
        with self.collecting() as body:
            condition = self._tested(parts, course)
            self._declare_end(course, condition)
            self.assume(condition)
            inside = len(self.context)
            self.loop_marks.append(inside)
            if parts.body is not None:
                self.execute(parts.body)
            self.loop_marks.pop()
            until, skipped = self._left_early(first, inside), self._left_early(first, inside, is_turn=True)
            ends = {cell: term for cell in course.changes if (term := term_in(cell.value)) is not None}
            del self.context[outer + 1 :], self.bounds.facts[facts:]
            if parts.update is not None:
                self.evaluate(parts.update)
        del self.context[outer:], self.bounds.facts[facts:]
        self.exits[first:] = [e for e in self.exits[first:] if e.target < outer or e.word == "return"]
        self.frames.pop()
        trip = self._trip(course, condition, until)
        self._close(parts, course, frame, condition, (until, skipped), trip, body, ends)
        self._after(course, frame, mark, trip, parts)

    def _close(
        self, parts: LoopSyntax, course: LoopProgress, frame: Frame, condition: Condition,
        left: tuple[Condition | None, Condition | None], trip: Term | None, body: list[FormNode],
        ends: dict[Cell, Term],
    ) -> None:  # fmt: skip
        until, skipped = left
        carried = list(self._carried_numbers(course, ends))
        for cell, (record, node, _, _) in frame.carried.items():
            value = cell.value
            if isinstance(value, Real) and value.data is not node:
                record.update = value.data
                carried.append(record)
            elif isinstance(value, Real):
                node.op, node.args, node.detail = "same", (record.initial,), None
        blocked = None
        if until is not None and is_unsure(until):
            blocked = self.block(parts.node, self._header_text(parts), "the loop ends when data says so", by_data=True)
        elif is_unsure(condition):
            blocked = self.block(
                parts.node, self._header_text(parts), "how often the loop runs depends on data", by_data=True
            )
        elif course.primary is None and condition == ALWAYS and until is None:
            blocked = self.block(parts.node, self._header_text(parts), "no condition was found that ends the loop")
        span = self.span(parts.node)
        header = Span(span.start, self.span(parts.body).start) if parts.body is not None else span
        self.nest(
            Loop(
                symbol=course.symbol, start=course.start, step=course.step, values=course.values, condition=condition,
                until=until, skipped=skipped, trip=trip, span=span, header=header, line=self.line(span),
                parent=self.frames[-1].symbol if self.frames else None, factor=_factor(parts.node),
                carried=tuple(carried), calls=tuple(self.calls), blocked=blocked,
                is_given=until is None and self._is_given(condition, course),
            ),
            body,
        )  # fmt: skip

    def _carried_numbers(self, course: LoopProgress, ends: dict[Cell, Term]) -> Iterator[Carried]:
        """Integers that data changes, such as the index of a largest value."""
        for cell, how in course.changes.items():
            first = term_in(course.before[cell])
            if how.kind == "other" and cell in ends and first is not None and isinstance(course.before[cell], Number):
                record = self.handed_on.get((course.symbol, cell))
                if record is None:
                    record = Carried(name=cell.name, loop=course.symbol, initial=self.computed(first))
                record.update = self.computed(ends[cell])
                yield record

    def _header_text(self, parts: LoopSyntax) -> str:
        return self.wording(parts.test) if parts.test is not None else self.wording(parts.node)[:40]

    def _after(self, course: LoopProgress, frame: Frame, mark: int, trip: Term | None, parts: LoopSyntax) -> None:
        """What the variables are behind the loop."""
        for cell, (_, frame_before) in self.since(mark).items():
            if cell in course.changes or frame_before == frame.number:
                continue
            if cell in frame.carried:
                record, _, outside, number = frame.carried[cell]
                if record.update is None:
                    cell.value, cell.frame = outside, number
                elif isinstance(cell.value, Real):
                    self.write(cell, Real(Data("result", (record.initial, record.update), record), cell.value.type))
            elif isinstance(cell.value, Real):
                self.write(cell, Real(Data("last", (cell.value.data,), course.symbol), cell.value.type))
            elif isinstance(cell.value, Number | Pointer):
                self.write(cell, self._left(cell, parts.node))
        for cell, how in course.changes.items():
            moved: Term | None = None
            if trip is not None and course.values is None:
                moved = self._after_turns(course, cell, how, trip)
            elif course.values is not None and cell is course.primary:
                moved = ZERO if how.operation != "mul" else None
            before = course.before[cell]
            handed = self.handed_on.get((course.symbol, cell))
            if moved is not None:
                self.write(cell, self._as_before(before, moved, cell))
                continue
            end = Data("unknown", detail=course.symbol) if cell is course.primary else None  # where its test fails
            self.write(cell, self._left(cell, parts.node, handed, end))

    def _left(self, cell: Cell, node: Node, record: Carried | None = None, data: Data | None = None) -> Value:
        """A number that a loop left, with no formula."""
        if record is not None and record.update is not None:
            data = Data("result", (record.initial, record.update), record)
        term = self.named_unknown(cell.name, node, f"what the loop left in `{cell.name}`", data)
        if isinstance(cell.value, Pointer):
            return Pointer(term, cell.value.of)
        return Number(term, cell.value.type if isinstance(cell.value, Number) else cell.type)


def _factor(node: Node) -> str | None:
    """What `#pragma unroll` before the loop says."""
    above = node.previous if node.parent is not None else None
    while above is not None and above.type == "comment":
        above = above.previous
    match = _UNROLL.match(above.text.strip()) if above is not None else None
    return match[1] if match else None
