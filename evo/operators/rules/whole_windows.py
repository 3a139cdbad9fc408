"""Loops over a window that is cut off at an edge, as loops over the whole window that leave turns out.

`for (int h = max(y - 1, 0); h < min(y + 2, H); ++h)` is seen as three turns, of which those outside are none: how many
there are is known, and inside of the tensor they are all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import Compare, Loop, Op, Term
from evo.cuda.source import CountedFor, Edit, Span
from evo.operators.rules.index_text import IndexText
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule_context import RuleContext

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
