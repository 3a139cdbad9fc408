"""Trees in shared memory over what the threads of a block have, as shuffles within warps and one step between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import THREAD, Access, Condition, LaunchAnalysis, Loop, Symbol
from evo.analysis.access.numeric import holds, number_of
from evo.analysis.access.reductions import Reduction
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.families.work.walks import combined
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.rewriting import fresh, indent_of, rewritten
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_WARP = 32
_KINDS = ("sum", "product", "max", "min")
_DIGIT = 2  # bits of a count of how often a thread's number is in a sum


@dataclass(frozen=True, slots=True)
class _Tree:
    """store: where each thread leaves its number; reads: of the result; is_used_again: whether the array is.

    home: the kernel, or the function that it calls wherever it needs such a tree.
    """

    found: Reduction
    home: Function
    loop: Loop
    store: Statement
    reads: tuple[Access, ...]
    inside: tuple[Access, ...]
    is_used_again: bool

    @property
    def array(self) -> str:
        return self.found.names[0]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    sizes = analysis.sizes
    if sizes.threads % _WARP or sizes.threads == _WARP or sizes.block[2] != 1:
        return
    found = [tree for each in analysis.reductions if (tree := _tree(ctx, analysis, function, each)) is not None]
    every = Counter(loop.span for launch in ctx.launches for loop in launch.form.loops.values())
    names: list[str] = []
    edits: dict[str, list[Edit]] = {}
    count = 0
    for span in dict.fromkeys(tree.loop.span for tree in found):
        ours = [tree for tree in found if tree.loop.span == span]
        trees = list({tree.array: tree for tree in ours}.values())
        kinds = {tree.found.kind for tree in ours}
        is_seen = len(ours) == every[span] * len(trees) and _written(analysis, ours) == {tree.array for tree in trees}
        if (
            is_seen
            and not _between(ctx, trees)
            and (len(kinds) == 1 or (len(trees) == 1 and _as_written(ctx, trees[0], "", "")))
        ):
            count += len(trees)
            edits.setdefault(trees[0].home.name, []).extend(_edits(ctx, analysis, trees, names, one=len(kinds) == 1))
    homes = {tree.home.name: tree.home for tree in found}
    made = [e for name, own in edits.items() for e in without_unused(ctx, homes[name], homes[name].body, own)]
    if made:
        yield Application(
            edits=tuple(made),
            summary=f"{function.name}: warps combine by shuffles what {count} trees in shared memory did",
            arguments={"kernel": function.name},
            is_schedule=True,
        )


def _between(ctx: RuleContext, trees: Sequence[_Tree]) -> str:
    """What stands between the first store and the loop, but for the stores and barriers."""
    loop, home = trees[0].loop, trees[0].home
    span = Span(min(tree.store.span.start for tree in trees), loop.span.start)
    counters = [each.span for each in ctx.source.inside(home) if _is_counter(ctx, home, each, loop)]
    gone = [*(tree.store.span for tree in trees), *(each for each in counters if span.holds(each))]
    text = rewritten(ctx.source, span, [Edit(each, "") for each in gone])
    return re.sub(r"__syncthreads\s*\(\s*\)\s*;", "", without_comments(text)).strip()


def _is_counter(ctx: RuleContext, home: Function, statement: Statement, loop: Loop) -> bool:
    """Whether a statement in front of a loop only declares what counts its levels."""
    name = loop.symbol.name
    if statement.kind != "declare" or statement.name != name or ctx.source.declared(statement.span) != (name,):
        return False
    return all(loop.span.holds(at) or statement.span.holds(at) for n, at in ctx.source.names(home.body) if n == name)


def _written(analysis: LaunchAnalysis, trees: Sequence[_Tree]) -> set[str]:
    """The arrays that are written in the loop of these trees; empty names of what is not known."""
    symbols = {tree.loop.symbol for tree in trees}
    writes = [a for a in analysis.form.accesses if a.is_write and not symbols.isdisjoint(a.loops)]
    return {access.array.name if access.array is not None else "" for access in writes}


def _tree(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, found: Reduction) -> _Tree | None:
    form = analysis.form
    if found.place != "shared" or found.kind not in _KINDS or len(found.names) != 1 or len(found.loops) != 1:
        return None
    if found.operand is not None and found.operand.op != "read":
        return None  # of what another thread has, not that itself
    loop = form.loops[found.loops[0]]
    home = next((each for each in ctx.source.functions if each.body.holds(loop.span)), function)
    around = _beside(ctx, home, loop.span)
    array = next((each for each in form.shared if each.name == found.names[0]), None)
    if array is None or len(array.shape) > 1 or around is None:
        return None
    here = next(place for place, each in enumerate(around) if each.span == loop.span)
    store = _last(ctx, [each for each in around[:here] if not _is_counter(ctx, home, each, loop)], found.names[0])
    if store is None or store.value is None:
        return None
    uses = form.of(array)
    stored = [each for each in uses if each.is_write and store.span.holds(each.span)]
    stored = list({each.index: each for each in stored}.values())  # all calls of a function store alike
    inside = [each for each in uses if loop.symbol in each.loops]
    later = sorted(each.span.start for each in uses if each.is_write and each.span.start >= loop.span.end)
    end = later[0] if later else home.body.end
    reads = [each for each in uses if loop.span.end <= each.span.start < end and not each.is_write]
    if len(stored) != 1 or not _is_whole(analysis, loop, stored[0], inside, reads):
        return None
    if any(not around[-1].span.end >= each.span.end for each in reads):
        return None
    others = [each for each in uses if each not in (*stored, *inside, *reads)]
    return _Tree(
        found, home, loop, store, tuple(reads), tuple(inside), bool(others) or bool(stored[0].loops) or bool(loop.calls)
    )


def _beside(ctx: RuleContext, function: Function, span: Span) -> tuple[Statement, ...] | None:
    """The statements of the block that a loop stands in."""
    tops = ctx.source.statements(function)
    blocks = (tops, *(block for outer in ctx.source.inside(function) for block in (outer.body, outer.alternative)))
    return next((block for block in blocks if any(each.span == span for each in block)), None)


def _last(ctx: RuleContext, before: Sequence[Statement], name: str) -> Statement | None:
    """The store to an element of the array in front, with nothing but barriers and other such stores behind it."""
    for each in reversed(before):
        text = ctx.source.slice(each.span)
        if each.kind == "assign" and each.operator == "=" and each.target is not None:
            if ctx.source.slice(each.target).startswith(f"{name}["):
                return each
            if name not in each.reads and re.match(r"\w+\[", ctx.source.slice(each.target)):
                continue  # of another tree in the same loop, which `_written` asks for
            return None
        if text.replace(" ", "") != "__syncthreads();":
            return None
    return None


def _is_whole(
    analysis: LaunchAnalysis, loop: Loop, store: Access, inside: Sequence[Access], reads: Sequence[Access]
) -> bool:
    """Whether the loop leaves at the place that is read what all threads have stored, each once: carried out."""
    writes = [each for each in inside if each.is_write]
    operands = [each for each in inside if not each.is_write]
    turns = loop.values if loop.values is not None else loop.counted
    if len(writes) != 1 or len(operands) != 2 or not turns or not reads:
        return False
    threads = [_threads(analysis, thread) for thread in range(analysis.sizes.threads)]
    held: dict[int | None, int] = {}
    for number, here in enumerate(threads):
        held[_place(store, here)] = 1 << _DIGIT * number
    if len(held) != len(threads) or None in held:
        return False
    whole = sum(held.values())
    for turn in turns:
        added = {}
        for here in threads:
            there = here | {loop.symbol: turn}
            wanted = [holds(part, there) for part in _within(writes[0], loop)]
            if None in wanted:
                return False
            if all(wanted):
                added[_place(writes[0], there)] = sum(held.get(_place(each, there), 0) for each in operands)
        held |= added
    places = [each.index.value if each.index is not None else None for each in reads]
    return all(place is not None and held.get(place) == whole for place in places)


def _threads(analysis: LaunchAnalysis, number: int) -> dict[Symbol, int]:
    width = analysis.sizes.block[0]
    at = (number % width, number // width, 0)
    return dict(analysis.sizes.values) | dict(zip(THREAD, at, strict=True))


def _place(access: Access, values: dict[Symbol, int]) -> int | None:
    return number_of(access.index, values) if access.index is not None else None


def _within(access: Access, loop: Loop) -> Iterator[Condition]:
    """The conditions that stand inside of the loop."""
    at = access.context.index(loop.symbol)
    return (part for part in access.context[at + 1 :] if not isinstance(part, Symbol) and part != loop.condition)


def _as_written(ctx: RuleContext, tree: _Tree, mine: str, other: str) -> str:
    """The author's statement that combines two numbers, of a function that each call gives an operation of its own."""
    place, *_ = [each for each in tree.inside if each.is_write]
    said = [each for each in ctx.source.inside(tree.home) if each.kind == "assign" and each.target == place.span]
    if len(said) != 1 or any(not said[0].span.holds(each.span) for each in tree.inside):
        return ""
    spans = {each.span: mine if each.index == place.index else other for each in tree.inside}
    return rewritten(ctx.source, said[0].span, [Edit(span, text) for span, text in spans.items()])


