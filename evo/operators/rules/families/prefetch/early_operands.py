"""Operands of a pass behind a reduction, loaded in front of it: their latency passes while the threads wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import CountedFor, Edit, Span, Statement
from evo.operators.rules.families.prefetch.operands import (
    LAMBDA,
    NO_OPERAND,
    KernelBody,
    OperandRead,
    body_of,
    loops_in,
    reads_in,
)
from evo.operators.rules.rewriting import fresh, indent_of
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext

_WAIT = re.compile(r"\b(__syncthreads\w*|__shfl\w*|__syncwarp|__reduce_\w+)\s*\(|\bbar\.sync\b")
_CAST = re.compile(r"\bconst_cast\b|\(\s*(?!const\b)\w+\s*\*\s*\)|_cast<\s*(?!const\b)\w+\s*\*\s*>\(\s*(\w+)")
_UNSEEN = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef)\b|\bgoto\b", re.MULTILINE)
_ENDS = re.compile(r"\b__trap\b|\bexit;")
_LEAVING = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\r?\n|[^\n])*\b(?:return|break|continue|goto)\b", re.MULTILINE
)


def _find_early(ctx: RuleContext) -> Iterator[Application]:
    waiting = _waiting(ctx)
    if _ENDS.search(ctx.source.text):
        return  # a thread may end in any function
    for function in ctx.source.functions:
        text = ctx.source.slice(function.body)
        leaving = set(_LEAVING.findall(ctx.source.text))
        if not function.is_kernel or _UNSEEN.search(text) or leaving & set(re.findall(r"\w+", text)):
            continue  # it may end, or change something, if no statement says so
        body = body_of(ctx, function)
        casts = {match[1] or "" for match in _CAST.finditer(text)}
        waits = [n for n, top in enumerate(body.tops) if _waits(ctx, top, waiting)]
        for place, top in enumerate(body.tops):
            before = [n for n in waits if n < place]
            if not before:
                continue
            for loop, guards in loops_in(ctx, top, ()):
                reads = [r for r in reads_in(body, loop, guards) if r.pointer not in casts and "" not in casts]
                groups = [reads, *([read] for read in reads)] if len(reads) > 1 else [reads]
                for group in groups:
                    found = _application(body, loop, group, (before[-1], place)) if group else None
                    if found is not None:
                        yield found


def _waiting(ctx: RuleContext) -> set[str]:
    """Device functions in which threads wait for one another."""
    texts = {f.name: ctx.source.slice(f.body) for f in ctx.source.functions if not f.is_kernel}
    found = {name for name, text in texts.items() if _WAIT.search(text)}
    for _ in texts:  # and those that call them
        found |= {n for n, t in texts.items() if found and re.search(rf"\b({'|'.join(found)})\s*\(", t)}
    return found


def _waits(ctx: RuleContext, top: Statement, waiting: set[str]) -> bool:
    text = ctx.source.slice(top.span)
    is_lambda = top.kind == "declare" and top.value is not None and ctx.source.slice(top.value).startswith("[")
    return not is_lambda and bool(
        _WAIT.search(text) or any(re.search(rf"\b{name}\s*(?:<[\w, ]*>)?\(", text) for name in waiting)
    )


def _application(
    body: KernelBody, loop: CountedFor, reads: Sequence[OperandRead], at: tuple[int, int]
) -> Application | None:
    """The loads of some reads in front of the last wait; None if there is no such place. at: of wait and loop."""
    ctx, function = body.ctx, body.function
    if any(sum(r.pointer == other.pointer for other in reads) > 1 for r in reads):
        return None
    needed = [r.pointer for r in reads]
    for read in reads:
        needed += [read.index, *read.guards]
        needed += [ctx.source.slice(s.value) for s in read.locals if s.value is not None]
    limit, step = ctx.source.slice(loop.limit), loop.name
    tops = body.tops[: at[1] + 1]  # the loop's own one: it may leave in front of the loop
    place = max(body.place_of([*needed, limit]), *(n + 1 for n, top in enumerate(tops) if _returns(ctx, top)), 0)
    above = ctx.source.above(body.tops[place].span) if place <= at[0] else None
    if above is None or not body.usable(limit, ()):
        return None
    indent = indent_of(ctx.source, body.tops[place].span.start)
    arrays = {read.pointer: fresh(ctx, f"{read.pointer}_early") for read in reads}
    text = "".join(f"{indent}{r.element} {arrays[r.pointer]}[{limit}] = {{}};\n" for r in reads)
    text += f"#pragma unroll\n{indent}for ({loop.type}{step} = 0; {step} < {limit}; ++{step}) {{\n"
    for local in dict.fromkeys(s.span for read in reads for s in read.locals if _needs(ctx, read, s)):
        text += f"{indent}    {ctx.source.slice(local)}\n"
    for read in reads:
        tests = [guard if re.fullmatch(r"\w+( [<>]=? \w+)?", guard) else f"({guard})" for guard in read.guards]
        test = f"if ({' && '.join(tests)}) " if tests else ""
        text += f"{indent}    {test}{arrays[read.pointer]}[{step}] = {read.pointer}[{read.index}];\n"
    edits = [Edit(Span(above, above), f"{text}{indent}}}\n")]
    passed = [read for read in reads if read.call is not None]
    edits += [Edit(read.span, f"{arrays[read.pointer]}[{step}]") for read in reads if read.call is None]
    if passed:
        through = _passed(body, passed, arrays, step)
        if through is None:
            return None
        edits += through
    names = ", ".join(read.pointer for read in reads)
    return Application(
        edits=tuple(edits),
        summary=f"{function.name}: {names} of line {ctx.source.line(loop.span.start)} loaded before line"
        f" {ctx.source.line(body.tops[place].span.start)}",
        arguments={"kernel": function.name, "pointers": names},
        rank=0 if len(reads) > 1 else 1,
    )


def _returns(ctx: RuleContext, top: Statement) -> bool:
    return any(
        s.kind == "return" or (s.kind == "other" and re.search(r"\breturn\b", ctx.source.slice(s.span)))
        for s in top.all()
    )


def _needs(ctx: RuleContext, read: OperandRead, local: Statement) -> bool:
    """Whether a read's place or its tests name a variable of the loop, by themselves or by another one."""
    texts = [read.index, *read.guards]
    for other in reversed(read.locals):
        if other.value is not None and any(re.search(rf"\b{other.name}\b", text) for text in texts):
            if other is local:
                return True
            texts.append(ctx.source.slice(other.value))
    return False


