"""What each thread comes to along a row or a column, and stores on the way, is found by lanes that share the walk."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evo.operators.rules.families.work.column_lanes import found_columns
from evo.operators.rules.families.work.row_lanes import found_rows
from evo.operators.rules.rule import Application, Example, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thin_view import behind_thin_blocks


def _find(ctx: RuleContext) -> Iterator[Application]:
    yield from by_launch(partial(found_rows, is_block=False, is_scan=True))(ctx)
    yield from by_launch(partial(found_rows, is_block=True, is_scan=True))(ctx)
    yield from by_launch(partial(found_columns, is_scan=True), once=True)(ctx)


RULES = (
    Rule(
        name="scan_lanes",
        sentence="Shares a row or a column whose running sums, products, extrema or recurrences a thread stores on the"
        " way: a row's neighbouring elements come together by shuffles, a column's stretches by what those before come"
        " to.",
        find=behind_thin_blocks(_find),
        examples=(Example.of_files("scan_lanes"), Example.of_files("scan_lanes_2")),
        reason="threads that each walk a row of their own read and write a row apart: one sector per element; those"
        " that walk columns are too few",
        expected="each sector is used whole, and many times as many threads keep the memory busy",
        risk="ten shuffles for 32 elements, or a column read twice; sums are added in another order",
        next_if_kept="the knobs of warps, columns and lanes",
        next_if_reverted="wide loads of the row",
    ),
)
