"""Several neighbouring outputs for each thread: what they read and write side by side is moved in wide pieces."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from itertools import product

from evo.analysis.access import (
    Branch,
    Condition,
    EarlyExit,
    LaunchAnalysis,
    Symbol,
    Term,
    number_of,
)
from evo.cuda.source import Edit, Source, Span, Statement
from evo.operators.rules.directives import definition_place
from evo.operators.rules.families.vector.window_text import WindowText
from evo.operators.rules.families.vector.windows import FIRST, Divisible, Neighbours, Stretch, Test, fewest, windows_of
from evo.operators.rules.idle_declarations import uses_of, without_unused
from evo.operators.rules.index_text import IndexText
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.loops import unrolled
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.rewriting import closed, fresh, indent_of, indented, merged, rewritten, with_its_line
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, is_index_text, thread_indices
from evo.spec.comments import without_comments

_COUNTS = (2, 4, 8, 16)
_LAST = 8  # behind all pieces that are whole at the headline case
_WARP = 32
_MOST_BYTES, _MOST_WORDS = 16, 96  # of what a thread stores of one tensor; of all that it keeps
_STAYS = re.compile(r"__shared__|__sync|_sync\b|\basm\b|\bgoto\b|\bswitch\b|\bstatic\b|\batomic|\[&|\[=|#")
_ELEMENT = re.compile(r"(?:\w+\s*\[.*\]|\*\s*\w+|\*\s*\(.*\)|__ldg\s*\(.*\))", re.DOTALL)
# Where a block begins: its size may change.
_COVERED = re.compile(r"blockIdx\.[xyz]\s*\*\s*\w+|\w+\s*\*\s*blockIdx\.[xyz]")


def _find(ctx: RuleContext) -> Iterator[Application]:
    indices = [index for index in thread_indices(ctx, whole=True) if index.axis == "x" and not index.lanes]
    for analysis in ctx.launches if indices else ():
        form = analysis.form
        index = next((each for each in indices if each.function.name == form.kernel), None)
        if index is None or form.shared or form.exchanges or form.barriers or form.multiplies:
            continue
        legality = analysis.legality
        if legality.threads_permute.holds is not True or not legality.is_seen or not _is_open(ctx, index):
            continue
        for count, has_edges in product(_COUNTS, (False, True)):
            found = Neighbours(form, count, has_edges)
            windows = windows_of(found)
            if has_edges and not any(window.is_ragged for window in windows):
                continue
            try:
                edits, rank = _edits(ctx, analysis, index, found, windows)
            except NotPrinted:
                continue
            words = ", tests for edges kept" if has_edges else ""
            yield Application(
                edits=tuple(edits),
                summary=f"{form.kernel}: {count} neighbours along {index.name} per thread, in wide pieces{words}",
                arguments={"kernel": form.kernel, "to": count, "edges": has_edges},
                rank=rank,
                is_schedule=True,
                serves=len(windows),
            )


def _is_open(ctx: RuleContext, index: ThreadIndex) -> bool:
    """Whether what follows the index may stand in a loop over it."""
    body = Span(index.statement.span.end, index.function.body.end - 1)
    text = ctx.source.slice(body)
    if _STAYS.search(re.sub(r"(?m)^[ \t]*#[ \t]*pragma[ \t]+unroll\b.*$", "", text)):
        return False
    return index.name not in ctx.source.changed_in(body)


def _returns(ctx: RuleContext, statements: Sequence[Statement]) -> Iterator[Edit]:
    """Each `return` as the end of an output's turn. Raises NotPrinted if it stands in a loop."""

    def look(statement: Statement) -> Iterator[Edit]:
        if statement.kind == "return":
            yield Edit(statement.span, "continue;")
        elif statement.kind in ("for", "other") and re.search(r"\breturn\b", ctx.source.slice(statement.span)):
            raise NotPrinted("a return inside of a loop")
        else:
            for inner in (*statement.body, *statement.alternative):
                yield from look(inner)

    for statement in statements:
        yield from look(statement)


