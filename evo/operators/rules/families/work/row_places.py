"""How each index of a kernel gets a warp or a block instead of a thread: edits of the index and of the launch line, and
of the loops that its lanes share."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from evo.analysis.access import BLOCK, THREAD, LaunchAnalysis, Term
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import ceil_divs, grid_part_of, new_knob, relaunched
from evo.operators.rules.families.work.walks import SharedLoop, combined, index_of, parts_name, stepped, type_of
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import fresh, indent_of, rewritten, same
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

WARP = 32
_WARPS = (1, 2, 4, 8, 16)  # of a block
_BLOCKS, _BLOCK = (64, 128, 256, 512, 1024), 128  # lanes, where a block has one index
_ALONE = re.compile(r"\b(?:threadIdx|blockDim|gridDim|__shared__|__sync\w*|\w+_sync|laneid)\b")
_ELSEWHERE = re.compile(r"\b(?:threadIdx(?!\.x\b)|blockDim(?!\.x\b)|gridDim|__shared__|__sync\w*|\w+_sync|laneid)\b")
_AXES = "xyz"


@dataclass(frozen=True, slots=True)
class RowPlace:
    """lane: how a thread spells its lane; edits: of the index and the launch line. is_alone: a block was one thread.

    lanes: how many an index has, as the text spells it: a number within a warp, or the name of a block's.
    """

    lane: str
    edits: tuple[Edit, ...]
    is_alone: bool = False
    lanes: str = str(WARP)

    @property
    def mask(self) -> str:
        """The lanes of one index, of which no other has to be there."""
        few = int(self.lanes) if self.lanes.isdigit() else WARP
        return f"{(1 << few) - 1:#x}u" + (f" << threadIdx.x % {WARP} / {few} * {few}" if few < WARP else "")


def row_place(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, *, lanes: int = WARP) -> RowPlace | None:
    """None if nothing shows which index a thread has, or something else depends on the thread."""
    sizes = analysis.sizes
    if lanes < WARP and (sizes.threads == 1 or sizes.block[1:] != (1, 1)):
        return None
    if sizes.threads == 1:
        return _of_blocks(ctx, analysis, function)
    is_whole = sizes.threads % WARP == 0
    if sizes.block[1:] == (1, 1) and is_whole:
        others = "".join(axis for axis, size in zip(_AXES[1:], sizes.grid[1:], strict=True) if size > 1)
        index = index_of(ctx, analysis, function, _placed(others))
        if index is not None:
            edit = Edit(index, f"({ctx.source.slice(index)}) / {lanes}")  # as wide as it is, and by the same names
            return RowPlace(f"threadIdx.x % {lanes}", (edit, *_launch(ctx, analysis, lanes)), lanes=str(lanes))
    found = _of_warps(ctx, analysis, function) if sizes.block[0] == WARP == lanes else None
    if found is None and lanes == WARP and sizes.block[1:] == (1, 1):
        apart = _of_threads(ctx, analysis, function, str(WARP))
        return None if apart is None else RowPlace("threadIdx.x", tuple(apart))
    return found


def block_place(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> RowPlace | None:
    """A block for each index, of as many threads as a new knob says."""
    sizes, launch = analysis.sizes, ctx.variant.launches[analysis.form.position]
    knob = fresh(ctx, "LANES")
    if sizes.threads == 1:
        alone = _of_blocks(ctx, analysis, function, knob)
        return None if alone is None else RowPlace("threadIdx.x", (*alone.edits, *_lanes_knob(ctx, knob)), True, knob)
    if sizes.block[1:] != (1, 1):
        return None
    others = "".join(axis for axis, size in zip(_AXES[1:], sizes.grid[1:], strict=True) if size > 1)
    index = index_of(ctx, analysis, function, _placed(others))
    if index is None:
        apart = _of_threads(ctx, analysis, function, knob)
        return None if apart is None else RowPlace("threadIdx.x", (*apart, *_lanes_knob(ctx, knob)), False, knob)
    threads, first = launch.block[0].text, launch.grid[0].text
    extents = [e for at, e, per in ceil_divs(ctx, launch) if same(per, threads) and not grid_part_of(ctx, launch, at)]
    blocks = extents[0] if len(extents) == 1 else f"({first}) * {threads}"
    rest = "".join(f", {part.text}" for part in launch.grid[1:])
    line = relaunched(ctx, launch, grid=f"{blocks}{rest}", block=knob)
    return RowPlace("threadIdx.x", (Edit(index, "blockIdx.x"), line, *_lanes_knob(ctx, knob)), False, knob)


def _lanes_knob(ctx: RuleContext, knob: str) -> list[Edit]:
    return new_knob(ctx, knob, _BLOCKS, _BLOCK)


def _placed(others: str) -> re.Pattern[str]:
    """Words that depend on the thread's place along x; `others`: axes of the grid that may be named."""
    away = f"(?!\\.[{others}])" if others else ""
    return re.compile(rf"\b(?:threadIdx|blockIdx{away}|gridDim|__shared__|__sync\w*|\w+_sync|laneid)\b")


