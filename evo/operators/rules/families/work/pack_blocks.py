"""Small blocks whose threads do not meet: one block takes the work of several."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import new_knob, relaunched, require, without_bounds
from evo.operators.rules.flat_view import joined_threads
from evo.operators.rules.lifting import NotPrinted, in_c, names_of
from evo.operators.rules.rewriting import bracketed, fresh, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_AXES = "xyz"
_LARGEST = 1024  # threads of any block
_MOST = 128  # threads of a block that is small
_WANTED = (256, 128, 512)  # threads of one that is not
_WAVES = 4  # blocks for each that an SM holds at a time, from which on starting them may take long
_HELD = 16  # blocks that an SM holds at a time at least
_PACKED = (2, 4, 8, 16, 32)
_PLACED = re.compile(
    r"\b(?:threadIdx|blockDim)\s*\.\s*[yz]\b|\b(?:__shared__|__syncthreads\w*|cooperative_groups|asm)\b"
)
_BLOCK = re.compile(r"\b(?:blockIdx|gridDim|threadIdx|blockDim)\b")


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    if not _is_small(ctx, analysis):
        return
    threads = analysis.sizes.threads
    if threads == 1:
        yield from _of_one_thread(ctx, analysis, function)
        return
    counts = dict.fromkeys(wanted // threads for wanted in _WANTED if wanted // threads in _PACKED)
    for rank, count in enumerate(counts):
        yield Application(
            edits=tuple(merged(_edits(ctx, analysis, function, count))),
            summary=f"{function.name}: blocks of {threads} threads, {count} at a time in one",
            arguments={"kernel": function.name, "to": count},
            rank=rank,
            is_schedule=True,
        )


def _of_one_thread(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    for rank, count in enumerate(_WANTED):
        if count <= analysis.sizes.blocks and (edits := joined_threads(ctx, analysis, function, count)):
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name}: blocks of one thread, {count} at a time in one",
                arguments={"kernel": function.name, "to": count},
                rank=rank,
                is_schedule=True,
            )


def _is_small(ctx: RuleContext, analysis: LaunchAnalysis) -> bool:
    """Whether blocks are many and small, and nothing but a thread's number in its block shows which block it is in."""
    form, sizes = analysis.form, analysis.sizes
    if sizes.block[1:] != (1, 1) or sizes.threads > _MOST or sizes.blocks < _WAVES * _HELD * analysis.chip.sms:
        return False
    if form.barriers or form.shared or (form.exchanges and (sizes.threads % 32 or form.block[0].value is None)):
        return False
    others = (f for f in ctx.source.functions if not f.is_kernel)
    if any(_BLOCK.search(without_comments(ctx.source.slice(f.body))) for f in others):
        return False
    return not _PLACED.search(without_comments(ctx.source.text))


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, count: int) -> list[Edit]:
    """Raises NotPrinted."""
    source, sizes = ctx.source, analysis.sizes
    launch = ctx.variant.launches[analysis.form.position]
    at = max(range(3), key=lambda axis: sizes.grid[axis])
    text = source.slice(function.body)
    places = [*re.finditer(rf"\bblockIdx\s*\.\s*{_AXES[at]}\b", text)]
    if at >= len(launch.grid) or len(launch.block) != 1 or not places or f"gridDim.{_AXES[at]}" in text:
        raise NotPrinted("blocks that are not told apart")
    if not text.isascii() or re.search(r"\bblockIdx\b(?!\s*\.)", text):
        raise NotPrinted("blocks by another name")
    knob, block = fresh(ctx, "BLOCKS"), fresh(ctx, "former")
    extent = in_c(launch.grid[at].tree, names_of(ctx, function))
    grid = [part.text for part in launch.grid]
    grid[at] = f"ceil_div({grid[at]}, {knob})"
    start = function.body.start + 1
    lines = (
        f"\n    const unsigned {block} = blockIdx.{_AXES[at]} * {knob} + threadIdx.y;  // {knob} small blocks are one"
        f"\n    if ({block} >= {extent}) return;"
    )
    edits = [
        relaunched(ctx, launch, grid=", ".join(grid), block=f"{launch.block[0].text}, {knob}"),
        Edit(Span(start, start), lines),
        *new_knob(ctx, knob, _PACKED, count),
        *require(ctx, f"{bracketed(launch.block[0].text)} * {knob} <= {_LARGEST}"),
    ]
    for match in places:
        edits.append(Edit(Span(function.body.start + match.start(), function.body.start + match.end()), block))
    return [*edits, *without_bounds(function)]


RULES = (
    Rule(
        name="pack_blocks",
        sentence="Gives one block the work of several small ones whose threads do not meet.",
        find=by_launch(_find, once=True),
        reason="an SM starts so many blocks at a time, and holds so many: many of a warp or two leave it half empty",
        expected="as many warps as an SM holds, started in fewer steps",
        risk="the last block may be idle in part",
        next_if_kept="the knob of how many",
        next_if_reverted="several outputs for each thread",
    ),
)
