"""Loops taken apart and put together: several accumulators, strips, exchanged nests, peeled steps, one pass for two."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Loop, Span, Statement
from evo.operators.rules.reductions import NEUTRAL, Reduction, reduction_of, shareable
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.operators.rules.threads import fresh

_LEAVES = re.compile(r"\b(break|continue|return|goto)\b")
_STRIPS = (32, 64, 128)


def _counted(scene: Scene) -> Iterator[tuple[Loop, Statement, tuple[Statement, ...]]]:
    """Counted loops that start a line, with their statement and the statements beside it."""
    for function in scene.source.functions:
        tops = scene.source.statements(function)
        beside = {s.span: tops for s in tops}
        for outer in (inner for top in tops for inner in top.all()):
            beside |= {s.span: outer.body for s in outer.body} | {s.span: outer.alternative for s in outer.alternative}
        known = {s.span: s for top in tops for s in top.all()}
        for loop in scene.source.loops:
            statement = known.get(loop.span)
            if loop.function == function.name and statement is not None and statement.is_counted:
                yield loop, statement, beside[loop.span]


def _above(scene: Scene, loop: Loop) -> int:
    above = scene.source.above(loop.span)
    return above if above is not None else loop.span.start


def _where(scene: Scene, loop: Loop) -> str:
    return f"loop over {loop.variable} (line {scene.source.line(loop.span.start)})"


def _find_accumulators(scene: Scene) -> Iterator[Application]:
    for loop, statement, siblings in _counted(scene):
        totals = _totals(scene, statement) if not scene.source.is_bare(loop.span) else []
        kinds = {s.name: s.type.split() for s in siblings if s.kind == "declare"}
        if not totals or any(kinds.get(t.name) != ["float"] for t in totals) or statement.relation != "<":
            continue
        if statement.body_span is None or statement.start is None or statement.limit is None:
            continue
        for count in (4, 2):
            yield Application(
                edits=tuple(_spread(scene, loop, statement, totals, count)),
                summary=f"{_where(scene, loop)}: {count} accumulators for {', '.join(t.name for t in totals)}",
                arguments={"function": loop.function, "to": count},
                rank=0 if count == 4 else 1,
            )


def _totals(scene: Scene, loop: Statement) -> list[Reduction]:
    """What a loop adds up and nothing else, in nested loops too; empty where it does more."""
    found: dict[str, Reduction] = {}
    own = {s.name for s in loop.all() if s.kind in ("declare", "for")}
    for inner in loop.all():
        if inner is loop or inner.kind in ("declare", "block", "empty") or (inner.kind == "for" and inner.is_counted):
            continue
        total = reduction_of(scene.source, inner)
        if total is None or total.name in own or total.name in found or total.combine not in NEUTRAL:
            return []
        found[total.name] = total
    assert loop.body_span is not None
    uses = [name for name, _ in scene.source.names(loop.body_span)]
    if any(uses.count(t.name) != (1 if t.combine == "+" else 2) for t in found.values()):
        return []
    return list(found.values())


def _spread(scene: Scene, loop: Loop, statement: Statement, totals: list[Reduction], count: int) -> Iterator[Edit]:
    source, indent, i = scene.source, loop.indent, loop.variable
    assert statement.body_span is not None
    assert statement.start is not None
    assert statement.limit is not None
    done, step = fresh(scene, f"{i}_done"), statement.step
    names = {t.name: [t.name, *(fresh(scene, f"{t.name}_{n}") for n in range(2, count + 1))] for t in totals}
    before = "".join(f"{indent}float {name} = {NEUTRAL[t.combine]};\n" for t in totals for name in names[t.name][1:])
    last = f"{done} + {count - 1} * {step}" if step != "1" else f"{done} + {count - 1}"
    advance = f"{count} * {step}" if step != "1" else str(count)
    before += f"{indent}int {done} = {source.slice(statement.start)};\n"
    if loop.pragma is not None:
        before += source.slice(loop.pragma)
    before += f"{indent}for (; {last} < {source.slice(statement.limit)}; {done} += {advance}) {{\n"
    for place in range(count):
        body = source.renamed(statement.body_span, {t.name: names[t.name][place] for t in totals})
        at = f"{done} + {place} * {step}" if step != "1" else f"{done} + {place}"
        before += f"{indent}    {{\n{indent}    const int {i} = {at if place else done};\n"
        before += f"{indent}    {body}\n{indent}    }}\n"
    before += f"{indent}}}\n"
    start = _above(scene, loop)
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


def _find_strips(scene: Scene) -> Iterator[Application]:
    for loop, statement, _ in _counted(scene):
        if statement.step != "1" or statement.relation != "<" or statement.limit is None or statement.start is None:
            continue
        limit, start = scene.source.slice(statement.limit), scene.source.slice(statement.start)
        if scene.source.type_of(loop.function, statement.limit) != "int" or "for (" in scene.source.slice(
            Span(scene.source.line_start(loop.span.start), loop.span.start)
        ):
            continue
        if (loop.trips is not None and loop.trips <= min(_STRIPS)) or _LEAVES.search(scene.source.slice(loop.span)):
            continue
        first = fresh(scene, f"{loop.variable}_first")
        at = _above(scene, loop)
        for width in _STRIPS:
            head = f"{loop.indent}for (int {first} = {start}; {first} < {limit}; {first} += {width})\n"
            if loop.pragma is not None:
                head = head.rstrip("\n") + " {\n"
            edits = [
                Edit(Span(at, at), head),
                Edit(statement.start, first),
                Edit(statement.limit, f"min({first} + {width}, {limit})"),
            ]
            if loop.pragma is not None:
                edits.append(Edit(Span(loop.span.end, loop.span.end), f"\n{loop.indent}}}"))
            yield Application(
                edits=tuple(edits),
                summary=f"{_where(scene, loop)}: in strips of {width}",
                arguments={"function": loop.function, "to": width},
                rank=0 if width == 64 else 1,
            )


def _find_interchange(scene: Scene) -> Iterator[Application]:
    for loop, outer, _ in _counted(scene):
        inner = outer.body[0] if len(outer.body) == 1 else None
        if (
            inner is None
            or not inner.is_counted
            or len(inner.body) != 1
            or outer.header is None
            or inner.header is None
        ):
            continue
        only = inner.body[0]
        if only.kind != "assign" or only.target is None or only.value is None:
            continue
        heads = [scene.source.slice(h).rstrip() for h in (outer.header, inner.header)]
        names = [{n for n, _ in scene.source.names(h)} for h in (outer.header, inner.header)]
        target = {n for n, _ in scene.source.names(only.target)}
        is_own = not only.name and {outer.name, inner.name} <= target
        is_sum = only.operator == "+=" and not target & {n for n, _ in scene.source.names(only.value)}
        if (
            outer.name in names[1]
            or inner.name in names[0]
            or not (is_own or is_sum)
            or (
                is_own
                and not is_sum
                and only.operator == "="
                and (target - {outer.name, inner.name}) & {n for n, _ in scene.source.names(only.value)}
            )
        ):
            continue
        spans = [
            Span(h.start, h.start + len(text.encode()))
            for h, text in zip((outer.header, inner.header), heads, strict=True)
        ]
        yield Application(
            edits=(Edit(spans[0], heads[1]), Edit(spans[1], heads[0])),
            summary=f"{_where(scene, loop)}: exchanged with the loop over {inner.name} inside it",
            arguments={"function": loop.function, "outer": outer.name, "inner": inner.name},
        )


def _find_peel(scene: Scene) -> Iterator[Application]:
    for loop, statement, _ in _counted(scene):
        if statement.start is None or statement.limit is None or statement.body_span is None:
            continue
        if scene.source.is_bare(loop.span):
            continue
        start, limit = scene.source.slice(statement.start), scene.source.slice(statement.limit)
        body = scene.source.slice(statement.body_span)
        if _LEAVES.search(body) or re.search(r"__sync|_sync\b|\basm\b|__shared__", body) or len(body) > 2000:
            continue
        if (loop.trips is not None and loop.trips < 2) or not any(
            s.kind == "if" and loop.variable in s.reads for s in statement.all()
        ):
            continue  # without a test on the variable, the first step is like the others
        at, indent = _above(scene, loop), loop.indent
        first = (
            f"{indent}if ({start} {statement.relation} {limit}) {{\n{indent}    const int {loop.variable} = {start};\n"
        )
        yield Application(
            edits=(
                Edit(Span(at, at), f"{first}{indent}    {body}\n{indent}}}\n"),
                Edit(statement.start, statement.step if start == "0" else f"{start} + {statement.step}"),
            ),
            summary=f"{_where(scene, loop)}: its first step before the loop",
            arguments={"function": loop.function, "variable": loop.variable},
        )


def _find_online(scene: Scene) -> Iterator[Application]:
    for loop, top, siblings in _counted(scene):
        place = siblings.index(top)
        found = shareable(scene.source, top)
        if found is None or len(found.reductions) != 1 or found.reductions[0].combine != "fmaxf" or found.stores:
            continue
        largest, later = found.reductions[0], siblings[place + 1 :]
        second = next((s for s in later if s.kind == "for"), None)
        total = _exponentials(scene, top, second, largest) if second is not None else None
        if second is None or total is None or len(top.body) != 1 or top.body_span is None:
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
        after = next((each for each in scene.source.loops if each.span == second.span), None)
        start = _above(scene, after) if after is not None else second.span.start
        above = _above(scene, loop)
        yield Application(
            edits=(
                Edit(Span(above, above), f"{indent}{scene.source.slice(own.span)}\n"),
                Edit(top.body_span, text),
                Edit(_lines(scene, own.span), ""),
                Edit(_lines(scene, Span(start, second.span.end)), ""),
            ),
            summary=f"{_where(scene, loop)}: {m} and {name} in one pass, rescaled when the maximum moves",
            arguments={"function": loop.function, "largest": m, "sum": name},
        )


def _lines(scene: Scene, span: Span) -> Span:
    """The span with the blanks before it on its line and the newline after it."""
    start = scene.source.line_start(span.start)
    if scene.source.data[start : span.start].strip():
        start = span.start
    is_last = scene.source.data[span.end : span.end + 1] == b"\n"
    return Span(start, span.end + 1 if is_last else span.end)


def _exponentials(scene: Scene, top: Statement, second: Statement, largest: Reduction) -> tuple[Reduction, str] | None:
    """`sum += expf(VALUE - largest)` over the same elements as the maximum, and the function's name."""
    if second.header is None or top.header is None or len(second.body) != 1:
        return None
    if scene.source.slice(second.header).strip() != scene.source.slice(top.header).strip():
        return None
    found = reduction_of(scene.source, second.body[0])
    if found is None or found.combine != "+":
        return None
    value = scene.source.slice(largest.value)
    match = re.fullmatch(rf"(\w*exp2?f)\({re.escape(value)} - {largest.name}\)", scene.source.slice(found.value))
    return (found, match[1]) if match else None


