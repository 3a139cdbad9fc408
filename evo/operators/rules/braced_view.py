"""Loops that stand alone in another loop or behind a test, with braces around them: others can stand beside them."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.rewriting import indent_of, merged
from evo.operators.rules.rule_context import RuleContext


def braced(ctx: RuleContext) -> list[Edit]:
    """The braces that the loops of kernels lack; none where a comment stands in front of one."""
    kernels = {function.name for function in ctx.source.functions if function.is_kernel}
    bare = [loop.span for loop in ctx.source.loops if loop.function in kernels and ctx.source.is_bare(loop.span)]
    return merged([edit for span in sorted(bare, reverse=True) for edit in _around(ctx, span)])


def _around(ctx: RuleContext, span: Span) -> Iterator[Edit]:
    before = ctx.source.data[: span.start].rstrip()
    if b"//" in before[before.rfind(b"\n") + 1 :] or before.endswith((b"*/", b"{", b";")):
        return
    yield Edit(Span(len(before), len(before)), " {")
    yield Edit(Span(span.end, span.end), f"\n{indent_of(ctx.source, len(before) - 1)}}}")
