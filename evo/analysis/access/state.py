"""What is known at the place of a kernel that is being read: variables, guards, loops, and the form so far."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from evo.analysis.access.c_types import CType
from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition, all_of
from evo.analysis.access.form import Access as AccessRecord
from evo.analysis.access.form import (
    Array,
    Barrier,
    Blocked,
    Carried,
    Data,
    Exchange,
    Loop,
    Multiply,
    Nest,
    Unknown,
)
from evo.analysis.access.form import Branch as BranchRecord
from evo.analysis.access.form import EarlyExit as ExitRecord
from evo.analysis.access.form import Node as FormNode
from evo.analysis.access.numeric import number_of
from evo.analysis.access.preprocess import Expanded
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import ZERO, Op, Symbol, Term
from evo.analysis.access.values import Binding, Cell, Number, Pointer, Real, Scope, StructValue, Value
from evo.cuda.source import Span
from evo.cuda.source.parser import Node

_LONGEST = 100  # characters of an expression that is quoted


@dataclass(slots=True)
class Frame:
    """A loop that is being read. mark: how deep the context was outside of it."""

    number: int
    symbol: Symbol
    mark: int
    carried: dict[Cell, tuple[Carried, Data, Value | None, int]] = field(default_factory=dict)
    exits: list[Condition] = field(default_factory=list)  # when it is left, relative to the turn


@dataclass(slots=True)
class Exit:
    """An early way out: the whole context at its place, and how deep the context is where it leads to."""

    word: str
    context: tuple[Symbol | Condition, ...]
    target: int


class ReadState:
    """Variables, guards and loops at the place that is being read."""

    def __init__(self, text: Expanded, data: bytes, bounds: Bounds) -> None:
        self.expanded, self.data, self.bounds = text, data, bounds
        self.scopes: list[Scope] = [{}]
        self.functions: dict[str, list[Node]] = {}
        self.structs: dict[str, Node] = {}
        self.arrays: dict[Symbol, Array] = {}
        self.values: dict[Symbol, Unknown] = {}
        self.accesses: list[AccessRecord] = []
        self.barriers: list[Barrier] = []
        self.exchanges: list[Exchange] = []
        self.multiplies: list[Multiply] = []
        self.loops: dict[Symbol, Loop] = {}
        self.blocked: dict[tuple[Span, str], Blocked] = {}
        self.context: list[Symbol | Condition] = []
        self.nodes: list[list[FormNode]] = [[]]
        self.frames: list[Frame] = []
        self.exits: list[Exit] = []
        self.loop_marks: list[int] = []  # how deep the context of a turn begins, of each loop
        self.calls: list[str] = []
        self.dry = 0  # nothing is recorded while it is positive
        self._trail: list[tuple[Cell, Value | None, int]] = []
        self._numbers = itertools.count(1)
        self._lines = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
        self.loaded: dict[str, Symbol] = {}
        self.loaded_from: dict[Symbol, Term] = {}
        self.named: dict[Term, str] = {}  # what the author calls an index
        self.doubles: list[Span] = []  # arithmetic in double precision
        self.derived: dict[Term, Symbol] = {}  # sizes that follow from axes, with a symbol each
        self.handed_on: dict[tuple[Symbol, Cell], Carried] = {}  # integers of a loop that data changes

    # Places in the text.

    def span(self, node: Node) -> Span:
        return self.expanded.span(node.start_byte, node.end_byte)

    def line(self, span: Span) -> int:
        """1-based."""
        import bisect

        return bisect.bisect_right(self._lines, span.start)

    def wording(self, node: Node) -> str:
        """The expression as it stands in the file, on one line."""
        span = self.span(node)
        text = " ".join(self.data[span.start : span.end].decode(errors="replace").split())
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    # Names.

    def fresh(self) -> int:
        return next(self._numbers)

    def lookup(self, name: str) -> object:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    @contextmanager
    def scope(self) -> Iterator[Scope]:
        inner: Scope = {}
        self.scopes.append(inner)
        try:
            yield inner
        finally:
            self.scopes.pop()

    def abbreviated(self, name: str, term: Term) -> Term:
        """A term of axes alone that is no product gets a symbol of its own: products of such sums would explode."""
        if len(term.parts) < 2 and not any(True for _ in term.ops()):
            return term
        symbols = term.symbols()
        if not symbols or any(symbol.kind != "axis" for symbol in symbols):
            return term
        if term not in self.derived:
            numbers = [number_of(term, case) for case in self.bounds.cases]
            if any(number is None for number in numbers):
                return term
            symbol = Symbol(name, "axis", self.fresh())
            self.derived[term] = symbol
            for case, number in zip(self.bounds.cases, numbers, strict=True):
                case[symbol] = number or 0
            self.bounds.declare(symbol, Term.number(min((n or 0 for n in numbers), default=0)))
        return Term.of(self.derived[term])

    # Variables.

    @property
    def frame(self) -> int:
        return self.frames[-1].number if self.frames else 0

    def declare(self, name: str, kind: CType, value: Value | None) -> Cell:
        if isinstance(value, StructValue):
            value = _named(name, value)
        cell = Cell(name, kind, value, self.frame)
        self.scopes[-1][name] = cell
        return cell

    def write(self, cell: Cell, value: Value | None) -> None:
        old = cell.value
        if isinstance(old, StructValue) and isinstance(value, StructValue):
            for name, binding in old.fields.items():
                given = value.fields.get(name)
                if isinstance(binding, Cell) and isinstance(given, Cell):
                    self.write(binding, given.value)
            return
        if isinstance(value, StructValue):
            value = _named(cell.name, value)
        self._trail.append((cell, old, cell.frame))
        cell.value, cell.frame = value, self.frame

    def read(self, cell: Cell) -> Value | None:
        """The value of a variable; of data that an outer loop wrote, what the turn before left."""
        value = cell.value
        if isinstance(value, StructValue):
            return self.copied(value)
        if not isinstance(value, Real) or cell.frame == self.frame:
            return value
        at = next((n for n, frame in enumerate(self.frames) if frame.number == cell.frame), -1)
        for frame in self.frames[at + 1 :]:
            if cell in frame.carried:
                carried, node, _, _ = frame.carried[cell]
            else:
                carried = Carried(name=cell.name, loop=frame.symbol, initial=value.data)
                node = Data("carried", detail=carried)
                frame.carried[cell] = carried, node, cell.value, cell.frame
            value = Real(node, value.type)
            self._trail.append((cell, cell.value, cell.frame))
            cell.value, cell.frame = value, frame.number
        return value

    def copied(self, record: StructValue) -> StructValue:
        """A record of its own; arrays inside are shared."""
        fields = {
            name: Cell(name, binding.type, self.read(binding), self.frame) if isinstance(binding, Cell) else binding
            for name, binding in record.fields.items()
        }
        return StructValue(record.type, dict(fields), record.whole)

    @property
    def mark(self) -> int:
        return len(self._trail)

    def since(self, mark: int) -> dict[Cell, tuple[Value | None, int]]:
        """The variables written since a mark, with what they were then."""
        found: dict[Cell, tuple[Value | None, int]] = {}
        for cell, value, frame in self._trail[mark:]:
            found.setdefault(cell, (value, frame))
        return found

    def undo(self, mark: int) -> dict[Cell, tuple[Value | None, int]]:
        """Take back all writes since a mark; what they had become."""
        now = {cell: (cell.value, cell.frame) for cell, _, _ in self._trail[mark:]}
        for cell, value, frame in reversed(self._trail[mark:]):
            cell.value, cell.frame = value, frame
        del self._trail[mark:]
        return now

    # Guards.

    @property
    def is_dead(self) -> bool:
        return NEVER in self.context

    @contextmanager
    def under(self, *conditions: Condition) -> Iterator[None]:
        """What is read inside is carried out only if the conditions hold."""
        mark, facts = len(self.context), len(self.bounds.facts)
        for condition in conditions:
            self.assume(condition)
        try:
            yield
        finally:
            del self.context[mark:], self.bounds.facts[facts:]

    def assume(self, condition: Condition) -> None:
        """From here on, to the end of the context around, the condition holds."""
        if condition != ALWAYS:
            self.context.append(condition)
            self.bounds.facts.append(condition)

    def leave(self, word: str, target: int) -> None:
        """An early way out of the context that is `target` deep."""
        self.exits.append(Exit(word, tuple(self.context), target))
        self.context.append(NEVER)
        self.bounds.facts.append(NEVER)

    def after_exits(self, first: int) -> None:
        """Past a statement that held exits: what follows is carried out only where none was taken."""
        depth = len(self.context)
        for exit_ in self.exits[first:]:
            if exit_.target <= depth and NEVER not in exit_.context:
                inside = exit_.context[depth:]
                loops = frozenset(part for part in inside if isinstance(part, Symbol))
                taken = all_of(part for part in inside if not isinstance(part, Symbol))
                if loops & taken.symbols():
                    self.assume(self.unsure(f"left by `{exit_.word}` in a loop"))
                else:
                    self.assume(self.bounds.decided(taken.negated()))

    def unsure(self, wording: str) -> Condition:
        """A condition that depends on data."""
        from evo.analysis.access.comparisons import Unsure

        return Unsure(Symbol(wording, "value", self.fresh()), wording)

    # The form.

    def emit(self, node: FormNode) -> None:
        if self.dry:
            return
        self.nodes[-1].append(node)
        if isinstance(node, AccessRecord):
            self.accesses.append(node)
        elif isinstance(node, Barrier):
            self.barriers.append(node)
        elif isinstance(node, Exchange):
            self.exchanges.append(node)
        elif isinstance(node, Multiply):
            self.multiplies.append(node)

    @contextmanager
    def collecting(self) -> Iterator[list[FormNode]]:
        """Nodes emitted inside go into a list of their own."""
        inner: list[FormNode] = []
        self.nodes.append(inner)
        try:
            yield inner
        finally:
            self.nodes.pop()

    def leave_node(self, word: str, node: Node) -> None:
        span = self.span(node)
        self.emit(ExitRecord(word=word, span=span, line=self.line(span)))

    def branch(self, condition: Condition, then: Sequence[FormNode], otherwise: Sequence[FormNode], node: Node) -> None:
        if then or otherwise:
            span = self.span(node)
            self.emit(
                BranchRecord(
                    condition=condition, then=tuple(then), otherwise=tuple(otherwise), span=span, line=self.line(span)
                )
            )

    def nest(self, loop: Loop, body: Sequence[FormNode]) -> None:
        if not self.dry:
            self.loops[loop.symbol] = loop
        self.emit(Nest(loop=loop, body=tuple(body)))

    def block(self, node: Node, what: str, reason: str, *, by_data: bool = False) -> Blocked:
        """Note what the analysis could not follow."""
        span = self.span(node)
        found = Blocked(what=what, reason=reason, span=span, line=self.line(span), by_data=by_data)
        if not self.dry:
            self.blocked.setdefault((span, reason), found)
        return found

    # Values that have no formula.

    def unknown(self, node: Node, reason: str, data: Data | None = None, access: int | None = None) -> Term:
        """A number that is known only from data."""
        what, span = self.wording(node), self.span(node)
        symbol = Symbol(what, "value", self.fresh())
        self.values[symbol] = Unknown(
            what=what, reason=reason, span=span, line=self.line(span), data=data, access=access
        )
        return Term.of(symbol)

    def named_unknown(self, name: str, node: Node, reason: str, data: Data | None = None) -> Term:
        """A variable's number that has no formula."""
        span = self.span(node)
        symbol = Symbol(name, "value", self.fresh())
        self.values[symbol] = Unknown(what=name, reason=reason, span=span, line=self.line(span), data=data)
        return Term.of(symbol)

    def data_of(self, value: Value | None) -> Data:
        """Any value as an operand of a computation."""
        if isinstance(value, Real):
            return value.data
        if isinstance(value, Number):
            return self.computed(value.term)
        if isinstance(value, Pointer):
            return Data("index", detail=value.term)
        if isinstance(value, StructValue):
            if value.whole is not None:
                return value.whole
            inside = [cell for cell in value.fields.values() if isinstance(cell, Cell)]
            return Data("pack", tuple(self.data_of(self.read(cell)) for cell in inside))
        return Data("unknown")

    def computed(self, term: Term) -> Data:
        """An integer as the computation over data that it is, or as an index if there is no data in it."""
        known = self._data_behind(term.atom)
        if known is not None:
            return known
        plain = Data("index", detail=term)
        if term.atom is not None:
            return self._chosen(term.atom) or plain
        parts, rest = [], ZERO
        for factors, number in term.parts.items():
            inner = self.computed(Term.of(factors[0])) if len(factors) == 1 else Data("index")
            if inner.op == "index" or number not in (1, -1):
                rest += Term({factors: number})
            else:
                parts.append((number, inner))
        if not parts:
            return plain
        parts.sort(key=lambda part: -part[0])
        found = parts[0][1] if parts[0][0] > 0 else Data("neg", (parts[0][1],))
        for number, part in parts[1:]:
            found = Data("add" if number > 0 else "sub", (found, part))
        return found if rest == ZERO else Data("add", (found, Data("index", detail=rest)))

    def _data_behind(self, atom: object) -> Data | None:
        known = self.values.get(atom) if isinstance(atom, Symbol) else None
        return known.data if known is not None else None

    def _chosen(self, atom: object) -> Data | None:
        """`condition ? a : b`, the larger or the smaller of two, if one of them is data."""
        if not isinstance(atom, Op) or atom.name not in ("select", "max", "min") or len(atom.terms) != 2:
            return None
        sides = (self.computed(atom.terms[0]), self.computed(atom.terms[1]))
        if all(side.op == "index" for side in sides):
            return None
        return Data(atom.name, sides, atom.args[0] if atom.name == "select" else None)


def _named(name: str, record: StructValue) -> StructValue:
    """A record whose fields are called after the variable that it is the value of."""
    fields: dict[str, Binding] = {}
    for part, binding in record.fields.items():
        fields[part] = binding
        if isinstance(binding, Cell):
            said, value = f"{name}.{part}", binding.value
            value = _named(said, value) if isinstance(value, StructValue) else value
            fields[part] = Cell(said, binding.type, value, binding.frame)
    return StructValue(record.type, fields, record.whole)
