"""A block's walk shared by several blocks: each leaves in a workspace what its threads have come to, and a second
kernel, which is the first one with those parts in place of the walk, goes on from there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import CountedFor, Edit, Function, Span
from evo.operators.rules.application import Application
from evo.operators.rules.directives import line_span, new_knob, relaunched
from evo.operators.rules.families.work.few import SUFFIX
from evo.operators.rules.families.work.walks import (
    SharedLoop,
    combined,
    nests,
    parts_name,
    shared_of,
    starts_neutral,
    type_of,
)
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import LEAVES, bracketed, fresh, indent_of, merged, rewritten
from evo.operators.rules.rule_context import RuleContext
from evo.spec.element_types import OF_C_TYPE
from evo.spec.variant import LaunchLine

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
_STAYS = re.compile(r"blockIdx\.z|gridDim\.z|\basm\b|\bgoto\b|\bgrid_group\b|this_grid")
_KINDS = ("sum", "product", "max", "min", "argmax", "argmin")
_FEW, _EACH, _MOST = 2, 4, 1 << 20  # blocks of an SM; turns of a part; threads, which all store


@dataclass(frozen=True, slots=True)
class _Walk:
    function: Function
    launch: LaunchLine
    loop: CountedFor
    shared: SharedLoop


def found_walks(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    """The first long walk of a kernel of a few blocks. Raises NotPrinted."""
    sizes = analysis.sizes
    few = _FEW * analysis.chip.sms
    walk = _walk(ctx, analysis, function) if sizes.blocks < few and sizes.blocks * sizes.threads < _MOST else None
    turns = analysis.turns(walk.shared.loop) if walk is not None else None
    counts = [count for count in SPLITS[1:] if count * _EACH <= (turns or 0)]
    wanted = min((count for count in counts if count * sizes.blocks >= few), default=max(counts, default=0))
    for rank, count in enumerate(dict.fromkeys((wanted, wanted // 2, wanted * 2))):
        if walk is not None and count in counts:
            yield Application(
                edits=tuple(merged(_edits(ctx, walk, count))),
                summary=f"{function.name}: {count} blocks share the walk over {walk.loop.name}",
                arguments={"kernel": function.name, "to": count},
                rank=rank,
                is_schedule=True,
            )


def _walk(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Walk | None:
    """The first loop over tensors, if what a kernel does in front of it and in it may be done by several blocks."""
    form, launch = analysis.form, ctx.variant.launches[analysis.form.position]
    loop = next(
        (each for each, _ in nests(form.body) if any(each.symbol in a.loops and a.is_global for a in form.accesses)),
        None,
    )
    tops = {s.span: s for s in ctx.source.statements(function)}
    top = tops.get(loop.span) if loop is not None else None
    if loop is None or not isinstance(top, CountedFor) or loop.calls:
        return None
    if analysis.sizes.block[1:] != (1, 1) or analysis.sizes.grid[2] != 1 or not analysis.legality.is_seen:
        return None
    text = ctx.source.slice(function.body)
    if _STAYS.search(text) or LEAVES.search(ctx.source.slice(top.body_span)) or loop.until is not None:
        return None
    if any(a.is_write and a.is_global and a.span.start < top.span.end for a in form.accesses):
        return None  # every part would do it again
    moved = ctx.source.changed_in(top.body_span) - set(ctx.source.declared(top.body_span))
    if moved - {re.split(r"[.\[]", name)[0] for r in analysis.legality.is_reduction(loop) for name in r.names}:
        return None  # a pointer that walks along
    meetings = [*(each.span for each in form.barriers), *(each.span for each in form.exchanges)]
    if any(top.span.holds(span) for span in meetings):
        return None
    if any(line.line != launch.line and line.args is None for line in ctx.variant.launches):
        return None  # it would be given the parts too
    shared = shared_of(ctx, analysis, loop)
    if shared is None or shared.is_scan or shared.edits or not shared.reductions:
        return None
    if not all((r.kind in _KINDS or r.kind.endswith(SUFFIX)) and starts_neutral(r) for r in shared.reductions):
        return None
    return _Walk(function, launch, top, shared)


def _edits(ctx: RuleContext, walk: _Walk, value: int) -> list[Edit]:
    """Raises NotPrinted."""
    source, function, launch, loop = ctx.source, walk.function, walk.launch, walk.loop
    names = [name for found in walk.shared.reductions for name in found.names]
    kinds = {name: type_of(ctx, walk.shared.loop, name) for name in names}
    pointers = [param for param in function.params if param.is_pointer]
    if not pointers or any(kind not in OF_C_TYPE for kind in kinds.values()):
        raise NotPrinted("a number that no workspace holds")
    splits, second = fresh(ctx, "SPLITS"), fresh(ctx, f"{function.name}_combine")
    parts = {name: parts_name(ctx, name) for name in names}
    each, thread, part = fresh(ctx, "threads"), fresh(ctx, "thread"), fresh(ctx, "part")
    indent = indent_of(source, loop.span.start)
    placed = (
        f"const int {each} = gridDim.x * gridDim.y * blockDim.x;",
        f"const int {thread} = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;",
    )
    stores = [f"{parts[name]}[(long long)blockIdx.z * {each} + {thread}] = {name};" for name in names]
    ends = "".join(f"\n{indent}{line}" for line in (*placed, *stores))
    start, step = source.slice(loop.start).strip(), bracketed(loop.step)
    first = f"(int)blockIdx.z{'' if step == '1' else f' * {step}'}"
    behind = Span(loop.span.end, function.body.end - 1)
    shared_out = [
        Edit(loop.start, first if start == "0" else f"{start} + {first}"),
        Edit(loop.update, f"{loop.name} += {splits if step == '1' else f'{step} * {splits}'}"),
        Edit(behind, f"{ends}\n"),
    ]
    lines = [*placed]
    for found in walk.shared.reductions:
        head = f"for (int {part} = 0; {part} < {splits}; ++{part})"
        made = combined(ctx, found, head, lambda name: f"{parts[name]}[(long long){part} * {each} + {thread}]")
        if made is None:
            raise NotPrinted(f"a reduction by {found.kind}")
        lines += made
    taken = [Edit(loop.span, f"\n{indent}".join(lines))]
    grid = [*(bracketed(axis.text) for axis in launch.grid), "1"][:2]
    shape = ", ".join([splits, *grid, launch.block[0].text])
    given = "".join(f", {kinds[name]}* {own}" for name, own in parts.items())
    arguments = with_arguments(function, launch, tuple(parts.values()))
    grid_text = ", ".join([*(axis.text for axis in launch.grid), "1"][:2])
    one = relaunched(ctx, launch, grid=f"{grid_text}, {splits}", arguments=arguments)
    two = relaunched(ctx, replace(launch, kernel=second), arguments=arguments)
    line = line_span(ctx, launch.line)
    scratch = "".join(
        f"// evo: scratch {own} {OF_C_TYPE[kinds[name]]} [{shape}] init=poison\n" for name, own in parts.items()
    )
    at = Span(pointers[-1].span.end, pointers[-1].span.end)
    return [
        *new_knob(ctx, splits, SPLITS, value),
        Edit(Span(line.start, line.start), scratch),
        Edit(line, f"{one.text}\n{two.text}"),
        Edit(at, given),
        *without_unused(ctx, function, function.body, shared_out),
        Edit(Span(function.span.end, function.span.end), _second(ctx, function, second, at, given, taken)),
    ]


def _second(ctx: RuleContext, function: Function, name: str, at: Span, given: str, taken: Sequence[Edit]) -> str:
    """The second kernel: the first one with the parts in place of the walk."""
    begin = ctx.source.line_start(function.span.start)  # with its extern "C"
    edits = [Edit(function.name_span, name), Edit(at, given)]
    edits += without_unused(ctx, function, function.body, taken)
    return "\n\n" + rewritten(ctx.source, Span(begin, function.span.end), edits)


def with_arguments(function: Function, launch: LaunchLine, names: Sequence[str]) -> str:
    """The end of a launch line that names its arguments, with more behind the last pointer."""
    if launch.args is None:
        return ""
    behind = max(place for place, param in enumerate(function.params) if param.is_pointer) + 1
    texts = [arg.text for arg in launch.args]
    return f" args ({', '.join([*texts[:behind], *names, *texts[behind:]])})"
