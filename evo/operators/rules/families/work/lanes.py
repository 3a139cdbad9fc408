"""What one thread walked alone is shared by a group of neighbouring threads: coalesced, with a shuffle reduction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import Edit, Source, Span, Statement
from evo.operators.rules.directives import new_knob, require
from evo.operators.rules.normal_form import behind_guard, is_guard
from evo.operators.rules.reductions import NEUTRAL, ReductionLoop, Shareable, shareable
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_LANES = (4, 8, 16, 32)
_SHARING = re.compile(r"__shared__|__sync|_sync\b|__shfl|\basm\b|\batomic|\blaneid\b")


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """A group of neighbouring threads that share one index, and the names that the edit gives to its parts."""

    name: str
    lane: str
    step: str
    mask: str

    @classmethod
    def over(cls, ctx: RuleContext, index: ThreadIndex) -> LaneGroup:
        step = "step" if not re.search(r"\bstep\b", ctx.source.slice(index.function.body)) else fresh(ctx, "step")
        return cls(fresh(ctx, "LANES"), fresh(ctx, "lane"), step, fresh(ctx, "lanes"))

    def head(self, ctx: RuleContext, index: ThreadIndex, value: int, *, reduces: bool) -> list[Edit]:
        """The knob, the launch line, the index and the place in the group."""
        indent = indent_of(ctx.source, index.statement.span.start)
        text = f"\n{indent}const int {self.lane} = threadIdx.x % {self.name};"
        if reduces:
            shift = f"(threadIdx.x % 32 / {self.name} * {self.name})"
            text += f"\n{indent}const unsigned {self.mask} = 0xffffffffu >> (32 - {self.name}) << {shift};"
        end = index.statement.span.end
        return [
            *new_knob(ctx, self.name, _LANES, value),
            *require(ctx, f"{index.threads} % 32 == 0"),
            Edit(index.grid_at, f"ceil_div({index.extent}, {index.threads} // {self.name})"),
            Edit(index.threads_at, f"({index.threads} / {self.name})"),
            Edit(index.thread_at, f"threadIdx.x / {self.name}"),
            Edit(Span(end, end), text),
        ]

    def combine(
        self, source: Source, siblings: Sequence[Statement], loop: Statement, found: ReductionLoop
    ) -> list[Edit]:
        """After a loop, what the lanes have added up; before it, nothing is counted twice."""
        indent = indent_of(source, loop.span.start)
        value = f"__shfl_xor_sync({self.mask}, {found.name}, {self.step})"
        combined = f"{found.name} += {value}"
        if found.combine != "+":
            combined = f"{found.name} = {found.combine}({found.name}, {value})"
        s = self.step
        text = f"\n#pragma unroll\n{indent}for (int {s} = {self.name} / 2; {s} > 0; {s} /= 2) {combined};"
        edits = [Edit(Span(loop.span.end, loop.span.end), text)]
        own = next((s for s in siblings if s.name == found.name and s.kind == "declare"), None)
        first = source.slice(own.value) if own is not None and own.value is not None else ""
        is_zero = re.fullmatch(r"-?0*\.?0*[fF]?", first) and not _assigned_before(siblings, loop, found.name)
        if found.combine == "+" and not (first and is_zero):
            edits.append(_before(source, loop, f"{indent}if ({self.lane} > 0) {found.name} = 0.0f;\n"))
        return edits


def _find(ctx: RuleContext) -> Iterator[Application]:
    for index in thread_indices(ctx):
        for value in reversed(_LANES):
            edits = _edits(ctx, index, value)
            if edits:
                yield Application(
                    edits=tuple(edits),
                    summary=f"{index.function.name}: {value} lanes share one {index.name}",
                    arguments={"kernel": index.function.name, "index": index.name, "to": value},
                    rank=(32 // value).bit_length() - 1,
                )


def _edits(ctx: RuleContext, index: ThreadIndex, value: int) -> list[Edit]:
    source = ctx.source
    text = source.slice(index.function.body)
    if _SHARING.search(text) or len(index.launch.block) > 1 or index.axis != "x":
        return []
    if index.lanes:
        return []
    statements = source.statements(index.function)[index.place + 1 :]
    loops = _loops(source, statements)
    if loops is None or not loops:
        return []
    lanes = LaneGroup.over(ctx, index)
    edits = lanes.head(ctx, index, value, reduces=any(loop.reductions for loop in loops))
    for loop in loops:
        edits += _shared_out(source, statements, loop, lanes)
    for statement in statements:
        edits += _once(statement, lanes.lane)
    return merged(edits)


def _loops(source: Source, statements: Sequence[Statement]) -> list[Shareable] | None:
    """The loops to share out; None if something else than them does more than compute."""
    found = []
    for statement in statements:
        if statement.kind == "for":
            loop = shareable(source, statement)
            if loop is not None and loop.loop.step == "1" and _of_scalars(source, statements, loop):
                found.append(loop)
            elif any(_writes_memory(source, statements, inner) for inner in statement.all()):
                return None
        elif statement.kind == "declare" and "static" not in statement.type:
            continue
        elif not (is_guard(statement) or statement.kind in ("assign", "empty")):
            return None
    used = Counter(each.name for loop in found for each in source.subscripts(loop.loop.span))
    stored = [name for loop in found for name in loop.stores if used[name] > 1]
    for loop in found:  # what is written in one loop and read in another stays with its lane only at the same index
        for each in source.subscripts(loop.loop.span):
            if each.name in stored and source.slice(each.indices[0]) != loop.loop.name:
                return None
    heads = {source.slice(Span(loop.loop.start.start, loop.loop.limit.end)) for loop in found}
    return None if stored and len(heads) > 1 and _read_back(source, statements, stored) else found


def _read_back(source: Source, statements: Sequence[Statement], stored: Sequence[str]) -> bool:
    return any(each.is_read and each.name in stored for s in statements for each in source.subscripts(s.span))


def _of_scalars(source: Source, statements: Sequence[Statement], loop: Shareable) -> bool:
    """Whether it adds up into plain float variables, and no array of the thread's own is spread over lanes."""
    declared = {s.name: s for s in statements if s.kind == "declare"}
    for found in loop.reductions:
        own = declared.get(found.name)
        if own is None or own.dims or own.type.split() != ["float"] or found.combine not in NEUTRAL:
            return False
    arrays = {name for name, s in declared.items() if s.dims}
    return not any(each.name in arrays for each in source.subscripts(loop.loop.span))