def _of_blocks(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, lanes: str = str(WARP)
) -> RowPlace | None:
    """A block of one thread becomes one of several lanes, which nothing in the kernel tells apart yet."""
    called = {name for loop in analysis.form.loops.values() for name in loop.calls}
    bodies = [f.body for f in ctx.source.functions if f.name == function.name or f.name in called]
    if any(_ALONE.search(ctx.source.slice(body)) for body in bodies):
        return None
    launch = ctx.variant.launches[analysis.form.position]
    return RowPlace("threadIdx.x", (relaunched(ctx, launch, block=lanes),), is_alone=True)


def _of_threads(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, lanes: str) -> list[Edit] | None:
    """The threads of a block, each with an index of its own beside the block's, become blocks along a free axis."""
    launch = ctx.variant.launches[analysis.form.position]
    if any(loop.calls for loop in analysis.form.loops.values()) or len(launch.grid) == len(_AXES):
        return None
    axis, body = _AXES[len(launch.grid)], ctx.source.slice(function.body)
    text = without_comments(body)
    if text.count("threadIdx.x") != body.count("threadIdx.x") or _ELSEWHERE.search(text):
        return None
    grid = ", ".join(part.text for part in (*launch.grid, launch.block[0]))
    edits = [relaunched(ctx, launch, grid=grid, block=lanes)]
    for found in re.finditer(r"\bthreadIdx\.x\b|\bblockDim\.x\b", body):
        start = function.body.start + len(body[: found.start()].encode())
        said = f"blockIdx.{axis}" if found[0] == "threadIdx.x" else launch.block[0].text
        if not said.isdigit() and found[0] == "blockDim.x":
            return None  # a size that the kernel may not know
        edits.append(Edit(Span(start, start + len(found[0])), said))
    return edits if len(edits) > 1 else None


