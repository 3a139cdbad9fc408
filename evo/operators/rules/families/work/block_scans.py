"""Running sums that a block finds in shared memory, step by step, as shuffles within warps and one step between them.

Which steps these are does not matter: they are carried out on numbers by all threads of a block, and what each thread
reads afterwards is compared with the sums up to its own element.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.access import LaunchAnalysis
from evo.analysis.access.carried_out import CarriedOut, Names, Storage, Unfollowed, constants_of
from evo.cuda.source import Edit, Function, Span
from evo.cuda.source.parser import Node
from evo.operators.rules.directives import relaunched
from evo.operators.rules.families.work.block_steps import BARRIER, LOOPS, declare, declared_in, together
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import LEAVES, fresh, indent_of, merged, rewritten, with_its_line
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_WARP = 32
_PLACED = re.compile(r"\b(?:threadIdx|blockDim)\b")
_CHANGES = ("assignment_expression", "update_expression")
_ITEMS, _MOST_STORES = (4, 2, 8), 8  # elements of a thread: those offered, the first of them at first
_TYPES = ("float", "double", "int", "unsigned", "unsigned int", "long long")
_BLOCK = 3  # any block: which one it is says nothing about its threads
_BITS = 30  # of a number; doubles hold the sums of all threads exactly


@dataclass(slots=True)
class _Scan:
    """stores: where each thread leaves its elements; gone: all up to the last step; tail: what comes behind.

    sums: for each place that reads the array in the tail, what it says.
    """

    ctx: RuleContext
    function: Function
    array: str
    kind: str
    threads: int
    head: list[Node]
    stores: list[Node]
    steps: list[Node]
    tail: list[Node]
    lanes: list[CarriedOut] = field(default_factory=list)
    sums: dict[Span, tuple[str, int]] = field(default_factory=dict)

    @property
    def words(self) -> dict[str, str]:
        """The new variables, by names that are free."""
        return {word: fresh(self.ctx, word) for word in ("upto", "step", "earlier", "before", "warp", "whole")}


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    form, threads = analysis.form, analysis.form.block[0].value
    if threads is None or threads % _WARP or threads <= _WARP or analysis.sizes.block[1:] != (1, 1):
        return
    if len(form.shared) != 1 or len(form.shared[0].shape) != 1 or form.exchanges or form.multiplies:
        return
    (array,) = form.shared
    size = (form.shared_bytes.value or 0) // array.element_bytes if array.is_dynamic else array.shape[0].value
    kind = ctx.source.element_type(function.name, array.name)
    scan = _parts(ctx, function, array.name, kind or "", threads)
    try:
        _carry_out(scan, size or 0)
    except (Unfollowed, ValueError, RecursionError):
        return
    _check_what_is_left(scan)
    shift = _shifted(scan) if len(scan.stores) == 1 else {}
    for rank, items in enumerate(_ITEMS) if len(scan.stores) == 1 else ():
        if threads % (_WARP * items) == 0:
            with contextlib.suppress(NotPrinted):
                yield _application(scan, _neighbours(scan, analysis, shift, items), items, rank)
    yield _application(scan, _as_they_are(scan), len(scan.stores), len(_ITEMS))


def _application(scan: _Scan, edits: Sequence[Edit], items: int, rank: int = 0) -> Application:
    function = scan.function
    return Application(
        edits=tuple(merged(without_unused(scan.ctx, function, function.body, edits))),
        summary=f"{function.name}: warps find running sums by shuffles, {items} elements for each thread",
        arguments={"kernel": function.name, "to": items},
        rank=rank,
        is_schedule=True,
    )


def _parts(ctx: RuleContext, function: Function, array: str, kind: str, threads: int) -> _Scan:
    """Raises NotPrinted."""
    body = next((n for n in ctx.source.nodes() if n.start_byte == function.body.start and n.inside), None)
    tops = body.inside if body is not None else []
    uses = [re.search(rf"\b{array}\b", node.text) is not None for node in tops]
    loops = [at for at, node in enumerate(tops) if uses[at] and node.type in LOOPS and BARRIER in node.text]
    if not loops or kind not in _TYPES:
        raise NotPrinted("no steps over shared memory")
    stores = [at for at in range(loops[0]) if uses[at] and "__shared__" not in tops[at].text]
    stores = [
        at for at in stores if _targets(tops[at], array) and tops[at].type in ("expression_statement", "if_statement")
    ]
    if not 1 <= len(stores) <= _MOST_STORES or any(_is_written(node, array) for node in tops[loops[-1] + 1 :]):
        raise NotPrinted("no store in front of the steps, or one behind them")
    last = stores[-1]
    head = [node for at, node in enumerate(tops[:last]) if at not in stores]
    tail = [node for node in tops[loops[-1] + 1 :] if node.text != BARRIER]
    if any(LEAVES.search(node.text) or "__sync" in node.text for node in (*head, *tail) if node.text != BARRIER):
        raise NotPrinted("a thread that leaves")
    if any(node.type != "declaration" and node.text != BARRIER for node in head):
        raise NotPrinted("another statement in front")
    if any(uses[at] and "__shared__" not in tops[at].text for at in range(last) if at not in stores):
        raise NotPrinted("another name for the array")
    return _Scan(
        ctx, function, array, kind, threads, [n for n in head if n.text != BARRIER],
        [tops[at] for at in stores], tops[last + 1 : loops[-1] + 1], tail,
    )  # fmt: skip


def _targets(node: Node, array: str) -> list[Node]:
    """The elements of the array that a statement sets, if those are all that it says of it."""
    found = []
    for each in node.walk():
        left = each.child("left") if each.type == "assignment_expression" else None
        if left is not None and left.type == "subscript_expression" and left.text.startswith(f"{array}["):
            found += [left] if each.parts("operator")[0].text == "=" else []
    is_all = len(found) == len(re.findall(rf"\b{array}\b", node.text)) and len({each.text for each in found}) == 1
    is_one = len(found) == 1 and node.type == "expression_statement"
    is_both = len(found) == 2 and node.type == "if_statement" and "else" in node.text
    return found if is_all and (is_one or is_both) else []


def _is_written(node: Node, array: str) -> bool:
    places = (each.child("left") or each.child("argument") for each in node.walk() if "_expression" in each.type)
    changed = [each for each in places if each is not None and each.parent is not None]
    return any(
        each.text.startswith(array) and each.parent is not None and each.parent.type in _CHANGES for each in changed
    )


def _carry_out(scan: _Scan, size: int) -> None:
    """Fills in what the tail reads. Raises Unfollowed, and NotPrinted where those are no running sums."""
    draw = random.Random(size)
    memory: list[int | float | Storage] = [draw.getrandbits(_BITS) for _ in range(size)]
    for thread in range(scan.threads):
        fields = {"threadIdx.x": thread, "blockDim.x": scan.threads, "blockIdx.x": _BLOCK}
        names: Names = {**constants_of(scan.ctx.source), scan.array: Storage(memory, is_start=True)}
        scan.lanes.append(CarriedOut(names, {}, fields))
    for node in scan.head:
        for lane in scan.lanes if "__shared__" not in node.text else ():
            declare(lane, node)
    given: dict[int, tuple[int, int]] = {}  # place -> thread and store
    values: dict[int, int] = {}
    for at, node in enumerate(scan.stores):
        for thread, lane in enumerate(scan.lanes):
            place = lane.place(_targets(node, scan.array)[0])
            given[place.at], values[place.at] = (thread, at), draw.getrandbits(_BITS)
            place.put(values[place.at])
    order = sorted(given)
    if [given[at] for at in order] != [(t, s) for t in range(scan.threads) for s in range(len(scan.stores))]:
        raise NotPrinted("elements in another order")
    for node in scan.steps:
        together(scan.lanes, node)
    sums, total = [0], 0
    for at in order:
        total += values[at]
        sums.append(total)
    for node in scan.tail:
        for use in node.walk():
            if use.type == "subscript_expression" and use.parts("argument")[0].text == scan.array:
                found = [_element(lane, use) for lane in scan.lanes]
                scan.sums[Span(use.start_byte, use.end_byte)] = _said(found, sums, len(scan.stores))
    text = "".join(node.text for node in scan.tail)
    if not scan.sums or len(scan.sums) != len(re.findall(rf"\b{scan.array}\b", text)):
        raise NotPrinted("another look at the array")


def _said(found: Sequence[object], sums: Sequence[int], stores: int) -> tuple[str, int]:
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


def _check_what_is_left(scan: _Scan) -> None:
    """Raises NotPrinted if the tail looks at a variable that the steps set."""
    source, steps = scan.ctx.source, Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    gone = source.changed_in(steps) | {name for node in scan.steps for name in declared_in(node)}
    tail = Span(scan.tail[0].start_byte, scan.tail[-1].end_byte)
    left = rewritten(source, tail, [Edit(span, "") for span in scan.sums])
    if any(re.search(rf"\b{name}\b", left) for name in gone):
        raise NotPrinted("what the steps leave in a variable")


def _shifted(scan: _Scan) -> dict[str, bool]:
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


@dataclass(frozen=True, slots=True)
class _Moved:
    """How a text is said for one of several neighbouring elements of a thread.

    shift: of `_shifted`; own: declarations that each element needs for itself.
    """

    shift: Mapping[str, bool]
    own: Sequence[Node]
    count: int
    item: str

    def of_first(self, text: str) -> str:
        """For the first element."""
        text = re.sub(r"\bthreadIdx\.x\b", f"threadIdx.x * {self.count}", text)
        return re.sub(r"\bblockDim\.x\b", f"(blockDim.x * {self.count})", text)

    def of_each(self, text: str) -> str:
        text = re.sub(r"\bthreadIdx\.x\b", f"(threadIdx.x * {self.count} + {self.item})", text)
        text = re.sub(r"\bblockDim\.x\b", f"(blockDim.x * {self.count})", text)
        for name in (name for name, is_next in self.shift.items() if is_next):
            text = re.sub(rf"(?<![.\w]){name}\b", f"({name} + {self.item})", text)
        return re.sub(rf"(\[|\+ )\((\w+ \+ {self.item})\)(?=\])", r"\1\2", text)  # brackets that add nothing

    def loop(self, texts: Sequence[str], indent: str, *, may_read: bool) -> str:
        """Statements for each element, behind what they need of their own. Raises NotPrinted."""
        needed, words = list[Node](), "\n".join(texts)
        for node in reversed(self.own):
            if any(re.search(rf"\b{name}\b", words) for name in declared_in(node)):
                needed.insert(0, node)
                words += node.text
        if not may_read and any("[" in node.text for node in needed):
            raise NotPrinted("an element that would be read twice")
        said = (self.of_each(text) for text in (*(node.text for node in needed), *texts))
        lines = "".join(f"{indent}    {line}\n" for text in said for line in text.split("\n"))
        head = f"for (int {self.item} = 0; {self.item} < {self.count}; ++{self.item}) {{"
        return f"#pragma unroll\n{indent}{head}\n{lines}{indent}}}"


def _neighbours(scan: _Scan, analysis: LaunchAnalysis, shift: Mapping[str, bool], items: int) -> list[Edit]:
    """A few neighbouring elements for each thread of a block that is as many times smaller. Raises NotPrinted."""
    ctx, source = scan.ctx, scan.ctx.source
    item, own = fresh(ctx, "item"), fresh(ctx, f"{scan.array}_own")
    indent = indent_of(source, scan.stores[0].start_byte)
    local = [node for node in scan.head if any(not shift.get(name, True) for name in declared_in(node))]
    if any(len(declared_in(node)) > 1 for node in local):
        raise NotPrinted("several variables at once")
    _check_each(scan)
    moved = _Moved(shift, local, items, item)
    (store,) = scan.stores
    edits = [relaunched(ctx, ctx.variant.launches[analysis.form.position], block=str(scan.threads // items))]
    for node in scan.head:
        text = moved.of_first(node.text)
        if node in local:
            edits.append(Edit(with_its_line(source, _span(node)), ""))
        elif text != node.text:
            edits.append(Edit(_span(node), text))
    targets = [Edit(_span(each), f"{own}[{item}]") for each in _targets(store, scan.array)]
    set_to = rewritten(source, _span(store), targets)
    lines = [f"{scan.kind} {own}[{items}];", moved.loop([set_to], indent, may_read=True)]
    lines += _scanned(scan, own, items, item)
    said = [Edit(span, _sum(scan, span, own, item)) for span in scan.sums]
    tail = [rewritten(source, _span(node), said) for node in scan.tail]
    steps = Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    edits.append(Edit(Span(store.start_byte, steps.end), _joined(lines, indent)))
    start = source.line_start(scan.tail[0].start_byte)
    edits.append(Edit(Span(start, scan.tail[-1].end_byte), moved.loop(tail, indent, may_read=False)))
    return [*edits, *_without_barriers(scan)]


def _check_each(scan: _Scan) -> None:
    """Raises NotPrinted where what is done for one element would show in what is done for the next."""
    source = scan.ctx.source
    known = {name for node in scan.head for name in declared_in(node)} - {scan.array}
    if any(source.changed_in(_span(node)) & known for node in (*scan.stores, *scan.tail)):
        raise NotPrinted("a variable that an element changes")
    beside = [source.slice(f.body) for f in source.functions if not f.is_kernel]
    macros = [node.text for node in source.nodes() if node.type in ("preproc_def", "preproc_function_def")]
    words = {word for text in macros for word in re.findall(r"\w+", text)}
    if words & known or any(_PLACED.search(text) for text in (*beside, *macros)):
        raise NotPrinted("another text looks at the thread")


def _as_they_are(scan: _Scan) -> list[Edit]:
    """The elements that a thread stores as they are, in registers."""
    ctx = scan.ctx
    own, item = fresh(ctx, f"{scan.array}_own"), fresh(ctx, "item")
    indent = indent_of(ctx.source, scan.stores[0].start_byte)
    edits = list[Edit]()
    for at, node in enumerate(scan.stores):
        edits += [Edit(_span(target), f"{own}[{at}]") for target in _targets(node, scan.array)]
    start, count = scan.stores[0].start_byte, len(scan.stores)
    steps = Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    lines = _scanned(scan, own, count, item)
    edits += [Edit(span, _sum(scan, span, own, str(scan.sums[span][1]))) for span in scan.sums]
    edits = [Edit(Span(start, start), f"{scan.kind} {own}[{count}];\n{indent}"), *edits]
    edits.append(Edit(steps, _joined(lines, indent)))
    if count == 1:  # a variable
        edits = [Edit(edit.span, re.sub(rf"\b{own}\[[01]\]", own, edit.text)) for edit in edits]
        is_plain = scan.stores[0].type == "expression_statement"
        edits = [Edit(Span(start, edits[1].span.end), f"{scan.kind} {own}"), *edits[2:]] if is_plain else edits
    return [*edits, *_without_barriers(scan)]


def _joined(lines: Sequence[str], indent: str) -> str:
    text = f"\n{indent}".join(lines)
    return re.sub(r"(?m)^[ \t]+(?=#pragma)", "", text)


def _span(node: Node) -> Span:
    return Span(node.start_byte, node.end_byte)


def _without_barriers(scan: _Scan) -> Iterator[Edit]:
    """The barriers behind the steps, of memory that nobody reads any more."""
    end = scan.steps[-1].end_byte
    body = scan.steps[-1].parent
    for node in body.inside if body is not None else ():
        if node.start_byte >= end and node.text == BARRIER:
            line = scan.ctx.source.line_start(node.start_byte)
            yield Edit(Span(line, scan.ctx.source.data.find(b"\n", node.end_byte) + 1), "")


def _sum(scan: _Scan, span: Span, own: str, item: str) -> str:
    """What stands in place of a read."""
    before, (word, _) = scan.words["before"], scan.sums[span]
    if word == "whole":
        return scan.words["whole"]
    if word == "up to":
        text = f"{before} + {own}[{item}]"
    elif item.isdigit():
        text = f"{before} + {own}[{int(item) - 1}]" if item != "0" else before
    else:
        text = f"{item} > 0 ? {before} + {own}[{item} - 1] : {before}"
    data = scan.ctx.source.data
    is_all = data[: span.start].rstrip().endswith(b" =") and data[span.end : span.end + 1] == b";"
    return text if is_all or text == before else f"({text})"


def _scanned(scan: _Scan, own: str, count: int, item: str) -> list[str]:
    """The sums up to each element of a thread, and what the threads before it have."""
    kind, array, lane = scan.kind, scan.array, f"threadIdx.x % {_WARP}"
    upto, step, earlier, before, warp, whole = scan.words.values()
    inner = [
        "#pragma unroll",
        f"for (int {item} = 1; {item} < {count}; ++{item}) {own}[{item}] += {own}[{item} - 1];",
    ]
    lines = [
        "// Sums of a thread's own, of a warp by shuffles, and of the warps before it.",
        *(inner if count > 1 else ()),
        f"{kind} {upto} = {own}[{count - 1}];",
        f"for (int {step} = 1; {step} < {_WARP}; {step} *= 2) {{",
        f"    const {kind} {earlier} = __shfl_up_sync(0xffffffffu, {upto}, {step});",
        f"    if ({lane} >= {step}) {upto} += {earlier};",
        "}",
        f"if ({lane} == {_WARP - 1}) {array}[threadIdx.x / {_WARP}] = {upto};",
        f"{kind} {before} = __shfl_up_sync(0xffffffffu, {upto}, 1);",
        f"if ({lane} == 0) {before} = 0;",
        BARRIER,
        f"for (int {warp} = 0; {warp} < (int)threadIdx.x / {_WARP}; ++{warp}) {before} += {array}[{warp}];",
    ]
    if any(word == "whole" for word, _ in scan.sums.values()):
        head = f"for (int {warp} = 0; {warp} < (int)blockDim.x / {_WARP}; ++{warp})"
        lines += [f"{kind} {whole} = 0;", f"{head} {whole} += {array}[{warp}];"]
    return lines


RULES = (
    Rule(
        name="block_scans",
        sentence="Finds running sums of a block by shuffles within warps and one step between them, of a few"
        " neighbouring elements for each thread, in place of steps through shared memory.",
        find=by_launch(_find, once=True),
        reason="each step through shared memory waits at a barrier, and there is one for each doubling",
        expected="one barrier, and fewer threads with more in flight each",
        risk="sums are added in another order",
        next_if_kept="wide loads and stores of a thread's elements",
        next_if_reverted="leave it: the memory binds",
    ),
)
