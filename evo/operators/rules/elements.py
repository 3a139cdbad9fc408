"""Kernels of one element per thread: several neighbouring elements per thread, in one instruction each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evo.cuda.source import Edit
from evo.operators.rules.guards import behind_guard, through
from evo.operators.rules.order import strided
from evo.operators.rules.rule import Application, Example, Rule, Scene, source_of
from evo.operators.rules.threads import thread_indices
from evo.operators.rules.vector import find_loops
from evo.spec.variant import parse_variant


def _find(scene: Scene) -> Iterator[Application]:
    for index in thread_indices(scene, whole=True):
        walk = strided(scene, index)
        for count in (4, 8, 2, 16) if walk else ():
            first = (Edit(index.grid_at, f"ceil_div({index.extent}, {index.threads} * {count})"), *walk)
            variant = parse_variant(scene.source.replace(first), path=scene.variant.path)
            between = replace(scene, variant=variant, source=source_of(variant.text))
            for found in find_loops(between):
                if found.arguments["to"] == count and found.summary.startswith(f"loop over {index.name} ("):
                    yield Application(
                        edits=through(between.source, first, found.edits),
                        summary=f"{index.function.name}: {count} neighbours along {index.name} per thread",
                        arguments={"kernel": index.function.name, "to": count},
                        rank=found.rank,
                    )


_LINE = "// evo: launch k grid (ceil_div(N, {})) block (64) shared 0\n"
_STRUCT = "struct alignas(16) Float4 {\n    float at[4];\n};\n"
_HEAD = 'extern "C" __global__ void k(const float* a, float* o, int n) {\n'
RULES = (
    Rule(
        name="wide_elements",
        family="vector",
        sentence="Gives each thread of a kernel of single elements 2 to 16 neighbours, loaded and stored in one"
        " instruction where the addresses are aligned at run time.",
        find=behind_guard(_find),
        examples=(
            Example(
                _LINE.format("64")
                + _HEAD
                + "  const int i = blockIdx.x * 64 + threadIdx.x;\n  if (i >= n) return;\n  o[i] = a[i] * 2.0f;\n}\n",
                _LINE.format("64 * 4")
                + _STRUCT
                + _HEAD
                + "  const bool i_wide = reinterpret_cast<unsigned long long>(a) % 16 == 0 &&"
                " reinterpret_cast<unsigned long long>(o) % 16 == 0;\n"
                "  for (int i_done = (blockIdx.x * 64 + threadIdx.x) * 4; i_wide && i_done + 3 < n;"
                " i_done += ((int)gridDim.x * (64)) * 4) {\n"
                "      const Float4 a_pack = *reinterpret_cast<const Float4*>(&a[i_done]);\n      Float4 o_pack;\n"
                "#pragma unroll\n      for (int e = 0; e < 4; ++e) {\n"
                "          o_pack.at[e] = a_pack.at[e] * 2.0f;\n      }\n"
                "      *reinterpret_cast<Float4*>(&o[i_done]) = o_pack;\n  }\n"
                "  for (int i = (i_wide ? n / 4 * 4 : 0) + blockIdx.x * 64 + threadIdx.x; i < n;"
                " i += (int)gridDim.x * (64)) {\n  o[i] = a[i] * 2.0f;\n  }\n}\n",
            ),
        ),
        reason="a thread that moves one element of 4 bytes spends most of its instructions on where it is",
        expected="as many times fewer memory instructions, threads and blocks as elements per thread",
        risk="fewer threads in flight where the input is small; arrays that are not aligned take the narrow loop",
        next_if_kept="a few blocks per SM that walk the index",
        next_if_reverted="fewer elements per thread",
    ),
)
