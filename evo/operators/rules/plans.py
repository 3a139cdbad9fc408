"""Plans: lines of two to six rewrites that pay together, proposed, tried and kept as one.

A plan is a list of steps; a step names the rules that may take it, the first that applies is taken. Each step is one
change of the variant before it, and is verified as that. What the later steps find follows from the analysis of what
the earlier ones wrote, so a plan that the kernel does not allow ends early, and with fewer than two steps is none. A
last step may cost more than it brings, so the beginnings of a plan are proposed too, once all whole ones were. What
first looks found faster edit by edit is a plan as well (`TOGETHER`), and so is a knob that another has to make room for
(`EXCHANGED`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from evo.operators.proposal import Context, OperatorDoc, Proposal
from evo.operators.rules.operator import PARENTS, RulePlace, places_of
from evo.operators.rules.rule import Rule
from evo.results import Json
from evo.spec.recent_cache import RecentCache
from evo.spec.variant import Variant

MOST_STEPS = 6
_TRIED = 4  # applications of a rule that a step looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    """steps: for each the names of the rules that may take it, behind a blank the `to` that it has to have; one that no
    rule can take is left out.

    needed: how many of the first steps may not be left out.
    """

    name: str
    sentence: str
    steps: tuple[tuple[str, ...], ...]
    reason: str
    expected: str
    needed: int = 1


_OF_ROWS = (("float_sums", "sort_network"), *(("wide_access",),) * 3, ("early_operands",), ("flag on",))
_OF_SIZES = (("compile_in",), ("sized_tiles",), ("raster",))

PLANS = (
    RulePlan(
        name="rows_together",
        sentence="Lets lanes share a row, loads it in wide pieces and early.",
        steps=(("row_lanes",), *_OF_ROWS[:-1], ("pack_blocks",), _OF_ROWS[-1]),
        reason="a row that a thread walks alone is read once for each pass, uncoalesced, an element at a time",
        expected="one coalesced pass over memory with wide loads",
    ),
    RulePlan(
        name="groups_together",
        sentence="Lets a few lanes share a short row, and loads and stores it in wide pieces.",
        steps=(("row_lanes 8", "row_lanes 4"), *(("wide_access",),) * 3, ("compile_in",)),
        reason="wide pieces of a short row leave most lanes of a warp without one",
        expected="one coalesced pass over memory with wide accesses of all lanes",
        needed=2,
    ),
    RulePlan(
        name="blocks_together",
        sentence="Lets a block share a row, loads it in wide pieces and early.",
        steps=(("row_blocks",), *_OF_ROWS),
        reason="a few long rows that threads walk alone leave most of the chip idle",
        expected="one coalesced pass over memory with wide loads, on all SMs",
    ),
    RulePlan(
        name="several_outputs",
        sentence="Gives each thread several outputs, loads for them in wide pieces and keeps them in registers.",
        steps=(("coarsen",), ("wide_access",), ("unroll_registers",)),
        reason="several outputs of a thread pay only if their loads are fewer instructions, and they stay in registers",
        expected="fewer loads for each output",
    ),
    RulePlan(
        name="columns_together",
        sentence="Shares the rows of a few neighbouring columns within a block, in floats, keeps them in registers"
        " between passes, with several sums in flight each.",
        steps=(("column_blocks", "column_lanes"), ("float_sums",), ("compile_in",), ("keep_turns",), ("accumulators",)),
        reason="lanes that add up a long column one element at a time wait, and round more than a tree does",
        expected="near the bandwidth of a copy, and rounding as small as a tree's",
    ),
    RulePlan(
        name="walk_wide",
        sentence="Walks in wide loads, with sizes compiled in.",
        steps=(("neighbours", "wide_access"), ("powers",), ("inverse",), ("compile_in",)),
        reason="wide loads leave short threads, whose set-up counts as much as their work",
        expected="near the bandwidth of a copy",
    ),
    RulePlan(
        name="boxes_wide",
        sentence="Takes a number over several axes apart into boxes of threads, or widens boxes, each thread with a few"
        " neighbouring outputs.",
        steps=(("unflatten", "block_size 32", "block_size 16"), ("neighbours", "coarsen"), ("compile_in",)),
        reason="neighbours of a number over all axes may be in two rows, whose places are divided out one by one",
        expected="one place for several outputs, and what they read loaded once",
    ),
    RulePlan(
        name="boxes_coarse",
        sentence="Takes a number over several axes apart, and gives each thread several outputs along the axis whose"
        " outputs read the most in common.",
        steps=(("unflatten",), ("coarsen 8", "coarsen 4", "coarsen"), ("compile_in",)),
        reason="outputs that are next to each other in one number over all axes share less than those of another axis",
        expected="as many times fewer loads of what the outputs have in common",
        needed=2,
    ),
    RulePlan(
        name="matrix_in_registers",
        sentence="Shares a thread's small matrix among a few lanes, unrolls loops over its rows, reads in wide pieces.",
        steps=(("matrix_lanes",), ("unroll_registers",), ("keep_turns",), ("wide_access",)),
        reason="a column of a matrix is in registers only if every loop over its rows is unrolled",
        expected="no local memory, and loads that lie next to each other",
    ),
    RulePlan(
        name="passes_wide",
        sentence="Loads and stores in wide pieces in each pass of a block over its row, and combines by shuffles.",
        steps=(*(("wide_access",),) * 4, ("block_trees",)),
        reason="one pass in wide pieces gains little while the others still move single elements",
        expected="as many times fewer memory instructions in all passes together",
    ),
    RulePlan(
        name="short_rows",
        sentence="Gives a block with a short row fewer threads, which load in wide pieces and combine by shuffles.",
        steps=(("block_size 64", "block_size 32"), ("warp_sums", "block_trees"), *(("wide_access",),) * 3),
        reason="where a row has an element or two for each thread, wide pieces leave most threads without one",
        expected="all threads have a piece, and few wait for one another",
        needed=2,
    ),
    RulePlan(
        name="sorted_in_registers",
        sentence="Sorts a thread's array by comparisons at fixed places, and loads for it by tiles or in wide pieces.",
        steps=(("sort_network",), ("tile_halo", "neighbours"), ("compile_in",)),
        reason="once a thread's elements are in registers, loads and addresses bind",
        expected="bound by the comparisons, or by the memory",
    ),
    RulePlan(
        name="spread",
        sentence="Makes blocks of the turns of loops around the work, then shares what a thread still walks.",
        steps=(*(("spread_loop",),) * 2, ("column_lanes", "row_lanes", "scan_lanes"), ("compile_in",), ("keep_turns",)),
        reason="a few blocks that walk rows or images one after the other leave most of the chip idle",
        expected="blocks on all SMs, and lanes that share each of their walks",
    ),
    RulePlan(
        name="passes_in_registers",
        sentence="Compiles sizes in, keeps in registers what a thread reads in several passes, stages what all read.",
        steps=(("compile_in",), ("keep_turns",), ("tile_halo", "wide_access"), ("coarsen", "wide_access")),
        reason="only a number of turns that the compiler knows lets elements be in registers",
        expected="one read of each element instead of one per pass",
        needed=2,
    ),
    RulePlan(
        name="private_wide",
        sentence="Adds up within a block what atomics of all blocks add to a few elements, and reads in wide loads.",
        steps=(("private_copy", "block_walks", "warp_sums"), ("wide_access", "neighbours"), ("compile_in",)),
        reason="without the atomics that meet, the loads' instructions bind",
        expected="near the bandwidth of a copy",
    ),
    RulePlan(
        name="walks_shared",
        sentence="Lets several blocks share each of a block's walks, and loads for them in wide pieces.",
        steps=(("split_k",), ("split_k",), ("wide_access",), ("wide_access",), ("compile_in",)),
        reason="one walk of a few blocks shared by more leaves the chip idle in the next one",
        expected="blocks on all SMs in each walk",
    ),
    RulePlan(
        name="tiles_shared",
        sentence="Computes a product by tiles, and lets several blocks share the sums of each.",
        steps=(("tile_product",), ("split_k",)),
        reason="tiles of a few results leave most of the chip idle, however long their sums are",
        expected="tiles on all SMs",
        needed=2,
    ),
    RulePlan(
        name="scans_wide",
        sentence="Finds a block's running sums by shuffles, of neighbours that each thread loads and stores at once.",
        steps=(("block_scans",), ("wide_access",), ("wide_access",)),
        reason="steps through shared memory wait at a barrier each, and single elements are as many instructions",
        expected="near the bandwidth of a copy",
    ),
    RulePlan(
        name="arrays_in_registers",
        sentence="Unrolls all loops over a thread's arrays, and loads and stores for them in wide pieces.",
        steps=(("unroll_registers",), *(("wide_access",),) * 3),
        reason="arrays in registers bring little while each thread reads and writes its elements one by one",
        expected="as many times fewer memory instructions, and no local memory",
    ),
    RulePlan(
        name="records_whole",
        sentence="Loads records at once, multiplies by reciprocal roots and compiles sizes in.",
        steps=(("records",), ("inverse_root",), ("compile_in",)),
        reason="loads of single fields bind beside accurate roots, and each hides what the other costs",
        expected="bound by the arithmetic that is left",
    ),
    RulePlan(
        name="words_of_bytes",
        sentence="Multiplies bytes four at a time, and compiles sizes in so that their words stay in registers.",
        steps=(("byte_dots",), ("compile_in",)),
        reason="a row of words that is multiplied with many others is loaded again for each unless its length is known",
        expected="bound by the products of words",
    ),
    RulePlan(
        name="tiles_by_size",
        sentence="Compiles sizes in, gives large problems larger tiles and runs blocks in groups of rows.",
        steps=_OF_SIZES,
        reason="one tile for all sizes is too small for large problems or leaves SMs idle for small ones",
        expected="each size of problem has tiles that suit it",
        needed=2,
    ),
    RulePlan(
        name="tall_tiles_by_size",
        sentence="Compiles sizes in, gives large problems tiles with more rows and runs blocks in groups of rows.",
        steps=(("compile_in",), ("sized_tiles large-y",), ("raster",)),
        reason="tiles that are twice as wide too are half empty where a problem has few columns",
        expected="each size of problem has tiles that suit it",
        needed=2,
    ),
    RulePlan(
        name="tensor_cores",
        sentence="Writes a product for tensor cores, compiles its sizes in, gives large problems larger tiles and runs"
        " blocks in groups of rows.",
        steps=(("tile_mma", "convolution_mma", "grouped_mma", "attention_mma"), *_OF_SIZES),
        reason="a product on tensor cores waits for shared memory, addresses and L2 unless all are taken care of",
        expected="bound by tensor cores",
    ),
)

TOGETHER = RulePlan(
    name="together",
    sentence="Makes at once several edits that first looks at the parent found faster, the best of them first.",
    steps=(),
    reason="edits that gain a few percent each are not kept one by one",
    expected="about the product of what each was estimated to bring",
)
EXCHANGED = RulePlan(
    name="exchanged",
    sentence="Moves a knob to its next value where it fits once another knob has moved too.",
    steps=(),
    reason="knobs that share a limit, such as the threads of a block, stay where they meet it if one moves at a time",
    expected="another balance within the same limit",
)
_KNOB = "knob"  # the rule that moves one
_EXCHANGES = 8  # of one parent
_WORTH = 1.02  # the gain that a look has to show for its edit to be one of them


class PlanOperator:
    """All plans as one arm."""

    name = "rules.plan"

    def __init__(self, rules: tuple[Rule, ...], plans: tuple[RulePlan, ...] = PLANS) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._plans = plans
        self._looked: tuple[str, ...] = ()  # what was put together last
        self._joined: list[Proposal] = []
        self._lines: RecentCache[dict[str, tuple[Proposal, ...]]] = RecentCache(PARENTS)  # by plan
        self._exchanges: RecentCache[list[tuple[Proposal, ...]]] = RecentCache(PARENTS)

    @property
    def docs(self) -> tuple[OperatorDoc, ...]:
        return tuple(
            OperatorDoc(name=f"{self.name}/{plan.name}", family="plan", sentence=plan.sentence)
            for plan in (*self._plans, TOGETHER, EXCHANGED)
        )

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The next plan whose end was not tried; plans that failed before come last. Nothing is drawn."""
        del rng
        for line in self._together(context):
            if _is_new(line, context):
                return _proposal(TOGETHER, line, TOGETHER.name)
        for is_loser in (False, True):
            for name, plan, line in self._offers(parent, context):
                if (name in context.losers) == is_loser and _is_new(line, context):
                    return _proposal(plan, line, name)
        return None

    def _exchanged(self, parent: Variant, context: Context) -> Iterator[tuple[Proposal, ...]]:
        """Two knobs that move by a place each: the second, which does not fit alone, once the first has moved."""
        rule = self._rules.get(_KNOB)
        places = places_of(rule, parent, context.task, context.chip) if rule is not None else []
        near = [place for place in places if place.rank == 0 and place.child is not None]
        for stuck in [place for place in near if place.child is not None and not context.fits(place.child)]:
            for place in near:
                first = place.proposal(context) if _knob(place) != _knob(stuck) else None
                second = self._step(_KNOB, first.variant, context, key=stuck.key) if first is not None else None
                if first is not None and second is not None:
                    yield first, second

    def _offers(self, parent: Variant, context: Context) -> Iterator[tuple[str, RulePlan, tuple[Proposal, ...]]]:
        """All plans with their names and lines, exchanges of knobs, then the beginnings of plans, long ones first."""
        lines = self._lines.made(parent.text, dict)
        for plan in sorted(self._plans, key=lambda each: each.name in context.losers):
            if plan.name not in lines:
                lines[plan.name] = self._line(plan, parent, context)
            yield plan.name, plan, lines[plan.name]
        for plan in self._plans:
            name = f"{plan.name}, otherwise"
            if name not in lines:
                other = self._line(plan, parent, context, otherwise=True)
                lines[name] = other if _ends(other) != _ends(lines[plan.name]) else ()
            yield name, plan, lines[name]
        for line in self._exchanges.made(parent.text, lambda: [*islice(self._exchanged(parent, context), _EXCHANGES)]):
            yield f"{EXCHANGED.name}: {_moved(line)}", EXCHANGED, line
        for shorter in range(1, MOST_STEPS - 1):
            for plan in self._plans:
                line = lines[plan.name][:-shorter]
                yield f"{plan.name}, {len(line)} steps", plan, line

    def _together(self, context: Context) -> Iterator[Sequence[Proposal]]:
        """The best edit that was looked at, and behind it all others that gain and still apply; then fewer of them."""
        looks = [each for gain, each in context.looks if gain >= _WORTH and _key(each) not in context.losers]
        found = tuple(each.variant.id for each in looks)
        if found != self._looked:
            self._looked, self._joined = found, self._join(looks, context)
        for end in reversed(range(len(self._joined))):
            yield self._joined[: end + 1]

    def _join(self, looks: Sequence[Proposal], context: Context) -> list[Proposal]:
        if not looks:
            return []
        first = looks[0].steps or (looks[0],)
        line, made = list(first), {_what(step) for step in first}
        for each in looks[1:]:
            rule = each.arguments.get("rule")
            if len(line) < MOST_STEPS and isinstance(rule, str) and _what(each) not in made:
                step = self._step(rule, line[-1].variant, context, key=_key(each))
                line += [step] if step is not None else []
                made |= {_what(each)} if step is not None else set()
        return line if len(line) > len(first) else []

    def _line(
        self, plan: RulePlan, parent: Variant, context: Context, *, otherwise: bool = False
    ) -> tuple[Proposal, ...]:
        """The steps that the kernel allows, each a proposal of its own; none without those that are needed.

        otherwise: where a rule has two ways to the same, the second.
        """
        line: list[Proposal] = []
        for place, names in enumerate(plan.steps):
            made = (self._step(name, parent, context, otherwise=otherwise) for name in names)
            step = next((found for found in made if found is not None), None)
            if step is not None:
                line.append(step)
                parent = step.variant
            elif place < plan.needed:
                return ()
        return tuple(line[:MOST_STEPS])

    def _step(
        self, name: str, parent: Variant, context: Context, key: str | None = None, *, otherwise: bool = False
    ) -> Proposal | None:
        """The first application of a rule that is one change; key: of the only change that will do."""
        name, _, to = name.partition(" ")
        rule = self._rules.get(name)
        places = places_of(rule, parent, context.task, context.chip) if rule is not None else []
        found = [place for place in sorted(places, key=lambda each: each.rank) if key in (None, place.key)]
        found = [place for place in found if to in ("", str(place.application.arguments.get("to")))]
        if otherwise and found:
            found = [*(place for place in found[1:] if _is_same(place, found[0])), *found]
        return next((made for place in found[:_TRIED] if (made := place.proposal(context)) is not None), None)


