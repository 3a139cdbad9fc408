"""Which running sums a block finds in shared memory step by step, however: the steps are carried out on numbers.

For a running maximum or minimum an element is a set of its own, and the larger of two is what both sets hold: nothing
else may be done to them.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from evo.analysis.access.carried_out import CarriedOut, Names, Storage, Unfollowed, Value, constants_of
from evo.cuda.source import Edit, Function, Span
from evo.cuda.source.parser import Node
from evo.operators.rules.families.work.block_steps import BARRIER, LOOPS, declare, declared_in, together
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import LEAVES, fresh, rewritten
from evo.operators.rules.rule_context import RuleContext

_CHANGES = ("assignment_expression", "update_expression")
_MOST_STORES = 8  # elements of a thread
_TYPES = ("float", "double", "int", "unsigned", "unsigned int", "long long")
_BLOCK = 3  # any block: which one it is says nothing about its threads
_BITS = 30  # of a number; doubles hold the sums of all threads exactly


_NUMBERS = {"float": "f", "double": ""}  # what the functions of these types end with
_LIMITS = {"int": ("(-2147483647 - 1)", "2147483647"), "unsigned": ("0u", "4294967295u")}
_LIMITS["unsigned int"] = _LIMITS["unsigned"]


class _Elements(int):
    """Which elements an extremum is one of; it is compared with nothing, and no number."""


def _refused(*_: object) -> NoReturn:
    raise Unfollowed("arithmetic on an extremum")


for _word in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    setattr(_Elements, f"__{_word}__", _refused)
    setattr(_Elements, f"__r{_word}__", _refused)
for _word in ("lt", "gt", "le", "ge", "eq", "ne", "bool", "neg"):
    setattr(_Elements, f"__{_word}__", _refused)


def _of_both(neutral: float) -> Callable[[float, float], float]:
    """The extremum of two; neutral: what no element is beyond."""

    def made(one: float, other: float) -> float:
        if isinstance(one, _Elements) and isinstance(other, _Elements):
            return _Elements(int(one).__or__(int(other)))
        kept = [each for each in (one, other) if isinstance(each, _Elements)]
        if len(kept) != 1 or neutral not in [each for each in (one, other) if each is not kept[0]]:
            raise Unfollowed("an extremum with a number")
        return kept[0]

    return made


@dataclass(slots=True)
class Scan:
    """stores: where each thread leaves its elements; gone: all up to the last step; tail: what comes behind.

    arrays: all names of what the steps go through; room: the one for sums of warps. is_in_order: whether a thread's
    elements lie side by side. sums: for each place of the tail that the steps have left something for, what it says;
    whole: what each element of the array says, where threads store elements in another order. by: `sum`, `max`, `min`.
    """

    ctx: RuleContext
    function: Function
    arrays: tuple[str, ...]
    room: str
    kind: str
    threads: int
    head: list[Node]
    stores: list[Node]
    steps: list[Node]
    tail: list[Node]
    lanes: list[CarriedOut] = field(default_factory=list)
    sums: dict[Span, tuple[str, int]] = field(default_factory=dict)
    is_in_order: bool = True
    whole: str = ""
    by: str = "sum"

    def both(self, one: str, other: str) -> str:
        """Two put together."""
        if self.by == "sum":
            return f"{one} + {other}"
        ends = _NUMBERS.get(self.kind)
        return f"{self.by if ends is None else f'f{self.by}{ends}'}({one}, {other})"

    def taken(self, one: str, other: str) -> str:
        """The statement that takes another one in."""
        return f"{one} += {other};" if self.by == "sum" else f"{one} = {self.both(one, other)};"

    @property
    def nothing(self) -> str:
        """What changes nothing. Raises NotPrinted."""
        if self.by == "sum":
            return "0"
        if self.kind in _NUMBERS:
            return "-INFINITY" if self.by == "max" else "INFINITY"
        if self.kind not in _LIMITS:
            raise NotPrinted(f"the least {self.kind}")
        return _LIMITS[self.kind][self.by == "min"]

    @property
    def words(self) -> dict[str, str]:
        """The new variables, by names that are free."""
        return {word: fresh(self.ctx, word) for word in ("upto", "step", "earlier", "before", "warp", "whole")}


def span_of(node: Node) -> Span:
    return Span(node.start_byte, node.end_byte)


def scan_of(ctx: RuleContext, function: Function, threads: int, shapes: Mapping[str, tuple[int, ...]]) -> Scan:
    """The running sums of a kernel; shapes: of its arrays in shared memory, as far as the analysis has met them.

    Raises NotPrinted, and Unfollowed.
    """
    known = _shapes(ctx, function, shapes)
    text = ctx.source.slice(function.body)
    for by in ("sum", *(by for by in ("max", "min") if re.search(rf"\bf?{by}f?\(", text))):
        scan = _parts(ctx, function, tuple(known), threads)
        scan.by = by
        try:
            _carry_out(scan, known)
        except (NotPrinted, Unfollowed):
            continue
        return scan
    raise NotPrinted("no running sums")


def _shapes(ctx: RuleContext, function: Function, known: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """All arrays in shared memory: others are reached by pointers alone. Raises NotPrinted."""
    declared = re.findall(r"\b__shared__\s([^;=]*);", ctx.source.slice(function.body))
    found: dict[str, tuple[int, ...]] = {}
    for name, lengths in re.findall(r"(\w+)\s*((?:\[[^\[\]]*\])+)", ";".join(declared)):
        numbers = tuple(ctx.source.integer(each) or 0 for each in re.findall(r"\[([^\[\]]*)\]", lengths))
        found[name] = known.get(name, numbers)
    is_each = len(found) == sum(1 + text.count(",") for text in declared)
    if not found or not is_each or not all(map(all, found.values())) or max(map(len, found.values())) > 2:
        raise NotPrinted("shared memory of no known length")
    return found


def _uses(names: Sequence[str], text: str) -> int:
    return len(re.findall(rf"\b(?:{'|'.join(names)})\b", text))


def _parts(ctx: RuleContext, function: Function, arrays: tuple[str, ...], threads: int) -> Scan:
    """Raises NotPrinted."""
    body = next((n for n in ctx.source.nodes() if n.start_byte == function.body.start and n.inside), None)
    tops = body.inside if body is not None else []
    kinds = {ctx.source.element_type(function.name, array) or "" for array in arrays}
    said = "".join(node.text for node in tops if node.type in LOOPS and BARRIER in node.text)
    pointed = rf"\*\s*(\w+)\s*=\s*(?:{'|'.join(arrays)})\b"
    names = arrays + tuple(n for node in tops if node.type == "declaration" for n in re.findall(pointed, node.text)
                           if re.search(rf"\b{n}\[", said))  # fmt: skip
    uses = [bool(_uses(names, node.text)) for node in tops]
    loops = [at for at, node in enumerate(tops) if uses[at] and node.type in LOOPS and BARRIER in node.text]
    if not loops or len(kinds) != 1 or not kinds <= {*_TYPES}:
        raise NotPrinted("no steps over shared memory")
    told = [uses[at] and node.type != "declaration" for at, node in enumerate(tops)]
    stores = [at for at in range(loops[0]) if told[at] and targets_of(tops[at], names)]
    stores = [at for at in stores if tops[at].type in ("expression_statement", "if_statement")]
    if not 1 <= len(stores) <= _MOST_STORES or any(_is_written(node, names) for node in tops[loops[-1] + 1 :]):
        raise NotPrinted("no store in front of the steps, or one behind them")
    last = stores[-1]
    head = [node for at, node in enumerate(tops[:last]) if at not in stores]
    tail = [node for node in tops[loops[-1] + 1 :] if node.text != BARRIER]
    if any(LEAVES.search(node.text) or "__sync" in node.text for node in (*head, *tail) if node.text != BARRIER):
        raise NotPrinted("a thread that leaves")
    if any(node.type != "declaration" and node.text != BARRIER for node in head):
        raise NotPrinted("another statement in front")
    hidden = (_uses(arrays, node.text) - _pointers(names, node) for node in head if "__shared__" not in node.text)
    if any(hidden):
        raise NotPrinted("another name for the array")
    return Scan(
        ctx, function, names, "", kinds.pop(), threads, [n for n in head if n.text != BARRIER],
        [tops[at] for at in stores], tops[last + 1 : loops[-1] + 1], tail,
    )  # fmt: skip


def _pointers(names: Sequence[str], node: Node) -> int:
    """How many of the names a declaration points at an array."""
    return len({*declared_in(node)} & {*names}) if node.type == "declaration" else 0


def _base(node: Node) -> str:
    """What the element of an array is an element of, by name."""
    inner: Node | None = node
    while inner is not None and inner.type == "subscript_expression":
        inner = inner.child("argument")
    return inner.text if inner is not None else ""


def targets_of(node: Node, names: Sequence[str]) -> list[Node]:
    """The elements of the arrays that a statement sets, if those are all that it says of them."""
    found = []
    for each in node.walk():
        left = each.child("left") if each.type == "assignment_expression" else None
        if left is not None and left.type == "subscript_expression" and _base(left) in names:
            found += [left] if each.parts("operator")[0].text == "=" else []
    is_all = len(found) == _uses(names, node.text) and len({each.text for each in found}) == 1
    is_one = len(found) == 1 and node.type == "expression_statement"
    is_both = len(found) == 2 and node.type == "if_statement" and "else" in node.text
    return found if is_all and (is_one or is_both) else []


def _is_written(node: Node, names: Sequence[str]) -> bool:
    changes = [each for each in node.walk() if each.type in _CHANGES]
    return any(_base(place) in names for each in changes for place in [each.child("left") or each.child("argument")]
               if place is not None)  # fmt: skip


def _memory(draw: Callable[[], int], shape: Sequence[int]) -> Storage:
    """An array of any numbers."""
    length, *rest = shape
    of: list[Value] = [_memory(draw, rest) if rest else draw() for _ in range(length)]
    return Storage(of, is_start=True)


def _any_element(by: str) -> Callable[[], int]:
    """What elements are drawn by: any numbers, or sets of one each."""
    random_numbers, places = random.Random(by), itertools.count()
    return (lambda: random_numbers.getrandbits(_BITS)) if by == "sum" else lambda: _Elements(1 << next(places))


def _carry_out(scan: Scan, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Fills in what the tail reads. Raises Unfollowed, and NotPrinted where those are no running sums."""
    draw, neutral = _any_element(scan.by), {"sum": 0, "max": -math.inf, "min": math.inf}[scan.by]
    both = _of_both(neutral)
    calls = {f"{f}{scan.by}{end}": both for f, end in (("", ""), ("f", "f"), ("f", ""))} if scan.by != "sum" else {}
    memory = {name: _memory(draw, shape) for name, shape in shapes.items()}
    for thread in range(scan.threads):
        fields = {"threadIdx.x": thread, "blockDim.x": scan.threads, "blockIdx.x": _BLOCK}
        names: Names = {"INFINITY": Storage([math.inf]), **constants_of(scan.ctx.source), **memory}
        scan.lanes.append(CarriedOut(names, {}, fields, calls))
    for node in scan.head:
        for lane in scan.lanes if "__shared__" not in node.text else ():
            declare(lane, node)
    given: dict[int, tuple[int, int]] = {}  # place -> thread and store
    values: dict[int, int] = {}
    row: list[Value] | None = None
    for at, node in enumerate(scan.stores):
        for thread, lane in enumerate(scan.lanes):
            place = lane.place(targets_of(node, scan.arrays)[0])
            row = place.of if row is None else row
            if place.at in given or place.of is not row:
                raise NotPrinted("elements that are set twice, or of two arrays")
            given[place.at], values[place.at] = (thread, at), draw()
            place.put(values[place.at])
            _put_where_it_comes_from(lane, node, values[place.at])
    order, count = sorted(given), len(scan.stores)
    scan.is_in_order = [given[at] for at in order] == [(t, s) for t in range(scan.threads) for s in range(count)]
    scan.room = next(
        name if row is of.of else f"{name}[{at}]"
        for name, of in memory.items()
        for at, inner in enumerate(of.of)
        if row is of.of or (isinstance(inner, Storage) and inner.of is row)
    )
    for node in scan.steps:
        together(scan.lanes, node)
    joined = int.__add__ if scan.by == "sum" else int.__or__
    sums = [neutral, *itertools.accumulate((int(values[at]) for at in order), joined)]
    if not scan.is_in_order:
        found = [_number(each) for each in (row or [])[: len(order)]]
        scan.whole = "up to" if found == sums[1:] else "before" if found == sums[:-1] else ""
        if not scan.whole or order != [*range(len(order))]:
            raise NotPrinted("elements in another order, of no running sums")
        return
    _read_in_the_tail(scan, sums)


