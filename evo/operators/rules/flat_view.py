"""Blocks of two or three dimensions whose threads are only counted through, as rules know them: a row of threads.

`threadIdx.y * blockDim.x + threadIdx.x` is seen as `threadIdx.x` behind a launch of as many threads in one dimension,
which is how the hardware numbers them anyway. A kernel that looks at a thread's place in any other way stays as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import BLOCK, THREAD, LaunchAnalysis, Term
from evo.cuda.source import CountedFor, Edit, Function, Span, Statement
from evo.operators.rules.directives import relaunched
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.rewriting import bracketed
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments
from evo.spec.variant import LaunchLine

_AXES = "xyz"
_PLACED = re.compile(r"\b(?:threadIdx|blockDim)\b")
_HIDDEN = re.compile(r"\b(?:threadIdx|blockDim|asm|cooperative_groups|this_thread_block)\b")
_THREADS = re.compile(r"\bblockDim\s*\.\s*[xyz](?:\s*\*\s*blockDim\s*\.\s*[xyz])+")


def flat_blocks(ctx: RuleContext) -> list[Edit]:
    """The edits that number the threads of such blocks along x, in all kernels that have some."""
    found: list[Edit] = []
    for analysis, function in ctx.analysed(once=True):
        launch = ctx.variant.launches[analysis.form.position]
        if len(launch.block) > 1:
            found += _of_kernel(ctx, analysis, function, launch)
    return found


def _of_kernel(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, launch: LaunchLine) -> list[Edit]:
    source = ctx.source
    bodies = [f.body for f in source.functions if f.is_kernel]
    beside = without_comments(_between(ctx, Span(0, len(source.data)), bodies))
    if _HIDDEN.search("\n".join(line for line in beside.splitlines() if "__launch_bounds__" not in line)):
        return []  # a function or a macro that may ask where a thread is
    inside = source.inside(function)
    edits = [*_indices(ctx, analysis, inside)]
    edits += _products(ctx, function, [edit.span for edit in edits], tuple(part.text for part in launch.block))
    edits = without_unused(ctx, function, function.body, edits)
    rest = without_comments(_between(ctx, function.body, [edit.span for edit in edits]))
    is_thin = all(part.text == "1" for part in launch.block[1:])
    if re.search(r"\b(?:threadIdx|blockDim)\b(?!\s*\.\s*x\b)|\basm\b", rest) or (not is_thin and _PLACED.search(rest)):
        return []
    return [*edits, relaunched(ctx, launch, block=_threads(launch))]


def _threads(launch: LaunchLine) -> str:
    parts = [part.text.strip() for part in launch.block if part.text.strip() != "1"]
    if all(part.isdigit() for part in parts):
        return str(math.prod(map(int, parts)))
    return " * ".join(map(bracketed, parts)) if len(parts) > 1 else parts[0]


def _indices(ctx: RuleContext, analysis: LaunchAnalysis, inside: Sequence[Statement]) -> Iterator[Edit]:
    """What is set to a thread's number in its block, or in the grid along one axis of that, spelt along x."""
    form = analysis.form
    said = {name: term for term, name in form.names.items()}
    number, threads = Term.number(0), Term.number(1)
    for symbol, size in zip(THREAD, form.block, strict=True):
        if size.value != 1:  # of one thread the form knows that it is the first
            number += Term.of(symbol) * threads
        threads *= size
    texts = {number: "threadIdx.x"}
    for symbol, axis in zip(BLOCK, _AXES, strict=True):
        texts[number + Term.of(symbol) * threads] = f"blockIdx.{axis} * blockDim.x + threadIdx.x"
    placed: set[str] = set()
    for statement in inside:
        value = statement.start if isinstance(statement, CountedFor) else statement.value
        if statement.kind not in ("declare", "for") or value is None or statement.dims:
            if statement.kind == "other" and _PLACED.search(ctx.source.slice(statement.span)):
                placed.update(ctx.source.declared(statement.span))
            continue
        words = set(re.findall(r"\w+", ctx.source.slice(value)))
        if words & ({"threadIdx", "blockDim"} | placed):
            placed.add(statement.name)
            text = texts.get(said.get(statement.name, Term.number(0)))
            if text is not None and sum(each.name == statement.name for each in inside) == 1:
                yield Edit(value, text)


def _products(ctx: RuleContext, function: Function, edited: Sequence[Span], block: tuple[str, ...]) -> Iterator[Edit]:
    """`blockDim.x * blockDim.y` as the number of threads that it is."""
    wanted = {axis for axis, size in zip(_AXES, block, strict=False) if size != "1"}
    text = ctx.source.slice(function.body)
    for match in _THREADS.finditer(text) if text.isascii() else ():
        span = Span(function.body.start + match.start(), function.body.start + match.end())
        axes = re.findall(r"blockDim\s*\.\s*([xyz])", match[0])
        if wanted <= set(axes) and len(set(axes)) == len(axes) and not any(each.holds(span) for each in edited):
            yield Edit(span, "blockDim.x")


def _between(ctx: RuleContext, whole: Span, spans: Sequence[Span]) -> str:
    """A stretch of text without some of its parts."""
    data, last = b"", whole.start
    for span in sorted(each for each in spans if whole.holds(each)):
        data, last = data + ctx.source.data[last : span.start] + b" ", max(last, span.end)
    return (data + ctx.source.data[last : whole.end]).decode()