def _of_warps(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> RowPlace | None:
    """Threads of one warp along x had an index each; a warp has one now, and there are as many more blocks."""
    form = analysis.form
    for at, axis in enumerate(_AXES):
        name = form.names.get(Term.of(BLOCK[at]) * WARP + Term.of(THREAD[0]))
        if name is None:
            continue
        launch = ctx.variant.launches[form.position]
        value = _only_place(ctx, function, name, axis)
        if value is None or at >= len(launch.grid):
            return None
        parts = [part.text for part in launch.grid]
        extents = [
            e for span, e, per in ceil_divs(ctx, launch) if per == str(WARP) and grid_part_of(ctx, launch, span) == at
        ]
        parts[at] = extents[0] if len(extents) == 1 else f"({parts[at]}) * {WARP}"
        return RowPlace(
            "threadIdx.x", (Edit(value, f"blockIdx.{axis}"), relaunched(ctx, launch, grid=", ".join(parts)))
        )
    return None


def _only_place(ctx: RuleContext, function: Function, name: str, axis: str) -> Span | None:
    """What the index is set to, if nothing else in the kernel depends on it along x or on the block along `axis`."""
    named = rf"threadIdx\.x|blockIdx\.{axis}|gridDim|__shared__|__sync\w*|\w+_sync|laneid"
    for statement in ctx.source.inside(function):
        if statement.kind == "declare" and statement.name == name and statement.value is not None:
            rest = without_comments(rewritten(ctx.source, function.body, [Edit(statement.value, "")]))
            return None if re.search(rf"\b(?:{named})\b", rest) else statement.value
    return None


def _launch(ctx: RuleContext, analysis: LaunchAnalysis, lanes: int) -> list[Edit]:
    """As many more blocks as an index has lanes."""
    launch = ctx.variant.launches[analysis.form.position]
    threads, warps = launch.block[0].text, analysis.sizes.threads // WARP
    rest = "".join(f", {part.text}" for part in launch.grid[1:])
    for span, extent, per in ceil_divs(ctx, launch):
        if not same(per, threads) or grid_part_of(ctx, launch, span):
            continue
        if warps in _WARPS and threads.isdigit():
            # The block's size is a knob from here on: grid and block follow it together.
            knob = fresh(ctx, "WARPS")
            rows = knob if lanes == WARP else f"{WARP // lanes} * {knob}"
            edit = relaunched(ctx, launch, grid=f"ceil_div({extent}, {rows}){rest}", block=f"{WARP} * {knob}")
            return [edit, *new_knob(ctx, knob, _WARPS, warps)]
        return [relaunched(ctx, launch, grid=f"ceil_div({extent}, {per} // {lanes}){rest}", block=threads)]
    return [relaunched(ctx, launch, grid=f"({launch.grid[0].text}) * {lanes}{rest}")]


def shared_out(
    ctx: RuleContext, shared: SharedLoop, lane: str, place: RowPlace, *, is_again: bool, taken: Collection[str] = ()
) -> list[Edit] | None:
    """The loop in steps of all lanes, and what they combine behind it; taken: names of others. Raises NotPrinted."""
    loop, lanes, mask = shared.loop, place.lanes, place.mask
    is_block = not lanes.isdigit()
    edits = stepped(ctx, shared, lane, lanes, apart=loop.step.value or 1)
    if edits is None:
        return None
    indent = indent_of(ctx.source, shared.span.start)
    step = fresh(ctx, "step")
    head = f"for (int {step} = {(WARP if is_block else int(lanes)) // 2}; {step} > 0; {step} /= 2)"
    lines: list[str] = []
    for found in shared.reductions:
        for name in found.names:
            if "." in name:
                type_of(ctx, loop, name)  # a field that this function holds, or no shuffle gets it
        made = combined(ctx, found, head, lambda name: f"__shfl_xor_sync({mask}, {name}, {step})")
        if made is None:
            return None
        lines += made
    if is_block and lines:
        lines += _across_warps(ctx, shared, lane, lanes, is_again=is_again, taken=taken)
    if lines:
        text = "\n".join(f"{indent}{line}" for line in lines)
        edits.append(Edit(Span(shared.span.end, shared.span.end), f"\n{text}"))
    return edits


def _across_warps(
    ctx: RuleContext, shared: SharedLoop, lane: str, lanes: str, *, is_again: bool, taken: Collection[str]
) -> list[str]:
    """Lines by which all threads combine what the warps of a block have. Raises NotPrinted."""
    names = [name for found in shared.reductions for name in found.names]
    parts, warp = {name: parts_name(ctx, name, taken) for name in names}, fresh(ctx, "warp")
    lines = [f"__shared__ {type_of(ctx, shared.loop, name)} {own}[{lanes} / {WARP}];" for name, own in parts.items()]
    lines.append(f"if ({lane} % {WARP} == 0) {{")
    lines += [f"    {own}[{lane} / {WARP}] = {name};" for name, own in parts.items()]
    lines += ["}", "__syncthreads();"]
    lines += [f"{name} = {own}[0];" for name, own in parts.items()]
    for found in shared.reductions:
        head = f"for (int {warp} = 1; {warp} < {lanes} / {WARP}; ++{warp})"
        made = combined(ctx, found, head, lambda name: f"{parts[name]}[{warp}]")
        if made is None:
            raise NotPrinted(f"a reduction by {found.kind}")
        lines += made
    return [*lines, "__syncthreads();"] if is_again else lines


__all__ = ["WARP", "RowPlace", "block_place", "row_place", "shared_out"]
