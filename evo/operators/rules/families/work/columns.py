"""Blocks of a few neighbouring columns whose lanes share the rows of each: common parts of these rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from evo.analysis.access import LaunchAnalysis, Loop
from evo.cuda.source import Edit, Function
from evo.operators.rules.application import Application
from evo.operators.rules.directives import new_knob, relaunched, require, without_bounds
from evo.operators.rules.rewriting import merged
from evo.operators.rules.rule_context import RuleContext
from evo.spec.variant import LaunchLine

COLUMNS = (8, 16, 32, 64)  # of a block; eight floats are a sector
TURNS = 16  # from which on a walk may be worth sharing
_GIVEN = 64  # turns of a loop that data gives, which a first look tells apart
_EACH = 4  # turns of a lane at least: what lanes combine costs as much as a few
# Words that place a thread in the first dimension; a kernel that has others than its index is left alone.
PLACED = re.compile(r"\b(?:threadIdx|blockIdx\.x|gridDim\.x|blockDim|__shared__|__sync\w*|\w+_sync|laneid)\b")
_LANES = (4, 8, 16, 32, 64, 128)  # for each column
_SHAPES = ((32, 32), (16, 64), (8, 128), (8, 32))
_MOST = 1024  # threads of a block


def turns_of(analysis: LaunchAnalysis, loops: Iterable[Loop]) -> int:
    """The most turns that one of these loops has for a thread; 0 if they are not known, some if data gives them."""
    return max((analysis.turns(loop) or (_GIVEN if loop.is_given else 0) for loop in loops), default=0)


def applications(
    analysis: LaunchAnalysis, count: int, turns: int, words: str, edits: Callable[[int, int], list[Edit]]
) -> Iterator[Application]:
    """One for each shape, the most columns first that leave no SM without a block; none for a short walk.

    count: of all columns; turns: of a walk down one. words: the summary, with `{columns}` and `{lanes}`. edits: for
    columns of a block and lanes of a column. Raises NotPrinted if they do.
    """
    if turns < TURNS:
        return
    kernel = analysis.form.kernel
    most = max((lanes for lanes in _LANES if lanes * _EACH <= turns), default=_LANES[0])
    shapes = tuple(dict.fromkeys((columns, min(lanes, most)) for columns, lanes in _SHAPES))
    full = [shape for shape in shapes if count >= shape[0] * analysis.chip.sms] or [min(shapes)]
    for rank, (columns, lanes) in enumerate((full[0], *(shape for shape in shapes if shape != full[0]))):
        yield Application(
            edits=tuple(merged(edits(columns, lanes))),
            summary=f"{kernel}: {words.format(columns=columns, lanes=lanes)}",
            arguments={"kernel": kernel, "columns": columns, "lanes": lanes},
            rank=rank,
            is_schedule=True,
        )


def launch_edits(
    ctx: RuleContext,
    function: Function,
    line: LaunchLine,
    *,
    extent: str,
    names: tuple[str, str],
    shape: tuple[int, int],
    shared: str,
) -> list[Edit]:
    """The launch of such blocks. extent: how many columns there are. names: of the knobs of columns and lanes."""
    count, per = names
    rest = "".join(f", {part.text}" for part in line.grid[1:])
    return [
        relaunched(ctx, line, grid=f"ceil_div({extent}, {count}){rest}", block=f"{count} * {per}", shared=shared),
        *new_knob(ctx, count, COLUMNS, shape[0]),
        *new_knob(ctx, per, _LANES, shape[1]),
        *require(ctx, f"{count} * {per} <= {_MOST}"),
        *without_bounds(function),
    ]