def _passed(body: KernelBody, reads: Sequence[OperandRead], arrays: dict[str, str], step: str) -> list[Edit] | None:
    """The lambda of the reads takes what it read as a parameter: from the loop's array, or read by who calls it."""
    ctx = body.ctx
    call = reads[0].call
    assert call is not None
    made_by = body.lambdas[call.name]
    assert made_by.value is not None
    head = LAMBDA.match(ctx.source.slice(made_by.value))
    calls = [other for other in ctx.source.calls if other.name == call.name and other.function == call.function]
    uses = [name for name, _ in ctx.source.names(body.function.body) if name == call.name]
    if head is None or any(read.call != call for read in reads) or len(uses) != len(calls) + 1:
        return None
    taken = {read.pointer: fresh(ctx, f"{read.pointer}_taken") for read in reads}
    end = made_by.value.start + len(ctx.source.slice(made_by.value)[: head.end(1)].encode())
    edits = [Edit(Span(end, end), "".join(f", const {r.element}& {taken[r.pointer]}" for r in reads))]
    edits += [Edit(read.span, taken[read.pointer]) for read in reads]
    for other in calls:
        values = []
        for read in reads:
            at = ctx.source.slice(other.arguments[read.place]) if read.place < len(other.arguments) else "="
            if other != call and NO_OPERAND.search(at):
                return None
            values.append(f"{arrays[read.pointer]}[{step}]" if other == call else f"{read.pointer}[{at}]")
        edits.append(Edit(Span(other.span.end - 1, other.span.end - 1), "".join(f", {value}" for value in values)))
    return edits


RULES = (
    Rule(
        name="early_operands",
        sentence="Loads what a pass behind a reduction needs in front of it, into registers.",
        find=_find_early,
        reason="a load behind a barrier starts when all have arrived, and its latency is paid by every thread at once",
        expected="the latency of a load less on the way through a small kernel",
        risk="registers hold the values through the reduction: fewer resident warps",
        next_if_kept="the other operands of that pass",
        next_if_reverted="more rows in flight hide the latency as well",
    ),
)
