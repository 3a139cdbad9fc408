"""Counted loops as rules look at them: with the statement, what stands beside it, and the place in front."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import CountedFor, CountedLoop, Edit, Source, Span, Statement
from evo.operators.rules.rewriting import indent_of
from evo.operators.rules.rule_context import RuleContext


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


def loop_words(ctx: RuleContext, loop: CountedLoop) -> str:
    """`loop over i (line 12)`."""
    return f"loop over {loop.variable} (line {ctx.source.line(loop.span.start)})"
