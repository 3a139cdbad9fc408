"""Plans: lines of two to six rewrites that pay together, proposed, tried and kept as one.

A plan is a list of steps; a step names the rules that may take it, the first that applies is taken. Each step is one
change of the variant before it, and is verified as that. What the later steps find follows from the analysis of what
the earlier ones wrote, so a plan that the kernel does not allow ends early, and with fewer than two steps is none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from evo.operators.proposal import Context, OperatorDoc, Proposal
from evo.operators.rules.operator import PARENTS, places_of
from evo.operators.rules.rule import Rule
from evo.results import Json
from evo.spec.recent import RecentCache
from evo.spec.variant import Variant

MOST_STEPS = 6
_TRIED = 4  # applications of a rule that a step looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    """steps: for each the names of the rules that may take it; one that no rule can take is left out, but the first."""

    name: str
    sentence: str
    steps: tuple[tuple[str, ...], ...]
    reason: str
    expected: str


PLANS = (
    RulePlan(
        name="rows_together",
        sentence="Lets lanes share a row, keeps the row on chip between passes, loads it in wide pieces and early.",
        steps=(
            ("row_lanes", "lanes"),
            ("float_sums",),
            ("online",),
            ("keep_row",),
            ("wide_access",),
            ("early_operands",),
        ),
        reason="a row that a thread walks alone is read once for each pass, uncoalesced, an element at a time",
        expected="one coalesced pass over memory with wide loads",
    ),
    RulePlan(
        name="blocks_together",
        sentence="Lets a block share a row, keeps the row on chip between passes, loads it in wide pieces and early.",
        steps=(("row_blocks",), ("float_sums",), ("online",), ("keep_row",), ("wide_access",), ("early_operands",)),
        reason="a few long rows that threads walk alone leave most of the chip idle",
        expected="one coalesced pass over memory with wide loads, on all SMs",
    ),
    RulePlan(
        name="coalesced",
        sentence="Turns axes so that threads run along memory, then stages, blocks in registers and loads wide.",
        steps=(("turn_axes",), ("stage_tiles",), ("coarsen",), ("wide_access", "wide_elements")),
        reason="uncoalesced reads hide what shared memory and registers could reuse",
        expected="coalesced reads, each used for several outputs",
    ),
    RulePlan(
        name="several_outputs",
        sentence="Gives each thread several outputs, loads for them in wide pieces and keeps them in registers.",
        steps=(("coarsen",), ("wide_access", "wide_elements"), ("unroll_registers",)),
        reason="several outputs of a thread pay only if their loads are fewer instructions, and they stay in registers",
        expected="fewer loads for each output",
    ),
    RulePlan(
        name="staged",
        sentence="Stages tiles in shared memory, blocks them in registers, pads their rows and loads them wide.",
        steps=(("stage_tiles", "tile_halo"), ("coarsen",), ("row_pad", "xor_swizzle"), ("wide_access",)),
        reason="a tile in shared memory moves the limit to shared reads, which blocking in registers takes away",
        expected="the multiply-adds bind instead of loads from L2 or shared memory",
    ),
    RulePlan(
        name="windows",
        sentence="Gives threads an index for each axis, or wide blocks, then stages windows, several results a thread.",
        steps=(("unflatten", "block_shape"), ("tile_rows", "tile_halo")),
        reason="a block that is a strip of a flat index, or narrow, shares little of what its windows read",
        expected="each element is loaded once for a block, and read about once for each result and row of the window",
    ),
    RulePlan(
        name="side_by_side",
        sentence="Gives threads an index for each axis, or wide blocks, then several neighbouring outputs each.",
        steps=(("unflatten", "block_shape"), ("neighbours",), ("compile_in",)),
        reason="neighbours along a flat index divide it once for each output, and narrow blocks end at every edge",
        expected="windows of several outputs in wide loads, a few tests for edges",
    ),
    RulePlan(
        name="columns_together",
        sentence="Shares the rows of a few neighbouring columns within a block, keeps them in registers between passes,"
        " with several sums in flight each.",
        steps=(("column_blocks", "column_lanes"), ("compile_in",), ("keep_turns",), ("accumulators",)),
        reason="lanes that add up a long column one element at a time wait, and round more than a tree does",
        expected="near the bandwidth of a copy, and rounding as small as a tree's",
    ),
    RulePlan(
        name="walk_wide",
        sentence="Lets a few blocks per SM walk an element-wise kernel in wide loads, with sizes compiled in.",
        steps=(("wide_elements", "wide_access"), ("grid_stride",), ("compile_in",)),
        reason="wide loads leave short threads, whose set-up counts as much as their work",
        expected="near the bandwidth of a copy",
    ),
    RulePlan(
        name="matrix_in_registers",
        sentence="Shares a thread's small matrix among a few lanes, and unrolls the loops over its rows.",
        steps=(("matrix_lanes",), ("unroll_registers",)),
        reason="a column of a matrix is in registers only if every loop over its rows is unrolled",
        expected="no local memory, and loads that lie next to each other",
    ),
    RulePlan(
        name="passes_wide",
        sentence="Keeps a block's row on chip and loads and stores in wide pieces in each of its passes.",
        steps=(("keep_row", "wide_access"), ("wide_access",), ("wide_access",), ("wide_access",)),
        reason="one pass in wide pieces gains little while the others still move single elements",
        expected="as many times fewer memory instructions in all passes together",
    ),
    RulePlan(
        name="spread",
        sentence="Makes blocks of the turns of loops around the work, then shares what a thread still walks.",
        steps=(
            ("spread_loop",),
            ("spread_loop",),
            ("column_lanes", "row_lanes", "scan_lanes"),
            ("compile_in",),
            ("keep_turns",),
        ),
        reason="a few blocks that walk rows or images one after the other leave most of the chip idle",
        expected="blocks on all SMs, and lanes that share each of their walks",
    ),
    RulePlan(
        name="passes_in_registers",
        sentence="Compiles sizes in and keeps in registers what a thread reads in several passes.",
        steps=(("compile_in",), ("keep_turns",)),
        reason="only a number of turns that the compiler knows lets elements be in registers",
        expected="one read of each element instead of one per pass",
    ),
    RulePlan(
        name="private_wide",
        sentence="Adds up within a block what atomics of all blocks add to a few elements, and reads in wide loads.",
        steps=(("private_copy", "block_walks", "warp_sums"), ("wide_access", "wide_elements"), ("compile_in",)),
        reason="without the atomics that meet, the loads' instructions bind",
        expected="near the bandwidth of a copy",
    ),
    RulePlan(
        name="tensor_cores",
        sentence="Writes a product for tensor cores, compiles its sizes in and runs its blocks in groups of rows.",
        steps=(("tile_mma", "convolution_mma", "grouped_mma", "attention_mma"), ("compile_in",), ("raster",)),
        reason="a product on tensor cores waits for addresses and L2 unless both are taken care of",
        expected="bound by tensor cores",
    ),
)


class PlanOperator:
    """All plans as one arm."""

    name = "rules.plan"

    def __init__(self, rules: tuple[Rule, ...], plans: tuple[RulePlan, ...] = PLANS) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._plans = plans
        self._lines: RecentCache[dict[str, tuple[Proposal, ...]]] = RecentCache(PARENTS)  # by plan

    @property
    def docs(self) -> tuple[OperatorDoc, ...]:
        return tuple(
            OperatorDoc(name=f"{self.name}/{plan.name}", family="plan", sentence=plan.sentence) for plan in self._plans
        )

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The next plan whose end was not tried; plans that failed before come last. Nothing is drawn."""
        del rng
        lines = self._lines.made(parent.text, dict)
        for plan in sorted(self._plans, key=lambda each: each.name in context.losers):
            if plan.name not in lines:
                lines[plan.name] = tuple(self._line(plan, parent, context))[:MOST_STEPS]
            line = lines[plan.name]
            if len(line) > 1 and line[-1].variant.id not in context.tried and context.fits(line[-1].variant):
                return _proposal(plan, line)
        return None

    def _line(self, plan: RulePlan, parent: Variant, context: Context) -> Iterator[Proposal]:
        """The steps that the kernel allows, each a proposal of its own; none without the first."""
        for place, names in enumerate(plan.steps):
            step = next((found for name in names if (found := self._step(name, parent, context)) is not None), None)
            if step is not None:
                yield step
                parent = step.variant
            elif place == 0:
                return

    def _step(self, name: str, parent: Variant, context: Context) -> Proposal | None:
        rule = self._rules.get(name)
        places = places_of(rule, parent, context.task, context.chip) if rule is not None else []
        tried = sorted(places, key=lambda place: place.rank)[:_TRIED]
        return next((made for place in tried if (made := place.proposal(context)) is not None), None)


def _proposal(plan: RulePlan, line: tuple[Proposal, ...]) -> Proposal:
    last = line[-1]
    words = ", then ".join(str(step.arguments["rule"]) for step in line)
    steps: list[Json] = [
        {"rule": step.arguments["rule"], "kind": step.kind, "summary": step.summary, "variant": step.variant.id}
        for step in line
    ]
    return Proposal(
        operator=PlanOperator.name,
        kind="plan",
        variant=last.variant,
        summary=f"plan {plan.name}: {words}",
        reason=plan.reason,
        expected=plan.expected,
        risk="; ".join(dict.fromkeys(step.risk for step in line)),
        next_if_kept="the knobs of what was written",
        next_if_reverted="its steps one by one",
        arguments={"plan": plan.name, "change_key": plan.name, "steps": steps},
        steps=line,
    )
