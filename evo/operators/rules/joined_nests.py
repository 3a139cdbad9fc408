"""Two loops, one in the other, that walk one stretch of memory, as one: `for h < H` around `for w < W`, whose elements
stand at `h * W + w`, is `for hw < H * W`.

Each turn is carried out in the same order as before. What the index becomes is the author's text without the outer
variable, and the analysis of that text has to find the same elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access import LaunchAnalysis, Loop, Symbol, Term
from evo.cuda.source import CountedFor, Edit, Function, Source, Span
from evo.errors import SyntaxInvalid
from evo.operators.rules.rewriting import LEAVES, bracketed, fresh, indent_of, rewritten
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import through

_SHORT = 4  # characters of two names, from which on they are not one
_FACTOR = r"(?:\w+|\([^()]*\))"
_DECLARES = r"for\s*\(\s*((?:unsigned\s+|long\s+)*\w+)\s+{}\s*="


def joined_nests(ctx: RuleContext) -> list[Edit]:
    """The edits that make one loop of each such nest, in all kernels."""
    edits, view = list[Edit](), ctx
    while made := _first(view, ctx):
        edits = list(through(view.source, edits, made)) if edits else made
        view = ctx.after(edits)
    return edits


def _first(ctx: RuleContext, written: RuleContext) -> list[Edit]:
    for analysis, function in ctx.analysed(once=True):
        loops = {loop.span: loop for loop in analysis.form.loops.values()}
        for outer in ctx.source.inside(function):
            inner = outer.body[0] if len(outer.body) == 1 else None
            if not isinstance(outer, CountedFor) or not isinstance(inner, CountedFor):
                continue
            if outer.span not in loops or inner.span not in loops:
                continue
            name = outer.name + inner.name if len(outer.name + inner.name) < _SHORT else f"{inner.name}_of_all"
            both = (outer, loops[outer.span]), (inner, loops[inner.span])
            if made := _joined(ctx, analysis, function, *both, fresh(written, name)):
                return made
    return []


def _joined(
    ctx: RuleContext,
    analysis: LaunchAnalysis,
    function: Function,
    outer: tuple[CountedFor, Loop],
    inner: tuple[CountedFor, Loop],
    name: str,
) -> list[Edit]:
    source = ctx.source
    (around, rows), (within, columns) = outer, inner
    kinds = {match[1] if (match := _declares(source, each)) else "" for each in (around, within)}
    if len(kinds) > 1 or "" in kinds or LEAVES.search(source.slice(within.body_span)):
        return []
    if any(not each.takes_each or source.slice(each.start) != "0" for each in (around, within)):
        return []
    if rows.trip is None or columns.trip is None or rows.symbol in columns.trip.symbols():
        return []
    places = list(_places(ctx, analysis, function, within, (rows, columns)))
    words = [at for word, at in source.names(within.body_span) if word in (around.name, within.name)]
    if not places or not all(any(place.holds(at) for place in places) for at in words):
        return []
    limits = [bracketed(source.slice(each.limit).strip()) for each in (around, within)]
    head = f"for ({kinds.pop()} {name} = 0; {name} < {' * '.join(limits)}; ++{name}) "
    moved = [Edit(place, _text(source.slice(place), around.name, within.name, name)) for place in places]
    inward = len(indent_of(source, within.span.start)) - len(indent_of(source, around.span.start))
    body = re.sub(rf"\n {{{max(inward, 0)}}}", "\n", rewritten(source, within.body_span, moved))
    made = [Edit(around.span, head + body)]
    return made if _is_same(ctx, analysis, made, (rows, columns), name) else []


def _declares(source: Source, loop: CountedFor) -> re.Match[str] | None:
    return re.match(_DECLARES.format(loop.name), source.slice(loop.header))


def _places(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, within: CountedFor, loops: tuple[Loop, Loop]
) -> Iterator[Span]:
    """Whatever in the body has a place along both loops: subscripts, and integers that are set to such a place."""
    rows, columns = loops
    terms = {name: term for term, name in analysis.form.names.items()}
    for each in ctx.source.inside(function):
        if each.kind == "declare" and each.value is not None and within.body_span.holds(each.span):
            term = terms.get(each.name)
            if term is not None and "[" not in ctx.source.slice(each.value) and _is_along(term, rows, columns):
                yield each.value
    found = set[Span]()
    for access in analysis.form.accesses:
        if columns.symbol in access.loops and _is_along(access.offset, rows, columns):
            found.add(access.span)
    yield from (span for span in found if not any(other != span and other.holds(span) for other in found))


def _is_along(term: Term, rows: Loop, columns: Loop) -> bool:
    down, along = term.coefficient(rows.symbol), term.coefficient(columns.symbol)
    assert columns.trip is not None
    return down is not None and along is not None and bool(along.parts) and down == along * columns.trip


def _text(text: str, outer: str, inner: str, name: str) -> str:
    """An index without the outer variable, and with the joined one for the inner one."""
    product = rf"(?:{outer}(?:\s*\*\s*{_FACTOR})*|(?:{_FACTOR}\s*\*\s*)+{outer})"
    text = re.sub(rf"\s*\+\s*{product}(?=\s*(?:[-+)\]]|\Z))", "", text)
    text = re.sub(rf"(?:(?<=[(\[])|\A)\s*{product}\s*\+\s*", "", text)
    return re.sub(rf"\b{inner}\b", name, re.sub(r"\(([A-Za-z_]\w*)\)(?=\s*\*)", r"\1", text))


def _is_same(ctx: RuleContext, analysis: LaunchAnalysis, made: list[Edit], loops: tuple[Loop, Loop], name: str) -> bool:
    """Whether the text that these edits make touches the elements that it did."""
    rows, columns = loops
    try:
        view = ctx.after(made)
    except SyntaxInvalid:
        return False
    joined = Term.of(Symbol(name, "loop"))
    for other, _ in view.analysed(once=True):
        if other.form.kernel == analysis.form.kernel:
            was = [a.offset.substitute({rows.symbol: Term.number(0), columns.symbol: joined}).text
                   for a in analysis.form.accesses]  # fmt: skip
            now = [a.offset.text for a in other.form.accesses]
            return was == now
    return False
