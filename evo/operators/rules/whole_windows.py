"""Loops over a window that is cut off at an edge, as loops over the whole window that leave turns out.

`for (int h = max(y - 1, 0); h < min(y + 2, H); ++h)` is seen as three turns, of which those outside are none: how many
there are is known, and inside of the tensor they are all the same. And one loop that counts through a window of two
dimensions, `k / 3` and `k % 3`, is seen as two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import Compare, Loop, Op, Term
from evo.cuda.source import CountedFor, Edit, Span
from evo.errors import SyntaxInvalid
from evo.operators.rules.index_text import IndexText
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.plain_view import passed_on
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import through
from evo.operators.rules.written_out import written_out
from evo.spec.expr import parse

_WIDEST = 16  # turns
_DECLARES = re.compile(r"for\s*\(\s*(?:const\s+)?(?:unsigned\s+)?(?:int|unsigned|long|size_t)\b")


def whole_windows(ctx: RuleContext) -> list[Edit]:
    """The edits that make of such loops whole ones, in all kernels."""
    found: list[Edit] = []
    for analysis, function in ctx.analysed(once=True):
        form = analysis.form
        words = IndexText(form, ctx.source, function, names_of(ctx, function), {s: s.name for s in form.loops})
        statements = {s.span: s for s in ctx.source.inside(function) if isinstance(s, CountedFor)}
        names: list[str] = []
        for loop in form.loops.values():
            statement, window = statements.get(loop.span), _window(loop)
            if statement is None or window is None or not _DECLARES.match(ctx.source.slice(statement.header)):
                continue
            if loop.symbol.name in ctx.source.changed_in(statement.body_span):
                continue
            try:
                found += _edits(ctx, words, statement, window, names)
            except NotPrinted:
                continue
    return merged(found)


def windows_of_two(ctx: RuleContext) -> list[Edit]:
    """The edits that make two loops of one that counts through a window, in the text or in functions that it calls."""
    if found := _taken_apart(ctx):
        return found
    for first in (list(passed_on(ctx.source)), written_out(ctx)):
        try:
            view = ctx.after(first) if first else None
        except SyntaxInvalid:
            continue
        if view is not None and (made := _taken_apart(view)):
            return list(through(view.source, first, made))
    return []


def _taken_apart(ctx: RuleContext) -> list[Edit]:
    found: list[Edit] = []
    for analysis, function in ctx.analysed(once=True):
        statements = {s.span: s for s in ctx.source.inside(function) if isinstance(s, CountedFor)}
        names: list[str] = []
        for loop in analysis.form.loops.values():
            said = statements.get(loop.span)
            if said is not None and loop.start.value == 0 and loop.step.value == 1 and loop.trip is not None:
                found += _of_two(ctx, said, loop.trip.value or 0, names)
    return merged(found)


def _of_two(ctx: RuleContext, loop: CountedFor, turns: int, names: list[str]) -> list[Edit]:
    """Nothing where the number is looked at in another way, or where a turn ends the loop."""
    source, name = ctx.source, loop.name
    body = source.slice(loop.body_span)
    uses = [*re.finditer(rf"\b{name}\s*+(?P<sign>[/%])\s*+(?P<by>\w++|\((?:[^()]|\([^()]*+\))*+\))", body)]
    sizes = {_number(ctx, use["by"]) for use in uses}
    inner = sizes.pop() if len(sizes) == 1 else None
    is_all = len(uses) == len(re.findall(rf"\b{name}\b", body)) and {use["sign"] for use in uses} == {"/", "%"}
    if not is_all or inner is None or turns % inner or not 1 < inner < turns or turns > _WIDEST**2:
        return []
    if re.search(r"\b(?:break|goto)\b", body) or not body.isascii() or "//" in body or "/*" in body:
        return []
    words = {"/": fresh(ctx, f"{name}_row", names), "%": fresh(ctx, f"{name}_column", names)}
    names += words.values()
    indent = indent_of(source, loop.span.start)
    counts = (turns // inner, inner)
    heads = [f"for (int {w} = 0; {w} < {n}; ++{w})" for w, n in zip(words.values(), counts, strict=True)]
    at = loop.body_span.start
    edits = [Edit(Span(loop.span.start, at), f"{heads[0]}\n{indent}    {heads[1]} ")]
    edits += [Edit(Span(at + use.start(), at + use.end()), words[use["sign"]]) for use in uses]
    return edits


def _number(ctx: RuleContext, text: str) -> int | None:
    known = re.sub(r"[A-Za-z_]\w*", lambda word: str(ctx.source.integer(word[0])), text)
    try:
        value = parse(known).value({})
    except (ArithmeticError, KeyError, SyntaxInvalid):
        return None
    return int(value) if value == int(value) and value > 0 else None


def _window(loop: Loop) -> tuple[Term, int, list[Term], list[Term]] | None:
    """Where a whole window begins, how long it is, and what its places are not below and not above."""
    test, symbol = loop.condition, loop.symbol
    if loop.calls or loop.until is not None or loop.blocked is not None or loop.step.value != 1:
        return None
    if not isinstance(test, Compare) or test.relation != ">=" or test.term.coefficient(symbol) != Term.number(-1):
        return None
    starts, ends = _parts(loop.start, "max"), _parts(test.term + Term.of(symbol) + 1, "min")
    for start in starts:
        for end in ends:
            length = (end - start).value
            if length is not None and 0 < length <= _WIDEST and len(starts) + len(ends) > 2:
                return start, length, [t for t in starts if t != start], [t for t in ends if t != end]
    return None


def _parts(term: Term, name: str) -> Sequence[Term]:
    atom = term.atom
    return atom.terms if isinstance(atom, Op) and atom.name == name else [term]


def _edits(
    ctx: RuleContext, words: IndexText, loop: CountedFor, window: tuple[Term, int, list[Term], list[Term]],
    names: list[str],
) -> Iterator[Edit]:  # fmt: skip
    """Raises NotPrinted."""
    start, length, low, high = window
    name, turn = loop.name, fresh(ctx, "turn", names)
    tests = [f"{name} < {words.at(term, loop.span)}" for term in low]
    tests += [f"{name} >= {words.at(term, loop.span)}" for term in high]
    first, body = words.at(start, loop.span), ctx.source.slice(loop.body_span)
    first = f"(int)({first})" if "Idx" in first else first
    names.append(turn)
    indent = indent_of(ctx.source, loop.span.start) + "    "
    lines = (f"const int {name} = {first} + {turn};", f"if ({' || '.join(tests)}) continue;")
    said = "".join(f"\n{indent}{line}" for line in lines)
    head, at = f"for (int {turn} = 0; {turn} < {length}; ++{turn}) ", loop.body_span.start
    if body.startswith("{"):
        yield Edit(Span(loop.span.start, at + 1), f"{head}{{{said}")
        return
    yield Edit(Span(loop.span.start, at), f"{head}{{{said}\n{indent}")
    yield Edit(Span(loop.span.end, loop.span.end), f"\n{indent[:-4]}}}")
