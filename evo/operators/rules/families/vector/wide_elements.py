"""Kernels of one element per thread: several neighbouring elements per thread, in one instruction each."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import Edit
from evo.operators.rules.families.order.block_order import strided
from evo.operators.rules.families.vector.wide_access import wide_loops
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import thread_indices
from evo.operators.rules.through import through


def _find(ctx: RuleContext) -> Iterator[Application]:
    for index in thread_indices(ctx, whole=True):
        walk = strided(ctx, index)
        for count in (4, 8, 2, 16) if walk else ():
            first = (Edit(index.grid_at, f"ceil_div({index.extent}, {index.threads} * {count})"), *walk)
            between = ctx.after(first)
            for found in wide_loops(between, (count,), index.name):
                yield Application(
                    edits=through(between.source, first, found.edits),
                    summary=f"{index.function.name}: {count} neighbours along {index.name} per thread",
                    arguments={"kernel": index.function.name, "to": count},
                    rank=found.rank,
                )


RULES = (
    Rule(
        name="wide_elements",
        sentence="Gives each thread of a kernel of single elements 2 to 16 neighbours, loaded and stored in one"
        " instruction where the addresses are aligned at run time.",
        find=behind_guard(_find),
        reason="a thread that moves one element of 4 bytes spends most of its instructions on addresses",
        expected="as many times fewer memory instructions, threads and blocks as elements per thread",
        risk="fewer threads in flight where the input is small; arrays that are not aligned take the narrow loop",
        next_if_kept="a few blocks per SM that walk the index",
        next_if_reverted="fewer elements per thread",
    ),
)
