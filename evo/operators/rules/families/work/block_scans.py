"""Running sums that a block finds in shared memory, step by step, as shuffles within warps and one step between them.

Which steps these are does not matter: they are carried out on numbers by all threads of a block, and what each thread
reads afterwards is compared with the sums up to its own element.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evo.analysis.access import LaunchAnalysis
from evo.analysis.access.carried_out import Unfollowed
from evo.cuda.source import Edit, Function, Span
from evo.cuda.source.parser import Node
from evo.operators.rules.directives import relaunched
from evo.operators.rules.families.work.block_steps import BARRIER, declared_in
from evo.operators.rules.families.work.scan_steps import (
    Scan,
    check_what_is_left,
    scan_of,
    shifted_of,
    span_of,
    targets_of,
)
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import fresh, indent_of, merged, rewritten, with_its_line
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_WARP = 32
_PLACED = re.compile(r"\b(?:threadIdx|blockDim)\b")
_WORDS = {"sum": "sums", "max": "maxima", "min": "minima"}
_ITEMS = (4, 2, 8)  # elements of a thread: those offered, the first of them at first


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    form, threads = analysis.form, analysis.form.block[0].value
    if threads is None or threads % _WARP or threads <= _WARP or analysis.sizes.block[1:] != (1, 1):
        return
    if not form.shared or form.exchanges or form.multiplies:
        return
    shapes = {array.name: tuple(each.value or 0 for each in array.shape) for array in form.shared}
    if form.shared[0].is_dynamic:
        shapes = {form.shared[0].name: ((form.shared_bytes.value or 0) // form.shared[0].element_bytes,)}
    try:
        scan = scan_of(ctx, function, threads, shapes)
    except (Unfollowed, ValueError, RecursionError):
        return
    check_what_is_left(scan)
    if not scan.is_in_order:
        yield _application(scan, _in_place(scan), len(scan.stores))
        return
    shift = shifted_of(scan) if len(scan.stores) == 1 else {}
    for rank, items in enumerate(_ITEMS) if len(scan.stores) == 1 else ():
        if threads % (_WARP * items) == 0:
            with contextlib.suppress(NotPrinted):
                yield _application(scan, _neighbours(scan, analysis, shift, items), items, rank)
    yield _application(scan, _as_they_are(scan), len(scan.stores), len(_ITEMS))


def _application(scan: Scan, edits: Sequence[Edit], items: int, rank: int = 0) -> Application:
    function = scan.function
    return Application(
        edits=tuple(merged(without_unused(scan.ctx, function, function.body, edits))),
        summary=f"{function.name}: warps find running {_WORDS[scan.by]} by shuffles, {items} elements for each thread",
        arguments={"kernel": function.name, "to": items},
        rank=rank,
        is_schedule=True,
    )


@dataclass(frozen=True, slots=True)
class _Moved:
    """How a text is said for one of several neighbouring elements of a thread.

    shift: of `shifted_of`; own: declarations that each element needs for itself.
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


def _neighbours(scan: Scan, analysis: LaunchAnalysis, shift: Mapping[str, bool], items: int) -> list[Edit]:
    """A few neighbouring elements for each thread of a block that is as many times smaller. Raises NotPrinted."""
    ctx, source = scan.ctx, scan.ctx.source
    item, own = fresh(ctx, "item"), fresh(ctx, f"{scan.arrays[0]}_own")
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
            edits.append(Edit(with_its_line(source, span_of(node)), ""))
        elif text != node.text:
            edits.append(Edit(span_of(node), text))
    targets = [Edit(span_of(each), f"{own}[{item}]") for each in targets_of(store, scan.arrays)]
    set_to = rewritten(source, span_of(store), targets)
    lines = [f"{scan.kind} {own}[{items}];", moved.loop([set_to], indent, may_read=True)]
    lines += _scanned(scan, own, items, item)
    said = [Edit(span, _sum(scan, span, own, item)) for span in scan.sums]
    tail = [rewritten(source, span_of(node), said) for node in scan.tail]
    steps = Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    edits.append(Edit(Span(store.start_byte, steps.end), _joined(lines, indent)))
    start = source.line_start(scan.tail[0].start_byte)
    edits.append(Edit(Span(start, scan.tail[-1].end_byte), moved.loop(tail, indent, may_read=False)))
    return [*edits, *_without_barriers(scan)]


def _check_each(scan: Scan) -> None:
    """Raises NotPrinted where what is done for one element would show in what is done for the next."""
    source = scan.ctx.source
    known = {name for node in scan.head for name in declared_in(node)} - {*scan.arrays}
    if any(source.changed_in(span_of(node)) & known for node in (*scan.stores, *scan.tail)):
        raise NotPrinted("a variable that an element changes")
    beside = [source.slice(f.body) for f in source.functions if not f.is_kernel]
    macros = [node.text for node in source.nodes() if node.type in ("preproc_def", "preproc_function_def")]
    words = {word for text in macros for word in re.findall(r"\w+", text)}
    if words & known or any(_PLACED.search(text) for text in (*beside, *macros)):
        raise NotPrinted("another text looks at the thread")


def _as_they_are(scan: Scan) -> list[Edit]:
    """The elements that a thread stores as they are, in registers."""
    ctx = scan.ctx
    own, item = fresh(ctx, f"{scan.arrays[0]}_own"), fresh(ctx, "item")
    indent = indent_of(ctx.source, scan.stores[0].start_byte)
    edits = list[Edit]()
    for at, node in enumerate(scan.stores):
        edits += [Edit(span_of(target), f"{own}[{at}]") for target in targets_of(node, scan.arrays)]
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


