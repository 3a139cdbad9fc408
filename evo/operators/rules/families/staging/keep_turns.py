"""What a thread touches in several passes stays in its registers, where the number of turns is known when compiled.

The passes are loops one after the other, or the turns of a loop around, whose elements are then read in front of it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import Access, Array, Form, LaunchAnalysis, Symbol
from evo.analysis.access.passes import walk_of
from evo.cuda.source import CountedFor, Edit, Function, Span
from evo.errors import SyntaxInvalid
from evo.operators.rules.lifting import NotPrinted, accumulator, in_c
from evo.operators.rules.rewriting import bracketed, fresh, indent_of, merged, rewritten
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.expr import parse

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_TURNS, _REGISTERS = 32, 64  # of one array, and of all


@dataclass(frozen=True, slots=True)
class _Walk:
    """Passes of a thread over its own elements of an array. first: the accesses of the first one, which fill what is
    kept; others: all that read or write it behind. is_stored: the first pass writes what the last one writes over.
    around: the loop whose turns are the passes, if they are no loops of their own.
    """

    array: Array
    loops: tuple[CountedFor, ...]
    first: tuple[Access, ...]
    others: tuple[Access, ...]
    is_stored: bool
    turns: int
    count: str
    around: Span | None = None


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    walks = []
    for array in analysis.form.tensors:
        try:
            walks.append(_walk(ctx, analysis, function, array))
        except NotPrinted:
            continue
    while walks and sum(walk.turns for walk in walks) > _REGISTERS:
        walks.pop()
    if walks:
        names = " and ".join(f"`{walk.array.parameter}`" for walk in walks)
        yield Application(
            edits=tuple(merged(_edits(ctx, function, walks))),
            summary=f"{function.name}: {names} kept in registers between passes",
            arguments={"kernel": function.name, "arrays": len(walks)},
            is_schedule=True,
        )


def _walk(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, array: Array) -> _Walk:
    """Raises NotPrinted if passes over an array are not of the same turns, or a pass may leave some out."""
    form = analysis.form
    touched = [access for access in form.of(array) if access.loops]
    writes = [access for access in form.of(array) if access.is_write]
    if any(a.calls or a.blocked is not None or a.mode == "atomic" or a.elements > 1 for a in form.of(array)):
        raise NotPrinted("places that are not known")
    groups: dict[object, list[Access]] = {}
    for access in touched:
        groups.setdefault((walk_of(form, access), access.loops[:-1]), []).append(access)
    ours = max(groups.values(), key=lambda some: len({a.loops[-1] for a in some}), default=[])
    symbols = tuple(dict.fromkeys(access.loops[-1] for access in ours))
    around = _around(ctx, form, ours) if ours and not writes else None
    if (len(symbols) < 2 and around is None) or accumulator(array.element) is None:
        raise NotPrinted("a single pass")
    first = [access for access in ours if access.loops[-1] == symbols[0]]
    others = [access for access in ours if access.loops[-1] != symbols[0]]
    _check(form, first[0], others if around is None else [])
    is_stored = bool(writes)
    if is_stored:
        last = [access for access in others if access.loops[-1] == symbols[-1] and access.is_write]
        if [a.mode for a in first] != ["write"] or len(ours) != len(form.of(array)) or len(last) != 1:
            raise NotPrinted("what is stored is needed")
        _check(form, last[0], [])
        if any(access.is_write for access in others if access is not last[0]):
            raise NotPrinted("what is stored in between")
    loops = tuple(_loop(ctx, function, form.loops[symbol].span) for symbol in symbols)
    said = {(*map(ctx.source.slice, (loop.start, loop.limit)), loop.step) for loop in loops}
    if len(said) != 1 or len({form.loops[symbol].factor for symbol in symbols} | {None}) != 1:
        raise NotPrinted("loops that are written in another way")
    if around is not None and any(_turn(ctx, loop) != loop.name for loop in loops):
        raise NotPrinted("turns that are not counted from 0")
    counted = _count(ctx, analysis, function, loops[0])
    return _Walk(array, loops, tuple(first), tuple(others), is_stored, *counted, around)


def _around(ctx: RuleContext, form: Form, reads: Sequence[Access]) -> Span | None:
    """The outermost loop around a pass in each of whose turns it reads the same elements, whatever the data are."""
    outer: Span | None = None
    for symbol in reversed(reads[0].loops[:-1]):
        loop = form.loops[symbol]
        if any(symbol in access.offset.symbols() for access in reads) or not _always(form, reads, symbol):
            break
        changed = ctx.source.changed_in(loop.span) | {*ctx.source.declared(loop.span)}
        inner = {form.loops[access.loops[-1]].symbol.name for access in reads}
        words = {name for access in reads for name, _ in ctx.source.names(access.span)}
        if (changed - inner) & words or ctx.source.above(loop.span) is None:
            break
        outer = loop.span
    return outer


def _always(form: Form, reads: Sequence[Access], symbol: Symbol) -> bool:
    """Whether a loop has a turn, and reads have nothing but loops between it and them."""
    trip = form.loops[symbol].trip
    if trip is None or (form.bounds.smallest(trip) or 0) < 1 or form.loops[symbol].until is not None:
        return False
    inside = [part for access in reads for part in access.context[access.context.index(symbol) + 1 :]]
    own = {form.loops[each].condition for access in reads for each in access.loops}
    return all(isinstance(part, Symbol) or part in own for part in inside)


def _check(form: Form, access: Access, others: Sequence[Access]) -> None:
    """Raises NotPrinted unless each turn of a pass has its access, and the pass itself is there for others."""
    symbol = access.loops[-1]
    around, inside = set(access.context), access.context[access.context.index(symbol) + 1 :]
    if any(part != form.loops[symbol].condition for part in inside):
        raise NotPrinted("an element that a turn may leave out")
    around -= {symbol, *inside}
    if any(not around <= set(other.context) for other in others):
        raise NotPrinted("a pass that may be left out")


def _loop(ctx: RuleContext, function: Function, span: Span) -> CountedFor:
    """Raises NotPrinted."""
    found = [s for s in ctx.source.inside(function) if s.span == span]
    if not found or not isinstance(found[0], CountedFor) or found[0].relation != "<":
        raise NotPrinted("a loop that does not count up")
    if {name for name, _ in ctx.source.names(Span(span.start, found[0].body_span.start))} & (
        ctx.source.changed_in(found[0].body_span) - set(ctx.source.declared(found[0].body_span))
    ):
        raise NotPrinted("a loop whose bounds change")
    return found[0]


def _count(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, loop: CountedFor) -> tuple[int, str]:
    """The most turns of a thread in any case, and how the text says that. Raises NotPrinted if no compiler knows it."""
    task = analysis.task
    limit, step = (_known(ctx, function, text) for text in (ctx.source.slice(loop.limit), loop.step))
    ends, steps = [], []
    for case in (*task.check, *task.bench):
        known = {name: case.axes[name] for name in ctx.variant.macros if name in case.axes}
        known |= ctx.variant.integer_knobs
        try:
            end, each = (int(parse(text.replace("/", "//")).value(known)) for text in (limit, step))
        except SyntaxInvalid:
            raise NotPrinted("a length that no compiler knows") from None
        if each < 1:
            raise NotPrinted("a loop that does not count up")
        ends.append(end)
        steps.append(each)
    starts = [each.start for each in analysis.form.loops.values() if each.span == loop.span]
    if any((analysis.form.bounds.smallest(start) or 0) < 0 for start in starts):
        raise NotPrinted("a start before the first element")
    turns = max(-(-end // each) for end, each in zip(ends, steps, strict=True))
    if not 2 <= turns <= _TURNS:
        raise NotPrinted("too many elements for registers")
    return turns, limit if step == "1" else f"({limit} + {step} - 1) / {step}"


def _known(ctx: RuleContext, function: Function, text: str) -> str:
    """A number in words that a compiler knows: macros, knobs, numbers and what stands for them. Raises NotPrinted."""
    names = {name: name for name in (*ctx.variant.macros, *ctx.variant.knob_values)}
    (line,) = (line for line in ctx.variant.launches if line.kernel == function.name)

    def said(match: re.Match[str]) -> str:
        word = match[0]
        if word in names or (number := ctx.source.integer(word)) is not None:
            return word if word in names else str(number)
        if word == "blockDim.x":
            return in_c(line.block[0].tree, names)
        value = ctx.constant(function, word)
        if value is None or value == word:
            raise NotPrinted("a length that no compiler knows")
        return bracketed(_known(ctx, function, value))

    return _NAME.sub(said, text.strip())


def _edits(ctx: RuleContext, function: Function, walks: Sequence[_Walk]) -> list[Edit]:
    source = ctx.source
    loops = {loop.span: (loop, walk) for walk in walks for loop in walk.loops}
    inner: dict[Span, list[Edit]] = {span: [] for span in loops}
    names = {walk.array.parameter: fresh(ctx, f"{walk.array.parameter}_kept") for walk in walks}
    turn = {span: _turn(ctx, loop) for span, (loop, _) in loops.items()}
    lines, edits = "", list[Edit]()
    for walk in walks:
        name = names[walk.array.parameter]
        kind = source.element_type(function.name, walk.array.parameter)
        at = f"{name}[{turn[walk.loops[0].span]}]"
        if walk.around is not None:
            edits.append(_read_in_front(ctx, walk, f"{kind} {name}[{walk.count}];", at))
        else:
            lines += f"\n    {kind} {name}[{walk.count}];"
        if not walk.is_stored and walk.around is None:
            read = walk.first[0]
            place = source.enclosing_statement(read.span).start
            inner[walk.loops[0].span].append(Edit(Span(place, place), f"{at} = {source.slice(read.span)};\n"))
        for loop in walk.loops:
            inside = [a for a in (*walk.first, *walk.others) if loop.span.holds(a.span)]
            kept = {a.span for a in inside if not a.is_write or not walk.is_stored or loop is not walk.loops[-1]}
            inner[loop.span] += _finished(ctx, loop, inside, at) or [Edit(span, at) for span in sorted(kept)]
    start = function.body.start + 1
    edits += [Edit(Span(start, start), lines)] if lines else []
    for span, (loop, walk) in loops.items():
        edits.append(Edit(span, _unrolled(ctx, loop, walk.count, turn[span], inner[span])))
    return edits


def _read_in_front(ctx: RuleContext, walk: _Walk, declared: str, at: str) -> Edit:
    """The elements that each turn of the loop around would read."""
    assert walk.around is not None
    place, indent = ctx.source.above(walk.around), indent_of(ctx.source, walk.around.start)
    assert place is not None
    loop, read = walk.loops[0], ctx.source.slice(walk.first[0].span)
    kind = loop.type.replace("const", "").strip()
    head = f"for ({kind} {loop.name} = 0; {loop.name} < {walk.count}; ++{loop.name}) {{"
    text = f"{indent}{declared}\n#pragma unroll\n{indent}{head}\n{indent}    {at} = {read};\n{indent}}}\n"
    return Edit(Span(place, place), text)


def _finished(ctx: RuleContext, loop: CountedFor, inside: Sequence[Access], at: str) -> list[Edit]:
    """`y[i] /= sum` as `y[i] = kept / (sum)`; nothing for a statement that is not of that kind."""
    both = {a.span for a in inside if a.is_write} & {a.span for a in inside if a.is_read}
    for statement in loop.all():
        if statement.target in both and statement.value is not None and statement.operator != "=":
            target, value = statement.target, statement.value
            assert target is not None
            said = bracketed(ctx.source.slice(value).strip())
            return [Edit(Span(target.end, value.end), f" = {at} {statement.operator[:-1]} {said}")]
    return []


def _turn(ctx: RuleContext, loop: CountedFor) -> str:
    """The number of a turn: the loop's own variable, if that counts turns."""
    counts = loop.step.strip() == "1" and ctx.source.slice(loop.start).strip() == "0"
    return loop.name if counts else fresh(ctx, "turn")


