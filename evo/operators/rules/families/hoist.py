"""Costly arithmetic that nobody meant: double precision, and accurate roots that are only divided by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import BinaryExpression, Edit, Function, Span
from evo.operators.rules.rewriting import CHANGES, balanced, bare, bracketed
from evo.operators.rules.rule import Application, Example, Rule, RuleContext

_ROOT = re.compile(r"\(?\s*(?P<name>sqrtf?|std::sqrt)\s*\((?P<of>.*)\)", re.DOTALL)
_ONE = ("1.0f", "1.f", "1")
_PLAIN = re.compile(r"[\w.]+|\((?:[\w\s.+*-]|(?<!\w)\(|\))+\)")  # what brackets hold, and no call
_POWER = re.compile(r"(?:2|4|8|16|32|64|128|256)(?:\.0*)?f?")  # whose inverses are exact, as compilers know
_POWERS = ("pow", "powf", "std::pow", "__powf")
_EXPONENT = re.compile(r"([234])(?:\.0*)?f?")
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
    for function in ctx.source.functions:
        divisions = [d for d in ctx.source.binaries if d.operator == "/" and function.body.holds(d.span)]
        divisions = [d for d in divisions if d.left_type in ("float", "int", None)]
        edits = [edit for d in divisions if (edit := _by_root(ctx, d)) is not None]
        edits += [edit for edits in _named_roots(ctx, function, divisions) for edit in edits]
        edits = [e for e in edits if not any(o is not e and o.span.holds(e.span) for o in edits)]
        if edits:
            lines = dict.fromkeys(ctx.source.line(edit.span.start) for edit in edits)
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name} (line {', '.join(map(str, lines))}): reciprocal roots for divisions by roots",
                arguments={"function": function.name},
                is_schedule=len(edits) > 1,
            )


def _find_inverse(ctx: RuleContext) -> Iterator[Application]:
    """Divisions of floats by what does not change, in the loop around them, or in a function of its own."""
    for function in ctx.source.functions:
        found = [d for d in ctx.source.binaries if d.operator == "/" and function.body.holds(d.span)]
        found = [d for d in found if _is_steady(ctx, function, d)]
        edits = [_product(ctx, d, f"(1.0f / {ctx.source.slice(d.right)})") for d in found]
        edits = [e for e in edits if not any(o is not e and o.span.holds(e.span) for o in edits)]
        if edits:
            lines = dict.fromkeys(ctx.source.line(edit.span.start) for edit in edits)
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name} (line {', '.join(map(str, lines))}): products with inverses for divisions",
                arguments={"function": function.name},
                is_schedule=len(edits) > 1,
            )


def _is_steady(ctx: RuleContext, function: Function, division: BinaryExpression) -> bool:
    """Whether the inverse is worked out once: for all turns of a loop, or by the compiler for a function's callers."""
    source, text = ctx.source, ctx.source.slice(division.right)
    if division.left_type != "float" or division.right_type not in ("float", "int") or not _PLAIN.fullmatch(text):
        return False
    if source.slice(division.left) in _ONE or _POWER.fullmatch(bare(text)):
        return False
    loops = [s for s in source.inside(function) if s.kind == "for" and s.span.holds(division.span)]
    inner = max(loops, key=lambda each: each.span.start, default=None)
    if inner is None and function.is_kernel:
        return False
    changed = source.changed_in(inner.span if inner is not None else function.body)
    return changed.isdisjoint(name for name, _ in source.names(division.right))


def _find_powers(ctx: RuleContext) -> Iterator[Application]:
    """Powers of floats by two, three or four."""
    for function in ctx.source.functions:
        edits = []
        for call in ctx.source.calls:
            if not function.body.holds(call.span) or call.name not in _POWERS or len(call.arguments) != 2:
                continue
            base, exponent = (ctx.source.slice(each).strip() for each in call.arguments)
            said = _EXPONENT.fullmatch(exponent)
            is_float = ctx.source.type_of(function.name, call.arguments[0]) in ("float", "double")
            if said is None or not is_float or CHANGES.search(base) or re.search(r"\w\s*\(", base):
                continue
            factor = base if re.fullmatch(r"\w+(?:\[[^\[\]]*\])?", base) else bracketed(base)
            edits.append(Edit(call.span, f"({' * '.join([factor] * int(said[1]))})"))
        edits = [e for e in edits if not any(o is not e and o.span.holds(e.span) for o in edits)]
        if edits:
            lines = dict.fromkeys(ctx.source.line(edit.span.start) for edit in edits)
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name} (line {', '.join(map(str, lines))}): products for powers",
                arguments={"function": function.name},
                is_schedule=len(edits) > 1,
            )


