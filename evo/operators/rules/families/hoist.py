"""Costly arithmetic that nobody meant: double precision, accurate roots that are only divided by, and functions of what
a loop does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import BinaryExpression, CountedFor, Edit, Function, Source, Span
from evo.operators.rules.braced_view import braced
from evo.operators.rules.rewriting import CHANGES, balanced, bare, bracketed, fresh, indent_of, merged
from evo.operators.rules.rule import Application, Example, Rule, RuleContext
from evo.operators.rules.through import found_in_view

_ROOT = re.compile(r"\(?\s*(?P<name>sqrtf?|std::sqrt)\s*\((?P<of>.*)\)", re.DOTALL)
_ONE = ("1.0f", "1.f", "1")
_PLAIN = re.compile(r"[\w.]+|\((?:[\w\s.+*-]|(?<!\w)\(|\))+\)")  # what brackets hold, and no call
_POWER = re.compile(r"(?:2|4|8|16|32|64|128|256)(?:\.0*)?f?")  # whose inverses are exact, as compilers know
_UNROLL = "#pragma unroll"
_FEW = 32  # turns of a loop, a value for each of which is kept
_COSTLY = frozenset(
    f"{name}{f}"
    for name in (
        "sin",
        "cos",
        "tan",
        "sinpi",
        "cospi",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log1p",
        "pow",
        "tanh",
        "erf",
    )
    for f in ("f", "")
)
_NO_READS = re.compile(r"[^\[\]{}&;\"']*")
_NUMBER = re.compile(r"\(?[-+]?[\d.]+(?:e[-+]?\d+)?f?\)?")
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


def _all_at_once(ctx: RuleContext, function: Function, edits: Sequence[Edit], said: str) -> Iterator[Application]:
    """The edits of a function as one proposal, without those inside of another, if there are any."""
    edits = [e for e in edits if not any(o is not e and o.span.holds(e.span) for o in edits)]
    if edits:
        lines = dict.fromkeys(ctx.source.line(edit.span.start) for edit in edits)
        yield Application(
            edits=tuple(edits),
            summary=f"{function.name} (line {', '.join(map(str, lines))}): {said}",
            arguments={"function": function.name},
            is_schedule=len(edits) > 1,
        )


def _find_root(ctx: RuleContext) -> Iterator[Application]:
    for function in ctx.source.functions:
        divisions = [d for d in ctx.source.binaries if d.operator == "/" and function.body.holds(d.span)]
        divisions = [d for d in divisions if d.left_type in ("float", "int", None)]
        edits = [edit for d in divisions if (edit := _by_root(ctx, d)) is not None]
        edits += [edit for edits in _named_roots(ctx, function, divisions) for edit in edits]
        yield from _all_at_once(ctx, function, edits, "reciprocal roots for divisions by roots")


def _find_inverse(ctx: RuleContext) -> Iterator[Application]:
    """Divisions of floats by what does not change, in the loop around them, or in a function of its own."""
    for function in ctx.source.functions:
        found = [d for d in ctx.source.binaries if d.operator == "/" and function.body.holds(d.span)]
        found = [d for d in found if _is_steady(ctx, function, d)]
        edits = [_product(ctx, d, f"(1.0f / {ctx.source.slice(d.right)})") for d in found]
        yield from _all_at_once(ctx, function, edits, "products with inverses for divisions")


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
        edits = list[Edit]()
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
        yield from _all_at_once(ctx, function, edits, "products for powers")


def _find_once(ctx: RuleContext) -> Iterator[Application]:
    """Functions of floats in loops that change nothing of what they are given, but for a short inner loop's counter."""
    found = tuple(_values(ctx))
    behind = tuple(found_in_view(_values, ctx, braced(ctx)))  # a loop that stands alone has no place beside it
    counts = [sum(int(str(each.arguments["values"])) for each in many) for many in (found, behind)]
    yield from behind if counts[1] > counts[0] else found