def _without_barriers(scan: Scan) -> Iterator[Edit]:
    """The barriers behind the steps, of memory that nobody reads any more."""
    end = scan.steps[-1].end_byte
    body = scan.steps[-1].parent
    for node in body.inside if body is not None else ():
        if node.start_byte >= end and node.text == BARRIER:
            line = scan.ctx.source.line_start(node.start_byte)
            yield Edit(Span(line, scan.ctx.source.data.find(b"\n", node.end_byte) + 1), "")


def _sum(scan: Scan, span: Span, own: str, item: str) -> str:
    """What stands in place of a read."""
    before, (word, _) = scan.words["before"], scan.sums[span]
    if word == "whole":
        return scan.words["whole"]
    if word == "up to":
        text = scan.both(before, f"{own}[{item}]")
    elif item.isdigit():
        text = scan.both(before, f"{own}[{int(item) - 1}]") if item != "0" else before
    else:
        text = f"{item} > 0 ? {scan.both(before, f'{own}[{item} - 1]')} : {before}"
    data = scan.ctx.source.data
    is_all = data[: span.start].rstrip().endswith(b" =") and data[span.end : span.end + 1] == b";"
    return text if is_all or re.fullmatch(r"\w+(?:\([^()]*\))?", text) else f"({text})"


def _in_place(scan: Scan) -> list[Edit]:
    """The sums of the array's elements, each thread's from neighbouring ones, in the array again."""
    ctx, array, count = scan.ctx, scan.room, len(scan.stores)
    own, item, sums = fresh(ctx, f"{scan.arrays[0]}_own"), fresh(ctx, "item"), fresh(ctx, "of_warps")
    indent = indent_of(ctx.source, scan.stores[0].start_byte)
    before, head = scan.words["before"], f"for (int {item} = 0; {item} < {count}; ++{item})"
    at = f"{array}[threadIdx.x * {count} + {item}]"
    value = scan.both(before, f"{own}[{item}]")
    if scan.whole == "before":
        value = f"{item} > 0 ? {scan.both(before, f'{own}[{item} - 1]')} : {before}"
    lines = [
        f"__shared__ {scan.kind} {sums}[{scan.threads // _WARP}];",
        BARRIER,
        f"{scan.kind} {own}[{count}];",
        "#pragma unroll",
        f"{head} {own}[{item}] = {at};",
        *_scanned(scan, own, count, item, sums),
        "#pragma unroll",
        f"{head} {at} = {value};",
        BARRIER,
    ]
    steps = Span(scan.steps[0].start_byte, scan.steps[-1].end_byte)
    return [Edit(steps, _joined(lines, indent)), *_without_barriers(scan)]


def _scanned(scan: Scan, own: str, count: int, item: str, array: str = "") -> list[str]:
    """The sums up to each element of a thread, and what the threads before it have. array: for sums of warps."""
    kind, array, lane = scan.kind, array or scan.room, f"threadIdx.x % {_WARP}"
    upto, step, earlier, before, warp, whole = scan.words.values()
    inner = [
        "#pragma unroll",
        f"for (int {item} = 1; {item} < {count}; ++{item}) {scan.taken(f'{own}[{item}]', f'{own}[{item} - 1]')}",
    ]
    lines = [
        f"// {_WORDS[scan.by].capitalize()} of a thread's own, of a warp by shuffles, and of the warps before it.",
        *(inner if count > 1 else ()),
        f"{kind} {upto} = {own}[{count - 1}];",
        f"for (int {step} = 1; {step} < {_WARP}; {step} *= 2) {{",
        f"    const {kind} {earlier} = __shfl_up_sync(0xffffffffu, {upto}, {step});",
        f"    if ({lane} >= {step}) {scan.taken(upto, earlier)}",
        "}",
        f"if ({lane} == {_WARP - 1}) {array}[threadIdx.x / {_WARP}] = {upto};",
        f"{kind} {before} = __shfl_up_sync(0xffffffffu, {upto}, 1);",
        f"if ({lane} == 0) {before} = {scan.nothing};",
        BARRIER,
        f"for (int {warp} = 0; {warp} < (int)threadIdx.x / {_WARP}; ++{warp}) {scan.taken(before, f'{array}[{warp}]')}",
    ]
    if any(word == "whole" for word, _ in scan.sums.values()):
        head = f"for (int {warp} = 0; {warp} < (int)blockDim.x / {_WARP}; ++{warp})"
        lines += [f"{kind} {whole} = {scan.nothing};", f"{head} {scan.taken(whole, f'{array}[{warp}]')}"]
    return lines


RULES = (
    Rule(
        name="block_scans",
        sentence="Finds running sums, maxima or minima of a block by shuffles within warps and one step between them,"
        " of a few neighbouring elements for each thread, in place of steps through shared memory.",
        find=by_launch(_find, once=True),
        reason="each step through shared memory waits at a barrier, and there is one for each doubling",
        expected="one barrier, and fewer threads with more in flight each",
        risk="sums are added in another order",
        next_if_kept="wide loads and stores of a thread's elements",
        next_if_reverted="leave it: the memory binds",
    ),
)
