"""What several neighbouring outputs read and write together: windows of neighbouring elements, and when they are whole.

A thread that takes `count` neighbours along an index touches, at each place of the text, elements that follow from the
first of these outputs, F, and the number of the output, E. Where that is F's place plus a number times E, the elements
of all outputs lie side by side. Clamps and tests for an edge are taken to let everything through, and divisions of the
index to fall into one row; `tests` says what has to hold for that. Of places that several outputs have in common, as
where an image is enlarged, E / 2 takes the place of E.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.access import BLOCK, THREAD, Access, Array, Compare, Condition, Form, Op, Symbol, Term
from evo.analysis.access.comparisons import conjuncts
from evo.analysis.access.terms import apply, fold
from evo.cuda.source import Span
from evo.operators.rules.lifting import NotPrinted

FIRST, OUTPUT = Symbol("first output", "thread"), Symbol("output", "thread")
SHARED = {by: Symbol(f"output / {by}", "thread") for by in (2, 4, 8)}  # the place of so many outputs
_MOVING = frozenset({OUTPUT, *SHARED.values()})
PLACES = {axis: Symbol(f"place.{axis}", "thread") for axis in "yz"}  # blockIdx.y * blockDim.y + threadIdx.y
_KNOWN = ("axis", "block", "thread", "loop")  # other symbols stand for data, which each output has its own of
_MOST_TURNS = 64  # of the loops around a place, all of which are unrolled
_WIDE = 16  # bytes of the widest access


@dataclass(frozen=True, slots=True)
class Divisible:
    """A product of sizes and a number that has to be a multiple of another."""

    sizes: Term
    by: int


Test = Term | Divisible  # a term is at least 0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an access goes: base + inside, in elements. inside: of the output, loops in a row and a number.

    over: how many places the outputs have.
    """

    access: Access
    base: Term
    inside: Term
    step: int
    low: int
    high: int  # of one output: the last element
    over: int


@dataclass(slots=True)
class Stretch:
    """Accesses to one array that touch the same stretch. start, size: of what is moved, from the base on, in elements.

    rows: loops around it whose turns each have a stretch of their own.
    """

    array: Array
    base: Term
    step: int
    places: list[Spot]
    rows: tuple[Symbol, ...]
    over: int
    start: int = 0
    size: int = 0
    unit: int = 1  # elements of an aligned piece
    needed: list[Test] = field(default_factory=list)  # for the places
    tested: list[Test] | None = field(default_factory=list)  # where its places are reached; None: data decides
    is_ragged: bool = False  # some pieces may lie outside of the tensor: what is loaded for them is not used

    @property
    def total(self) -> Term:
        """How many elements the tensor has."""
        return math.prod(self.array.shape, start=Term.number(1))

    @property
    def is_read(self) -> bool:
        return any(place.access.is_read for place in self.places)

    @property
    def is_written(self) -> bool:
        return any(place.access.is_write for place in self.places)


