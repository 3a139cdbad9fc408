"""Split K: several blocks share one long sum or walk, and a second kernel combines their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.cuda.source import CountedFor, Edit, Function, Span, Statement
from evo.operators.rules.directives import line_span, new_knob, relaunched
from evo.operators.rules.families.work.split_walk import found_walks, others_named, with_arguments
from evo.operators.rules.normal_form import behind_guard, guard_of, is_guard
from evo.operators.rules.reductions import shareable
from evo.operators.rules.rewriting import fresh, indent_of, merged, rewritten
from evo.operators.rules.rule import Application, Example, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_SPLITS = (1, 2, 4, 8, 16)
_SHARING = re.compile(r"__shared__|__sync|_sync\b|\basm\b|\batomic|\bgoto\b|blockIdx\.z|gridDim")


@dataclass(frozen=True, slots=True)
class _Sum:
    """A kernel that adds up one sum per thread and stores it once."""

    function: Function
    indices: tuple[ThreadIndex, ...]
    bounds: tuple[str, ...]
    tops: tuple[Statement, ...]
    loop: CountedFor
    store: Statement
    total: str


def _found(ctx: RuleContext) -> Iterator[Application]:
    """One sum of a thread, whose parts lie side by side; else whatever a block walks over."""
    found = tuple(_find(ctx))
    yield from found or by_launch(found_walks, once=True)(ctx)


def _find(ctx: RuleContext) -> Iterator[Application]:
    groups: dict[str, list[ThreadIndex]] = {}
    for index in thread_indices(ctx):
        groups.setdefault(index.function.name, []).append(index)
    for indices in groups.values():
        found = _sum(ctx, tuple(indices))
        if found is None:
            continue
        for value in (4, 2, 8):
            edits = _edits(ctx, found, value)
            if edits:
                yield Application(
                    edits=tuple(edits),
                    summary=f"{found.function.name}: {value} blocks share the sum over {found.loop.name}",
                    arguments={"kernel": found.function.name, "to": value},
                    rank=0 if value == 4 else 1,
                )


def _sum(ctx: RuleContext, indices: tuple[ThreadIndex, ...]) -> _Sum | None:
    source, function = ctx.source, indices[0].function
    text = source.slice(function.body)
    if _SHARING.search(text) or text.count("blockIdx") != len(indices) or any(index.lanes for index in indices):
        return None
    tops = source.statements(function)
    guards = [guard_of(source, tops, index.name) for index in indices]
    bounds = tuple(guard[1] for guard in guards if guard is not None)
    loops = [s for s in tops if s.kind == "for"]
    stores = [s for s in tops if s.kind == "assign" and not s.name]
    if len(bounds) != len(indices) or len(loops) != 1 or len(stores) != 1:
        return None
    if any(ctx.axis_of(function, bound) != index.extent for bound, index in zip(bounds, indices, strict=True)):
        return None
    (loop,), (store,) = loops, stores
    if not isinstance(loop, CountedFor) or not loop.takes_each:
        return None
    found = shareable(source, loop)
    known = all(s.kind in ("declare", "for", "assign") or is_guard(s) for s in tops)
    if found is None or found.stores or len(found.reductions) != 1:
        return None
    (total,) = found.reductions
    declared = next((s for s in tops if s.kind == "declare" and s.name == total.name), None)
    if (
        not known
        or total.combine != "+"
        or declared is None
        or declared.value is None
        or declared.type.split() != ["float"]
    ):
        return None
    if not re.fullmatch(r"0*\.?0*[fF]?", source.slice(declared.value)) or tops.index(store) < tops.index(loop):
        return None
    between = [s for s in tops if s is not loop and s is not declared and s.kind == "assign" and s is not store]
    if between or store.target is None or total.name not in {name for name, _ in source.names(store.span)}:
        return None
    alone = {s.name for s in tops if s.kind == "declare"} & {name for name, _ in source.names(store.span)}
    used = {name for s in tops if s is not store for name, _ in source.names(s.span) if s.name != name}
    keeps = {index.name for index in indices} | {total.name}
    if alone - used - keeps:
        return None  # the first kernel would be left with names that it does not use
    return _Sum(function, indices, bounds, tops, loop, store, total.name)


def _edits(ctx: RuleContext, found: _Sum, value: int) -> list[Edit]:
    source, function, loop = ctx.source, found.function, found.loop
    launch = found.indices[0].launch
    line = line_span(ctx, launch.line)
    pointers = [param for param in function.params if param.is_pointer]
    above = source.above(loop.span)
    if len(launch.grid) > 2 or not pointers or above is None:
        return []
    others = others_named(ctx, launch)
    if others is None:
        return []  # they would be given the parts too
    splits, partial, chunk = fresh(ctx, "SPLITS"), fresh(ctx, "partial"), fresh(ctx, f"{loop.name}_part")
    part, combine = fresh(ctx, "part"), fresh(ctx, f"{function.name}_combine")
    grid = ", ".join([*(part.text for part in launch.grid), "1"][:2])
    shape = ", ".join([splits, *(index.extent for index in found.indices)])
    start, limit, indent = source.slice(loop.start), source.slice(loop.limit), indent_of(source, loop.span.start)
    length = f"{limit} - ({start})" if start != "0" else limit
    begin = f"(int)blockIdx.z * {chunk}" if start == "0" else f"{start} + (int)blockIdx.z * {chunk}"
    last = pointers[-1].span.end
    arguments = with_arguments(function, launch, (partial,))
    shared = relaunched(ctx, launch, grid=f"{grid}, {splits}", arguments=arguments)
    second = relaunched(ctx, replace(launch, kernel=combine), arguments=arguments)
    return merged(
        [
            *others,
            *new_knob(ctx, splits, _SPLITS, value),
            Edit(Span(line.start, line.start), f"// evo: scratch {partial} float32 [{shape}] init=poison\n"),
            Edit(line, f"{shared.text}\n{second.text}"),
            Edit(Span(last, last), f", float* {partial}"),
            Edit(Span(above, above), f"{indent}const int {chunk} = ({length} + {splits} - 1) / {splits};\n"),
            Edit(loop.start, begin),
            Edit(loop.limit, f"min({limit}, {begin} + {chunk})"),
            Edit(found.store.span, f"{_place(found, partial, '(long long)blockIdx.z')} = {found.total};"),
            Edit(
                Span(function.span.end, function.span.end),
                "\n\n" + _combine(ctx, found, combine, splits, partial, part),
            ),
        ]
    )


def _place(found: _Sum, partial: str, part: str) -> str:
    """The element of the scratch that one part of a thread's sum has."""
    at = part
    for number, (index, bound) in enumerate(zip(found.indices, found.bounds, strict=True)):
        at = f"({at}) * {bound} + {index.name}" if number else f"{at} * {bound} + {index.name}"
    return f"{partial}[{at}]"


