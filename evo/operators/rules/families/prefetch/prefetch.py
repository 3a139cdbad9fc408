"""Loads of a loop issued one step before their values are needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.element import BYTES
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.scene import Scene


def _find_prefetch(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        constant = {p.name for p in function.params if p.is_pointer and not scene.source.is_written(function, p.name)}
        known = {s.span: s for top in scene.source.statements(function) for s in top.all()}
        for loop in scene.source.loops:
            statement = known.get(loop.span)
            if loop.function != function.name or statement is None or not statement.is_counted or loop.factor == "":
                continue
            assert statement.body_span is not None
            assert statement.start is not None
            assert statement.limit is not None
            if re.search(r"\b(break|continue|goto)\b", scene.source.slice(statement.body_span)):
                continue
            written = scene.source.changed_in(statement.body_span)
            reads: dict[str, list[Span]] = {}
            for use in scene.source.subscripts(statement.body_span):
                names = {name for name, _ in scene.source.names(use.span)}
                if use.name in constant and loop.variable in names and not names & written and use.is_read:
                    reads.setdefault(scene.source.slice(use.span), []).append(use.span)
            for text, spans in reads.items():
                if all(scene.source.is_conditional(span, statement.body_span) for span in spans):
                    continue  # it may be that no step reads it
                kind = scene.source.element_type(function.name, text.split("[")[0])
                if kind not in BYTES or kind.endswith("2") or any(a != b and a.holds(b) for a in spans for b in spans):
                    continue
                start, limit = scene.source.slice(statement.start), scene.source.slice(statement.limit)
                first = scene.source.renamed(spans[0], {loop.variable: f"({start})"})
                after = scene.source.renamed(spans[0], {loop.variable: f"({loop.variable} + {statement.step})"})
                coming, now = fresh(scene, "coming"), fresh(scene, "current")
                above = scene.source.above(loop.span)
                if above is None:
                    continue
                test = f"{loop.variable} + {statement.step} {statement.relation} {limit}"
                inner = f"const {kind} {now} = {coming};\n{loop.indent}    if ({test}) {coming} = {after};\n"
                inner += f"{loop.indent}    "
                has_first = f"{start} {statement.relation} {limit} ? {first} : ({kind})0"
                yield Application(
                    edits=(
                        Edit(
                            Span(above, above),
                            f"{loop.indent}{kind} {coming} = {has_first};\n",
                        ),
                        Edit(Span(statement.body_span.start, statement.body_span.start), "{ " + inner),
                        *(Edit(span, now) for span in spans),
                        Edit(Span(statement.body_span.end, statement.body_span.end), " }"),
                    ),
                    summary=f"line {scene.source.line(loop.span.start)}: {text} one step of {loop.variable} ahead",
                    arguments={"function": function.name, "parameter": text.split("[")[0]},
                )


RULES = (
    Rule(
        name="prefetch",
        family="prefetch",
        sentence="Loads what a loop needs in its next step before the current step computes.",
        find=_find_prefetch,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) { o[i] = a[i * 2] * x; }\n",
                "  float coming = 0 < n ? a[(0) * 2] : (float)0;\n"
                "  for (int i = 0; i < n; ++i) { const float current = coming;\n"
                "      if (i + 1 < n) coming = a[(i + 1) * 2];\n      { o[i] = current * x; } }\n",
            ),
        ),
        reason="a load takes hundreds of cycles, and a step that waits for its own loads pays them all",
        expected="the latency of one load hidden behind one step's work",
        risk="a test per step and registers for the values on their way",
        next_if_kept="the other operand",
        next_if_reverted="unroll instead, so that the compiler can batch the loads",
    ),
)