def _writes_memory(source: Source, statements: Sequence[Statement], statement: Statement) -> bool:
    if statement.kind in ("call", "other"):
        return True
    if statement.kind != "assign" or statement.name or statement.target is None:
        return False
    names = source.names(statement.target)
    arrays = {s.name for top in statements for s in top.all() if s.kind == "declare" and s.dims}
    return not names or names[0][0] not in arrays


def _shared_out(source: Source, statements: Sequence[Statement], shared: Shareable, lanes: LaneGroup) -> list[Edit]:
    loop = shared.loop
    start = source.slice(loop.start)
    edits = [
        Edit(loop.start, lanes.lane if start == "0" else f"{start} + {lanes.lane}"),
        Edit(loop.update, f"{loop.name} += {lanes.name}"),
    ]
    for found in shared.reductions:
        edits += lanes.combine(source, statements, loop, found)
    return edits


def _assigned_before(statements: Sequence[Statement], loop: Statement, name: str) -> bool:
    before = [s for s in statements if s.span.end <= loop.span.start]
    return any(inner.kind == "assign" and inner.name == name for s in before for inner in s.all())


def _before(source: Source, loop: Statement, text: str) -> Edit:
    """Before the loop and its pragma."""
    above = source.above(loop.span)
    at = above if above is not None else loop.span.start
    return Edit(Span(at, at), text)


def _once(statement: Statement, lane: str) -> list[Edit]:
    """A store outside the loops is left to the first lane."""
    if statement.kind == "assign" and not statement.name:
        return [Edit(Span(statement.span.start, statement.span.start), f"if ({lane} == 0) ")]
    return []


RULES = (
    Rule(
        name="lanes",
        sentence="Shares what one thread walks alone among a group of lanes: neighbours take neighbouring elements,"
        " and warp shuffles combine their sums and maxima.",
        find=behind_guard(_find),
        reason="threads that each walk a row of their own read addresses a row apart: one sector per element",
        expected="each fetched sector is used whole, and there are as many times more threads as lanes",
        risk="short rows leave lanes idle; sums are added in another order",
        next_if_kept="wider loads, then a larger block",
        next_if_reverted="fewer lanes",
    ),
)
