"""Elements that a loop makes of the ones before them, as rules know them: `y[i] = y[i - 1] + x[i];` with a variable.

What a turn reads of the turn before it is in the variable, and stays in memory too. The first one is what the statement
in front of the loop stores, or the element that the first turn reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import Access, LaunchAnalysis, Loop, Term
from evo.cuda.source import CountedFor, Edit, Function, Span, Statement
from evo.operators.rules.rewriting import WORD, bracketed, fresh, indent_of
from evo.operators.rules.rule_context import RuleContext


def with_last_elements(ctx: RuleContext) -> list[Edit]:
    """The edits that keep such elements in variables, in all kernels."""
    found, taken = list[Edit](), set[str]()
    for analysis, function in ctx.analysed(once=True):
        found += _within(ctx, analysis, function, ctx.source.statements(function), taken)
    return found


def _within(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, statements: Sequence[Statement], taken: set[str]
) -> Iterator[Edit]:
    """taken: names of the variables that there are, which grow."""
    for place, loop in enumerate(statements):
        known = [each for each in analysis.form.loops.values() if each.span == loop.span and not each.calls]
        if isinstance(loop, CountedFor) and loop.takes_each and len(known) == 1:
            yield from _kept(ctx, analysis, function, loop, known[0], statements[place - 1] if place else None, taken)
        elif loop.kind in ("if", "block", "for"):
            yield from _within(ctx, analysis, function, loop.body, taken)


def _kept(
    ctx: RuleContext,
    analysis: LaunchAnalysis,
    function: Function,
    loop: CountedFor,
    known: Loop,
    before: Statement | None,
    taken: set[str],
) -> Iterator[Edit]:
    source, form = ctx.source, analysis.form
    inside = [access for access in form.accesses if known.symbol in access.loops]
    for store in (each for each in loop.body if each.kind == "assign" and not each.name):
        writes = [a for a in inside if a.is_write and a.span == store.target]
        if len(writes) != 1 or store.value is None or store.operator not in ("=", "+=", "*="):
            continue
        (write,), array = writes, writes[0].array
        if known.symbol not in write.offset.symbols():
            continue  # one element, which is no row of them
        others = [a for a in inside if a.array == array and a is not write]
        last = [a for a in others if a.offset.substitute({known.symbol: Term.of(known.symbol) + 1}) == write.offset]
        if not last or any(a.offset != write.offset or a.is_write for a in others if a not in last):
            continue
        kind = source.element_type(function.name, array.parameter) if array is not None else None
        if kind is None or any(not store.span.holds(a.span) or a.context != write.context for a in others):
            continue
        first = _first(ctx, form.accesses, loop, known, last[0], before)
        above = source.above(loop.span)
        if first is None or above is None:
            return
        name, indent = fresh(ctx, "last", taken), indent_of(source, loop.span.start)
        taken.add(name)
        place, value = source.slice(write.span), _value(ctx, store, [a.span for a in last], name)
        said = f"{name} = {value}; {place} = {name};"
        yield Edit(store.span, f"{{ {said} }}" if source.is_bare(store.span) else said)
        if isinstance(first, Statement) and first.value is not None and first.target is not None:
            where = source.slice(first.target)
            yield Edit(first.span, f"{kind} {name} = {source.slice(first.value)};\n{indent}{where} = {name};")
        else:
            yield Edit(Span(above, above), f"{indent}{kind} {name} = {first};\n")
        return


def _value(ctx: RuleContext, store: Statement, last: Sequence[Span], name: str) -> str:
    """What is stored, with the variable for the element before."""
    source, data, at = ctx.source, "", store.value.start if store.value is not None else 0
    assert store.value is not None
    assert store.target is not None
    for span in sorted(last):
        data, at = data + source.slice(Span(at, span.start)) + name, span.end
    data += source.slice(Span(at, store.value.end))
    if store.operator == "=":
        return data
    return f"{source.slice(store.target)} {store.operator[:-1]} {bracketed(data)}"


def _first(
    ctx: RuleContext, accesses: Sequence[Access], loop: CountedFor, known: Loop, last: Access, before: Statement | None
) -> Statement | str | None:
    """The statement that stores the element before the loop's first, or how that element is spelt; None for neither."""
    source = ctx.source
    if before is not None and before.kind == "assign" and before.operator == "=" and not before.name:
        stored = [a for a in accesses if a.is_write and a.span == before.target]
        begin = last.offset.substitute({known.symbol: known.start})
        if len(stored) == 1 and stored[0].offset == begin and stored[0].array == last.array:
            return before
    start, limit = source.slice(loop.start).strip(), source.slice(loop.limit).strip()
    said = re.sub(rf"\b{loop.name}\b", bracketed(start), source.slice(last.span))
    if set(WORD.findall(said)) & set(source.declared(loop.body_span)):
        return None  # a place that is worked out in the loop
    return said if start == "1" else f"{bracketed(start)} < {limit} ? {said} : 0"
