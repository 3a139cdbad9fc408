"""Work that a loop repeats and need not: reciprocals, rescaling, index arithmetic; and constants of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.operators.rules.threads import fresh, indent_of

_ROOT = re.compile(r"sqrtf\((.*)\)", re.DOTALL)
_DOUBLE = re.compile(r"(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")


def _loops(statements: Sequence[Statement]) -> Iterator[Statement]:
    for top in statements:
        yield from (inner for inner in top.all() if inner.kind == "for")


def _declared_before(function: Function, statements: Sequence[Statement], name: str, at: int) -> bool:
    params = {param.name for param in function.params}
    return name in params or any(s.name == name and s.span.end <= at for s in statements if s.kind == "declare")


def _place(scene: Scene, function: Function, loop: Statement) -> str:
    return f"{function.name} (line {scene.source.line(loop.span.start)})"


def _find_reciprocal(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        statements = scene.source.statements(function)
        for loop in statements:
            start = scene.source.above(loop.span) if loop.kind == "for" else None
            if start is None or loop.body_span is None:
                continue
            found: dict[str, list[Span]] = {}
            for division in scene.source.divisions:
                name = scene.source.slice(division.right)
                types = (division.left_type, division.right_type)
                if loop.body_span.holds(division.span) and types == ("float", "float") and name.isidentifier():
                    found.setdefault(name, []).append(Span(division.left.end, division.right.end))
            for name, spans in found.items():
                if name in scene.source.changed_in(loop.span) or not _declared_before(
                    function, statements, name, loop.span.start
                ):
                    continue
                inverse = fresh(scene, f"{name}_inverse")
                signs = {scene.source.slice(span).strip()[:2] for span in spans}
                if "/=" in signs:
                    continue
                yield Application(
                    edits=(
                        Edit(
                            Span(start, start),
                            f"{indent_of(scene.source, loop.span.start)}const float {inverse} = 1.0f / {name};\n",
                        ),
                        *(Edit(span, f" * {inverse}") for span in spans),
                    ),
                    summary=f"{_place(scene, function, loop)}: 1 / {name} once before the loop",
                    arguments={"function": function.name, "divisor": name},
                )


def _find_root(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        for top in scene.source.statements(function):
            for root in top.all():
                if root.kind != "declare" or root.value is None or root.type.split() != ["const", "float"]:
                    continue
                match = _ROOT.fullmatch(scene.source.slice(root.value))
                uses = [at for name, at in scene.source.names(function.body) if name == root.name]
                divisions = [d for d in scene.source.divisions if d.right in uses and not d.is_assignment]
                if match is None or not divisions or len(divisions) != len(uses) - 1:
                    continue
                if any(d.left_type != "float" or scene.source.slice(d.left) == "1.0f" for d in divisions):
                    continue
                yield Application(
                    edits=(
                        Edit(root.value, f"rsqrtf({match[1]})"),
                        *(Edit(Span(d.left.end, d.right.end), f" * {root.name}") for d in divisions),
                    ),
                    summary=f"{function.name}: {root.name} as a reciprocal root, {len(divisions)} divisions fewer",
                    arguments={"function": function.name, "name": root.name},
                )


def _find_rescale(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        statements = scene.source.statements(function)
        for loop in _loops(statements):
            start = scene.source.above(loop.span)
            if start is None or loop.header is None or not loop.is_counted:
                continue
            updates = [s for s in loop.all() if s.kind == "assign" and s.operator == "=" and s.target is not None]
            for update in updates:
                assert update.target is not None
                target = scene.source.slice(update.target)
                match = re.match(rf"{re.escape(target)} \* (\w+) \+ ", scene.source.slice(update.value or update.span))
                if (
                    match is None
                    or update.value is None
                    or match[1] in scene.source.changed_in(loop.span)
                    or update.name
                ):
                    continue
                inner = [s for s in loop.all() if s.kind == "for" and s is not loop and s.span.holds(update.span)]
                if scene.source.type_of(function.name, update.target) != "float" or len(inner) > 1:
                    continue
                indent = indent_of(scene.source, loop.span.start)
                heads = "".join(f"{scene.source.slice(h.header).strip()} " for h in (loop, *inner) if h.header)
                if "{" in heads or "\n" in heads:
                    continue
                names = [name for name, _ in scene.source.names(loop.span)]
                if names.count(scene.source.names(update.target)[0][0]) != 2:
                    continue  # it is looked at elsewhere in the loop
                text = f"{indent}if ({match[1]} != 1.0f) {{\n#pragma unroll\n{indent}    "
                text += f"{heads}{target} *= {match[1]};\n{indent}}}\n"
                head_end = update.value.start + len(match[0].encode())
                yield Application(
                    edits=(Edit(Span(start, start), text), Edit(Span(update.target.end, head_end), " += ")),
                    summary=f"{function.name}: {target} is rescaled only where {match[1]} is not 1",
                    arguments={"function": function.name, "factor": match[1]},
                )


def _find_pointer(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        for loop in _loops(scene.source.statements(function)):
            start = scene.source.above(loop.span)
            if start is None or loop.header is None or loop.body_span is None or loop.step != "1" or loop.start is None:
                continue
            written = scene.source.changed_in(loop.span)
            reads: dict[str, list[Span]] = {}
            for use in scene.source.subscripts(loop.body_span):
                text = scene.source.slice(use.span)
                names = {name for name, _ in scene.source.names(use.span)}
                if use.is_read and len(use.indices) == 1 and loop.name in names and not names & (written - {loop.name}):
                    reads.setdefault(text, []).append(use.span)
            for text, spans in reads.items():
                found = re.fullmatch(rf"(\w+)\[\(long long\){loop.name} \* (\w+)( \+ \w+)?\]", text)
                kind = scene.source.element_type(function.name, found[1]) if found else None
                params = {p.name: p for p in function.params if p.is_const and p.is_pointer}
                if found is None or kind is None or found[1] not in params or len(spans) != 1:
                    continue
                at, indent = fresh(scene, f"{found[1]}_at"), indent_of(scene.source, loop.span.start)
                first = scene.source.slice(loop.start)
                header = scene.source.slice(loop.header).rstrip()
                closing = loop.header.start + len(header[: header.rindex(")")].encode())
                line = f"{indent}const {kind}* {at} = {found[1]} + (long long)({first}) * {found[2]}{found[3] or ''};\n"
                yield Application(
                    edits=(
                        Edit(Span(start, start), line),
                        Edit(Span(closing, closing), f", {at} += {found[2]}"),
                        Edit(spans[0], f"*{at}"),
                    ),
                    summary=f"{_place(scene, function, loop)}: a pointer walks {found[1]} by {found[2]}",
                    arguments={"function": function.name, "parameter": found[1]},
                )


def _find_double(scene: Scene) -> Iterator[Application]:
    for binary in scene.source.binaries:
        for own, own_type, other in (
            (binary.left, binary.left_type, binary.right_type),
            (binary.right, binary.right_type, binary.left_type),
        ):
            text = scene.source.slice(own)
            if own_type == "double" and other == "float" and _DOUBLE.fullmatch(text):
                yield Application(
                    edits=(Edit(own, f"{text}f"),),
                    summary=f"{binary.function} (line {scene.source.line(own.start)}): {text} -> {text}f",
                    arguments={"function": binary.function, "literal": text},
                )


_RESCALE = (
    "  float s[4] = {{0}};\n  for (int j = 0; j < n; ++j) {{\n{}"
    "    for (int i = 0; i < 4; ++i) {}\n  }}\n  o[0] = s[0];\n"
)
RULES = (
    Rule(
        name="hoist_reciprocal",
        family="hoist",
        sentence="Divides once before a loop and multiplies in it, where the divisor does not change.",
        find=_find_reciprocal,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) o[i] = a[i] / x;\n",
                "  const float x_inverse = 1.0f / x;\n  for (int i = 0; i < n; ++i) o[i] = a[i] * x_inverse;\n",
            ),
        ),
        reason="a full-precision division is a subroutine of some ten instructions, once per element",
        expected="one multiply per element",
        risk="rounds twice instead of once",
        next_if_kept="fold the factor into another constant of the loop",
        next_if_reverted="leave the division; it is not on the critical path",
    ),
    Rule(
        name="inverse_root",
        family="hoist",
        sentence="Computes a reciprocal square root once where a square root is only divided by.",
        find=_find_root,
        examples=(
            Example(
                "  const float r = sqrtf(x);\n  for (int i = 0; i < n; ++i) o[i] = a[i] / r;\n",
                "  const float r = rsqrtf(x);\n  for (int i = 0; i < n; ++i) o[i] = a[i] * r;\n",
            ),
        ),
        reason="the special-function unit knows 1 / sqrt directly, and a product is cheaper than a division",
        expected="no division per element and no accurate square root",
        risk="2 ulp of rsqrtf; the error budget decides",
        next_if_kept="wider loads and stores in that loop",
        next_if_reverted="the reciprocal alone",
    ),
    Rule(
        name="lazy_rescale",
        family="hoist",
        sentence="Takes `x = x * factor + y` apart: the product happens only where the factor is not 1.",
        find=_find_rescale,
        examples=(
            Example(
                _RESCALE.format("", "s[i] = s[i] * x + a[j];"),
                _RESCALE.format(
                    "    if (x != 1.0f) {\n#pragma unroll\n        for (int i = 0; i < 4; ++i) s[i] *= x;\n    }\n",
                    "s[i] += a[j];",
                ),
            ),
        ),
        reason="a running maximum seldom changes, so its correction factor is nearly always 1",
        expected="one multiply fewer per element and step",
        risk="a branch per step; lanes of a warp disagree about it at first",
        next_if_kept="wider steps between two maxima",
        next_if_reverted="the product is hidden behind loads",
    ),
    Rule(
        name="walk_pointer",
        family="hoist",
        sentence="Lets a pointer walk a column instead of multiplying the row number by its length at each step.",
        find=_find_pointer,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) o[0] += a[(long long)i * n + 1];\n",
                "  const float* a_at = a + (long long)(0) * n + 1;\n"
                "  for (int i = 0; i < n; ++i, a_at += n) o[0] += *a_at;\n",
            ),
        ),
        reason="64-bit products are several instructions; an addition is one",
        expected="fewer integer instructions per load",
        risk="none where the compiler has done it; a longer chain of additions where it unrolled",
        next_if_kept="the other operand",
        next_if_reverted="leave it to the compiler's strength reduction",
    ),
    Rule(
        name="float_literal",
        family="hoist",
        sentence="Writes a double literal that meets a float as a float literal.",
        find=_find_double,
        examples=(Example("  o[0] = x * 0.5;\n", "  o[0] = x * 0.5f;\n"),),
        reason="one double literal makes the whole expression double precision, at a 64th of the speed",
        expected="no conversions and no double-precision instructions",
        risk="rounds in single precision",
        next_if_kept="other literals",
        next_if_reverted="the expression needs its precision",
    ),
)
