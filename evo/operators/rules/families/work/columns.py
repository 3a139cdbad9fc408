"""Blocks of a few neighbouring columns whose lanes share the rows of each: common parts of these rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Edit, Function
from evo.operators.rules.application import Application
from evo.operators.rules.directives import line_span, new_knob, require
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import merged
from evo.operators.rules.rule_context import RuleContext
from evo.spec.variant import LaunchLine

COLUMNS = (8, 16, 32, 64)  # of a block; eight floats are a sector
TURNS = 64  # from which on a walk is worth sharing
# Words that place a thread in the first dimension; a kernel that has others than its index is left alone.
PLACED = re.compile(r"\b(?:threadIdx|blockIdx\.x|gridDim\.x|blockDim|__shared__|__sync\w*|\w+_sync|laneid)\b")
_LANES = (4, 8, 16, 32, 64, 128)  # for each column
_SHAPES = ((32, 32), (16, 64), (8, 128), (8, 32))
_MOST = 1024  # threads of a block


def applications(
    analysis: LaunchAnalysis, count: int, words: str, edits: Callable[[int, int], list[Edit]]
) -> Iterator[Application]:
    """One for each shape, the most columns first that leave no SM without a block; none if edits raises NotPrinted.

    count: of all columns. words: the summary, with `{columns}` and `{lanes}`. edits: for columns of a block and lanes
    of a column.
    """
    kernel = analysis.form.kernel
    full = [shape for shape in _SHAPES if count >= shape[0] * analysis.chip.sms] or [_SHAPES[2]]
    for rank, (columns, lanes) in enumerate((full[0], *(shape for shape in _SHAPES if shape != full[0]))):
        try:
            made = merged(edits(columns, lanes))
        except NotPrinted:
            return
        yield Application(
            edits=tuple(made),
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
    grid = f"ceil_div({extent}, {count}){rest}"
    text = f"// evo: launch {line.kernel} grid ({grid}) block ({count} * {per}) shared {shared}{line.args_text}"
    edits = [
        Edit(line_span(ctx, line.line), text),
        *new_knob(ctx, count, COLUMNS, shape[0]),
        *new_knob(ctx, per, _LANES, shape[1]),
        *require(ctx, f"{count} * {per} <= {_MOST}"),
    ]
    if function.bounds is not None:
        edits.append(Edit(function.bounds, ""))
    return edits