def _edits(
    ctx: RuleContext, analysis: LaunchAnalysis, index: ThreadIndex, found: Neighbours, windows: list[Stretch]
) -> tuple[list[Edit], int]:
    """Raises NotPrinted."""
    count = found.count
    moved = [window.unit * window.array.element_bytes for window in windows]
    written = [count * window.array.element_bytes for window in windows if window.is_written]
    if not written or max(written) > _MOST_BYTES:
        raise NotPrinted("no outputs side by side")
    words = sum(w.size * w.array.element_bytes * analysis.form.turns(w.rows) for w in windows) // 4
    if words > _MOST_WORDS:
        raise NotPrinted("too many registers")
    packs: list[str] = []
    for window in windows:
        packs.append(fresh(ctx, f"{window.array.parameter}_pack", packs))
    first, output = fresh(ctx, f"{index.name}_first"), fresh(ctx, "e")
    ahead = _ahead(ctx, index)
    place = ahead[-1].span.end if ahead else index.statement.span.end
    known = _known(ctx, analysis, index, found, Span(place, place))
    writer = WindowText(ctx, analysis, index, found, windows, first, output, packs, known)
    statements = ctx.source.statements(index.function)[index.place + 1 + len(ahead) :]
    if not statements:
        raise NotPrinted("nothing behind the index")
    before = [*ctx.source.statements(index.function)[: index.place], *ahead]
    outside = {p.name for p in index.function.params} | {n for s in before for n in ctx.source.declared(s.span)}
    body = Span(place, index.function.body.end - 1)
    written_to = {p.name for p in index.function.params if p.is_pointer}
    if (ctx.source.changed_in(body) & outside) - written_to or _moves(ctx, body, written_to):
        raise NotPrinted("an output would see what another has left")
    returns = list(_returns(ctx, statements))
    narrow = rewritten(ctx.source, body, returns)
    wide = _unwrapped(_wide_body(writer, body, returns))
    every = dict.fromkeys(text for window in windows for text in writer.structs(window))
    structs = "".join(text for text in every if text not in ctx.source.text)
    whole = Span(index.statement.span.start, body.end)
    made = [
        Edit(index.grid_at, f"ceil_div({index.extent}, {index.threads} * {count})"),
        Edit(whole, _text(writer, count, (ctx.source.slice(Span(index.statement.span.end, place)), wide, narrow))),
    ]
    if structs:
        made.insert(0, Edit(definition_place(ctx), structs))
    is_narrow = any(isinstance(test, Divisible) and (number_of(test.sizes, analysis.sizes.values) or 0) % test.by
                    for test in found.tests)  # fmt: skip
    return made, abs((max(moved) // 4).bit_length() - 3) + _LAST * is_narrow


def _moves(ctx: RuleContext, body: Span, pointers: set[str]) -> bool:
    """Whether a pointer itself is changed."""
    text = ctx.source.slice(body)
    return any(
        re.search(rf"(?<![*\w\]]){name}\s*(?:[-+]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{name}\b", text) for name in pointers
    )


def _ahead(ctx: RuleContext, index: ThreadIndex) -> list[Statement]:
    """The indices along other axes that are declared right behind this one: all outputs of a thread share them."""
    found: list[Statement] = []
    for each in ctx.source.statements(index.function)[index.place + 1 :]:
        rest = Span(each.span.end, index.function.body.end)
        is_index = each.kind == "declare" and each.value is not None and not each.dims and each.name != index.name
        if not is_index or each.value is None or not is_index_text(ctx.source.slice(each.value)):
            break
        if ctx.source.declared(each.span) != (each.name,) or each.name in ctx.source.changed_in(rest):
            break
        found.append(each)
    return found


def _known(
    ctx: RuleContext, analysis: LaunchAnalysis, index: ThreadIndex, found: Neighbours, place: Span
) -> dict[Term, str]:
    """What the kernel's integers hold in front of the outputs, those that depend on the output left aside."""
    words = IndexText(analysis.form, ctx.source, index.function, names_of(ctx, index.function), {})
    kinds = {s.name: s.type.replace("const", "").strip() for s in ctx.source.inside(index.function)}
    known: dict[Term, str] = {}
    for name, meant in words.known_at(place):
        with contextlib.suppress(NotPrinted):
            term = found.spread(meant)
            if name != index.name and kinds.get(name) == "int" and FIRST not in term.symbols():
                known.setdefault(term, name)
    return known


def _text(writer: WindowText, count: int, parts: tuple[str, str, str]) -> str:
    """parts: what stays in front of the outputs, and the body of one in wide pieces and as it was."""
    index, (ahead, wide, narrow) = writer.index, parts
    first, name, kind = writer.first, index.name, index.kind
    indent = indent_of(writer.ctx.source, index.statement.span.start)
    bases = dict.fromkeys(
        f"reinterpret_cast<unsigned long long>({w.array.parameter}) % {w.unit * w.array.element_bytes} == 0"
        for w in writer.windows
    )
    limit = writer.found.limit
    held = [*writer.found.tests, *([limit - Term.of(FIRST) - count] if limit is not None else [])]
    tests = [*bases, *_compiled_in(writer), *(writer.test(test) for test in fewest(held))]
    # What bounds an output may be the grid alone, and the last blocks of a smaller grid reach further.
    last = f" && {name} < {writer.said(limit)}" if limit is not None else ""
    inside = indent + "    "
    pairs = list(zip(writer.windows, writer.packs, strict=True))
    loads = "".join(writer.loaded(window, pack, inside) for window, pack in pairs)
    stores = "".join(writer.stored(window, pack, inside) for window, pack in pairs if window.is_written)
    joint = f"\n{indent}    && "
    own = f"\n{inside}    const {kind} {name} = {first} + {writer.output};"
    own = own if uses_of(name, wide) else ""
    condition = joint.join(tests)
    together = _narrow_together(writer, count, narrow, last)
    head = (
        f"if ({condition}) {{"
        if together is None
        else f"const bool {together[0]} = {condition};\n{indent}{together[1]}"
    )
    tail = (
        f"{inside}return;\n{indent}}}\n"
        f"{indent}for ({kind} {name} = {first}; {name} < {first} + {count}{last}; ++{name}) {{"
        f"{_further_in(narrow)}\n{indent}}}\n"
        if together is None
        else f"{indent}}}\n{together[2]}"
    )
    return (
        f"const {kind} {first} = ({index.value}) * {count};{ahead}\n"
        f"{indent}{head}\n{loads}"
        f"#pragma unroll\n{inside}for (int {writer.output} = 0; {writer.output} < {count}; ++{writer.output}) {{"
        f"{own}{_further_in(_further_in(wide))}\n"
        f"{inside}}}\n{stores}{tail}"
    )


def _narrow_together(writer: WindowText, count: int, narrow: str, last: str) -> tuple[str, str, str] | None:
    """How a warp shares the outputs of its threads that cannot take theirs together, one each: the name of what says
    that a thread can, what stands in front and what behind. None if its threads may not all arrive, or are no warp.
    """
    index, source = writer.index, writer.ctx.source
    before = Span(index.function.body.start, index.statement.span.start)
    threads = writer.analysis.sizes.block[0]
    if index.threads != str(threads) or threads % _WARP or re.search(r"\breturn\b", source.slice(before)):
        return None
    whole, left, lane, turn = (fresh(writer.ctx, word) for word in ("whole", "left", "lane", "turn"))
    indent = indent_of(source, index.statement.span.start)
    inside = indent + "    "
    start = f"const unsigned {left} = __ballot_sync(0xffffffffu, !{whole});\n{indent}if ({whole}) {{"
    others = lane if count == 2 else f"{lane} * {count - 1}"
    place = f"{writer.first} - {others} + {turn} * {_WARP}"
    is_left = f"{left} >> ({lane} + {turn} * {_WARP}) / {count} & 1u"
    is_left = f"({is_left}){last}" if last else is_left
    end = (
        f"{indent}const int {lane} = threadIdx.x % {_WARP};\n"
        f"{indent}for (int {turn} = 0; {left} && {turn} < {count}; ++{turn}) {{\n"
        f"{inside}const {index.kind} {index.name} = {place};\n"
        f"{inside}if (!({is_left})) continue;"
        f"{_further_in(narrow)}\n{indent}}}\n"
    )
    return whole, start, end


def _compiled_in(writer: WindowText) -> Iterator[str]:
    """That macros and knobs have the values which windows and loops were counted with."""
    ctx = writer.ctx
    text = without_comments(_COVERED.sub("", ctx.source.text))
    task = ctx.task
    axes = task.case(task.headline).axes if task is not None else {}
    values = {name: axes.get(name) for name in ctx.variant.macros} | dict(ctx.variant.knob_values)
    for name, value in values.items():
        if value is not None and len(re.findall(rf"(?<!#define )\b{name}\b", text)) > 0:
            yield f"{name} == {value}"


def _unwrapped(text: str) -> str:
    """A body without brackets around the whole of it."""
    inner = text.strip()
    is_whole = inner.startswith("{") and closed(inner, 0) == len(inner)
    return re.sub(r"(?m)^    ", "", inner[1:-1]) if is_whole else text


def _further_in(text: str) -> str:
    return indented(text.rstrip())


def _wide_body(writer: WindowText, body: Span, returns: list[Edit]) -> str:
    """The body of one output, its elements taken from the windows, without the tests that are known to hold."""
    ctx, form = writer.ctx, writer.analysis.form
    swaps: dict[Span, str] = {}
    symbols: dict[Symbol, None] = {}
    for window, pack in zip(writer.windows, writer.packs, strict=True):
        for place in window.places:
            text = ctx.source.slice(place.access.span)
            if not body.holds(place.access.span) or not _ELEMENT.fullmatch(text):
                raise NotPrinted("an element that is spelled in another way")
            at = f"{pack}{writer.row(window)}.at[{writer.said(place.inside - window.start)}]"
            if swaps.setdefault(place.access.span, at) != at:
                raise NotPrinted("a place that is two")
            symbols |= dict.fromkeys(place.access.loops)
    edits = [Edit(span, text) for span, text in swaps.items()]
    edits += _without_tests(writer)
    for loop in (form.loops[symbol] for symbol in symbols):
        edits += unrolled(ctx.source, loop.span) if loop.factor is None else []
    gone = [edit.span for edit in edits]
    edits += [edit for edit in returns if not any(span.holds(edit.span) for span in gone)]
    outer = [e for e in edits if not any(o.span != e.span and o.span.holds(e.span) for o in edits)]
    return rewritten(ctx.source, body, without_unused(ctx, writer.index.function, body, merged(outer)))


def _without_tests(writer: WindowText) -> list[Edit]:
    """Tests for an edge that hold for all outputs of a thread: the guards in front, and those around something."""
    known = set(writer.found.tests)
    source = writer.ctx.source
    statements = {s.span: s for s in source.inside(writer.index.function)}
    made: list[Edit] = []
    for node in writer.analysis.form.walk():
        if not isinstance(node, Branch):
            continue
        leaves = [each for each in node.then if isinstance(each, EarlyExit)]
        statement = statements.get(node.span)
        if leaves:
            if len(node.then) == 1 and _holds(writer, node.condition.negated(), known):
                made.append(Edit(with_its_line(source, node.span), ""))
        elif _holds(writer, node.condition, known):
            made += _taken(source, node.span, statement)
        elif statement is not None and statement.alternative and _holds(writer, node.condition.negated(), known):
            other = statement.alternative
            made += [
                Edit(Span(node.span.start, other[0].span.start), "{ "),
                Edit(Span(other[-1].span.end, node.span.end), " }"),
            ]
    return made


def _holds(writer: WindowText, condition: Condition, known: set[Test]) -> bool:
    try:
        needed = writer.found.requirements(condition)
    except NotPrinted:
        return False
    return bool(needed) and set(needed) <= known


def _taken(source: Source, span: Span, statement: Statement | None) -> Iterator[Edit]:
    """What is left of a branch or of a choice of which the first part is taken."""
    if statement is not None and statement.kind == "if" and statement.body_span is not None:
        body = statement.body_span
        if len(statement.body) == 1 and statement.body[0].kind != "declare" and not statement.alternative:
            body = statement.body[0].span  # needs no brackets of its own
        yield Edit(Span(span.start, body.start), "")
        yield Edit(Span(body.end, span.end), "")
        return
    text, depth, marks = source.slice(span), 0, dict[str, int]()
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if not depth and character in "?:" and text[at : at + 2] != "::" and text[at - 1 : at + 1] != "::":
            if character in marks:
                return  # choices in choices
            marks[character] = at
    if statement is None and list(marks) == ["?", ":"]:
        ends = {word: span.start + len(text[:at].encode()) for word, at in marks.items()}
        yield Edit(Span(span.start, ends["?"] + 1), "")
        yield Edit(Span(ends[":"], span.end), "")


RULES = (
    Rule(
        name="neighbours",
        sentence="Gives each thread 2 to 16 neighbouring outputs: the elements that all of them read, also those of"
        " overlapping windows, are loaded once and in wide pieces, and the outputs are stored in wide pieces.",
        find=behind_guard(_find),
        reason="outputs side by side read windows that touch or overlap, an element and an address at a time",
        expected="as many times fewer loads, stores and tests for edges as outputs per thread",
        risk="fewer threads in flight; blocks at an edge, and rows that are not aligned, take the narrow loop",
        next_if_kept="sizes compiled in",
        next_if_reverted="fewer outputs for each thread",
    ),
)
