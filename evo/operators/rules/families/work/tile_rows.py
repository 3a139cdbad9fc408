"""Rows that threads work out of tiles in shared memory, each alone: a few neighbouring lanes share a row instead.

What was a thread's number is that of its lanes' group. Lanes deal out the turns of loops that need no order, combine
what these come to by shuffles, and do the rest together; what one of them writes, the others see behind a barrier of
the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access import Form, LaunchAnalysis, Node, Symbol
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.application import Application
from evo.operators.rules.directives import relaunched
from evo.operators.rules.families.work.row_places import WARP, RowPlace, shared_out
from evo.operators.rules.families.work.walks import SharedLoop, nests, shared_of, stored_if
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import bracketed, fresh, indent_of, merged
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_GROUPS = (8, 4, 16)  # lanes of a row, the most likely first
_THREADS = 1024
_THREAD = re.compile(r"\bthreadIdx\.x\b|\bblockDim\.x\b")
# What tells a thread of its place in another way, or needs all lanes at other times.
_ELSEWHERE = re.compile(
    r"\bthreadIdx\b(?!\.x)|\bblockDim\b(?!\.x)|\bwarpSize\b|_sync\b|__syncwarp|laneid|\basm\b|\bgoto\b|\bthis_\w+\("
)


def found_tile_rows(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    """Kernels whose threads are too few to fill half of the chip, and walk tiles that their block has staged."""
    form, sizes, chip = analysis.form, analysis.sizes, analysis.chip
    is_few = sizes.blocks * sizes.threads <= chip.sms * chip.threads_per_sm // 2
    if not is_few or not form.shared or not form.barriers or form.exchanges or form.multiplies:
        return
    if sizes.block[1:] != (1, 1) or not analysis.legality.is_seen or not ctx.is_launched_once(function.name):
        return
    for rank, lanes in enumerate(_GROUPS):
        if sizes.threads * lanes % WARP == 0 and sizes.threads * lanes <= _THREADS:
            edits = _edits(ctx, analysis, function, lanes)
            if edits:
                yield Application(
                    edits=tuple(merged(edits)),
                    summary=f"{function.name}: a group of {lanes} lanes shares what each thread works out of tiles",
                    arguments={"kernel": function.name, "to": lanes},
                    rank=rank,
                    is_schedule=True,
                )


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, lanes: int) -> list[Edit]:
    """Raises NotPrinted."""
    source, form = ctx.source, analysis.form
    body = source.slice(function.body)
    others = (f for f in source.functions if f is not function and not f.is_kernel)
    asked = (re.search(r"\bthreadIdx\b|\bblockDim\b|__sync", source.slice(f.body)) for f in others)
    if _ELSEWHERE.search(without_comments(body)) or any(asked) or not body.isascii():
        return []
    lane = fresh(ctx, "lane")
    place = RowPlace(lane, (), lanes=str(lanes))
    shared = list(_dealt_out(ctx, analysis, form.body, lanes))
    if not any(each.reductions for each in shared):
        return []
    meets, inside = f"__syncwarp({place.mask});", {each.loop.symbol for each in shared}
    launch, start = ctx.variant.launches[form.position], function.body.start + 1
    threads = f"{bracketed(launch.block[0].text)} * {lanes}"
    named = f"\n    const int {lane} = threadIdx.x % {lanes};  // of the few that share a row"
    edits = [Edit(Span(start, start), named), relaunched(ctx, launch, block=threads)]
    for match in _THREAD.finditer(body):
        at = Span(function.body.start + match.start(), function.body.start + match.end())
        is_all = body[: match.start()].endswith("= ") and body[match.end() :].startswith(";")
        edits.append(Edit(at, f"(int){match[0]} / {lanes}" if is_all else f"((int){match[0]} / {lanes})"))
    for each in shared:
        edits += _shared(ctx, each, place, meets)
    for statement, is_seen in _stored(ctx, form, inside, lane).items():
        begin, end = ("{ ", " }") if source.is_bare(statement) else ("", "")
        behind = f"\n{indent_of(source, statement.start)}{meets}" if is_seen else ""
        edits.append(Edit(Span(statement.start, statement.start), f"{begin}if ({lane} == 0) "))
        edits.append(Edit(Span(statement.end, statement.end), f"{behind}{end}"))
    return edits


def _dealt_out(ctx: RuleContext, analysis: LaunchAnalysis, nodes: tuple[Node, ...], lanes: int) -> Iterator[SharedLoop]:
    """The outermost loops whose turns lanes may take in any order, whatever is around them."""
    form = analysis.form
    for loop, body in nests(nodes):
        ours = [a for a in form.accesses if loop.symbol in a.loops]
        is_own = any(a.array is not None and a.array.space == "local" for a in ours)  # in registers, of each lane
        meets = any(loop.symbol in barrier.context for barrier in form.barriers)
        is_counted = (loop.step.value or 0) >= 1 and loop.until is None and loop.values is None and not loop.calls
        is_long = (analysis.turns(loop) or lanes) >= lanes and (loop.blocked is None or loop.is_given)
        may = is_counted and is_long and not meets and not is_own
        shared = shared_of(ctx, analysis, loop) if may else None
        if shared is not None and not shared.is_scan:
            yield shared
        else:
            yield from _dealt_out(ctx, analysis, body, lanes)


def _shared(ctx: RuleContext, each: SharedLoop, place: RowPlace, meets: str) -> list[Edit]:
    """The edits of one loop, behind which its lanes meet. Raises NotPrinted."""
    span, source = each.span, ctx.source
    if any(_THREAD.search(source.slice(edit.span)) for edit in each.edits):
        raise NotPrinted("a loop that is written in another way")
    found = shared_out(ctx, each, place.lane, place, is_again=True)
    if found is None or any(_THREAD.search(source.slice(edit.span)) for edit in found):
        raise NotPrinted("a loop that is written in another way")
    return [*found, Edit(Span(span.end, span.end), f"\n{indent_of(source, span.start)}{meets}")]


def _stored(ctx: RuleContext, form: Form, inside: set[Symbol], lane: str) -> dict[Span, bool]:
    """The statements that store outside of the dealt out loops, each of which is for one lane: whether any thread reads
    what they write. Raises NotPrinted."""
    found = dict[Span, bool]()
    for access in form.accesses:
        is_own = access.array is not None and access.array.space == "local"
        if access.is_write and not is_own and not inside & {*access.loops}:
            if access.array is None or stored_if(ctx, access, f"{lane} == 0") is None:
                raise NotPrinted("a store that is no statement")
            span = ctx.source.enclosing_statement(access.span)
            found[span] = found.get(span, False) or any(a.is_read for a in form.of(access.array))
    return found