def _is_same(place: RulePlace, other: RulePlace) -> bool:
    """Whether two places set the same to the same value, in two ways."""
    said, wanted = place.application.arguments, other.application.arguments
    others = [name for name in wanted if said.get(name) != wanted[name]]
    return bool(others) and all(isinstance(wanted[name], bool) for name in others)


def _ends(line: Sequence[Proposal]) -> str:
    return line[-1].variant.id if line else ""


def _knob(place: RulePlace) -> object:
    return place.application.arguments["knob"]


def _moved(line: Sequence[Proposal]) -> str:
    return ", then ".join(step.summary for step in line)


def _key(proposal: Proposal) -> str:
    return str(proposal.arguments.get("change_key", ""))


def _what(proposal: Proposal) -> str:
    """What an edit changes, apart from the value that it sets."""
    chosen = json.loads(_key(proposal)) if _key(proposal).startswith("{") else {}
    return json.dumps({name: value for name, value in chosen.items() if name != "to"}, sort_keys=True)


def _is_new(line: Sequence[Proposal], context: Context) -> bool:
    return len(line) > 1 and line[-1].variant.id not in context.tried and context.fits(line[-1].variant)


def _proposal(plan: RulePlan, line: Sequence[Proposal], name: str) -> Proposal:
    last = line[-1]
    words = ", then ".join(str(step.arguments["rule"]) for step in line) if plan is not EXCHANGED else _moved(line)
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
        arguments={"plan": plan.name, "change_key": name, "steps": steps},
        steps=tuple(line),
    )
