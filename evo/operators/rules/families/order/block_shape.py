"""The shape of a block of two dimensions, with as many threads as before or other than they were."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit
from evo.operators.rules.directives import line_span, without_bounds
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.rewriting import merged, rewritten
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_SHAPES = ((32, 8), (64, 4), (32, 4), (16, 16), (32, 16))
_MEETS = re.compile(r"__shared__|_sync\b|__sync|\bblockDim\b|\bgridDim\b|\bthreadIdx\.z\b|__ballot|__shfl")


def _find(ctx: RuleContext) -> Iterator[Application]:
    found: dict[str, dict[str, ThreadIndex]] = {}
    for index in thread_indices(ctx):
        if not index.lanes:
            found.setdefault(index.function.name, {})[index.axis] = index
    for kernel, axes in found.items():
        if set(axes) != {"x", "y"}:
            continue
        x, y = axes["x"], axes["y"]
        block = x.launch.block
        body = ctx.source.slice(x.function.body).replace(x.value, "", 1).replace(y.value, "", 1)
        if len(block) != 2 or not all(part.text.isdigit() for part in block) or _MEETS.search(body):
            continue
        if any(_MEETS.search(ctx.source.slice(f.body)) for f in ctx.source.functions if not f.is_kernel):
            continue
        old = tuple(int(part.text) for part in block)
        for rank, shape in enumerate(each for each in _SHAPES if each != old):
            yield Application(
                edits=tuple(_edits(ctx, (x, y), shape)),
                summary=f"{kernel}: blocks of {old[0]}x{old[1]} become {shape[0]}x{shape[1]}",
                arguments={"kernel": kernel, "to": f"{shape[0]}x{shape[1]}"},
                rank=rank,
                is_schedule=True,
            )


def _edits(ctx: RuleContext, indices: tuple[ThreadIndex, ThreadIndex], shape: tuple[int, int]) -> list[Edit]:
    source, function, launch = ctx.source, indices[0].function, indices[0].launch
    line = line_span(ctx, launch.line)
    edits = []
    for index, count in zip(indices, shape, strict=True):
        edits.append(Edit(index.grid_at, f"ceil_div({index.extent}, {count})"))
        if not source.slice(index.threads_at).startswith("blockDim"):
            edits.append(Edit(index.threads_at, str(count)))
    text = rewritten(source, line, edits)
    text = re.sub(r"\bblock\s*\([^()]*\)", f"block ({shape[0]}, {shape[1]})", text, count=1)
    found = [Edit(line, text), *(edit for edit in edits if not line.holds(edit.span))]
    return merged([*found, *without_bounds(function)])


RULES = (
    Rule(
        name="block_shape",
        sentence="Gives a block of two dimensions another shape: wider, so that a warp goes along one row.",
        find=behind_guard(_find),
        reason="a warp over two rows asks for more sectors and lines, and a tile of its border is larger",
        expected="fewer sectors for each request, other blocks for each SM",
        risk="edges that are no multiple of the block leave lanes idle",
        next_if_kept="a staged tile, several results for each thread",
        next_if_reverted="another shape",
    ),
)