def _edits(
    ctx: RuleContext, analysis: LaunchAnalysis, trees: Sequence[_Tree], names: list[str], *, one: bool
) -> Iterator[Edit]:
    """The trees of one loop, whose stores stand in front of it. one: whether all calls combine by one operation."""
    trees = sorted(trees, key=lambda tree: tree.store.span.start)
    start, indent = trees[0].store.span.start, indent_of(ctx.source, trees[0].store.span.start)
    lines: list[str] = []
    for tree in trees:
        total = fresh(ctx, "total", names)
        names.append(total)
        lines += _combined(ctx, analysis, tree, total, names, one=one)
        for span in dict.fromkeys(each.span for each in tree.reads):
            yield Edit(span, total)
    yield Edit(Span(start, trees[0].loop.span.end), f"\n{indent}".join(lines))


def _combined(
    ctx: RuleContext, analysis: LaunchAnalysis, tree: _Tree, total: str, names: list[str], *, one: bool
) -> list[str]:
    """The lines of one tree."""
    source, array, is_flat = ctx.source, tree.array, analysis.sizes.block[1] == 1
    kind = source.element_type(tree.home.name, array) or "float"
    step, warp = (fresh(ctx, word, names) for word in ("step", "warp"))
    names += [step, warp]
    thread = "threadIdx.x" if is_flat else "(threadIdx.y * blockDim.x + threadIdx.x)"
    count = "blockDim.x" if is_flat else "blockDim.x * blockDim.y"
    named = replace(tree.found, names=(total,))
    head = f"for (int {step} = {_WARP // 2}; {step} > 0; {step} /= 2)"

    def shuffled(name: str) -> str:
        return f"__shfl_xor_sync(0xffffffffu, {name}, {step})"

    def turns(head: str, other: Callable[[str], str]) -> list[str]:
        if one:
            return combined(ctx, named, head, other) or []
        return [f"{head} {_as_written(ctx, tree, total, other(total))}"]

    assert tree.store.value is not None
    lines = [f"{kind} {total} = {source.slice(tree.store.value)};", *turns(head, shuffled)]
    lines += [f"if ({thread} % {_WARP} == 0) {array}[{thread} / {_WARP}] = {total};", "__syncthreads();"]
    warps = f"{count} / {_WARP}"
    if analysis.sizes.threads & (analysis.sizes.threads - 1):
        lines += [f"{total} = {array}[0];"]
        head = f"for (int {warp} = 1; {warp} < {warps}; ++{warp})"
        lines += turns(head, lambda _: f"{array}[{warp}]")
    else:
        lines += [f"{total} = {array}[{thread} % ({warps})];"]
        head = f"for (int {step} = {count} / {2 * _WARP}; {step} > 0; {step} /= 2)"
        lines += turns(head, shuffled)
    return [*lines, *(["__syncthreads();"] if tree.is_used_again else [])]


RULES = (
    Rule(
        name="block_trees",
        sentence="Combines by shuffles within warps, and one step between them, what trees in shared memory combine of"
        " all threads of a block.",
        find=by_launch(_find),
        reason="each level of a tree waits at a barrier, and most threads have nothing to do in it",
        expected="one barrier in place of one for each level",
        risk="sums are added in another order",
        next_if_kept="wide loads in front of it",
        next_if_reverted="leave it: the loads bind",
    ),
)
