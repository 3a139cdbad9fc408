"""Shared-memory layout against bank conflicts: pad and swizzle knobs, and literal pads of `__shared__` arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, SharedArray
from evo.operators.rules.knobs import is_layout_knob, knob_moves
from evo.operators.rules.rule import Application, Example, Rule, Scene

_ELEMENT_BYTES = {"half": 2, "__half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "float": 4, "int": 4, "int8_t": 1}
_ALIGNMENT_BYTES = 16  # cp.async, ldmatrix and 128-bit loads need rows that start on it
_PADDED = re.compile(r"^(.*\S)\s*\+\s*(\d+)$", re.DOTALL)


def _find_knobs(scene: Scene) -> Iterator[Application]:
    for knob in scene.variant.knobs:
        if is_layout_knob(knob.name):
            yield from knob_moves(scene, knob)


def _find_pads(scene: Scene) -> Iterator[Application]:
    for array in scene.source.shared_arrays:
        size = _ELEMENT_BYTES.get(array.element)
        if size is None or len(array.dims) < 2 or not _always_indexed(scene, array):
            continue
        span = array.dims[-1]
        text = scene.source.slice(span)
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


def _always_indexed(scene: Scene, array: SharedArray) -> bool:
    """Whether every use has all its subscripts, and none is the first element: then nobody walks it as flat memory."""
    uses = scene.source.uses(array.function, array.name)
    first = array.name + "[0]" * len(array.dims)
    return bool(uses) and all(use.count("[") >= len(array.dims) and use != first for use in uses)


_TILE = "  __shared__ half tile[16][{}];\n  tile[threadIdx.x][0] = a[n];\n  o[0] = tile[n][1];\n"
_TEXT = {
    "reason": "rows a multiple of 128 bytes apart start in the same bank, and column accesses queue up",
    "expected": "fewer shared-memory wavefronts per access",
    "risk": "a little more shared memory per block; no gain where accesses were conflict-free",
    "next_if_kept": "a larger tile, now that its columns are cheap",
    "next_if_reverted": "a swizzle instead of a pad",
}
RULES = (
    Rule(
        name="layout_knob",
        family="layout",
        sentence="Moves a PAD or SWIZZLE knob to another value of its domain.",
        find=_find_knobs,
        examples=(Example("// evo: knob PAD in 0, 8\n#define PAD 0\n", "// evo: knob PAD in 0, 8\n#define PAD 8\n"),),
        **_TEXT,
    ),
    Rule(
        name="row_pad",
        family="layout",
        sentence="Pads the rows of a `__shared__` array by 16 or 32 bytes, or takes the pad away; rows stay aligned.",
        find=_find_pads,
        examples=(
            Example(_TILE.format("64"), _TILE.format("64 + 8")),
            Example(_TILE.format("64 + 8"), _TILE.format("64")),
        ),
        **_TEXT,
    ),
)
