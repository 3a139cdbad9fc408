"""An online softmax in batches: one maximum and one rescaling for several steps instead of one for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import CountedFor, CountedLoop, Edit, Source, Span, Statement
from evo.operators.rules.directives import new_knob
from evo.operators.rules.loops import counted_loops, loop_words
from evo.operators.rules.rewriting import fresh, indented
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext

_SIZES = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """The parts of one step: score, its maximum, the factor for what is already there, the weight, and what it adds to.

    before: statements that compute the score. after: those that add weighted values; updates: the additions in them.
    """

    score: str
    largest: str
    new_largest: str
    keep: str
    weight: str
    exp: str
    total: str
    before: tuple[Statement, ...]
    after: tuple[Statement, ...]
    updates: tuple[tuple[Statement, tuple[Statement, ...]], ...]  # each with the loops around it


def _find(ctx: RuleContext) -> Iterator[Application]:
    for loop, statement, _ in counted_loops(ctx):
        online = online_of(ctx.source, statement) if statement.takes_each else None
        if online is None or ctx.source.type_of(loop.function, statement.limit) != "int":
            continue
        for value in (4, 8, 2, 16):
            yield Application(
                edits=tuple(_edits(ctx, loop, statement, online, value)),
                summary=f"{loop_words(ctx, loop)}: one maximum and one rescaling for {value} steps",
                arguments={"function": loop.function, "to": value},
                rank=0 if value in (4, 8) else 1,
            )


def online_of(source: Source, loop: Statement) -> OnlineSoftmax | None:
    """The parts, where the body is an online softmax and nothing else."""
    for place, top in enumerate(loop.body):
        if top.kind != "declare" or top.value is None:
            continue
        match = re.fullmatch(r"fmaxf\((\w+), (\w+)\)", source.slice(top.value))
        if match is None:
            continue
        for largest, score in (match.groups(), match.groups()[::-1]):
            found = _steps(source, loop, place, largest, score)
            if found is not None:
                return found
    return None


def _steps(source: Source, loop: Statement, place: int, largest: str, score: str) -> OnlineSoftmax | None:
    new, middle, after = loop.body[place].name, loop.body[place + 1 : place + 5], loop.body[place + 5 :]
    names: dict[str, str] = {}
    for step in middle:
        value = source.slice(step.value) if step.value is not None else ""
        exponential = re.fullmatch(rf"(\w+)\((\w+) - {new}\)", value)
        if step.kind == "declare" and exponential and exponential[2] in (largest, score):
            names["keep" if exponential[2] == largest else "weight"] = step.name
            names["exp"] = exponential[1]
        elif step.kind == "assign" and step.name == largest and step.operator == "=" and value == new:
            names["moved"] = step.name
        elif step.kind == "assign" and step.name:
            names["total"], names["sum"] = step.name, value
    if set(names) != {"keep", "weight", "exp", "moved", "total", "sum"}:
        return None
    if names["sum"] != f"{names['total']} * {names['keep']} + {names['weight']}":
        return None
    before = loop.body[:place]
    declared = {s.name for s in loop.all() if s.kind == "declare"}
    inside = [s for top in before for s in top.all()]
    if score not in {s.name for s in before if s.kind == "declare"} or any(
        s.kind not in ("declare", "for", "assign", "block", "empty") or (s.kind == "assign" and s.name not in declared)
        for s in inside
    ):
        return None
    updates = [found for top in after for found in _updates(source, top, names["keep"], names["weight"])]
    if not updates or len(updates) != sum(s.kind == "assign" for top in after for s in top.all()):
        return None
    if any(s.kind not in ("for", "declare", "assign", "block", "empty") for top in after for s in top.all()):
        return None
    return OnlineSoftmax(
        score, largest, new, names["keep"], names["weight"], names["exp"], names["total"], before, after, tuple(updates)
    )


def _updates(
    source: Source, statement: Statement, keep: str, weight: str, around: tuple[Statement, ...] = ()
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    """`T = T * keep + weight * value`, with the loops around it."""
    if statement.kind == "assign" and statement.target is not None and statement.value is not None:
        target = re.escape(source.slice(statement.target))
        if re.match(rf"{target} \* {keep} \+ {weight} \* ", source.slice(statement.value)):
            yield statement, around
    for inner in statement.body:
        yield from _updates(source, inner, keep, weight, (*around, statement) if statement.kind == "for" else around)


def _edits(
    ctx: RuleContext, loop: CountedLoop, statement: CountedFor, online: OnlineSoftmax, value: int
) -> Iterator[Edit]:
    source, j, indent = ctx.source, loop.variable, loop.indent
    limit = source.slice(statement.limit)
    count, every = fresh(ctx, f"{j.upper()}_BATCH"), fresh(ctx, f"{online.score}_all")
    u, at = fresh(ctx, "u"), fresh(ctx, f"{j}_at")
    inner, deeper = indent + "    ", indent + "        "
    scores = source.renamed(Span(statement.body_span.start + 1, online.before[-1].span.end), {j: at}).strip("\n")
    added = source.renamed(Span(online.after[0].span.start, online.after[-1].span.end), {j: at})
    added = indented(added).lstrip()
    for update, _ in online.updates:
        target = source.renamed(update.target or update.span, {j: at})
        old = f"{target} = {target} * {online.keep} + {online.weight} *"
        added = added.replace(old, f"{target} += {online.weight} *")
    pragma = "#pragma unroll\n" if online.after[0].kind == "for" else ""
    place = f"{deeper}const int {at} = min({j} + {u}, {limit} - 1);\n"
    over = f"#pragma unroll\n{inner}for (int {u} = 0; {u} < {count}; ++{u})"
    new, keep = online.new_largest, online.keep
    rescaled = "".join(_rescaled(source, online, update, around, inner) for update, around in online.updates)
    # All scores, one maximum, one rescaling, then the weighted values.
    body = (
        f"{{\n{inner}float {every}[{count}];\n{over} {{\n{place}{indented(scores)}\n"
        f"{deeper}{every}[{u}] = {j} + {u} < {limit} ? {online.score} : -INFINITY;\n{inner}}}\n"
        f"{inner}float {new} = {online.largest};\n{over} {new} = fmaxf({new}, {every}[{u}]);\n"
        f"{inner}const float {keep} = {online.exp}({online.largest} - {new});\n"
        f"{inner}{online.largest} = {new};\n{inner}{online.total} *= {keep};\n{rescaled}"
        f"{over} {{\n{place}{deeper}const float {online.weight} = {online.exp}({every}[{u}] - {new});\n"
        f"{deeper}{online.total} += {online.weight};\n{pragma}{deeper}{added}\n{inner}}}\n{indent}}}"
    )
    yield from new_knob(ctx, count, _SIZES, value)
    yield Edit(statement.update, f"{j} += {count}")
    yield Edit(statement.body_span, body)


def _rescaled(
    source: Source, online: OnlineSoftmax, update: Statement, around: Sequence[Statement], indent: str
) -> str:
    """The loops around an update with nothing but its rescaling inside."""
    text = f"{source.slice(update.target or update.span)} *= {online.keep};"
    for depth, loop in reversed(list(enumerate(around))):
        pad, head = indent + "    " * depth, source.slice(loop.header or loop.span).strip()
        text = f"{pad}{head} {{\n{text}\n{pad}}}" if "for (" in text else f"{pad}{head} {text}"
        text = f"#pragma unroll\n{text}"
    return text + "\n" if around else f"{indent}{text}\n"


RULES = (
    Rule(
        name="batch_online",
        sentence="Lets an online softmax take several steps under one maximum: their scores first, then one rescaling,"
        " then their weighted values.",
        find=_find,
        reason="each step waits for the maximum of the one before it and rescales everything that was added up",
        expected="independent scores that overlap, and as many times fewer rescalings as steps in a batch",
        risk="registers for the scores of a batch; steps past the end are computed and weighted by zero",
        next_if_kept="a larger batch",
        next_if_reverted="a smaller one, or lazy rescaling",
    ),
)
