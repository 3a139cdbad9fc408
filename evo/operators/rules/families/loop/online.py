"""A maximum and the sum of exponentials below it, in one pass instead of two."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import CountedFor, Edit, Span, Statement
from evo.operators.rules.loops import above, counted_loops, loop_words
from evo.operators.rules.reductions import ReductionLoop, reduction_of, shareable
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule import Application, Example, Rule, Scene


def _find_online(scene: Scene) -> Iterator[Application]:
    for loop, top, siblings in counted_loops(scene):
        place = siblings.index(top)
        found = shareable(scene.source, top)
        if found is None or len(found.reductions) != 1 or found.reductions[0].combine != "fmaxf" or found.stores:
            continue
        largest, later = found.reductions[0], siblings[place + 1 :]
        second = next((s for s in later if s.kind == "for"), None)
        total = _exponentials(scene, top, second, largest) if second is not None else None
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
            or not re.fullmatch(r"0\.?0*f?", scene.source.slice(own.value))
        ):
            continue
        name, exp, indent = total[0].name, total[1], loop.indent
        value = scene.source.slice(largest.value)
        item, m = fresh(scene, "item"), largest.name
        text = (
            f"{{\n{indent}    const float {item} = {value};\n"
            f"{indent}    if ({item} > {m}) {{\n"
            f"{indent}        {name} = {name} * {exp}({m} - {item}) + {exp}({item} - {item});\n"
            f"{indent}        {m} = {item};\n{indent}    }} else if (!({item} == -INFINITY)) {{\n"
            f"{indent}        {name} += {exp}({item} - {m});\n{indent}    }}\n{indent}}}"
        )
        at, after = above(scene, loop), next((each for each in scene.source.loops if each.span == second.span), None)
        start = above(scene, after) if after is not None else second.span.start
        yield Application(
            edits=(
                Edit(Span(at, at), f"{indent}{scene.source.slice(own.span)}\n"),
                Edit(top.body_span, text),
                Edit(_lines(scene, own.span), ""),
                Edit(_lines(scene, Span(start, second.span.end)), ""),
            ),
            summary=f"{loop_words(scene, loop)}: {m} and {name} in one pass, rescaled when the maximum moves",
            arguments={"function": loop.function, "largest": m, "sum": name},
        )


def _lines(scene: Scene, span: Span) -> Span:
    """The span with the blanks before it on its line and the newline after it."""
    start = scene.source.line_start(span.start)
    if scene.source.data[start : span.start].strip():
        start = span.start
    is_last = scene.source.data[span.end : span.end + 1] == b"\n"
    return Span(start, span.end + 1 if is_last else span.end)


def _exponentials(
    scene: Scene, top: CountedFor, second: Statement, largest: ReductionLoop
) -> tuple[ReductionLoop, str] | None:
    """`sum += expf(VALUE - largest)` over the same elements as the maximum, and the function's name."""
    if second.header is None or len(second.body) != 1:
        return None
    if scene.source.slice(second.header).strip() != scene.source.slice(top.header).strip():
        return None
    found = reduction_of(scene.source, second.body[0])
    if found is None or found.combine != "+":
        return None
    value = scene.source.slice(largest.value)
    match = re.fullmatch(rf"(\w*exp2?f)\({re.escape(value)} - {largest.name}\)", scene.source.slice(found.value))
    return (found, match[1]) if match else None


RULES = (
    Rule(
        name="online",
        family="loop",
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
