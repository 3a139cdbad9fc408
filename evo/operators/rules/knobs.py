"""Knob moves: one declared knob to another value of its domain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.spec.variant import Knob

_LAYOUT = re.compile(r"^(PAD|SWIZZLE)|_(PAD|SWIZZLE)$")  # those belong to the layout family


def is_layout_knob(name: str) -> bool:
    return _LAYOUT.search(name) is not None


def knob_moves(scene: Scene, knob: Knob) -> Iterator[Application]:
    """Every other value of the domain; rank is the distance within the domain as declared."""
    line = scene.variant.text.split("\n")[knob.line - 1]
    match = re.search(rf"\b{knob.name}\b(?:\s*=)?\s+(-?\w+)", line) or re.search(rf"\b{knob.name}\s*=\s*(-?\w+)", line)
    if match is None:
        return
    before = "\n".join(scene.variant.text.split("\n")[: knob.line - 1])
    at = len(before.encode()) + (1 if knob.line > 1 else 0) + len(line[: match.start(1)].encode())
    span = Span(at, at + len(match[1].encode()))
    here = knob.domain.index(knob.value)
    for place, value in enumerate(knob.domain):
        if place != here:
            yield Application(
                edits=(Edit(span, str(value)),),
                summary=f"{knob.name} {knob.value} -> {value}",
                arguments={"knob": knob.name, "from": knob.value, "to": value},
                rank=abs(place - here) - 1,
            )


def _find(scene: Scene) -> Iterator[Application]:
    for knob in scene.variant.knobs:
        if not is_layout_knob(knob.name):
            yield from knob_moves(scene, knob)


_MODE = (
    "// evo: knob MODE in fast, safe\nenum {{ fast, safe }};\nconstexpr int MODE = {};\n"
    "__device__ int mode() {{ return MODE; }}\n"
)
RULES = (
    Rule(
        name="knob",
        family="knob",
        sentence="Moves one declared knob to another value of its domain, neighbours first.",
        find=_find,
        examples=(
            Example(
                "// evo: knob BLOCK_N in 16, 32\n#define BLOCK_N 16\n",
                "// evo: knob BLOCK_N in 16, 32\n#define BLOCK_N 32\n",
            ),
            Example(_MODE.format("safe"), _MODE.format("fast")),
        ),
        reason="tile shapes and stages trade reuse against occupancy, and only a measurement knows the balance",
        expected="a better balance of reuse, latency hiding and occupancy",
        risk="more shared memory or registers per block can cost resident blocks",
        next_if_kept="the next value in the same direction",
        next_if_reverted="the other direction, or another knob",
    ),
)