@dataclass(slots=True)
class Neighbours:
    """The places of one kernel as those of `count` neighbours along the x of its threads."""

    form: Form
    count: int
    has_edges: bool = False  # keep the tests around reads, and load what they let through or not
    tests: dict[Test, None] = field(default_factory=dict)
    assumed: list[Test] = field(default_factory=list)  # while a term is looked at

    def spread(self, term: Term) -> Term:
        """A term of the old thread as one of F and E. Raises NotPrinted."""
        places = [Term.of(FIRST) + Term.of(OUTPUT), *map(Term.of, PLACES.values())]
        parts = zip(THREAD, BLOCK, self.form.block, places, strict=True)
        values = {thread: place - Term.of(block) * size for thread, block, size, place in parts if size.value != 1}
        made = term.substitute(values, self._rebuilt)
        seen = made.symbols()
        if {THREAD[0], BLOCK[0]} & seen or any({PLACES["yz"[k]], BLOCK[k + 1]} <= seen for k in (0, 1)):
            raise NotPrinted("another place of the thread")
        if any(symbol.kind not in _KNOWN for symbol in seen):
            raise NotPrinted("data")
        return made

    def _rebuilt(self, op: Op) -> Term:
        """An operation over what depends on the output: the choice that inner outputs take."""
        if not _moves(op):
            return fold(op)
        if op.name in ("div", "mod"):
            left, right = op.terms
            if (by := right.value) in SHARED and self.count % by == 0 and self._is_row(left - Term.of(OUTPUT)):
                group = Term.of(SHARED[by])
                if op.name == "div":
                    return apply("div", left - Term.of(OUTPUT), right) + group
                return Term.of(OUTPUT) - group * by
            if left == Term.of(FIRST) + Term.of(OUTPUT) and not _moves(right):
                self.assumed.append(Divisible(right, self.count))
                row = Term.of(Op(op.name, (Term.of(FIRST), right)))
                return row if op.name == "div" else row + Term.of(OUTPUT)
        if op.name == "mod":
            return self._unwrapped(*op.terms)
        if op.name in ("min", "max"):
            mine = [term for term in op.terms if _moves(term)]
            other = [term for term in op.terms if not _moves(term)]
            if len(mine) == 1 and len(other) == 1:
                self.assume(mine[0] - other[0] if op.name == "max" else other[0] - mine[0])
                return mine[0]
        if op.name == "select":
            condition, (taken, otherwise) = op.args[0], op.terms
            if isinstance(condition, Compare) and _moves(taken) != _moves(otherwise):
                holds = condition if _moves(taken) else condition.negated()
                if isinstance(holds, Compare) and holds.relation == ">=":
                    self.assume(holds.term)
                    return taken if holds is condition else otherwise
        raise NotPrinted("a place that is no multiple of the output's number")

    def _is_row(self, term: Term) -> bool:
        """Whether a term is the first output, or that within its row: a multiple of the number of outputs."""
        return term.atom is not None and _multiple(term.atom, self.count) == self.count

    def _unwrapped(self, left: Term, right: Term) -> Term:
        """A place that goes around, `(j + W - 1) % W`, where it does not. Raises NotPrinted."""
        (mono, number), *more = right.parts.items()
        if more or _moves(right) or left.parts.get(mono, 0) % number:
            raise NotPrinted("a place that goes around in another way")
        inside = left - right * (left.parts.get(mono, 0) // number)
        self.assume(inside)
        self.assume(right - inside - 1)
        return inside

    def assume(self, term: Term) -> None:
        """The term is at least 0 for all outputs and all turns around. Raises NotPrinted."""
        least = term - term.constant
        total = Term.number(term.constant)
        for symbol in term.symbols():
            if symbol not in _MOVING and symbol.kind != "loop":
                continue
            apart = term.coefficient(symbol)
            if apart is None or apart.value is None:
                raise NotPrinted("a test that is not linear")
            low, high = self._ends(symbol)
            least = least - Term.of(symbol) * apart.value
            total = total + min(apart.value * low, apart.value * high)
        self.assumed.append(least + total)

    @property
    def limit(self) -> Term | None:
        """How many threads there were along x, where the tests do not tell that all outputs are of one of them."""
        end = self.form.grid[0] * self.form.block[0]
        proven = self.form.bounds.nonnegative
        if self.form.bounds.cases and proven(-apply("mod", self.form.grid[0], Term.number(self.count))):
            return None
        room = end - Term.of(FIRST) - self.count
        mine = [test for test in self.tests if isinstance(test, Term) and test.coefficient(FIRST) == Term.number(-1)]
        return None if any(proven(room - test) for test in mine) else end

    def _ends(self, symbol: Symbol) -> tuple[int, int]:
        """The first and the last value of an output's number or a short loop. Raises NotPrinted."""
        if symbol in _MOVING:
            return 0, self._over(symbol) - 1
        loop = self.form.loops.get(symbol)
        values = loop.counted if loop is not None and loop.until is None and not loop.blocked else None
        if not values or len(values) > _MOST_TURNS:
            raise NotPrinted("a loop of no known length")
        return min(values[0], values[-1]), max(values[0], values[-1])

    def _over(self, moving: Symbol) -> int:
        """How many values the output's number takes, or what stands in its place."""
        return self.count // next((by for by, symbol in SHARED.items() if symbol == moving), 1)

    def elements(self, place: Spot) -> set[int]:
        """Where an access goes for the first output, over all turns of the loops around it. Raises NotPrinted."""
        found = [place.inside.substitute(dict.fromkeys(_MOVING, Term.number(0)))]
        for symbol in place.inside.symbols() - _MOVING:
            low, high = self._ends(symbol)
            turns = range(low, high + 1, abs(self.form.loops[symbol].step.value or 1))
            found = [term.substitute({symbol: Term.number(turn)}) for term in found for turn in turns]
        return {term.constant for term in found}

    def requirements(self, condition: Condition) -> list[Test]:
        """What makes a condition hold for all outputs and turns. Raises NotPrinted."""
        self.assumed = []
        for part in conjuncts(condition):
            if not isinstance(part, Compare) or part.relation != ">=":
                raise NotPrinted("a condition on data")
            self.assume(self.spread(part.term))
        return self.assumed

    def reached(self, access: Access) -> list[Test] | None:
        """What makes the tests around an access hold for all outputs and turns; None if data decides."""
        own = {self.form.loops[symbol].condition for symbol in access.loops}
        try:
            return [test for part in access.conditions if part not in own for test in self.requirements(part)]
        except NotPrinted:
            return None

    def place(self, access: Access) -> tuple[Spot, list[Test]]:
        """Where an access goes, and what that takes. Raises NotPrinted."""
        array = access.array
        if array is None or array.space != "global" or access.mode == "atomic" or access.calls or access.blocked:
            raise NotPrinted("no place of a tensor")
        if access.index is None or access.bytes != array.element_bytes:
            raise NotPrinted("several elements at once")
        self.assumed = []
        whole = self.spread(access.index)
        needed = self.assumed
        moving = [*(_MOVING & whole.symbols())]
        step = whole.coefficient(moving[0]) if len(moving) == 1 else None
        if step is None or step.value is None or step.value <= 0:
            raise NotPrinted("no neighbours")
        inside = Term.of(moving[0]) * step.value + whole.constant
        low = high = whole.constant
        for symbol in access.loops:
            ends = self._ends(symbol)
            apart = whole.coefficient(symbol)
            if apart is not None and apart.value is not None and abs(apart.value) * (ends[1] - ends[0]) <= _WIDE:
                inside = inside + Term.of(symbol) * apart.value
                reach = sorted(apart.value * end for end in ends)
                low, high = low + reach[0], high + reach[1]
        if self.form.turns(access.loops) > _MOST_TURNS:
            raise NotPrinted("too much to unroll")
        return Spot(access, whole - inside, inside, step.value, low, high, self._over(moving[0])), needed


def windows_of(found: Neighbours) -> list[Stretch]:
    """The stretches that can be moved in wide pieces; fills in what has to hold for them."""
    known: dict[tuple[str, Term, int, int], Stretch] = {}
    spans: dict[Span, int] = {}
    for access in found.form.accesses:
        spans[access.span] = spans.get(access.span, 0) + 1
        try:
            place, needed = found.place(access)
        except NotPrinted:
            continue
        key = (access.memory.name, place.base, place.step, place.over)
        rows = tuple(symbol for symbol in access.loops if symbol in place.base.symbols())
        window = known.setdefault(key, Stretch(access.memory, place.base, place.step, [], rows, place.over))
        window.places.append(place)
        window.needed += needed
        tested = found.reached(access)
        window.tested = None if tested is None or window.tested is None else [*window.tested, *tested]
    whole = [window for window in known.values() if _is_apart(found, window, spans) and _is_sized(found, window)]
    return [window for window in sorted(whole, key=lambda w: not w.is_written) if _is_kept(found, window)]


def _is_kept(found: Neighbours, window: Stretch) -> bool:
    """Whether a window can be moved whole; adds what has to hold for that. Those that are written come first."""
    is_sure = window.tested is not None and (not found.has_edges or set(window.tested) <= set(found.tests))
    if window.is_written or not found.has_edges:
        if window.tested is None:
            return False
        window.needed += window.tested
    else:
        window.is_ragged = not is_sure
    try:
        window.needed += _alignment(found, window)
    except NotPrinted:
        return False
    found.tests |= dict.fromkeys(window.needed)
    return True


def _is_apart(found: Neighbours, window: Stretch, spans: Mapping[Span, int]) -> bool:
    """Whether what a window keeps is what memory holds: an array that is written has this window alone."""
    mine = [place.access for place in window.places]
    if any(spans[access.span] > sum(other.span == access.span for other in mine) for access in mine):
        return False  # a place of the text that is also another place of memory
    if not window.is_written:
        return not any(access.is_write for access in found.form.of(window.array))
    own = {element for place in window.places for element in found.elements(place)}
    return len(mine) == len(found.form.of(window.array)) and len(own) == window.step and not window.rows


def _is_sized(found: Neighbours, window: Stretch) -> bool:
    """Whether a window has pieces of several elements; sets its start, size and unit."""
    low = min(place.low for place in window.places)
    high = max(place.high for place in window.places) + window.step * (window.over - 1)
    window.unit = math.gcd(window.step * window.over, max(1, _WIDE // window.array.element_bytes))
    if window.is_written:  # by each output all elements up to the next one's
        if window.over != found.count or high - low + 1 != window.step * found.count:
            return False
        window.start, window.size = low, window.step * found.count
        return window.unit > 1 and low % window.unit == 0
    window.start = low // window.unit * window.unit
    window.size = -(-(high + 1) // window.unit) * window.unit - window.start
    return window.unit > 1


def _alignment(found: Neighbours, window: Stretch) -> Iterator[Test]:
    """What makes the pieces of a window aligned, and keeps what is read beyond its ends inside. Raises NotPrinted."""
    for mono, number in window.base.parts.items():
        by = number * max(_multiple(atom, found.count) for atom in mono)
        if by % window.unit == 0:
            continue
        axes = [atom for atom in mono if isinstance(atom, Symbol) and atom.kind == "axis"]
        sizes = math.prod(map(Term.of, axes), start=Term.number(1))
        if sizes.value is not None:
            raise NotPrinted("rows that begin anywhere")
        yield Divisible(sizes, window.unit // math.gcd(window.unit, number))
    yield from _ends_inside(found, window)


def _ends_inside(found: Neighbours, window: Stretch) -> list[Test]:
    """What keeps the last piece inside of the tensor; the first one begins where a tensor or a piece does.

    Raises NotPrinted.
    """
    high = max(place.high for place in window.places) + window.step * (window.over - 1)
    if window.start + window.size == high + 1 and not window.is_ragged:
        return []
    if not window.array.shape:
        raise NotPrinted("a tensor of no known size")
    total = window.total
    if window.is_ragged:
        return [Divisible(total, window.unit)]
    found.assumed = []
    try:
        found.assume(total - window.base - window.start - window.size)
    except NotPrinted:  # the rows are no sum: then whole pieces have to fit
        return [Divisible(total, window.unit)]
    return found.assumed


def _moves(term: Term | Op) -> bool:
    """Whether it depends on which output of a thread it is."""
    return not _MOVING.isdisjoint(term.symbols())


def _multiple(atom: object, count: int) -> int:
    """What an atom is a multiple of: the first output, alone or within its row, or a part of that."""
    if isinstance(atom, Op) and atom.name == "div" and atom.terms[0].atom is not None:
        by = atom.terms[1].value
        return max(1, _multiple(atom.terms[0].atom, count) // by) if by in SHARED else 1
    if isinstance(atom, Op):
        return count if atom.name == "mod" and atom.terms[0] == Term.of(FIRST) else 1
    return count if atom == FIRST else 1


def fewest(tests: Sequence[Test]) -> list[Test]:
    """Without those that others imply."""
    products = [test for test in tests if isinstance(test, Divisible)]
    kept: list[Test] = []
    for test in tests:
        if isinstance(test, Divisible):
            others = [each for each in products if each != test and _implies(each, test)]
            if any(each in kept or not _implies(test, each) for each in others):
                continue
        elif (test.value or -1) >= 0 or any(_is_more(test, other) for other in tests):
            continue
        kept.append(test)
    return kept


def _is_more(one: Test, other: Test) -> bool:
    """Whether a term is another and a positive number."""
    return isinstance(one, Term) and isinstance(other, Term) and ((one - other).value or 0) > 0


def _implies(one: Divisible, other: Divisible) -> bool:
    """Whether a product that is a multiple makes another, which has it as a factor, one too."""
    (mine, number), *more = one.sizes.parts.items()
    (its, beside), *others = other.sizes.parts.items()
    if more or others or one.by % other.by:
        return False
    left = list(its)
    for atom in mine:
        if atom not in left:
            return False
        left.remove(atom)
    return beside % number == 0