def _number(value: object) -> object:
    return int(value) if isinstance(value, int) else value


def _put_where_it_comes_from(lane: CarriedOut, node: Node, value: int) -> None:
    """A variable that a thread stores is what it stores."""
    inner = node.inside[0] if node.type == "expression_statement" else None
    right = inner.child("right") if inner is not None and inner.type == "assignment_expression" else None
    if right is not None and right.type == "identifier" and (kept := lane.scopes[0].get(right.text)) is not None:
        kept.of[:] = [value]


def _read_in_the_tail(scan: Scan, sums: Sequence[float]) -> None:
    """Fills in what the elements and variables say that the steps leave. Raises NotPrinted."""
    source, count = scan.ctx.source, len(scan.stores)
    uses = [use for node in scan.tail for use in node.walk()]
    elements = [use for use in uses if use.type == "subscript_expression" and _base(use) in scan.arrays]
    outer = [use for use in elements if not any(o is not use and span_of(o).holds(span_of(use)) for o in elements)]
    for use in outer:
        scan.sums[span_of(use)] = _said([_number(_element(lane, use)) for lane in scan.lanes], sums, count)
    if len(scan.sums) != _uses(scan.arrays, "".join(node.text for node in scan.tail)):
        raise NotPrinted("another look at the array")
    steps = Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    changed = source.changed_in(steps)
    for use in uses:
        is_left = use.type == "identifier" and use.text in changed and use.text not in scan.arrays
        if is_left and not any(known.holds(span_of(use)) for known in scan.sums):
            try:
                found = [_number(lane.scopes[0][use.text].get()) for lane in scan.lanes]
            except (Unfollowed, KeyError):
                continue
            scan.sums[span_of(use)] = _said(found, sums, count)
    if not scan.sums:
        raise NotPrinted("nobody looks at the sums")


