"""Counted loops as rules look at them: with the statement, what stands beside it, and the place in front."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import CountedFor, CountedLoop, Edit, Function, Source, Span, Statement
from evo.operators.rules.rewriting import indent_of
from evo.operators.rules.rule_context import RuleContext

_ADDRESS = re.compile(r"reinterpret_cast<unsigned long long>\(")
_WIDE = re.compile(r"\(\w+_wide(?:_\d+)? \?")
_LAMBDA = re.compile(r"\bauto\s+(\w+)\s*=\s*\[[^\[\]]*\]([^;{}]*\{[^{}]*\})\s*;")


def counted_loops(ctx: RuleContext) -> Iterator[tuple[CountedLoop, CountedFor, tuple[Statement, ...]]]:
    """Counted loops that start a line, with their statement and the statements of the same block."""
    for function in ctx.source.functions:
        tops, inside = ctx.source.statements(function), ctx.source.inside(function)
        blocks = (tops, *(block for outer in inside for block in (outer.body, outer.alternative)))
        beside = {statement.span: block for block in blocks for statement in block}
        known = {s.span: s for s in inside if isinstance(s, CountedFor)}
        for loop in ctx.source.loops:
            if loop.function == function.name and loop.span in known:
                yield loop, known[loop.span], beside[loop.span]


def is_rest(source: Source, function: Function, loop: CountedFor) -> bool:
    """Whether a loop does what a wide one leaves: it begins where that one ended, or is for addresses that are not
    aligned.
    """
    start, every = source.slice(loop.start).strip(), source.inside(function)
    other = [s.condition for s in every if any(each.span.holds(loop.span) for each in s.alternative)]
    if any(span is not None and _ADDRESS.search(source.slice(span)) for span in other) or _WIDE.match(start):
        return True
    heads = (s.header for s in every if s.kind == "for")
    return any(head and re.search(rf";\s*{re.escape(start)}\s*\+=", source.slice(head)) for head in heads)


def unrolled(source: Source, span: Span) -> list[Edit]:
    """`#pragma unroll` in front of a loop; braces around one that stands alone in another, where it cannot stand."""
    start, indent = source.line_start(span.start), indent_of(source, span.start)
    if source.is_bare(span):
        return [
            Edit(Span(span.start, span.start), f"{{\n#pragma unroll\n{indent}"),
            Edit(Span(span.end, span.end), "\n}"),
        ]
    if source.data[start : span.start].strip():
        return [Edit(Span(span.start, span.start), f"\n#pragma unroll\n{indent}")]
    return [Edit(Span(start, start), "#pragma unroll\n")]


def above(ctx: RuleContext, loop: CountedLoop) -> int:
    """The first byte of the loop's pragma, or of its line; of the loop itself if it starts within a line."""
    found = ctx.source.above(loop.span)
    return found if found is not None else loop.span.start


def reads_unseen(source: Source, function: Function, statement: CountedFor) -> bool:
    """Whether a function with subscripts gets the loop's variable: written out, what it reads is in wide pieces too."""
    uses, texts = source.subscripts(statement.body_span), {f.name: source.slice(f.body) for f in source.functions}
    texts |= {match[1]: match[2] for match in _LAMBDA.finditer(source.slice(function.body))}
    given = [
        argument
        for call in source.calls
        if statement.body_span.holds(call.span) and "[" in texts.get(call.name, "")
        for argument in call.arguments
    ]
    places = [at for argument in given for name, at in source.names(argument) if name == statement.name]
    return any(not any(use.span.holds(at) for use in uses) for at in places)


def loop_words(ctx: RuleContext, loop: CountedLoop) -> str:
    """`loop over i (line 12)`."""
    return f"loop over {loop.variable} (line {ctx.source.line(loop.span.start)})"