def _unrolled(ctx: RuleContext, loop: CountedFor, count: str, turn: str, edits: Sequence[Edit]) -> str:
    """The loop with a number of turns that a compiler knows; turns behind the end are left out."""
    source, indent = ctx.source, indent_of(ctx.source, loop.span.start)
    kind = loop.type.replace("const", "").strip()
    body = rewritten(source, loop.body_span, merged(list(dict.fromkeys(edits))))
    own = textwrap.dedent(indent_of(source, loop.body_span.start) + body).strip() if body.startswith("{") else body
    inside = own[1:-1].strip("\n") if own.startswith("{") else own.strip()
    lines = textwrap.dedent(inside).strip().split("\n")
    if turn != loop.name:
        start, step = source.slice(loop.start).strip(), bracketed(loop.step.strip())
        first = f"{turn} * {step}" if start == "0" else f"{bracketed(start)} + {turn} * {step}"
        lines = [f"const {kind} {loop.name} = {first};", f"if ({loop.name} < {source.slice(loop.limit).strip()}) {{",
                 *(f"    {line}" if line.strip() else line for line in lines), "}"]  # fmt: skip
    text = [f"for ({kind} {turn} = 0; {turn} < {count}; ++{turn}) {{", *(f"    {line}" for line in lines), "}"]
    text.insert(0, "#pragma unroll")
    if source.data[source.line_start(loop.span.start) : loop.span.start].strip():  # behind a test, on its line
        text = ["{", *(f"    {line}" for line in text), "}"]
    return f"\n{indent}".join(text)


RULES = (
    Rule(
        name="keep_turns",
        sentence="Keeps in registers what a thread reads in several passes, or stores in one and finishes in a later"
        " one, where the number of its turns is known when compiled.",
        find=by_launch(_find, once=True),
        reason="each pass over the same elements reads them again, from L2 if a block's are too many for L1",
        expected="one read and one store of each element, and the reads of a pass all in flight at once",
        risk="as many registers as a thread has elements",
        next_if_kept="another number of lanes for each column",
        next_if_reverted="fewer elements for each thread",
    ),
)
