"""Sums and maxima of a loop split over several accumulators."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import CountedFor, CountedLoop, Edit, Span
from evo.operators.rules.loops import above, counted_loops, is_rest, loop_words
from evo.operators.rules.reductions import NEUTRAL, ReductionLoop, reduction_of
from evo.operators.rules.rewriting import fresh, indented
from evo.operators.rules.rule import Application, Example, Rule, RuleContext


def _find_accumulators(ctx: RuleContext) -> Iterator[Application]:
    functions = {function.name: function for function in ctx.source.functions}
    for loop, statement, siblings in counted_loops(ctx):
        is_idle = ctx.source.is_bare(loop.span) or is_rest(ctx.source, functions[loop.function], statement)
        totals = _totals(ctx, statement) if not is_idle else []
        kinds = {s.name: s.type.split() for s in siblings if s.kind == "declare"}
        if not totals or any(kinds.get(t.name) != ["float"] for t in totals) or statement.relation != "<":
            continue
        for count in (4, 2):
            yield Application(
                edits=tuple(_spread(ctx, loop, statement, totals, count)),
                summary=f"{loop_words(ctx, loop)}: {count} accumulators for {', '.join(t.name for t in totals)}",
                arguments={"function": loop.function, "to": count},
                rank=0 if count == 4 else 1,
            )


def _totals(ctx: RuleContext, loop: CountedFor) -> list[ReductionLoop]:
    """What a loop adds up and nothing else, in nested loops too; empty if it does more."""
    found: dict[str, list[ReductionLoop]] = {}
    own = {s.name for s in loop.all() if s.kind in ("declare", "for")}
    for inner in loop.all():
        if inner is loop or inner.kind in ("declare", "block", "empty") or isinstance(inner, CountedFor):
            continue
        total = reduction_of(ctx.source, inner)
        if total is None or total.name in own or total.combine not in NEUTRAL:
            return []
        found.setdefault(total.name, []).append(total)
    uses = [name for name, _ in ctx.source.names(loop.body_span)]
    for name, parts in found.items():
        if len(parts) > 1 and any(part.combine != "+" for part in parts):
            return []
        if uses.count(name) != sum(1 if part.combine == "+" else 2 for part in parts):
            return []
    return [parts[0] for parts in found.values()]


def _spread(
    ctx: RuleContext, loop: CountedLoop, statement: CountedFor, totals: list[ReductionLoop], count: int
) -> Iterator[Edit]:
    source, indent, i = ctx.source, loop.indent, loop.variable
    done, step = fresh(ctx, f"{i}_done"), statement.step
    names = {t.name: [t.name, *(fresh(ctx, f"{t.name}_{n}") for n in range(2, count + 1))] for t in totals}
    before = "".join(f"{indent}float {name} = {NEUTRAL[t.combine]};\n" for t in totals for name in names[t.name][1:])
    last = f"{done} + {count - 1} * {step}" if step != "1" else f"{done} + {count - 1}"
    advance = f"{count} * {step}" if step != "1" else str(count)
    before += f"{indent}int {done} = {source.slice(statement.start)};\n"
    if loop.pragma is not None:
        before += source.slice(loop.pragma)
    before += f"{indent}for (; {last} < {source.slice(statement.limit)}; {done} += {advance}) {{\n"
    is_used = i in {name for name, _ in source.names(statement.body_span)}
    for place in range(count):
        body = source.renamed(statement.body_span, {t.name: names[t.name][place] for t in totals})
        at = f"{done} + {place} * {step}" if step != "1" else f"{done} + {place}"
        before += f"{indent}    {{\n"
        before += f"{indent}        const int {i} = {at if place else done};\n" if is_used else ""
        before += f"{indent}        {indented(body).lstrip()}\n{indent}    }}\n"
    before += f"{indent}}}\n"
    start = above(ctx, loop)
    after = ""
    for t in totals:
        for name in names[t.name][1:]:
            after += (
                f"\n{indent}{t.name} += {name};"
                if t.combine == "+"
                else f"\n{indent}{t.name} = {t.combine}({t.name}, {name});"
            )
    yield Edit(Span(start, start), before)
    yield Edit(statement.start, done)
    yield Edit(Span(statement.span.end, statement.span.end), after)


_SUM = "  float s = 0.0f;\n"
RULES = (
    Rule(
        name="accumulators",
        sentence="Splits the sum or maximum of a loop over 2 or 4 accumulators that are combined at the end.",
        find=_find_accumulators,
        examples=(
            Example(
                _SUM + "  for (int i = 0; i < n; ++i) s += a[i];\n  o[0] = s;\n",
                _SUM + "  float s_2 = 0.0f;\n  int i_done = 0;\n  for (; i_done + 1 < n; i_done += 2) {\n"
                "      {\n          const int i = i_done;\n          s += a[i];\n      }\n"
                "      {\n          const int i = i_done + 1;\n          s_2 += a[i];\n      }\n  }\n"
                "  for (int i = i_done; i < n; ++i) s += a[i];\n  s += s_2;\n  o[0] = s;\n",
            ),
        ),
        reason="each step of one sum waits for the one before it; several sums run side by side",
        expected="as many times less latency on the chain of additions",
        risk="sums are added in another order; more registers",
        next_if_kept="more accumulators",
        next_if_reverted="latency is hidden by other warps already",
    ),
)
