"""A block's walk shared by several blocks: each leaves in a workspace what its threads have come to, and a second
kernel, which is the first one with those parts in place of the walk, goes on from there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import THREAD, LaunchAnalysis, Loop, Node
from evo.analysis.access.data_values import is_number, plain
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
    starts_of,
    type_of,
)
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.one_turn import launch_words
from evo.operators.rules.rewriting import LEAVES, bracketed, fresh, indent_of, merged, rewritten
from evo.operators.rules.rule_context import RuleContext
from evo.spec.element_types import OF_C_TYPE
from evo.spec.variant import LaunchLine

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
_STAYS = re.compile(r"blockIdx\.z|gridDim\.z|\basm\b|\bgoto\b|\bgrid_group\b|this_grid")
_KINDS = ("sum", "product", "max", "min", "argmax", "argmin", "online_softmax")
_EACH, _MOST = 4, 1 << 20  # turns of a part; threads, which all store
_SHORT = 2 * _EACH  # turns, with fewer of which no two parts have enough


@dataclass(frozen=True, slots=True)
class _Walk:
    """loop: the statement that the parts take the place of; by: itself or the loop in it whose turns are dealt out.

    turns: of that loop; each: of all in the statement. arrays: of a thread's sums, with their sizes in the
    words of launch lines.
    """

    function: Function
    launch: LaunchLine
    loop: CountedFor
    by: CountedFor
    shared: SharedLoop
    turns: int
    each: int
    arrays: Mapping[str, tuple[tuple[str, str], ...]]


def found_walks(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    """The first long walk of a kernel that leaves half of the chip's threads idle. Raises NotPrinted."""
    sizes, chip = analysis.sizes, analysis.chip
    threads, half = sizes.blocks * sizes.threads, chip.sms * chip.threads_per_sm // 2
    walk = _walk(ctx, analysis, function) if threads <= half and threads < _MOST else None
    counts = [count for count in SPLITS[1:] if walk is not None and count <= min(walk.turns, walk.each // _EACH)]
    wanted = min((count for count in counts if count * threads >= half), default=max(counts, default=0))
    for rank, count in enumerate(dict.fromkeys((wanted, wanted // 2, wanted * 2))):
        if walk is not None and count in counts:
            yield Application(
                edits=tuple(merged(_edits(ctx, analysis, walk, count))),
                summary=f"{function.name}: {count} blocks share the walk over {walk.by.name}",
                arguments={"kernel": function.name, "to": count},
                rank=rank,
                is_schedule=True,
            )


def _walk(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Walk | None:
    """The first loop over tensors that several blocks may share, but for those of a few turns, which each may do."""
    for loop, body in nests(analysis.form.body):
        if 0 < _turns(analysis, loop, body) < _SHORT:
            continue
        inside = [a for a in analysis.form.accesses if loop.symbol in a.loops and a.is_global]
        if any(a.memory.role != "scratch" for a in inside):  # parts were shared out before
            return _shared_walk(ctx, analysis, function, loop, body)
    return None


def _shared_walk(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, loop: Loop, body: tuple[Node, ...]
) -> _Walk | None:
    """The loop, if what a kernel does in front of it and in it may be done by several blocks."""
    form, launch = analysis.form, ctx.variant.launches[analysis.form.position]
    top = {s.span: s for s in ctx.source.statements(function)}.get(loop.span)
    if not isinstance(top, CountedFor) or loop.calls:
        return None
    if analysis.sizes.block[2] != 1 or analysis.sizes.grid[2] != 1 or not analysis.legality.is_seen:
        return None
    text = ctx.source.slice(function.body)
    if _STAYS.search(text) or LEAVES.search(ctx.source.slice(top.body_span)) or loop.until is not None:
        return None
    if any(a.is_write and a.is_global and a.span.start < top.span.end for a in form.accesses):
        return None  # every part would do it again
    own = _refilled(analysis, top)
    moved = ctx.source.changed_in(top.body_span) - {*ctx.source.declared(top.body_span), *own}
    if moved - {re.split(r"[.\[]", name)[0] for r in analysis.legality.is_reduction(loop) for name in r.names}:
        return None  # a pointer that walks along
    bounds = loop.start.symbols() | loop.condition.symbols()
    if any(top.span.holds(barrier.span) for barrier in form.barriers) and bounds & {*THREAD}:
        return None  # threads that may not all come to it
    arrays = _sums_in_arrays(ctx, analysis, function, loop)
    shared = shared_of(ctx, analysis, loop, {*own, *arrays})
    if shared is None or shared.is_scan or shared.edits or not (shared.reductions or arrays):
        return None
    if not all(r.kind in _KINDS or r.kind.endswith(SUFFIX) for r in shared.reductions):
        return None
    dealt = None if arrays else _dealt_out(ctx, analysis, function, shared, body)
    by, turns = dealt or (top, analysis.turns(loop) or 0)
    return _Walk(function, launch, top, by, shared, turns, _turns(analysis, loop, body), arrays)


def _sums_in_arrays(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, loop: Loop
) -> dict[str, tuple[tuple[str, str], ...]]:
    """The arrays of a thread that begin as zero and that a loop only adds to, with their sizes."""
    form, found = analysis.form, dict[str, tuple[tuple[str, str], ...]]()
    numbers = {
        n for r in analysis.legality.is_reduction(loop) if (r.place, r.kind) == ("local", "sum") for n in r.accesses
    }
    for array in {form.accesses[number].memory for number in numbers}:
        inside = {a.number for a in form.of(array) if loop.symbol in a.loops}
        before = [a for a in form.of(array) if a.span.start < loop.span.start]
        declared = [s for s in ctx.source.inside(function) if s.kind == "declare" and s.name == array.name]
        dims = [ctx.source.slice(dim).strip() for s in declared for dim in s.dims] if len(declared) == 1 else []
        words = [dim if dim.isdigit() else launch_words(ctx, function, dim) for dim in dims]
        begins = all(a.is_write and is_number(plain(a.value), 0) for a in before)
        sizes = tuple((dim, word) for dim, word in zip(dims, words, strict=True) if word)
        if inside <= numbers and begins and 0 < len(sizes) == len(dims):
            found[array.name] = sizes
    return found


def _turns(analysis: LaunchAnalysis, loop: Loop, body: tuple[Node, ...]) -> int:
    """Of a loop with the longest one in it; 0 if they are not known."""
    within = [analysis.turns(each) or 1 for each, _ in nests(body)]
    return (analysis.turns(loop) or 0) * max(within, default=1)


def _refilled(analysis: LaunchAnalysis, loop: CountedFor) -> set[str]:
    """The arrays of blocks and threads that nobody looks at behind the loop: each part fills its own."""
    arrays = {a.array for a in analysis.form.accesses if a.array is not None and not a.is_global}
    inside = {array for array in arrays if all(loop.span.holds(a.span) for a in analysis.form.of(array) if a.is_read)}
    return {array.name for array in inside}


def _dealt_out(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, shared: SharedLoop, body: tuple[Node, ...]
) -> tuple[CountedFor, int] | None:
    """The loop within another one that has more turns, and all of what is combined."""
    inner = [loop for loop, _ in nests(body)]
    turns = analysis.turns(inner[0]) if len(inner) == 1 else None
    if turns is None or turns <= (analysis.turns(shared.loop) or 0) or inner[0].until is not None:
        return None
    outside = [a for a in analysis.form.accesses if shared.loop.symbol in a.loops and inner[0].symbol not in a.loops]
    same = shared_of(ctx, analysis, inner[0])
    statement = {s.span: s for s in ctx.source.inside(function)}.get(inner[0].span)
    if outside or same is None or same.edits or not isinstance(statement, CountedFor):
        return None
    said = [[(found.kind, found.names) for found in each.reductions] for each in (shared, same)]
    return (statement, turns) if said[0] == said[1] else None


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, walk: _Walk, value: int) -> list[Edit]:
    """Raises NotPrinted."""
    source, function, launch, loop = ctx.source, walk.function, walk.launch, walk.loop
    names = [name for found in walk.shared.reductions for name in found.names]
    kinds = {name: type_of(ctx, walk.shared.loop, name) for name in names}
    kinds |= {name: type_of(ctx, walk.shared.loop, f"{name}[]") for name in walk.arrays}
    pointers = [param for param in function.params if param.is_pointer]
    if not pointers or any(kind not in OF_C_TYPE for kind in kinds.values()):
        raise NotPrinted("a number that no workspace holds")
    splits, second = fresh(ctx, "SPLITS"), fresh(ctx, f"{function.name.removesuffix('_combine')}_combine")
    parts = {name: parts_name(ctx, name) for name in kinds}
    each, thread = fresh(ctx, "threads"), fresh(ctx, "thread")
    indent = indent_of(source, loop.span.start)
    placed = _numbered(analysis, each, thread)
    stores = [f"{parts[name]}[(long long)blockIdx.z * {each} + {thread}] = {name};" for name in names]
    for name in walk.arrays:
        stores += _of_elements(ctx, walk, name, "{1} = {0};", (parts[name], "(long long)blockIdx.z", each, thread))
    ends = "".join(f"\n{indent}{line}" for line in (*placed, *stores))
    lines = [*placed, *_put_together(ctx, walk, parts, splits, (each, thread))]
    taken = [Edit(loop.span, f"\n{indent}".join(lines))]
    grid = [*(bracketed(axis.text) for axis in launch.grid), "1"][:2]
    shape = ", ".join([*grid, *(bracketed(axis.text) for axis in reversed(launch.block[:2]))])
    given = "".join(f", {kinds[name]}* {own}" for name, own in parts.items())
    arguments = with_arguments(function, launch, tuple(parts.values()))
    grid_text = ", ".join([*(axis.text for axis in launch.grid), "1"][:2])
    one = relaunched(ctx, launch, grid=f"{grid_text}, {splits}", arguments=arguments)
    two = relaunched(ctx, replace(launch, kernel=second), arguments=arguments)
    line = line_span(ctx, launch.line)
    sizes = {own: "".join(f"{word}, " for _, word in walk.arrays.get(name, ())) for name, own in parts.items()}
    scratch = "".join(
        f"// evo: scratch {own} {OF_C_TYPE[kinds[name]]} [{splits}, {sizes[own]}{shape}] init=poison\n"
        for name, own in parts.items()
    )
    at = Span(pointers[-1].span.end, pointers[-1].span.end)
    others = others_named(ctx, launch)
    if others is None:
        raise NotPrinted("other launches would be given the parts too")
    return [
        *others,
        *new_knob(ctx, splits, SPLITS, value),
        Edit(Span(line.start, line.start), scratch),
        Edit(line, f"{one.text}\n{two.text}"),
        Edit(at, given),
        *without_unused(ctx, function, function.body, _shared_out(ctx, walk, splits, f"{ends}\n")),
        Edit(Span(function.span.end, function.span.end), _second(ctx, function, second, at, given, taken)),
    ]


def _put_together(
    ctx: RuleContext, walk: _Walk, parts: Mapping[str, str], splits: str, place: tuple[str, str]
) -> list[str]:
    """The lines that take the walk's place in the second kernel. place: as of `_of_elements`. Raises NotPrinted."""
    (each, thread), part = place, fresh(ctx, "part")
    head, lines = f"for (int {part} = 0; {part} < {splits}; ++{part})", list[str]()
    for found in walk.shared.reductions:
        made = combined(ctx, found, head, lambda name: f"{parts[name]}[(long long){part} * {each} + {thread}]")
        if made is None:
            raise NotPrinted(f"a reduction by {found.kind}")
        lines += made
    for name in walk.arrays:
        added = _of_elements(ctx, walk, name, "{0} += {1};", (parts[name], f"(long long){part}", each, thread))
        lines += [f"{head} {{", *(f"    {line}" for line in added), "}"]
    return lines


def _of_elements(ctx: RuleContext, walk: _Walk, name: str, does: str, place: tuple[str, str, str, str]) -> list[str]:
    """Loops over an array of sums. does: with an element and where its part lies.

    place: the workspace, which part, how many threads there are and which one this is.
    """
    own, at, each, thread = place
    sizes = [size for size, _ in walk.arrays[name]]
    indices = [fresh(ctx, word) for word, _ in zip("ijkl", sizes, strict=False)]
    lines, element, indent = list[str](), name, ""
    for index, size in zip(indices, sizes, strict=True):
        lines += [f"{indent}#pragma unroll", f"{indent}for (int {index} = 0; {index} < {size}; ++{index}) {{"]
        at, element, indent = f"({at} * {bracketed(size)} + {index})", f"{element}[{index}]", f"{indent}    "
    lines.append(indent + does.format(element, f"{own}[{at} * {each} + {thread}]"))
    return [*lines, *("    " * depth + "}" for depth in reversed(range(len(indices))))]


def _shared_out(ctx: RuleContext, walk: _Walk, splits: str, ends: str) -> list[Edit]:
    """The first kernel's walk with the turns of one part. Raises NotPrinted."""
    source, loop, by = ctx.source, walk.loop, walk.by
    start, step = source.slice(by.start).strip(), bracketed(by.step)
    first = f"(int)blockIdx.z{'' if step == '1' else f' * {step}'}"
    edits = [
        Edit(by.start, first if start == "0" else f"{start} + {first}"),
        Edit(by.update, f"{by.name} += {splits if step == '1' else f'{step} * {splits}'}"),
        Edit(Span(loop.span.end, walk.function.body.end - 1), ends),
    ]
    starts = [word for found in walk.shared.reductions for word in starts_of(ctx, walk.shared.loop, found)]
    above = source.above(loop.span)
    if starts and above is None:
        raise NotPrinted("no place in front of the loop")
    if starts and above is not None:  # the second kernel adds what the first one starts with
        edits.append(Edit(Span(above, above), f"{indent_of(source, loop.span.start)}{', '.join(starts)};\n"))
    return edits


def _numbered(analysis: LaunchAnalysis, each: str, thread: str) -> tuple[str, str]:
    """How many threads there are in a part, and which one of them this is."""
    length, within = "blockDim.x", "threadIdx.x"
    if analysis.sizes.block[1] != 1:
        length, within = "blockDim.y * blockDim.x", "threadIdx.y * blockDim.x + threadIdx.x"
    return (
        f"const int {each} = gridDim.x * gridDim.y * {length};",
        f"const int {thread} = (blockIdx.y * gridDim.x + blockIdx.x) * {length} + {within};",
    )


def _second(ctx: RuleContext, function: Function, name: str, at: Span, given: str, taken: Sequence[Edit]) -> str:
    """The second kernel: the first one with the parts in place of the walk."""
    begin = ctx.source.line_start(function.span.start)  # with its extern "C"
    edits = [Edit(function.name_span, name), Edit(at, given)]
    edits += without_unused(ctx, function, function.body, taken)
    return "\n\n" + rewritten(ctx.source, Span(begin, function.span.end), edits)


def others_named(ctx: RuleContext, launch: LaunchLine) -> list[Edit] | None:
    """The other launches with their arguments by name, so that a new workspace is not among them; None if unknown."""
    others = [line for line in ctx.variant.launches if line.line != launch.line and line.args is None]
    if not others or ctx.task is None:
        return None if others else []
    given = [each.name for each in ctx.task.tensors] + [each.name for each in ctx.variant.scratch]
    given += [*(each.name for each in ctx.task.scalars), *ctx.task.axes]
    kernels = [ctx.kernel(line.kernel) for line in others]
    return [
        relaunched(ctx, line, arguments=f" args ({', '.join(given[: len(kernel.params)])})")
        for line, kernel in zip(others, kernels, strict=True)
        if kernel is not None
    ]


def with_arguments(function: Function, launch: LaunchLine, names: Sequence[str]) -> str:
    """The end of a launch line that names its arguments, with more behind the last pointer."""
    if launch.args is None:
        return ""
    behind = max(place for place, param in enumerate(function.params) if param.is_pointer) + 1
    texts = [arg.text for arg in launch.args]
    return f" args ({', '.join([*texts[:behind], *names, *texts[behind:]])})"