def _said(found: Sequence[object], sums: Sequence[float], stores: int) -> tuple[str, int]:
    """What a place says: the sum up to a thread's element, before it, or of all. Raises NotPrinted."""
    if found.count(None) > 1:
        raise NotPrinted("places outside of the array")
    for at in range(stores):
        for word, more in (("up to", 1), ("before", 0)):
            if all(each in (sums[thread * stores + at + more], None) for thread, each in enumerate(found)):
                return word, at
    if all(each == sums[-1] for each in found):
        return "whole", 0
    raise NotPrinted("no running sums")


def _element(lane: CarriedOut, use: Node) -> object:
    """None for a place outside of the array, which a test in front keeps a thread from."""
    place = lane.place(use)
    return place.get() if 0 <= place.at < len(place.of) else None


def check_what_is_left(scan: Scan) -> None:
    """Raises NotPrinted if the tail looks at a variable that the steps set, or sets one itself."""
    source, steps = scan.ctx.source, Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    gone = (source.changed_in(steps) - {*scan.arrays}) | {name for node in scan.steps for name in declared_in(node)}
    tail = Span(scan.tail[0].start_byte, scan.tail[-1].end_byte)
    left = rewritten(source, tail, [Edit(span, "") for span in scan.sums])
    if source.changed_in(tail) & gone or any(re.search(rf"\b{name}\b", left) for name in gone):
        raise NotPrinted("what the steps leave in a variable")


def shifted_of(scan: Scan) -> dict[str, bool]:
    """The variables in front that depend on the thread: True if the next thread's is one more.

    Raises NotPrinted.
    """
    known: dict[str, bool] = {}
    for node in scan.head:
        depends = re.search(r"\bthreadIdx\b", node.text) or any(re.search(rf"\b{name}\b", node.text) for name in known)
        for name in declared_in(node) if depends else ():
            try:
                values = [lane.scopes[0][name].get() for lane in scan.lanes]
            except Unfollowed:
                values = []
            if values and values.count(values[0]) == len(values):
                continue
            known[name] = bool(values) and all(
                isinstance(one, int) and isinstance(other, int) and other == one + 1
                for one, other in itertools.pairwise(values)
            )
    return known
