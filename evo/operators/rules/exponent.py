"""Exponentials: the hardware computes powers of two, so work in base two and fold the constants away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Call, Edit, Function, Span
from evo.operators.rules.rule import Application, Example, Rule, Scene

_LOG2E = "1.44269504f"
_SCALED = re.compile(r"^\((?P<inner>.*)\)\s*\*\s*1\.44269504\d*[fF]$", re.DOTALL)


def _find_exp2(scene: Scene) -> Iterator[Application]:
    for call in scene.source.calls:
        if len(call.types) == 1 and (
            call.name in ("expf", "__expf") or (call.name == "exp" and call.types[0] == "float")
        ):
            argument = scene.source.slice(call.arguments[0])
            line = scene.source.line(call.span.start)
            yield Application(
                edits=(Edit(call.span, f"exp2f(({argument}) * {_LOG2E})"),),
                summary=f"{call.function} (line {line}): {call.name}({argument}) in base two",
                arguments={"function": call.function, "from": call.name},
            )


def _find_fold(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        calls = [c for c in scene.source.calls if c.name == "exp2f" and c.function == function.name]
        scales = [p for p in function.params if p.type == "float" and "scale" in p.name.lower()]
        if not calls or len(scales) != 1 or not _only_multiplies(scene, function, scales[0].name):
            continue
        edits = [edit for call in calls for edit in _unscaled(scene, call)]
        if len(edits) != 2 * len(calls):
            continue  # some exponential has no factor to fold
        name, start = scales[0].name, function.body.start + 1
        yield Application(
            edits=(Edit(Span(start, start), f"\n  {name} *= {_LOG2E};"), *edits),
            summary=f"{function.name}: fold log2(e) into {name} instead of {len(calls)} exponentials",
            arguments={"function": function.name, "parameter": name},
        )


def _unscaled(scene: Scene, call: Call) -> list[Edit]:
    """`(inner) * log2e` -> `inner`: the bracket and the factor go, the inside stays untouched."""
    if len(call.arguments) != 1:
        return []
    span = call.arguments[0]
    text = scene.source.slice(span)
    match = _SCALED.match(text)
    if match is None or not _balanced(match["inner"]):
        return []
    inner_end = span.start + len(text[: match.end("inner")].encode())
    return [Edit(Span(span.start, span.start + 1), ""), Edit(Span(inner_end, span.end), "")]


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _only_multiplies(scene: Scene, function: Function, name: str) -> bool:
    """Whether the parameter is used as a factor and nothing else; it may then carry another constant factor."""
    factors = 0
    for binary in scene.source.binaries:
        if binary.function == function.name and binary.operator == "*":
            factors += [scene.source.slice(binary.left), scene.source.slice(binary.right)].count(name)
    return factors > 0 and factors == len(scene.source.uses(function.name, name))


_SOFTMAX = 'extern "C" __global__ void k(const float* a, float* o, float scale) {{{}\n  o[0] = exp2f({});\n}}\n'
RULES = (
    Rule(
        name="exp2",
        family="exponent",
        sentence="Writes `expf(x)` as `exp2f((x) * log2(e))`, which is what the hardware does.",
        find=_find_exp2,
        examples=(
            Example("  o[0] = expf(x - y);\n", "  o[0] = exp2f((x - y) * 1.44269504f);\n"),
            Example("  o[0] = __expf(x);\n", "  o[0] = exp2f((x) * 1.44269504f);\n"),
        ),
        reason="the special-function unit knows ex2 only; in base two the factor is visible and can be folded",
        expected="one multiply fewer per element once the factor is folded into an earlier one",
        risk="a rounding more in the argument",
        next_if_kept="fold the factor into the softmax scale",
        next_if_reverted="keep the library's exponential",
    ),
    Rule(
        name="fold_scale",
        family="exponent",
        sentence="Moves the log2(e) factor of every exponential of a kernel into its scale parameter, once.",
        find=_find_fold,
        examples=(
            Example(
                _SOFTMAX.format("", "(a[0] * scale - a[1] * scale) * 1.44269504f"),
                _SOFTMAX.format("\n  scale *= 1.44269504f;", "a[0] * scale - a[1] * scale"),
            ),
        ),
        reason="the scores are multiplied by the scale anyway: one product per block instead of one per element",
        expected="one FMUL fewer per exponential",
        risk="wrong where a scaled score is used outside an exponential; the gate decides",
        next_if_kept="fold the scale into q before the first product",
        next_if_reverted="leave the factor where it is",
    ),
)
