"""What a pass stores and a later one reads again to finish it: computed once more instead, and stored once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import Access, Array, LaunchAnalysis, Symbol, Term
from evo.cuda.source import CountedFor, Edit, Function, Span, Statement
from evo.operators.rules.loops import counted_loops
from evo.operators.rules.rewriting import WORD, bare, fresh, merged, with_its_line
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_TYPES = ("float", "double", "int")  # what is kept of them is what memory would hold, and arithmetic is their own
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|\batomic")
_LEAVES = re.compile(r"\b(?:return|break|continue|goto|asm)\b|__sync|_sync\b")


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    for array in analysis.legality.rereads_output:
        if array.element in _TYPES and _is_private(analysis, array):
            yield from _of_array(ctx, analysis, function, array)


def _is_private(analysis: LaunchAnalysis, array: Array) -> bool:
    """Whether each element is one thread's alone."""
    legality = analysis.legality
    if any(access.mode == "atomic" or access.blocked or access.calls for access in analysis.form.of(array)):
        return False
    return legality.between_threads(array).holds is False and legality.between_blocks(array).holds is False


def _of_array(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, array: Array) -> Iterator[Application]:
    source, accesses = ctx.source, analysis.form.of(array)
    for loop, first, siblings in counted_loops(ctx):
        if loop.function != function.name or source.is_bare(first.span):
            continue
        later = siblings[siblings.index(first) + 1 :]
        second = next((s for s in later if any(s.span.holds(a.span) for a in accesses)), None)
        ours = [a for a in accesses if first.span.holds(a.span)]
        theirs = [a for a in accesses if second is not None and second.span.holds(a.span)]
        if not isinstance(second, CountedFor) or not ours or len(ours) + len(theirs) != len(accesses):
            continue
        if not _is_one_walk(ctx, (first, second), (ours, theirs)):
            continue
        edits = _edits(ctx, analysis, function, (first, second), (ours, theirs))
        if edits:
            yield Application(
                edits=tuple(merged(edits)),
                summary=f"{function.name}: what line {source.line(ours[0].span.start)} stores in `{array.name}` is"
                " computed again where it is read",
                arguments={"kernel": function.name, "array": array.name},
                is_schedule=True,
            )


def _is_one_walk(
    ctx: RuleContext,
    loops: tuple[CountedFor, CountedFor],
    accesses: tuple[Sequence[Access], Sequence[Access]],
) -> bool:
    """Whether two loops have the same turns, and in each the array is touched at the turn's one element."""
    headers = {bare(ctx.source.slice(loop.header)) for loop in loops}
    places = set[Term]()
    for inside in accesses:
        for access in inside:
            if len(access.loops) != 1 or access.conditions != inside[0].conditions:
                return False
            places.add(access.offset.substitute({access.loops[0]: Term.of(Symbol("turn", "loop"))}))
    between = ctx.source.slice(Span(loops[0].span.start, loops[1].span.end))
    return len(headers) == 1 and len(places) == 1 and not _LEAVES.search(between)


def _edits(
    ctx: RuleContext,
    analysis: LaunchAnalysis,
    function: Function,
    loops: tuple[CountedFor, CountedFor],
    accesses: tuple[Sequence[Access], Sequence[Access]],
) -> list[Edit]:
    """Nothing if the value cannot be computed again, or the passes are written in another way."""
    source, (first, second) = ctx.source, loops
    stores = [s for s in first.body if s.kind == "assign" and any(_stored(s, a) for a in accesses[0])]
    finishes = [s for s in second.body if s.kind == "assign" and any(_stored(s, a) for a in accesses[1])]
    if [len(stores), len(finishes)] != [1, 1] or stores[0].operator != "=":
        return []
    (store,), (finish,) = stores, finishes
    value = _value(ctx, analysis, store, Span(first.span.start, second.span.end), first)
    said = source.slice(store.target).strip() if store.target is not None else ""
    reads = [access.span for access in accesses[0] if access.mode == "read"]
    if value is None or finish.value is None or any(span.start < store.span.end for span in reads):
        return []
    if any(not finish.span.holds(access.span) or source.slice(access.span) != said for access in accesses[1]):
        return []
    finished = source.slice(finish.value)
    if finish.operator == "=" and said in finished:
        result = finished.replace(said, f"({value})")
    elif finish.operator in ("+=", "-=", "*=", "/=") and said not in finished:
        result = f"({value}) {finish.operator[0]} ({finished})"
    else:
        return []
    edits = [Edit(finish.span, f"{said} = {result};")]
    if not reads:
        return [*edits, Edit(with_its_line(source, store.span), "")] if len(first.body) > 1 else []
    kept, kind = fresh(ctx, "kept"), source.element_type(function.name, said.split("[")[0].strip("(* "))
    if kind is None or any(source.slice(span) != said for span in reads):
        return []
    return [*edits, Edit(store.span, f"const {kind} {kept} = {value};"), *(Edit(span, kept) for span in reads)]


def _stored(statement: Statement, access: Access) -> bool:
    return access.is_write and statement.target is not None and statement.span.holds(access.span)


def _value(ctx: RuleContext, analysis: LaunchAnalysis, store: Statement, both: Span, loop: CountedFor) -> str | None:
    """What is stored, if it is the same wherever it is computed between the two loops."""
    source, span = ctx.source, store.value
    if span is None or _CHANGES.search(text := source.slice(span).strip()):
        return None
    inside = {name for statement in loop.body for name in source.declared(statement.span)}
    arrays = {name for array in analysis.form.tensors for name in (array.name, array.parameter)}
    words = set(WORD.findall(text)) | set(WORD.findall(source.slice(loop.header)))
    if words & ((source.changed_in(both) - arrays - {loop.name}) | inside):
        return None
    for access in analysis.form.accesses:
        if span.holds(access.span) and (access.array is None or not analysis.legality.is_read_only(access.array)):
            return None
    return text


RULES = (
    Rule(
        name="recompute",
        sentence="Computes a value again in the pass that finishes it, where one pass stores it and a later one of the"
        " same thread reads it back.",
        find=by_launch(_find, once=True),
        reason="a value that waits in memory between two passes is written, read and written again",
        expected="one store and one or two loads fewer for each element, for its arithmetic once more",
        risk="arithmetic that costs more than a trip through a cache",
        next_if_kept="lanes that share the passes",
        next_if_reverted="keep the row in shared memory between the passes",
    ),
)
