"""Cheaper float arithmetic: reciprocals instead of divisions, fast intrinsics, and fused multiply-add."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Binary, Call, Edit, Span
from evo.operators.rules.rule import Application, Example, Rule, Scene

_FAST = {
    f"{name}f": f"__{name}f"
    for name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "sincos", "tan", "tanh", "pow")
}
_FLOAT_LITERAL = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fF]")
_ONE = re.compile(r"1(\.0*)?[fF]")


def _is_float(binary: Binary) -> bool:
    """A float division or product: with an int on one side it is still done in float."""
    types = (binary.left_type, binary.right_type)
    return "float" in types and all(kind in ("float", "int") for kind in types)


def _place(scene: Scene, span: Span, function: str) -> str:
    return f"{function} (line {scene.source.line(span.start)})"


def _operand(scene: Scene, span: Span) -> str:
    text = scene.source.slice(span)
    return text if scene.source.is_simple(span) else f"({text})"


def _find_reciprocal(scene: Scene) -> Iterator[Application]:
    for division in scene.source.divisions:
        left, right = scene.source.slice(division.left), scene.source.slice(division.right)
        if not _is_float(division) or _ONE.fullmatch(left):
            continue
        if division.right_type == "int" and not division.is_assignment:
            inverse = f"__frcp_rn((float){_operand(scene, division.right)})"
        elif _FLOAT_LITERAL.fullmatch(right):
            inverse = f"(1.0f / {right})"
        else:
            inverse = f"__frcp_rn({right})"
        sign = "*=" if division.is_assignment else "*"
        yield Application(
            edits=(Edit(Span(division.left.end, division.right.end), f" {sign} {inverse}"),),
            summary=f"{_place(scene, division.span, division.function)}: / {right} -> times its reciprocal",
            arguments={"function": division.function, "divisor": right},
        )


def _find_fast_division(scene: Scene) -> Iterator[Application]:
    for division in scene.source.divisions:
        if not _is_float(division) or division.is_assignment:
            continue
        left, right = scene.source.slice(division.left), scene.source.slice(division.right)
        new = f"__frcp_rn({right})" if _ONE.fullmatch(left) else f"__fdividef({left}, {right})"
        yield Application(
            edits=(Edit(division.span, new),),
            summary=f"{_place(scene, division.span, division.function)}: {left} / {right} -> {new}",
            arguments={"function": division.function, "divisor": right},
        )


def _find_intrinsic(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        for slow, fast in _FAST.items():
            calls = [c for c in scene.source.calls if c.function == function.name and _is_call_of(c, slow)]
            if calls:
                yield Application(
                    edits=tuple(Edit(call.name_span, fast) for call in calls),
                    summary=f"{function.name}: {slow} -> {fast} ({len(calls)} calls)",
                    arguments={"function": function.name, "from": slow, "to": fast},
                )


def _is_call_of(call: Call, name: str) -> bool:
    """Whether it is of the float function, by that name or as the overload of `exp` for floats."""
    return call.name == name or (call.name == name[:-1] and bool(call.types) and set(call.types) == {"float"})


def _find_rsqrt(scene: Scene) -> Iterator[Application]:
    roots = {call.span: call for call in scene.source.calls if _is_call_of(call, "sqrtf") and len(call.arguments) == 1}
    for division in scene.source.divisions:
        root = roots.get(division.right)
        if root is None or division.is_assignment or division.left_type not in ("float", "int"):
            continue
        left, inside = scene.source.slice(division.left), scene.source.slice(root.arguments[0])
        new = f"rsqrtf({inside})" if _ONE.fullmatch(left) else f"{left} * rsqrtf({inside})"
        yield Application(
            edits=(Edit(division.span, new),),
            summary=f"{_place(scene, division.span, division.function)}: / sqrtf({inside}) -> rsqrtf",
            arguments={"function": division.function},
        )


def _find_fma(scene: Scene) -> Iterator[Application]:
    products = {b.span: b for b in scene.source.binaries if b.operator == "*" and not b.is_assignment and _is_float(b)}
    for outer in scene.source.binaries:
        product = products.get(outer.left)
        if outer.operator not in "+-" or outer.is_assignment or product is None or outer.right_type != "float":
            continue
        a, b = scene.source.slice(product.left), scene.source.slice(product.right)
        right = scene.source.slice(outer.right)
        addend = right if outer.operator == "+" else f"-{_operand(scene, outer.right)}"
        new = f"fmaf({a}, {b}, {addend})"
        yield Application(
            edits=(Edit(outer.span, new),),
            summary=f"{_place(scene, outer.span, outer.function)}: {scene.source.slice(outer.span)} -> {new}",
            arguments={"function": outer.function},
        )


def _find_distribute(scene: Scene) -> Iterator[Application]:
    differences = {b.span: b for b in scene.source.binaries if b.operator == "-" and not b.is_assignment}
    for product in scene.source.binaries:
        inner = differences.get(Span(product.left.start + 1, product.left.end - 1))
        if product.operator != "*" or product.is_assignment or inner is None or product.right_type != "float":
            continue
        if inner.left_type != "float" or inner.right_type != "float" or not _is_constant(scene, product, inner):
            continue
        a, factor = scene.source.slice(inner.left), scene.source.slice(product.right)
        new = f"fmaf({a}, {factor}, -{_operand(scene, inner.right)} * {_operand(scene, product.right)})"
        yield Application(
            edits=(Edit(product.span, new),),
            summary=f"{_place(scene, product.span, product.function)}: {scene.source.slice(product.span)} -> {new}",
            arguments={"function": product.function},
            rank=1,
        )


def _is_constant(scene: Scene, product: Binary, inner: Binary) -> bool:
    """Whether `(a - b) * c` stands in a loop that changes a, and neither b nor c."""
    source = scene.source
    function = next(f for f in source.functions if f.name == product.function)
    inside = [s for top in source.statements(function) for s in top.all() if s.kind == "for"]
    loops = [s for s in inside if s.span.holds(product.span)]
    if not loops:
        return False
    loop = min(loops, key=lambda s: s.span.end - s.span.start)
    names = {name for span in (inner.right, product.right) for name, _ in source.names(span)}
    changed = source.changed_in(loop.span)
    return not names & changed and bool({name for name, _ in source.names(inner.left)} & changed)


_FEWER = {
    "reason": "a full-precision division is a subroutine of some ten instructions",
    "expected": "one reciprocal and one multiply instead",
    "next_if_kept": "hoist the reciprocal out of its loop",
    "next_if_reverted": "leave this division; it is not on the critical path",
}
_FUSED = {
    "expected": "one FFMA where two instructions were",
    "risk": "rounds once instead of twice",
    "next_if_kept": "the same form elsewhere in the loop",
    "next_if_reverted": "leave the contraction to the compiler",
}
RULES = (
    Rule(
        name="reciprocal",
        family="division",
        sentence="Turns a float division into a multiplication by the reciprocal.",
        find=_find_reciprocal,
        examples=(
            Example("  o[0] = x / y;\n", "  o[0] = x * __frcp_rn(y);\n"),
            Example("  o[0] = x / 3.0f;\n", "  o[0] = x * (1.0f / 3.0f);\n"),
            Example("  x /= y;\n  o[0] = x;\n", "  x *= __frcp_rn(y);\n  o[0] = x;\n"),
        ),
        risk="rounds twice instead of once",
        **_FEWER,
    ),
    Rule(
        name="fast_division",
        family="division",
        sentence="Uses `__fdividef` or `__frcp_rn` for one float division.",
        find=_find_fast_division,
        examples=(
            Example("  o[0] = x / y;\n", "  o[0] = __fdividef(x, y);\n"),
            Example("  o[0] = 1.0f / x;\n", "  o[0] = __frcp_rn(x);\n"),
        ),
        risk="__fdividef is 0 for divisors above 2^126, and off by up to 2 ulp",
        **_FEWER,
    ),
    Rule(
        name="reciprocal_root",
        family="division",
        sentence="Turns a division by a square root into the reciprocal root, which is one instruction.",
        find=_find_rsqrt,
        examples=(
            Example("  o[0] = 1.0f / sqrtf(x + y);\n", "  o[0] = rsqrtf(x + y);\n"),
            Example("  o[0] = x / sqrt(y);\n", "  o[0] = x * rsqrtf(y);\n"),
        ),
        risk="off by up to 2 ulp; 0 / sqrtf(0) stays NaN",
        **_FEWER,
    ),
    Rule(
        name="intrinsic",
        family="intrinsics",
        sentence="Replaces a math function by its fast intrinsic throughout one function.",
        find=_find_intrinsic,
        examples=(
            Example("  o[0] = expf(x) + expf(y);\n", "  o[0] = __expf(x) + __expf(y);\n"),
            Example("  o[0] = tanh(x);\n", "  o[0] = __tanhf(x);\n"),
        ),
        reason="the accurate functions spend instructions on arguments that do not occur here",
        expected="fewer instructions around the special-function unit",
        risk="a few ulp of error more; the error budget decides",
        next_if_kept="fold the constant factors into the argument",
        next_if_reverted="look for the accurate function's cost elsewhere",
    ),
    Rule(
        name="fma",
        family="fma",
        sentence="Writes `a * b + c` as `fmaf(a, b, c)`.",
        find=_find_fma,
        examples=(Example("  o[0] = x * y - x;\n", "  o[0] = fmaf(x, y, -x);\n"),),
        reason="with --fmad=false, or across a cast, the compiler does not fuse by itself",
        **_FUSED,
    ),
    Rule(
        name="distribute",
        family="fma",
        sentence="Where a loop changes a alone, writes `(a - b) * c` as `fmaf(a, c, -b * c)`: one `b * c` for all.",
        find=_find_distribute,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) o[i] = (a[i] - y) * x;\n",
                "  for (int i = 0; i < n; ++i) o[i] = fmaf(a[i], x, -y * x);\n",
            ),
        ),
        reason="b and c do not change in the loop: b * c is computed once and each step is one instruction",
        **{**_FUSED, "risk": "b * c is rounded by itself: where a is near b, little but that rounding is left"},
    ),
)
