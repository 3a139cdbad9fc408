"""Atomics of all threads of a block on one element, as a register of each thread and one atomic for each warp."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import THREAD, Access, LaunchAnalysis
from evo.analysis.access.arrivals import all_arrive
from evo.analysis.access.comparisons import Compare, conjuncts
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.families.atomics.combining import Combining, combining, over_a_warp, statements
from evo.operators.rules.rewriting import WORD, fresh, indent_of, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_MEETS = re.compile(r"__sync|_sync\b|\breturn\b|\bgoto\b|\basm\b|\bshfl")


@dataclass(frozen=True, slots=True)
class _Sum:
    """What goes to one address, and the statement that all threads carry out together in which it does."""

    access: Access
    region: Statement
    span: Span
    address: str
    value: str
    how: Combining


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    if analysis.sizes.block[1:] != (1, 1) or analysis.sizes.threads % 32:
        return
    if sums := list(_sums(ctx, analysis, function)):
        names = " and ".join(dict.fromkeys(f"`{s.access.array.name}`" for s in sums if s.access.array is not None))
        yield Application(
            edits=tuple(merged(list(_edits(ctx, sums)))),
            summary=f"{function.name}: registers and one atomic a warp for what goes to {names}",
            arguments={"kernel": function.name},
            is_schedule=True,
        )


def _sums(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[_Sum]:
    """All atomics on an element that is the same for the threads of a block. Raises NotPrinted."""
    form = analysis.form
    for access in form.accesses:
        array = access.array
        if access.mode != "atomic" or array is None or access.calls or access.blocked is not None:
            continue
        how = combining(ctx, access)
        if how is None or access.offset.symbols() & set(THREAD) or _is_alone(access):
            continue
        ((span, address, value),) = statements(ctx, [access])
        others = [a.span for a in form.of(array) if a.span != access.span]
        found = _region(ctx, analysis, ctx.source.statements(function), span, set(WORD.findall(address)))
        if found is None or any(found.span.holds(other) for other in others):
            continue
        if all_arrive(analysis.form.body, found.span):
            yield _Sum(access, found, span, address, value, how)


def _is_alone(access: Access) -> bool:
    """Whether one lane of a warp at most carries it out: then it has been combined before."""
    return any(
        isinstance(part, Compare) and part.relation == "==" and part.symbols() & set(THREAD)
        for condition in access.conditions
        for part in conjuncts(condition)
    )


def _region(
    ctx: RuleContext, analysis: LaunchAnalysis, inside: Sequence[Statement], span: Span, address: set[str]
) -> Statement | None:
    """The outermost statement around an atomic within which its address stays and no threads meet."""
    source = ctx.source
    for statement in inside:
        if not statement.span.holds(span):
            continue
        if not (address & source.changed_in(statement.span)) - analysis.form.array_names and not _MEETS.search(
            source.slice(statement.span)
        ):
            return statement if not source.is_bare(statement.span) else None
        if statement.kind == "block" or (statement.kind == "for" and _is_uniform(analysis, statement.span)):
            return _region(ctx, analysis, statement.body, span, address)
    return None


def _is_uniform(analysis: LaunchAnalysis, span: Span) -> bool:
    """Whether all threads of a block take the same turns of a loop."""
    loops = [loop for loop in analysis.form.loops.values() if loop.span == span]
    terms = [term for loop in loops for term in (loop.start, loop.step, loop.trip)]
    return bool(loops) and all(
        term is not None and all(s.kind in ("axis", "block", "loop") for s in term.symbols()) for term in terms
    )


def _edits(ctx: RuleContext, sums: Sequence[_Sum]) -> Iterator[Edit]:
    step = fresh(ctx, "step")
    names: dict[tuple[Span, str, str], str] = {}
    for each in sums:
        array, region = each.access.array, each.region
        assert array is not None
        key = (region.span, each.address, each.how.atomic)
        if key not in names:
            indent = indent_of(ctx.source, region.span.start)
            names[key] = own = fresh(ctx, f"own_{array.name}", names.values())
            above = ctx.source.above(region.span)
            start = region.span.start if above is None else above
            head = f"{array.element} {own} = {each.how.neutral};  // this thread's part of {each.address.lstrip('&')}\n"
            yield Edit(Span(start, start), f"{indent}{head}" if above is not None else f"{head}{indent}")
            lines = [line.replace("$step", step) for line in over_a_warp(own, each.how, each.address)]
            text = "".join(f"\n{indent}{line}" for line in lines)
            if region.span != each.span:
                yield Edit(Span(region.span.end, region.span.end), text)
            else:
                yield Edit(each.span, f"{each.how.statement.format(own, each.value)}{text}")
        if region.span != each.span:
            yield Edit(each.span, each.how.statement.format(names[key], each.value))


RULES = (
    Rule(
        name="warp_sums",
        sentence="Keeps in a register what each thread of a block adds to one element by atomics; shuffles combine it,"
        " and one lane of each warp adds it.",
        find=by_launch(_find),
        reason="atomics of a warp on one element are carried out one after the other",
        expected="one atomic for each warp instead of one for each value",
        risk="floats are added in another order",
        next_if_kept="wide loads, or several sums in flight",
        next_if_reverted="fewer threads for each block",
    ),
)