_SUM = "  float s = 0.0f;\n"
RULES = (
    Rule(
        name="accumulators",
        family="loop",
        sentence="Splits the sum or maximum of a loop over 2 or 4 accumulators that are combined at the end.",
        find=_find_accumulators,
        examples=(
            Example(
                _SUM + "  for (int i = 0; i < n; ++i) s += a[i];\n  o[0] = s;\n",
                _SUM + "  float s_2 = 0.0f;\n  int i_done = 0;\n  for (; i_done + 1 < n; i_done += 2) {\n"
                "      {\n      const int i = i_done;\n      s += a[i];\n      }\n"
                "      {\n      const int i = i_done + 1;\n      s_2 += a[i];\n      }\n  }\n"
                "  for (int i = i_done; i < n; ++i) s += a[i];\n  s += s_2;\n  o[0] = s;\n",
            ),
        ),
        reason="each step of one sum waits for the one before it; several sums run side by side",
        expected="as many times less latency on the chain of additions",
        risk="sums are added in another order; more registers",
        next_if_kept="more accumulators",
        next_if_reverted="latency is hidden by other warps already",
    ),
    Rule(
        name="strips",
        family="loop",
        sentence="Walks a long loop in strips of 32, 64 or 128 steps.",
        find=_find_strips,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) o[i] = x;\n",
                "  for (int i_first = 0; i_first < n; i_first += 64)\n"
                "  for (int i = i_first; i < min(i_first + 64, n); ++i) o[i] = x;\n",
            ),
        ),
        reason="a strip is the unit that can be staged, unrolled or pipelined",
        expected="little by itself; inner loops of bounded length unroll better",
        risk="the loop's own instructions, twice",
        next_if_kept="unroll the inner loop",
        next_if_reverted="stage tiles by hand",
    ),
    Rule(
        name="interchange",
        family="loop",
        sentence="Exchanges two loops of a perfect nest whose only statement adds up or writes its own element.",
        find=_find_interchange,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i)\n    for (int j = 0; j < 8; ++j)\n      o[i * 8 + j] = x;\n",
                "  for (int j = 0; j < 8; ++j)\n    for (int i = 0; i < n; ++i)\n      o[i * 8 + j] = x;\n",
            ),
        ),
        reason="the inner loop decides what stays in registers and which addresses follow one another",
        expected="reuse of what the new inner loop does not change",
        risk="sums are added in another order; strides grow",
        next_if_kept="unroll the new inner loop",
        next_if_reverted="the order was right",
    ),
    Rule(
        name="peel",
        family="loop",
        sentence="Takes the first step of a loop out of it, where the body tests the loop's variable.",
        find=_find_peel,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) { if (i > 0) o[i] = x; }\n",
                "  if (0 < n) {\n      const int i = 0;\n      { if (i > 0) o[i] = x; }\n  }\n"
                "  for (int i = 1; i < n; ++i) { if (i > 0) o[i] = x; }\n",
            ),
        ),
        reason="a test that only the first step needs is paid at every step",
        expected="no test, and no divergent branch, in the loop",
        risk="the body is there twice: more instructions to fetch",
        next_if_kept="simplify the test that is now always true",
        next_if_reverted="predicate the test instead",
    ),
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
