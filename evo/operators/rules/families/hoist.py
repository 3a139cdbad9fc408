"""Double precision that nobody meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit
from evo.operators.rules.rule import Application, Example, Rule, RuleContext

_DOUBLE = re.compile(r"(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")


def _find_double(ctx: RuleContext) -> Iterator[Application]:
    for binary in ctx.source.binaries:
        for own, own_type, other in (
            (binary.left, binary.left_type, binary.right_type),
            (binary.right, binary.right_type, binary.left_type),
        ):
            text = ctx.source.slice(own)
            if own_type == "double" and other == "float" and _DOUBLE.fullmatch(text):
                yield Application(
                    edits=(Edit(own, f"{text}f"),),
                    summary=f"{binary.function} (line {ctx.source.line(own.start)}): {text} -> {text}f",
                    arguments={"function": binary.function, "literal": text},
                )


RULES = (
    Rule(
        name="float_literal",
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
