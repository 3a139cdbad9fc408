"""Variables in double precision in kernels whose tensors are not: floats, with what each sum loses kept beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access import LaunchAnalysis, Reduction
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.rewriting import fresh, indent_of, rewritten
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|(?<![\w.])\d+[eE][+-]?\d+(?![\w.])")
_LARGEST = 3e38
_CALLS = re.compile(r"\b(exp|log|sqrt|fabs|pow|tanh|sin|cos|fmax|fmin|erf|rsqrt)(?=\s*\()")
_CAST = re.compile(r"\(\s*double\s*\)\s*")


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    if ctx.task is None or any(tensor.dtype == "float64" for tensor in ctx.task.tensors) or not analysis.form.doubles:
        return
    edits = list(_plain(ctx, function))
    sums = list(_sums(ctx, function, analysis.reductions))
    if not edits or any(abs(float(text)) > _LARGEST for text in _LITERAL.findall(ctx.source.slice(function.body))):
        return
    for rank, exact in enumerate(([], sums) if sums else ([],)):
        made = _with_rests(ctx, function, edits, exact)
        if made is not None:
            how = f", what {' and '.join(s.name for s in exact)} lose kept beside" if exact else ""
            yield Application(
                edits=tuple(made),
                summary=f"{function.name}: float for double{how}",
                arguments={"kernel": function.name, "compensated": bool(exact)},
                rank=rank,
                is_schedule=True,
            )


def _plain(ctx: RuleContext, function: Function) -> Iterator[Edit]:
    """Each type, cast, literal and function of double precision in the body as that of floats."""
    text, start = ctx.source.slice(function.body), function.body.start
    hidden = [match.span() for match in _COMMENT.finditer(text)]
    for pattern, made in ((_CAST, ""), (re.compile(r"\bdouble\b"), "float"), (_LITERAL, "{}f"), (_CALLS, "{}f")):
        for match in pattern.finditer(text):
            if any(first <= match.start() < last for first, last in hidden):
                continue
            if pattern.pattern == r"\bdouble\b" and any(
                m.start() <= match.start() < m.end() for m in _CAST.finditer(text)
            ):
                continue
            yield Edit(Span(start + match.start(), start + match.end()), made.format(match[0]))


def _sums(ctx: RuleContext, function: Function, reductions: tuple[Reduction, ...]) -> Iterator[Statement]:
    """The statements `s += x;` of loops that add up a double of the kernel."""
    doubles = {
        s.name for s in ctx.source.inside(function) if s.kind == "declare" and "double" in s.type.split() and not s.dims
    }
    every = ctx.source.inside(function)
    doubles |= {
        name
        for s in every
        if s.kind == "other" and ctx.source.slice(s.span).startswith("double ")
        for name in ctx.source.declared(s.span)
    }
    known = {name for found in reductions if found.kind == "sum" and found.place == "register" for name in found.names}
    for statement in every:
        if statement.kind == "assign" and statement.operator == "+=" and statement.name in doubles & known:
            inside = [
                s for s in every if s.kind == "for" and s.body_span is not None and s.body_span.holds(statement.span)
            ]
            if inside and "shfl" not in ctx.source.slice(statement.span):
                yield statement


def _with_rests(ctx: RuleContext, function: Function, edits: list[Edit], sums: list[Statement]) -> list[Edit] | None:
    """The edits, with each sum written so that what rounding takes from it is added to the next term."""
    source, found = ctx.source, list(edits)
    every = source.inside(function)
    for statement in sums:
        loops = [s for s in every if s.kind == "for" and s.body_span is not None and s.body_span.holds(statement.span)]
        above = source.above(loops[0].span)
        if above is None or statement.value is None or source.is_bare(loops[0].span):
            return None
        name, indent = statement.name, indent_of(source, loops[0].span.start)
        lost, term, total = (fresh(ctx, f"{name}_{word}") for word in ("lost", "term", "sum"))
        if any(edit.text.lstrip().startswith(f"float {lost}") for edit in found):
            return None
        value, inner = rewritten(source, statement.value, edits), [e for e in edits if statement.value.holds(e.span)]
        found = [edit for edit in found if edit not in inner]
        found.append(Edit(Span(above, above), f"{indent}float {lost} = 0;  // what the sum has lost\n"))
        inner_indent = indent_of(source, statement.span.start)
        lines = [
            f"const float {term} = ({value}) - {lost};",
            f"const float {total} = {name} + {term};",
            f"{lost} = ({total} - {name}) - {term};",
            f"{name} = {total};",
        ]
        inside = "".join(f"\n{inner_indent}    {line}" for line in lines)
        found.append(Edit(statement.span, f"{{{inside}\n{inner_indent}}}"))
    return found


RULES = (
    Rule(
        name="float_sums",
        sentence="Writes the double variables of a kernel as floats if no tensor is double, plainly or with what each"
        " sum loses by rounding kept beside it and added again.",
        find=by_launch(_find),
        reason="double precision runs at a 64th of the speed on most chips, and its registers are twice as wide",
        expected="no double-precision instructions; a compensated sum errs about as little",
        risk="values beside the sums round as floats do; the error budget decides",
        next_if_kept="lanes that share the row",
        next_if_reverted="the sums alone",
    ),
)
