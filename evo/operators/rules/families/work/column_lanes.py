"""What a thread walks down a column is shared by the threads of a block, which has a few neighbouring columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from evo.analysis.access import BLOCK, THREAD, Access, Condition, LaunchAnalysis, Loop, Term, axis_values, passes_of
from evo.analysis.access.comparisons import Compare, conjuncts
from evo.analysis.access.numeric import number_of
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import ceil_divs
from evo.operators.rules.families.work.columns import PLACED, applications, launch_edits, turns_of
from evo.operators.rules.families.work.scanning import scanned_column
from evo.operators.rules.families.work.walks import (
    SharedLoop,
    combined_in_shared,
    index_of,
    is_called_by,
    is_met_in,
    outermost,
    shared_of,
    stay_with_their_lane,
    stepped,
    stored_if,
)
from evo.operators.rules.lifting import NotPrinted, in_c, names_of
from evo.operators.rules.rewriting import fresh, indent_of, same
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thin_view import behind_thin_blocks
from evo.spec.expr import Number, parse

_SECTOR = 32  # bytes
_SEAMS = 1.5  # times the sectors of threads side by side, at most
_FULL = 1024  # threads of an SM from which on there are enough


@dataclass(frozen=True, slots=True)
class _Columns:
    """A kernel with a thread for each column. extent: how many there are, in the launch line's words."""

    function: Function
    analysis: LaunchAnalysis
    index: Span
    extent: str
    shared: tuple[SharedLoop, ...]


def found_columns(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, *, is_scan: bool = False
) -> Iterator[Application]:
    """The kernels whose columns lanes can share; is_scan: those that store on the way what a column comes to."""
    found = _columns(ctx, analysis, function)
    if found is not None and any(each.is_scan for each in found.shared) == is_scan:
        yield from applications(
            analysis,
            analysis.sizes.blocks * analysis.sizes.threads,
            turns_of(analysis, [each.loop for each in found.shared]),
            "blocks of {columns} columns, {lanes} threads share each",
            partial(_edits, ctx, found),
        )


