"""Elements of a row kept in shared memory between the passes of a block over it."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import CountedFor, Edit, Span
from evo.operators.rules.directives import relaunched, require
from evo.operators.rules.element import BYTES
from evo.operators.rules.reductions import shareable
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels


def _find_keep(ctx: RuleContext) -> Iterator[Application]:
    for function, launch in kernels(ctx):
        text = ctx.source.slice(function.body)
        if launch.shared.text.strip() != "0" or "extern __shared__" in text or len(launch.block) > 1:
            continue
        counted = [s for s in ctx.source.statements(function) if isinstance(s, CountedFor)]
        loops = [s for s in counted if ctx.source.slice(s.start) == "threadIdx.x"]
        heads = {ctx.source.slice(s.header).strip() for s in loops}
        if len(loops) < 2 or len(heads) != 1 or any(shareable(ctx.source, s) is None for s in loops):
            continue
        first = loops[0]
        axis = ctx.axis_of(function, ctx.source.slice(first.limit))
        if axis is None:
            continue
        for name in sorted({use.name for use in ctx.source.subscripts(first.body_span) if use.is_read}):
            edits = _kept(ctx, function.body, loops, name)
            kind = ctx.source.element_type(function.name, name)
            if edits is None or kind not in BYTES:
                continue
            start = function.body.start + 1
            yield Application(
                edits=(
                    *require(ctx, "shared <= chip.shared_per_block_optin"),
                    relaunched(ctx, launch, shared=f"({axis} * {BYTES[kind]})"),
                    Edit(Span(start, start), f"\n    extern __shared__ {kind} {name}_kept[];"),
                    *edits,
                ),
                summary=f"{function.name}: {name} is kept in shared memory between its {len(loops)} passes",
                arguments={"kernel": function.name, "array": name},
            )


def _kept(ctx: RuleContext, body: Span, loops: list[CountedFor], name: str) -> list[Edit] | None:
    """The first loop fills what the others read: each thread its own elements, so no barrier is needed."""
    uses = [use for use in ctx.source.subscripts(body) if use.name == name]
    read_by = [[use for use in uses if loop.body_span.holds(use.span)] for loop in loops]
    inside = sum(len(each) for each in read_by)
    if f"{name}_kept" in ctx.source.text or inside != len(uses) or not all(read_by[:1]) or not any(read_by[1:]):
        return None
    for loop, each in zip(loops, read_by, strict=True):
        if any(not use.is_read or ctx.source.slice(use.indices[0]).strip() != loop.name for use in each):
            return None
    first, i = loops[0], loops[0].name
    if any(ctx.source.is_conditional(use.span, first.body_span) for use in read_by[0]):
        return None
    begin = f"{{ {name}_kept[{i}] = {name}[{i}]; "
    edits = [
        Edit(Span(first.body_span.start, first.body_span.start), begin),
        Edit(Span(first.body_span.end, first.body_span.end), " }"),
    ]
    return edits + [Edit(use.span, f"{name}_kept[{i}]") for each in read_by for use in each]


RULES = (
    Rule(
        name="keep_row",
        sentence="Keeps the elements of a row in shared memory between the passes of a block over it.",
        find=_find_keep,
        examples=(Example.of_files("keep_row", axes=("N",)),),
        reason="each pass over a row that the caches do not hold reads it from memory again",
        expected="one read of the row from global memory instead of one per pass",
        risk="shared memory per block limits how many blocks run; the caches may have held the row",
        next_if_kept="wider loads in the first pass",
        next_if_reverted="fewer passes",
    ),
)
