"""Layouts of `__shared__` arrays against bank conflicts: pads of their rows, and swizzled columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, SharedArray, Span
from evo.operators.rules.element import BYTES
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext

_ALIGNMENT_BYTES = 16  # cp.async, ldmatrix and 128-bit loads need rows that start on it
_PADDED = re.compile(r"^(.*\S)\s*\+\s*(\d+)$", re.DOTALL)


def _find_pads(ctx: RuleContext) -> Iterator[Application]:
    for array in ctx.source.shared_arrays:
        size = BYTES.get(array.element)
        if size is None or len(array.dims) < 2 or not _always_indexed(ctx, array):
            continue
        span = array.dims[-1]
        text = ctx.source.slice(span)
        match = _PADDED.match(text)
        plain, now = (match[1], int(match[2])) if match else (text, 0)
        step = _ALIGNMENT_BYTES // size
        for rank, wanted in enumerate((step, 0, 2 * step)):
            if wanted != now:
                yield Application(
                    edits=(Edit(span, f"{plain} + {wanted}" if wanted else plain),),
                    summary=f"{array.name}: row pad {now} -> {wanted} {array.element}",
                    arguments={"array": array.name, "from": now, "to": wanted},
                    rank=rank,
                )


def _always_indexed(ctx: RuleContext, array: SharedArray) -> bool:
    """Whether every use has all its subscripts, and none is the first element: then nobody walks it as flat memory."""
    uses = ctx.source.uses(array.function, array.name)
    first = array.name + "[0]" * len(array.dims)
    return bool(uses) and all(use.count("[") >= len(array.dims) and use != first for use in uses)


def _find_xor(ctx: RuleContext) -> Iterator[Application]:
    for array in ctx.source.shared_arrays:
        size = ctx.source.slice(array.dims[-1]).strip()
        width = ctx.source.integer(size)
        knobs = {knob.name: knob.domain for knob in ctx.variant.knobs}
        widths = [value for value in knobs.get(size, (width,)) if isinstance(value, int)]
        if len(array.dims) != 2 or not widths or any(value < 2 or value & (value - 1) for value in widths):
            continue
        function = next(f for f in ctx.source.functions if f.name == array.function)
        uses = [use for use in ctx.source.subscripts(function.body) if use.name == array.name]
        names = [name for name, _ in ctx.source.names(function.body)].count(array.name)
        declared = [s for s in ctx.source.inside(function) if s.name == array.name]
        uses = [use for use in uses if not any(s.span.holds(use.span) and s.kind == "declare" for s in declared)]
        if len(declared) != 1 or names != len(uses) + 1 or not all(len(use.indices) == 2 for use in uses) or not uses:
            continue
        texts = [ctx.source.slice(index) for use in uses for index in use.indices]
        if any(re.search(rf"\^|\b{array.name}\b", text) for text in texts) or _has_address(
            ctx, function.body, array.name
        ):
            continue
        edits = []
        for use in uses:
            row, column = (ctx.source.slice(index).strip() for index in use.indices)
            edits.append(Edit(use.indices[1], f"({column}) ^ (({row}) & ({size} - 1))"))
        yield Application(
            edits=tuple(edits),
            summary=f"{array.function}: {array.name} swizzled by its row number",
            arguments={"function": array.function, "array": array.name},
        )


def _has_address(ctx: RuleContext, body: Span, name: str) -> bool:
    return re.search(rf"&\s*{name}\b", ctx.source.slice(body)) is not None


_TILE = "  __shared__ half tile[16][{}];\n  tile[threadIdx.x][0] = a[n];\n  o[0] = tile[n][1];\n"
_TEXT = {
    "reason": "rows a multiple of 128 bytes apart start in the same bank, so accesses down a column conflict",
    "expected": "fewer shared-memory wavefronts per access",
    "risk": "a little more shared memory per block; no gain if accesses were conflict-free",
    "next_if_kept": "a larger tile, now that its columns are cheap",
    "next_if_reverted": "a swizzle instead of a pad",
}
_SQUARE = (
    "  __shared__ float t[32][32];\n  t[n][threadIdx.x] = a[n];\n  __syncthreads();\n  o[0] = t[threadIdx.x][n];\n"
)
_SWIZZLED = (
    "  __shared__ float t[32][32];\n  t[n][(threadIdx.x) ^ ((n) & (32 - 1))] = a[n];\n  __syncthreads();\n"
    "  o[0] = t[threadIdx.x][(n) ^ ((threadIdx.x) & (32 - 1))];\n"
)
RULES = (
    Rule(
        name="row_pad",
        sentence="Pads the rows of a `__shared__` array by 16 or 32 bytes, or takes the pad away; rows stay aligned.",
        find=_find_pads,
        examples=(
            Example(_TILE.format("64"), _TILE.format("64 + 8")),
            Example(_TILE.format("64 + 8"), _TILE.format("64")),
        ),
        **_TEXT,
    ),
    Rule(
        name="xor_swizzle",
        sentence="Stores a row of a `__shared__` array under a column number exclusive-or its row number.",
        find=_find_xor,
        examples=(Example(_SQUARE, _SWIZZLED),),
        reason="rows a multiple of 128 bytes apart start in the same bank, so accesses down a column conflict",
        expected="no bank conflicts down columns, without the memory that a pad costs",
        risk="an instruction more per address; no gain if accesses were conflict-free",
        next_if_kept="take a pad away, now that it is not needed",
        next_if_reverted="a pad instead",
    ),
)