def _columns(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Columns | None:
    """Raises NotPrinted."""
    form, sizes = analysis.form, analysis.sizes
    if sizes.block[1:] != (1, 1) or form.barriers or form.exchanges or form.shared or not analysis.legality.is_seen:
        return None
    if sizes.blocks * sizes.threads >= _FULL * analysis.chip.sms and not passes_of(form, analysis.reductions):
        return None  # with several passes, lanes may keep what one thread cannot
    shared = _loops(ctx, analysis)
    if not stay_with_their_lane(analysis, shared):
        return None
    index = index_of(ctx, analysis, function, PLACED)
    extent = _extent(ctx, analysis, shared) if shared else None
    if index is None or extent is None or not all(is_called_by(ctx, each.loop, function) for each in shared):
        return None
    return _Columns(function, analysis, index, extent, tuple(shared))


def _loops(ctx: RuleContext, analysis: LaunchAnalysis) -> list[SharedLoop]:
    """The outermost loops, all of which walk down columns; none if something else is in the way."""
    form = analysis.form
    found: list[SharedLoop] = []
    for loop in outermost(form.body):
        inside = [access for access in form.accesses if loop.symbol in access.loops]
        if not any(a.is_global for a in inside):
            continue
        shared = shared_of(ctx, analysis, loop) if _walks_down(analysis, loop) else None
        if shared is None or any(a.mode == "atomic" for a in inside):
            return []  # each lane would do all of it again
        found.append(shared)
    return found


def _walks_down(analysis: LaunchAnalysis, loop: Loop) -> bool:
    """Whether neighbouring threads touch neighbouring elements in a loop, and its turns go down the rows."""
    if loop.step.value != 1 or loop.values is not None or loop.until is not None:
        return False
    if loop.blocked is not None and not loop.is_given:
        return False
    beside = 0
    for access in analysis.form.accesses:
        if loop.symbol not in access.loops or not access.is_global:
            continue
        down = access.offset.coefficient(loop.symbol)
        is_beside = _is_beside(analysis, access)
        if down is None or is_beside is None:
            return False
        beside += is_beside and down.value not in (0, access.memory.element_bytes)
    return beside > 0


def _is_beside(analysis: LaunchAnalysis, access: Access) -> bool | None:
    """Whether neighbouring threads touch neighbouring elements; False if they touch the same, None if neither.

    Where the index is taken apart (`i / N`, `i % N`), threads at the seams may be apart.
    """
    apart, size = access.offset.coefficient(THREAD[0]), access.memory.element_bytes
    if apart is not None and apart.value is not None:
        return apart.value != 0 if apart.value in (0, size) else None
    traffic = analysis.traffic.accesses.get(access.number)
    if traffic is None or not traffic.sectors or not traffic.ideal or traffic.sectors > _SEAMS * traffic.ideal:
        return None
    return traffic.ideal * _SECTOR > size * traffic.lanes / 2


def _extent(ctx: RuleContext, analysis: LaunchAnalysis, shared: list[SharedLoop]) -> str | None:
    """How many columns there are, if threads of columns within walk, store and meet, and no other thread does.

    The guards around the loops are that the index is less than this; then all threads of a block meet behind the
    loops once the index of each is.
    """
    launch = ctx.variant.launches[analysis.form.position]
    per = [extent for _, extent, per in ceil_divs(ctx, launch) if same(per, launch.block[0].text)]
    if len(per) != 1 or not launch.grid[0].text.startswith("ceil_div(") or ctx.task is None:
        return None
    form = analysis.form
    index = Term.of(BLOCK[0]) * form.block[0] + Term.of(THREAD[0])
    loops = {each.loop.symbol for each in shared}
    limits = set[Term]()
    for access in form.accesses:
        before = access.context
        if own := [place for place, part in enumerate(before) if part in loops]:
            before = before[: own[0]]
        elif not access.is_write:
            continue
        conditions = [part for part in before if isinstance(part, Condition)]
        for part in (each for condition in conditions for each in conjuncts(condition)):
            if isinstance(part, Compare) and not {BLOCK[0], *THREAD} & part.symbols():
                continue  # all threads of a block leave together
            if not isinstance(part, Compare) or part.relation != ">=":
                return None
            limits.add(part.term + index + 1)
        if not conditions:
            return None
    if len(limits) != 1:
        return None
    (limit,) = limits
    extent = parse(per[0])
    for case in (*ctx.task.check, *ctx.task.bench):
        numbers: dict[str, Number] = {**case.axes, **analysis.chip.names(), **ctx.variant.integer_knobs}
        if number_of(limit, axis_values(ctx.task, case)) != extent.value(numbers):
            return None
    return per[0]


def _edits(ctx: RuleContext, found: _Columns, columns: int, lanes: int) -> list[Edit]:
    """Raises NotPrinted."""
    function, form = found.function, found.analysis.form
    names = {word: fresh(ctx, word) for word in ("COLUMNS", "LANES", "column", "lane", "is_inside", "is_first")}
    count, per, column, _, inside, first = names.values()
    extent = in_c(parse(found.extent).tree, names_of(ctx, function))
    line = ctx.variant.launches[form.position]
    edits = [
        *launch_edits(
            ctx,
            function,
            line,
            extent=found.extent,
            names=(count, per),
            shape=(columns, lanes),
            shared=line.shared.text,
        ),
        Edit(found.index, f"min((int)blockIdx.x * {count} + {column}, {extent} - 1)"),
    ]
    kept: dict[Span, list[Edit]] = {}
    for each in found.shared:
        if each.is_scan:
            made = scanned_column(ctx, found.analysis, each, (count, per), (column, names["lane"]))
        else:
            made = _shared_out(ctx, each, names)
        if _is_in_place(found.analysis, each):
            made.append(_skipped(each, inside))
        if kept.setdefault(each.loop.span, made) != made:
            raise NotPrinted("a function that is called in two ways")
    edits += [edit for made in kept.values() for edit in made]
    edits += _stores(ctx, found, inside, first).values()
    texts = [edit.text for edit in edits]
    used = {word for word in (inside, first) if any(f"if ({word})" in text for text in texts)}
    edits.append(_declared(function, names, extent, used))
    return edits


def _is_in_place(analysis: LaunchAnalysis, shared: SharedLoop) -> bool:
    """Whether a loop touches a tensor whose elements are written over."""
    inside = [access for access in analysis.form.accesses if shared.loop.symbol in access.loops]
    return any(access.array in analysis.legality.rereads_output for access in inside)


def _skipped(shared: SharedLoop, inside: str) -> Edit:
    """Threads that repeat the last column leave a loop out that writes over what it reads. Raises NotPrinted."""
    loop = shared.loop
    if loop.calls or loop.factor is not None:
        raise NotPrinted("no test fits in front of the loop")
    return Edit(Span(loop.span.start, loop.span.start), f"if ({inside}) ")


def _declared(function: Function, names: dict[str, str], extent: str, used: set[str]) -> Edit:
    """What places a thread. used: which of the two tests anything asks."""
    count, _, column, lane, inside, first = names.values()
    body = function.body.start + 1
    text = (
        f"\n    // A block has {count} neighbouring columns; its lanes share the rows of each."
        f"\n    const int {column} = threadIdx.x % {count}, {lane} = threadIdx.x / {count};"
    )
    here = f"(int)blockIdx.x * {count} + {column} < {extent}"
    if inside in used:
        text += f"\n    const bool {inside} = {here};"
        here = inside
    if first in used:
        text += f"\n    const bool {first} = {lane} == 0 && {here};"
    return Edit(Span(body, body), text)


def _stores(ctx: RuleContext, found: _Columns, inside: str, first: str) -> dict[Span, Edit]:
    """Each store is one lane's; the threads that repeat the last column store nothing."""
    loops = {each.loop.symbol for each in found.shared}
    made: dict[Span, Edit] = {}
    for access in found.analysis.form.accesses:
        if not access.is_write or not access.is_global:
            continue
        if access.calls:
            raise NotPrinted("a store in a function of its own")
        ours = loops & set(access.loops)
        if ours and access.array in found.analysis.legality.rereads_output:
            continue  # the whole loop is left out
        edit = stored_if(ctx, access, inside if ours else first)
        if edit is None or is_met_in(ctx, access, found.shared):
            raise NotPrinted("a store that is no statement of its own")
        made[edit.span] = edit
    return made


def _shared_out(ctx: RuleContext, shared: SharedLoop, names: dict[str, str]) -> list[Edit]:
    """The loop in steps of the lanes, and what they combine behind it. Raises NotPrinted."""
    loop, (count, per, column, lane, *_) = shared.loop, names.values()
    if loop.calls:  # a function of its own cannot see the kernel's variables
        column, lane = f"(int)threadIdx.x % {count}", f"(int)threadIdx.x / {count}"
    edits = stepped(ctx, shared, f"({lane})" if loop.calls else lane, per)
    if edits is None:
        raise NotPrinted("a loop that is written in another way")
    lines = combined_in_shared(ctx, shared, (count, per), (column, lane))
    lines += ["__syncthreads();"] if loop.calls and lines else []  # the next call writes the parts again
    indent = indent_of(ctx.source, loop.span.start)
    edits.append(Edit(Span(loop.span.end, loop.span.end), "".join(f"\n{indent}{line}" for line in lines)))
    return edits


RULES = (
    Rule(
        name="column_lanes",
        sentence="Gives each column the lanes of a block of a few neighbouring columns where a thread walks down a"
        " column alone: lanes take every so many rows, and combine their sums in shared memory.",
        find=behind_thin_blocks(by_launch(found_columns, once=True)),
        reason="a thread for each column leaves most of the chip idle, and each waits for one row after the other",
        expected="as many more loads in flight as a column has lanes; whole sectors are read as before",
        risk="few rows leave lanes idle; sums are added in another order",
        next_if_kept="the knobs of columns and lanes",
        next_if_reverted="splitting the rows among blocks",
    ),
)
