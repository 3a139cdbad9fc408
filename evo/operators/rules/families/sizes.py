"""Sizes known when the kernel is compiled: axes of the case as constants instead of arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from evo.cuda.source import Edit, Function, Param, Span, Statement
from evo.operators.rules.directives import directive_place
from evo.operators.rules.normal_form import is_guard
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels

_OF_HEADERS = re.compile(r"T|[a-z]\w*")  # names that the toolkit's own headers use: as a macro one breaks them
_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def _find_compile_in(ctx: RuleContext) -> Iterator[Application]:
    words = Counter(re.findall(r"\w+", _CODE.sub(" ", ctx.source.text)))
    for function, _ in kernels(ctx):
        fitting = [
            (param, axis)
            for param in function.params
            if (axis := ctx.axis_of(function, param.name)) is not None
            and (axis in ctx.variant.macros or words[axis] == _own_uses(ctx, function, param, axis))
            and not _OF_HEADERS.fullmatch(axis)
            and _matters(ctx, function, param.name)
        ]
        if len(fitting) > 1:
            yield _application(ctx, function, fitting, rank=0)
        for one in fitting:
            yield _application(ctx, function, [one], rank=int(len(fitting) > 1))


def _own_uses(ctx: RuleContext, function: Function, param: Param, axis: str) -> int:
    """How often a text may say the name of an axis: as often as a parameter of that name is named, else never."""
    if param.name != axis or axis in ctx.source.declared(function.body):
        return 0
    return 1 + [name for name, _ in ctx.source.names(function.body)].count(axis)


def _matters(ctx: RuleContext, function: Function, name: str) -> bool:
    """Whether a parameter is used, beyond `if (row >= rows) return;` and what asserts are about."""
    statements = ctx.source.statements(function)
    inside = [s for top in statements for s in top.all()]
    if any(s.name == name and s.kind in ("declare", "assign", "for") for s in inside):
        return False  # hidden by another one, or changed
    if _is_unrolled(ctx, inside, name):
        return False
    asserts = [call.span for call in ctx.source.calls if call.name == "assert"]  # not there in a release
    guards = [s.condition for s in inside if is_guard(s) and s.condition is not None]
    uses = [use for found, use in ctx.source.names(function.body) if found == name]
    limits = [guard for guard in guards if _is_limit(ctx, guard, name)]
    return any(not any(span.holds(use) for span in (*limits, *asserts)) for use in uses)


def _is_unrolled(ctx: RuleContext, inside: Sequence[Statement], name: str) -> bool:
    """Whether it gives a loop its length that is unrolled whole once that is known: thousands of copies."""
    whole = {loop.span for loop in ctx.source.loops if loop.pragma is not None and not loop.factor}
    names = {name}
    for statement in inside:
        if statement.kind == "declare" and statement.reads & names:
            names.add(statement.name)
    headers = [s.header for s in inside if s.kind == "for" and s.span in whole and s.header is not None]
    return any(found in names for header in headers for found, _ in ctx.source.names(header))


def _is_limit(ctx: RuleContext, guard: Span, name: str) -> bool:
    """Whether a test only asks for a place past the end."""
    return bool(re.fullmatch(rf"\(?\s*\w+\s*>=\s*{name}\s*\)?", ctx.source.slice(guard)))


def _application(ctx: RuleContext, function: Function, axes: Sequence[tuple[Param, str]], rank: int) -> Application:
    body = function.body.start + 1
    indent = _indent(ctx, function, ctx.source.statements(function))
    # Not constexpr: the front end would warn of tests and loops that a size decides, and warnings are errors.
    lines = "".join(f"\n{indent}int {param.name} = {axis};" for param, axis in axes if param.name != axis)
    directive = directive_place(ctx, ("macro", "task"))
    edits = [Edit(directive, f"// evo: macro {axis}\n") for _, axis in axes if axis not in ctx.variant.macros]
    edits += [Edit(param.name_span, fresh(ctx, f"{param.name}_given")) for param, _ in axes]
    edits += [Edit(Span(body, body), lines)] if lines else []
    names = ", ".join(axis for _, axis in axes)
    return Application(
        edits=tuple(merged(edits)),
        summary=f"{function.name}: {names} known when compiled",
        arguments={"kernel": function.name, "axes": names},
        rank=rank,
    )


def _indent(ctx: RuleContext, function: Function, statements: Sequence[Statement]) -> str:
    first = statements[0].span.start if statements else function.body.start
    return indent_of(ctx.source, first) or "    "


RULES = (
    Rule(
        name="compile_in",
        sentence="Makes axes of the case constants of the kernel: one binary for each distinct size.",
        find=_find_compile_in,
        examples=(
            Example.of_files("compile_in", axes=("ROWS", "COLS")),
            Example.of_files("compile_in_2", axes=("ROWS", "COLS")),
        ),
        reason="a division by an argument is some thirty instructions, and a test of one stays in the code",
        expected="shifts and products for divisions, no code for sizes that are not there, loops of known length",
        risk="one compilation for each size; none to the result",
        next_if_kept="unroll what has a known length now",
        next_if_reverted="leave the sizes to the launch: the kernel waits for memory, not for them",
    ),
)