def _values(ctx: RuleContext) -> Iterator[Application]:
    for function in ctx.source.functions:
        loops = sorted(
            (s for s in ctx.source.inside(function) if isinstance(s, CountedFor)), key=lambda each: each.span
        )
        made: dict[tuple[Span, str], str] = {}
        edits, ahead = list[Edit](), dict[Span, list[str]]()
        for call in ctx.source.calls:
            if function.body.holds(call.span) and call.name in _COSTLY:
                around = [loop for loop in loops if loop.body_span.holds(call.span)]
                edits += _once(ctx, function, call.span, around, made, ahead)
        if edits:
            lines = ", ".join(str(line) for line in dict.fromkeys(ctx.source.line(edit.span.start) for edit in edits))
            for span, texts in ahead.items():
                told = next((loop.pragma for loop in ctx.source.loops if loop.span == span), None)
                start = ctx.source.line_start(told.start if told is not None else span.start)
                indent = indent_of(ctx.source, span.start)
                edits.append(Edit(Span(start, start), "".join(f"{indent}{each}\n" for each in texts)))
            yield Application(
                edits=tuple(merged(edits)),
                summary=f"{function.name} (line {lines}): worked out once, before the loops that do not change it",
                arguments={"function": function.name, "values": len(made)},
                is_schedule=True,
            )


def _once(
    ctx: RuleContext,
    function: Function,
    call: Span,
    around: Sequence[CountedFor],
    made: dict[tuple[Span, str], str],
    ahead: dict[Span, list[str]],
) -> Iterator[Edit]:
    """The edit of one call. made: names of values by text and the loop that they stand before; ahead: lines there."""
    source, text = ctx.source, ctx.source.slice(call)
    names = {name for name, _ in source.names(call)}
    macros = {define.name: define.value for define in source.defines}
    if not _NO_READS.fullmatch(text) or any(not _NUMBER.fullmatch(macros.get(name, "1")) for name in names):
        return
    changes = []
    for depth, loop in enumerate(around, start=1):
        mine = names - {each.name for each in around[depth:]}
        changes.append(not mine.isdisjoint({*source.changed_in(loop.span), *source.declared(loop.span)}))
    inner = around[-1] if around and changes[-1] else None
    counted = _turns(ctx, inner, names) if inner is not None else (0, 1)
    still = changes[:-1] if inner is not None else changes
    first = len(still) - still[::-1].index(True) if True in still else 0  # of the loops that change nothing of it
    kind = source.type_of(function.name, call)
    if counted is None or kind not in ("float", "double") or first == len(still) or CHANGES.search(text):
        return
    before, unrolled = around[first].span, {loop.span for loop in source.loops if loop.pragma is not None}
    is_alone = source.data[source.line_start(before.start) : before.start].isspace() and not source.is_bare(before)
    if not is_alone or names & source.hidden_writes(function):
        return
    at = f"{inner.name} {'-' if counted[0] > 0 else '+'} {abs(counted[0])}" if inner is not None and counted[0] else ""
    at = at or (inner.name if inner is not None else "")
    name = made.get((before, text))
    if name is None:
        name = made[before, text] = fresh(ctx, "kept", made.values())
        lines = [f"const {kind} {name} = {text};"]
        if inner is not None:
            fill = f"{source.slice(inner.header).strip()} {name}[{at}] = {text};"
            lines = [f"{kind} {name}[{counted[1]}];", _UNROLL, fill]
            if inner.span not in unrolled and _UNROLL not in ahead.setdefault(inner.span, [])[-1:]:
                ahead[inner.span].append(_UNROLL)
        there = ahead.setdefault(before, [])
        end = len(there) - (there[-1:] == [_UNROLL])
        there[end:end] = lines
    yield Edit(call, name if inner is None else f"{name}[{at}]")


def _turns(ctx: RuleContext, loop: CountedFor, names: set[str]) -> tuple[int, int] | None:
    """Where a loop that alone changes what is asked for begins, and its few turns, if it counts by one."""
    source = ctx.source
    first, last = (_integer(source, source.slice(each)) for each in (loop.start, loop.limit))
    changed = {*source.changed_in(loop.body_span), *source.declared(loop.body_span)}
    is_alone = not source.data[source.line_start(loop.span.start) : loop.span.start].strip()
    if not is_alone or loop.step != "1" or first is None or last is None or changed & {*names, loop.name}:
        return None
    turns = last - first + (loop.relation == "<=")
    return (first, turns) if 1 < turns <= _FEW else None


def _integer(source: Source, text: str) -> int | None:
    sign, number = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text)
    value = source.integer(number.strip())
    return sign * value if value is not None else None


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
        name="once",
        sentence="Works out sines, exponentials and other costly functions before the loops that do not change them,"
        " for each turn of a short inner loop where that is all they depend on.",
        find=_find_once,
        reason="a sine or an exponential is some ten to a hundred instructions, in each turn of all loops around it",
        expected="as many times fewer of them as the loops have turns",
        risk="more registers; a loop that is never entered did without",
        next_if_kept="unroll the outer loop",
        next_if_reverted="wider loads in that loop",
    ),
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
