"""A sum that a loop keeps in memory, as rules know it: `y[i] = 0; for (...) y[i] += x;` with the sum in a variable.

The element is written once, behind the loop. It stays in memory if the loop touches its tensor anywhere else, or
changes what its place depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.rewriting import bare, fresh, indent_of
from evo.operators.rules.rule_context import RuleContext

_ELEMENT = re.compile(r"(?P<pointer>\w+)\s*\[(?P<index>[^\[\]]*)\]")
_ZERO = re.compile(r"0|0\.0?f?|0\.f")


def with_register_sums(ctx: RuleContext) -> list[Edit]:
    """The edits that keep such sums in variables, in all kernels."""
    tensors = {array.parameter: array.element for a in ctx.launches for array in a.form.tensors if array.role == "out"}
    found: list[Edit] = []
    for function in ctx.source.functions:
        if function.is_kernel:
            found += _within(ctx, function, ctx.source.statements(function), tensors)
    return found


def _within(
    ctx: RuleContext, function: Function, statements: Sequence[Statement], tensors: dict[str, str]
) -> Iterator[Edit]:
    for first, loop in pairwise(statements):
        if first.kind == "assign" and first.operator == "=" and not first.name and loop.kind == "for":
            yield from _sum(ctx, function, first, loop, tensors)
    for statement in statements:
        if statement.kind in ("if", "block"):
            yield from _within(ctx, function, statement.body, tensors)


def _sum(
    ctx: RuleContext, function: Function, first: Statement, loop: Statement, tensors: dict[str, str]
) -> Iterator[Edit]:
    source = ctx.source
    if first.target is None or first.value is None or not _ZERO.fullmatch(source.slice(first.value).strip()):
        return
    place = source.slice(first.target)
    match = _ELEMENT.fullmatch(place)
    kind = source.element_type(function.name, match["pointer"]) if match is not None else None
    if match is None or match["pointer"] not in tensors or kind not in ("float", "int", "double"):
        return
    sums = [s for s in loop.all() if s.kind == "assign" and s.target is not None and s.operator == "+="]
    sums = [s for s in sums if s.target is not None and bare(source.slice(s.target)) == bare(place)]
    text = source.slice(loop.span)
    words = set(re.findall(r"[A-Za-z_]\w*", match["index"]))
    others = {s.name for s in loop.all() if s.kind in ("assign", "declare", "for")} | {loop.name}
    if len(sums) != 1 or len(re.findall(rf"\b{match['pointer']}\b", text)) != 1 or words & others:
        return
    if re.search(r"\b(?:return|goto|__sync\w*)\b", text) or source.changed_in(loop.span) & words:
        return
    name = fresh(ctx, "sum")
    (added,) = sums
    assert added.target is not None
    indent = indent_of(source, loop.span.start)
    yield Edit(first.span, f"{kind} {name} = 0;")
    yield Edit(added.target, name)
    yield Edit(Span(loop.span.end, loop.span.end), f"\n{indent}{place} = {name};")
