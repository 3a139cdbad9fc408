"""Redundant work: repeated divisions by a root, and unintended double precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.rule import Application, Example, Rule, RuleContext

_ROOT = re.compile(r"sqrtf\((.*)\)", re.DOTALL)
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


def _find_root(ctx: RuleContext) -> Iterator[Application]:
    all_divisions = [binary for binary in ctx.source.binaries if binary.operator == "/"]
    for function in ctx.source.functions:
        for top in ctx.source.statements(function):
            for root in top.all():
                if root.kind != "declare" or root.value is None or root.type.split() != ["const", "float"]:
                    continue
                match = _ROOT.fullmatch(ctx.source.slice(root.value))
                uses = [at for name, at in ctx.source.names(function.body) if name == root.name]
                divisions = [d for d in all_divisions if d.right in uses and not d.is_assignment]
                if match is None or not divisions or len(divisions) != len(uses) - 1:
                    continue
                if any(d.left_type != "float" or ctx.source.slice(d.left) == "1.0f" for d in divisions):
                    continue
                yield Application(
                    edits=(
                        Edit(root.value, f"rsqrtf({match[1]})"),
                        *(Edit(Span(d.left.end, d.right.end), f" * {root.name}") for d in divisions),
                    ),
                    summary=f"{function.name}: {root.name} as a reciprocal root, {len(divisions)} divisions fewer",
                    arguments={"function": function.name, "name": root.name},
                )


RULES = (
    Rule(
        name="inverse_root",
        sentence="Computes a reciprocal square root once where a square root is only divided by.",
        find=_find_root,
        examples=(
            Example(
                "  const float r = sqrtf(x);\n  for (int i = 0; i < n; ++i) o[i] = a[i] / r;\n",
                "  const float r = rsqrtf(x);\n  for (int i = 0; i < n; ++i) o[i] = a[i] * r;\n",
            ),
        ),
        reason="the special-function unit computes 1 / sqrt directly, and a product is cheaper than a division",
        expected="no division per element and no accurate square root",
        risk="2 ulp of rsqrtf; the error budget decides",
        next_if_kept="wider loads and stores in that loop",
        next_if_reverted="the reciprocal alone",
    ),
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
