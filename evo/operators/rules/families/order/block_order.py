"""The assignment of work to blocks, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access import LaunchAnalysis, opportunities_of
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import new_knob, relaunched
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels
from evo.spec.variant import LaunchLine

_GROUPS = (2, 4, 8, 16)


def _block_uses(ctx: RuleContext, function: Function, axis: str) -> list[Span]:
    text = ctx.source.data[function.body.start : function.body.end]
    found = re.finditer(rb"\bblockIdx\." + axis.encode() + rb"\b", text)
    return [Span(function.body.start + m.start(), function.body.start + m.end()) for m in found]


def _is_alone(ctx: RuleContext, function: Function, words: str) -> bool:
    """Whether no other function or macro looks at the grid."""
    outside = ctx.source.data[: function.body.start] + ctx.source.data[function.body.end :]
    return not re.search(words, outside.decode())


def _grids(ctx: RuleContext) -> Iterator[tuple[Function, LaunchLine, dict[str, list[Span]]]]:
    """Kernels that know their block's place in x and y, and nothing of the grid; with where they look at it."""
    for function, launch in kernels(ctx):
        uses = {axis: _block_uses(ctx, function, axis) for axis in "xy"}
        if len(launch.grid) < 2 or not all(uses.values()) or not _is_alone(ctx, function, r"\b(blockIdx|gridDim)\b"):
            continue
        if re.search(r"\bgridDim\b", ctx.source.slice(function.body)):
            continue
        yield function, launch, uses


def _find_raster(ctx: RuleContext) -> Iterator[Application]:
    for function, _, uses in _grids(ctx):
        name, x, y = fresh(ctx, "BLOCK_GROUP"), fresh(ctx, "block_x"), fresh(ctx, "block_y")
        block, first, rows = fresh(ctx, "block_number"), fresh(ctx, "group_first"), fresh(ctx, "group_rows")
        start = function.body.start + 1
        text = (
            f"\n    // Blocks in groups of {name} rows, column by column: neighbours in time share what they read."
            f"\n    const int {block} = blockIdx.y * gridDim.x + blockIdx.x;"
            f"\n    const int {first} = {block} / ({name} * gridDim.x) * {name};"
            f"\n    const int {rows} = min((int)gridDim.y - {first}, {name});"
            f"\n    const int {y} = {first} + {block} % ({name} * gridDim.x) % {rows};"
            f"\n    const int {x} = {block} % ({name} * gridDim.x) / {rows};"
        )
        for value in (8, 4, 16, 2):
            yield Application(
                edits=(
                    *new_knob(ctx, name, _GROUPS, value),
                    Edit(Span(start, start), text),
                    *(Edit(span, x) for span in uses["x"]),
                    *(Edit(span, y) for span in uses["y"]),
                ),
                summary=f"{function.name}: blocks in groups of {value} rows",
                arguments={"kernel": function.name, "to": value},
                rank=0 if value == 8 else 1,
            )


def _find_swap(ctx: RuleContext) -> Iterator[Application]:
    for function, launch, uses in _grids(ctx):
        first, second, *rest = (part.text for part in launch.grid)
        yield Application(
            edits=(
                relaunched(ctx, launch, grid=", ".join([second, first, *rest])),
                *(Edit(span, "blockIdx.y") for span in uses["x"]),
                *(Edit(span, "blockIdx.x") for span in uses["y"]),
            ),
            summary=f"{function.name}: blocks run through y before x",
            arguments={"kernel": function.name},
        )


_BUILTIN = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xy])\b")


def _find_turned(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    """Kernels whose requests are scattered because threadIdx.y runs along the contiguous dimension."""
    source, launch = ctx.source, ctx.variant.launches[analysis.form.position]
    if len(launch.grid) < 2 or len(launch.block) < 2 or analysis.form.exchanges:
        return
    if not any(found.name == "swap_thread_axes" for found in opportunities_of(analysis)):
        return
    elsewhere = [f for f in source.functions if f != function and _BUILTIN.search(source.slice(f.body))]
    body = source.data[function.body.start : function.body.end]
    edits = []
    for match in re.finditer(_BUILTIN.pattern.encode(), body):
        at = function.body.start + match.start(2)
        edits.append(Edit(Span(at, at + 1), "y" if match[2] == b"x" else "x"))
    if elsewhere or not edits:
        return
    grid, block = ([part.text for part in parts] for parts in (launch.grid, launch.block))
    grid[:2], block[:2] = grid[1::-1], block[1::-1]
    yield Application(
        edits=(relaunched(ctx, launch, grid=", ".join(grid), block=", ".join(block)), *edits),
        summary=f"{function.name}: x and y change places, so that lanes go along memory",
        arguments={"kernel": function.name},
        is_schedule=True,
    )


RULES = (
    Rule(
        name="turn_axes",
        sentence="Lets x and y of threads and blocks change places where threadIdx.y runs along the contiguous"
        " dimension.",
        find=by_launch(_find_turned, once=True),
        reason="lanes that are a row apart take a sector for each element",
        expected="a request takes as few sectors as it has bytes",
        risk="the other dimension of what is read may then be scattered",
        next_if_kept="wide loads, or several elements for each thread",
        next_if_reverted="a tile in shared memory",
    ),
    Rule(
        name="raster",
        sentence="Runs blocks in groups of rows, column by column, instead of row by row.",
        find=_find_raster,
        reason="blocks that run at the same time share rows and columns of their inputs in L2",
        expected="less DRAM traffic if the inputs do not fit in L2",
        risk="a few integer instructions per block; no gain if L2 holds everything",
        next_if_kept="another group size",
        next_if_reverted="the other order of x and y",
    ),
    Rule(
        name="swap_axes",
        sentence="Swaps the x and y axes of a grid, so that blocks run down columns before rows.",
        find=_find_swap,
        reason="blocks with neighbouring numbers run together; what they share should be the larger input",
        expected="more L2 hits, or fewer blocks that wait for the same DRAM row",
        risk="the inputs swap roles, and the other one may be the worse",
        next_if_kept="groups of rows",
        next_if_reverted="groups of rows",
    ),
)
