"""Read-only data: `const` and `__restrict__` on pointer parameters."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import Edit, Function, Param, Span
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.scene import Scene


def _find_restrict(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        if not function.is_kernel:
            continue
        edits: list[Edit] = []
        for param in function.params:
            edits += _restrict(scene, function, param)
        if edits:
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name}: const and __restrict__ on its pointers",
                arguments={"kernel": function.name},
            )


def _restrict(scene: Scene, function: Function, param: Param) -> Iterator[Edit]:
    if param.type.count("*") != 1:
        return
    start, name = param.span.start, param.name_span.start
    if not param.is_const and not scene.source.is_written(function, param.name):
        yield Edit(Span(start, start), "const ")
    if not param.is_restrict:
        yield Edit(Span(name, name), "__restrict__ ")


_COPY = "{}{{\n  o[threadIdx.x] = {};\n}}\n"
_HEAD = 'extern "C" __global__ void k({}) '
RULES = (
    Rule(
        name="restrict",
        family="loads",
        sentence="Marks a kernel's pointers `__restrict__`, and `const` where it never writes through them.",
        find=_find_restrict,
        examples=(
            Example(
                _COPY.format(_HEAD.format("float* a, float* o"), "a[threadIdx.x]"),
                _COPY.format(_HEAD.format("const float* __restrict__ a, float* __restrict__ o"), "a[threadIdx.x]"),
            ),
        ),
        reason="the compiler must otherwise assume that every store changes every input",
        expected="loads moved ahead of stores, and through the read-only path",
        risk="none where the tensors are distinct, which the harness guarantees; longer live ranges",
        next_if_kept="wider loads",
        next_if_reverted="explicit __ldg on the hottest input",
    ),
)