def _combine(ctx: RuleContext, found: _Sum, name: str, splits: str, partial: str, part: str) -> str:
    """The second kernel: the first one with the sum over its parts instead of the loop, and the store as it was."""
    source, function = ctx.source, found.function
    pointers = [param for param in function.params if param.is_pointer]
    begin = source.line_start(function.span.start)  # with its extern "C"
    at = pointers[-1].span.end
    renamed = [Edit(function.name_span, name), Edit(Span(at, at), f", float* {partial}")]
    head = rewritten(source, Span(begin, function.body.start), renamed)
    kept = [s for s in found.tops if s is not found.loop]
    while unused := [s for s in kept if _is_unused(ctx, found, s, kept)]:
        kept = [s for s in kept if s not in unused]
    lines = []
    for statement in found.tops:
        indent = indent_of(source, statement.span.start)
        if statement is found.loop:
            added = f"{found.total} += {_place(found, partial, f'(long long){part}')};"
            lines.append(f"{indent}for (int {part} = 0; {part} < {splits}; ++{part}) {added}")
        elif statement in kept:
            lines.append(f"{indent}{source.slice(statement.span)}")
    return head + "{\n" + "\n".join(lines) + "\n}"


def _is_unused(ctx: RuleContext, found: _Sum, statement: Statement, kept: Sequence[Statement]) -> bool:
    if statement.kind != "declare" or statement.name in {found.total, *(index.name for index in found.indices)}:
        return False
    others = {name for s in kept if s is not statement for name, _ in ctx.source.names(s.span)}
    return statement.name not in others


RULES = (
    Rule(
        name="split_k",
        sentence="Lets several blocks share one long sum, or whatever a block walks over: each leaves in a workspace"
        " what its part comes to, and a second kernel combines the parts.",
        find=behind_guard(_found),
        examples=(Example.of_files("split_k", axes=("N", "M")),),
        reason="few outputs with long sums leave most of the chip idle",
        expected="as many times more blocks as splits, each with a shorter walk",
        risk="a second launch and the traffic of the parts; sums are added in another order",
        next_if_kept="more splits",
        next_if_reverted="several lanes per output instead",
    ),
)
