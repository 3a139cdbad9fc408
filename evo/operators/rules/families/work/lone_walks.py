"""A walk over shared memory that one thread of a block takes while the others wait becomes its warp's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evo.analysis.access import Access, Branch, LaunchAnalysis, Loop, Nest, Symbol
from evo.analysis.access.arrivals import all_arrive, lone_branches
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.families.work.columns import TURNS, turns_of
from evo.operators.rules.families.work.row_places import RowPlace, shared_out
from evo.operators.rules.families.work.walks import are_known, shared_loop, stored_if
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_WARP = 32


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    if analysis.sizes.block[1:] != (1, 1) or analysis.sizes.threads % _WARP:
        return
    for branch in lone_branches(analysis.form.body):
        try:
            loops, edits = _edits(ctx, analysis, function, branch)
        except NotPrinted:
            continue
        lines = " and ".join(str(loop.line) for loop in loops)
        yield Application(
            edits=tuple(merged(edits)),
            summary=f"{function.name}: the lanes of a warp share the walk of its first thread (line {lines})",
            arguments={"kernel": function.name, "line": loops[0].line},
            is_schedule=True,
        )


def _edits(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, branch: Branch
) -> tuple[list[Loop], list[Edit]]:
    """The loops that a warp shares, and the edits for that. Raises NotPrinted."""
    source, form = ctx.source, analysis.form
    inside = source.inside(function)
    region = next((each for each in inside if each.span == branch.span and each.kind == "if"), None)
    if region is None or region.condition is None or region.alternative or len(region.body) < 2:
        raise NotPrinted("no region of its own")
    meetings = [*(barrier.span for barrier in form.barriers), *(exchange.span for exchange in form.exchanges)]
    if not all_arrive(form.body, region.span) or any(region.span.holds(span) for span in meetings):
        raise NotPrinted("threads that are not all there, or meet inside")
    loops = [node.loop for node in branch.then if isinstance(node, Nest)]
    ours = [access for access in form.accesses if region.span.holds(access.span)]
    if not loops or turns_of(analysis, loops) < TURNS or any(access.calls or access.blocked for access in ours):
        raise NotPrinted("no walk that is worth it")
    edits = [Edit(region.condition, f"threadIdx.x < {_WARP}")]
    for loop in loops:
        edits += _shared(ctx, analysis, region, loop)
    stores = _stores(ctx, ours)
    _check(ctx, analysis, region, ours)
    return loops, [*edits, *stores]


def _shared(ctx: RuleContext, analysis: LaunchAnalysis, region: Statement, loop: Loop) -> list[Edit]:
    """The edits of one loop. Raises NotPrinted."""
    reductions = analysis.legality.is_reduction(loop)
    terms = [term.symbols() for term in (loop.start, loop.step, loop.trip) if term is not None]
    alike: frozenset[Symbol] = frozenset().union(*terms)
    if (
        loop.trip is None
        or any(symbol.kind not in ("axis", "block") for symbol in alike)
        or loop.span not in [each.span for each in region.body]
        or not reductions
        or not analysis.legality.parallel(loop).holds
        or not are_known(analysis.form, loop, reductions)
        or any(a.is_write for a in analysis.form.accesses if loop.symbol in a.loops)
    ):
        raise NotPrinted("a loop that lanes cannot share")
    lane = "(int)threadIdx.x"
    edits = shared_out(ctx, shared_loop(ctx, loop, reductions), lane, RowPlace(lane, ()), is_again=False)
    if edits is None:
        raise NotPrinted("a loop that is written in another way")
    return edits


def _stores(ctx: RuleContext, ours: Sequence[Access]) -> list[Edit]:
    """What the region leaves in memory is left by the first thread alone. Raises NotPrinted."""
    made: dict[Span, Edit] = {}
    for access in ours:
        if not access.is_write or access.array is None or access.array.space == "local":
            continue
        edit = stored_if(ctx, access, "threadIdx.x == 0")
        if edit is None:
            raise NotPrinted("a store that is no statement")
        made[edit.span] = edit
    return list(made.values())


def _check(ctx: RuleContext, analysis: LaunchAnalysis, region: Statement, ours: Sequence[Access]) -> None:
    """Raises NotPrinted where the other lanes would change what they keep, or read what the first one writes."""
    source = ctx.source
    if source.changed_in(region.span) - analysis.form.array_names - set(source.declared(region.span)):
        raise NotPrinted("variables of the threads")
    stored = [source.enclosing_statement(a.span) for a in ours if a.is_write]
    written = {a.array.address for a in ours if a.is_write and a.array is not None}
    reads = [a for a in ours if not a.is_write and a.array is not None and a.array.address in written]
    if not all(any(span.holds(read.span) for span in stored) for read in reads):
        raise NotPrinted("lanes that read what the first one writes")


RULES = (
    Rule(
        name="lone_walks",
        sentence="Lets the lanes of a warp share a walk over what a block has left in shared memory, where one thread"
        " takes it alone; shuffles combine what they find, and the one thread stores it.",
        find=by_launch(_find),
        reason="a block waits for one thread that reads an element after the other",
        expected="as many times fewer turns as a warp has lanes, and a few shuffles",
        risk="floats are added in another order",
        next_if_kept="more threads for each block",
        next_if_reverted="fewer threads for each block",
    ),
)
