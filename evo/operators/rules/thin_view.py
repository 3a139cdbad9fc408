"""Blocks with indices of their own along y or z, as rules know them: a row of threads, and a block for each such index.

`blockIdx.y * blockDim.y + threadIdx.y` is seen as `blockIdx.y` behind a launch with as many more blocks, whose threads
are all along x. Threads that meet others of their block stay where they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from evo.analysis.access import BLOCK, THREAD, LaunchAnalysis, Term
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.application import Application, Find
from evo.operators.rules.directives import ceil_divs, grid_part_of, relaunched, without_bounds
from evo.operators.rules.rewriting import bracketed, rewritten, same
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import found_in_view
from evo.spec.comments import without_comments

_AXES = "xyz"


def behind_thin_blocks(find: Find) -> Find:
    """The same rule, which also finds its places where a block has several of what its threads do not share."""

    def both(ctx: RuleContext) -> Iterator[Application]:
        found = tuple(find(ctx))
        yield from found
        for analysis, function in () if found else ctx.analysed(once=True):
            yield from found_in_view(find, ctx, _thin(ctx, analysis, function))

    return both


def _thin(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> list[Edit]:
    """The edits after which all threads of a block lie along x; none if that is not how its indices are made."""
    form, launch = analysis.form, ctx.variant.launches[analysis.form.position]
    wide = [at for at, size in enumerate(analysis.sizes.block) if at and size > 1]
    if not wide or form.barriers or form.exchanges or form.shared:
        return []
    threads = [part.text for part in launch.block]
    is_known = all(map(str.isdigit, threads))
    row = str(math.prod(map(int, threads))) if is_known else " * ".join(map(bracketed, threads))
    grid, edits, words = [part.text for part in launch.grid], list[Edit](), list[str]()
    for at in (0, *wide):
        found = _index(ctx, analysis, function, at)
        if found is None:
            return []
        axis, value = found
        per = row if at == 0 else "1"
        grid[axis] = _blocks(ctx, analysis, axis, threads[at], per)
        text = f"blockIdx.{_AXES[axis]}"
        edits.append(Edit(value, text if at else f"{text} * blockDim.x + threadIdx.x"))
        words += [rf"blockIdx\.{_AXES[axis]}", rf"gridDim\.{_AXES[axis]}"]
    if len(words) != len(set(words)) or "" in grid:
        return []
    bodies = [function.body, *(f.body for f in ctx.source.functions if not f.is_kernel)]
    apart = [[Edit(edit.span, "") for edit in edits if body.holds(edit.span)] for body in bodies]
    rest = "".join(rewritten(ctx.source, body, own) for body, own in zip(bodies, apart, strict=True))
    if re.search(rf"\b(?:threadIdx|blockDim|{'|'.join(words)}|laneid|asm)\b", without_comments(rest)):
        return []
    return [*edits, relaunched(ctx, launch, grid=", ".join(grid), block=row), *without_bounds(function)]


def _index(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, at: int) -> tuple[int, Span] | None:
    """Along which axis of the grid the threads of an axis of the block are counted on, and what is set to that."""
    form = analysis.form
    for axis, block in enumerate(BLOCK):
        name = form.names.get(Term.of(block) * form.block[at] + Term.of(THREAD[at]))
        said = [s for s in ctx.source.inside(function) if s.kind == "declare" and s.name == name]
        if (
            name
            and len(said) == 1
            and said[0].value is not None
            and axis < len(ctx.variant.launches[form.position].grid)
        ):
            return axis, said[0].value
    return None


def _blocks(ctx: RuleContext, analysis: LaunchAnalysis, axis: int, was: str, per: str) -> str:
    """How many blocks of `per` threads an axis of the grid has; empty if what they cover is not said."""
    launch = ctx.variant.launches[analysis.form.position]
    covered = [
        extent
        for span, extent, by in ceil_divs(ctx, launch)
        if same(by, was) and grid_part_of(ctx, launch, span) == axis
        if same(ctx.source.slice(span), launch.grid[axis].text)
    ]
    if len(covered) != 1:
        return ""
    return covered[0] if per == "1" else f"ceil_div({covered[0]}, {per})"


__all__ = ["behind_thin_blocks"]
