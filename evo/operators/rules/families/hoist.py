"""Work that a loop repeats and need not: rescaling by one, and double precision that nobody asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.rewriting import indent_of
from evo.operators.rules.rule import Application, Example, Rule, Scene

_DOUBLE = re.compile(r"(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")


def _find_rescale(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        inside = (inner for top in scene.source.statements(function) for inner in top.all())
        for loop in (inner for inner in inside if inner.kind == "for"):
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