def _root(ctx: RuleContext, span: Span, kind: str | None) -> str | None:
    """What a root of floats is taken of; None if a span holds anything else."""
    text = ctx.source.slice(span).strip()
    match = _ROOT.fullmatch(text[1:-1] if text.startswith("(") and bare(text) != text else text)
    if match is None or not balanced(match["of"]) or (match["name"] != "sqrtf" and kind != "float"):
        return None
    return match["of"]


def _by_root(ctx: RuleContext, division: BinaryExpression) -> Edit | None:
    """`x / sqrtf(y)` as a product."""
    of = _root(ctx, division.right, division.right_type)
    return None if of is None else _product(ctx, division, f"rsqrtf({of})")


def _product(ctx: RuleContext, division: BinaryExpression, inverse: str) -> Edit:
    if not division.is_assignment and ctx.source.slice(division.left) in _ONE:
        return Edit(Span(division.left.start, division.right.end), inverse)
    sign = "*=" if division.is_assignment else "*"
    return Edit(Span(division.left.end, division.right.end), f" {sign} {inverse}")


def _named_roots(ctx: RuleContext, function: Function, divisions: list[BinaryExpression]) -> Iterator[list[Edit]]:
    """A variable that is set to a root once, and only divided by."""
    for root in ctx.source.inside(function):
        if root.kind != "declare" or root.value is None or root.dims or root.type.split()[-1] != "float":
            continue
        of = _root(ctx, root.value, "float")
        uses = [at for name, at in ctx.source.names(function.body) if name == root.name and not root.span.holds(at)]
        ours = [d for d in divisions if d.right in uses]
        if of is not None and uses and len(ours) == len(uses):
            yield [Edit(root.value, f"rsqrtf({of})"), *(_product(ctx, d, root.name) for d in ours)]


RULES = (
    Rule(
        name="inverse_root",
        sentence="Computes a reciprocal square root where a square root is only divided by.",
        find=_find_root,
        examples=(
            Example("  o[0] += x / sqrtf(y * y + 1.0f);\n", "  o[0] += x * rsqrtf(y * y + 1.0f);\n"),
            Example(
                "  const float r = sqrtf(x);\n  for (int i = 0; i < n; ++i) o[i] = a[i] / r;\n",
                "  const float r = rsqrtf(x);\n  for (int i = 0; i < n; ++i) o[i] = a[i] * r;\n",
            ),
        ),
        reason="the special-function unit computes 1 / sqrt directly; an accurate root and a division are eight"
        " instructions and a branch each",
        expected="two instructions for some twenty where arithmetic binds",
        risk="2 ulp of rsqrtf; the error budget decides",
        next_if_kept="wider loads in that loop",
        next_if_reverted="the expression needs its precision",
    ),
    Rule(
        name="inverse",
        sentence="Multiplies by the inverse of what does not change in a loop, or in a function, instead of dividing.",
        find=_find_inverse,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) o[i] = a[i] / y;\n",
                "  for (int i = 0; i < n; ++i) o[i] = a[i] * (1.0f / y);\n",
            ),
        ),
        reason="an accurate division is eight instructions and a branch, and a compiler may not make a product of it",
        expected="one division for all turns of a loop, none where the divisor is known when compiled",
        risk="rounds twice; the error budget decides",
        next_if_kept="wider loads in that loop",
        next_if_reverted="the expression needs its precision",
    ),
    Rule(
        name="powers",
        sentence="Multiplies a number by itself where it is raised to the power of 2, 3 or 4.",
        find=_find_powers,
        reason="a power is a logarithm and an exponential, some hundred instructions, in double precision for `pow`",
        expected="one or two products",
        risk="rounds as products do; the error budget decides",
        next_if_kept="inverses of what does not change",
        next_if_reverted="the expression needs its precision",
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
