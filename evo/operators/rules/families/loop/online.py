"""A maximum and the sum of exponentials below it, in one pass instead of two."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import CountedFor, Edit, Span, Statement
from evo.operators.rules.loops import above, counted_loops, loop_words
from evo.operators.rules.reductions import ReductionLoop, reduction_of, shareable
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule import Application, Example, Rule, RuleContext


def _find_online(ctx: RuleContext) -> Iterator[Application]:
    for loop, top, siblings in counted_loops(ctx):
        place = siblings.index(top)
        found = shareable(ctx.source, top)
        if found is None or len(found.reductions) != 1 or found.reductions[0].combine != "fmaxf" or found.stores:
            continue
        largest, later = found.reductions[0], siblings[place + 1 :]
        second = next((s for s in later if s.kind == "for"), None)
        total = _exponentials(ctx, top, second, largest) if second is not None else None
        if second is None or total is None or len(top.body) != 1:
            continue
        between = later[: later.index(second)]
        own = next(
            (s for s in between if s.kind == "declare" and s.name == total[0].name and s.value is not None), None
        )
        if (
            own is None
            or own.value is None
            or len(between) != 1
            or not re.fullmatch(r"0\.?0*f?", ctx.source.slice(own.value))
        ):
            continue
        name, exp, indent = total[0].name, total[1], loop.indent
        value = ctx.source.slice(largest.value)
        item, m = fresh(ctx, "item"), largest.name
        text = (
            f"{{\n{indent}    const float {item} = {value};\n"
            f"{indent}    if ({item} > {m}) {{\n"
            f"{indent}        {name} = {name} * {exp}({m} - {item}) + {exp}({item} - {item});\n"
            f"{indent}        {m} = {item};\n{indent}    }} else if (!({item} == -INFINITY)) {{\n"
            f"{indent}        {name} += {exp}({item} - {m});\n{indent}    }}\n{indent}}}"
        )
        at, after = above(ctx, loop), next((each for each in ctx.source.loops if each.span == second.span), None)
        start = above(ctx, after) if after is not None else second.span.start
        yield Application(
            edits=(
                Edit(Span(at, at), f"{indent}{ctx.source.slice(own.span)}\n"),
                Edit(top.body_span, text),
                Edit(_lines(ctx, own.span), ""),
                Edit(_lines(ctx, Span(start, second.span.end)), ""),
            ),
            summary=f"{loop_words(ctx, loop)}: {m} and {name} in one pass, rescaled when the maximum moves",
            arguments={"function": loop.function, "largest": m, "sum": name},
        )


def _lines(ctx: RuleContext, span: Span) -> Span:
    """The span with the blanks before it on its line and the newline after it."""
    start = ctx.source.line_start(span.start)
    if ctx.source.data[start : span.start].strip():
        start = span.start
    is_last = ctx.source.data[span.end : span.end + 1] == b"\n"
    return Span(start, span.end + 1 if is_last else span.end)


def _exponentials(
    ctx: RuleContext, top: CountedFor, second: Statement, largest: ReductionLoop
) -> tuple[ReductionLoop, str] | None:
    """`sum += expf(VALUE - largest)` over the same elements as the maximum, and the function's name."""
    if second.header is None or len(second.body) != 1:
        return None
    if ctx.source.slice(second.header).strip() != ctx.source.slice(top.header).strip():
        return None
    found = reduction_of(ctx.source, second.body[0])
    if found is None or found.combine != "+":
        return None
    value = ctx.source.slice(largest.value)
    match = re.fullmatch(rf"(\w*exp2?f)\({re.escape(value)} - {largest.name}\)", ctx.source.slice(found.value))
    return (found, match[1]) if match else None


RULES = (
    Rule(
        name="online",
        sentence="Finds a maximum and the sum of exponentials below it in one pass instead of two.",
        find=_find_online,
        examples=(
            Example(
                "  float m = -INFINITY;\n  for (int i = 0; i < n; ++i) m = fmaxf(m, a[i]);\n  float s = 0.0f;\n"
                "  for (int i = 0; i < n; ++i) s += expf(a[i] - m);\n  o[0] = s;\n",
                "  float m = -INFINITY;\n  float s = 0.0f;\n  for (int i = 0; i < n; ++i) {\n"
                "      const float item = a[i];\n      if (item > m) {\n"
                "          s = s * expf(m - item) + expf(item - item);\n          m = item;\n"
                "      } else if (!(item == -INFINITY)) {\n          s += expf(item - m);\n      }\n  }\n  o[0] = s;\n",
            ),
        ),
        reason="each pass reads the row again; the sum can be corrected when the maximum moves",
        expected="one pass over memory fewer",
        risk="a branch per element, and its own order of rounding",
        next_if_kept="wider loads in the one pass that is left",
        next_if_reverted="keep the row in shared memory between the passes",
    ),
)
