"""Shared memory: XOR swizzles, shuffles for the last steps of a tree, barriers of one warp, rows that are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span, Statement
from evo.operators.rules.element import BYTES
from evo.operators.rules.reductions import shareable
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.operators.rules.threads import indent_of, kernels, line_span, require, same

_TREE = re.compile(
    r"for\s*\(\s*(?:int|unsigned|unsigned int)\s+(\w+)\s*=\s*([^;]+);\s*\1\s*>\s*0\s*;\s*\1\s*(?:>>=\s*1|/=\s*2)\s*\)"
)


def _find_xor(scene: Scene) -> Iterator[Application]:
    for array in scene.source.shared_arrays:
        size = scene.source.slice(array.dims[-1]).strip()
        width = scene.source.integer(size)
        knobs = {knob.name: knob.domain for knob in scene.variant.knobs}
        widths = [value for value in knobs.get(size, (width,)) if isinstance(value, int)]
        if len(array.dims) != 2 or not widths or any(value < 2 or value & (value - 1) for value in widths):
            continue
        function = next(f for f in scene.source.functions if f.name == array.function)
        uses = [use for use in scene.source.subscripts(function.body) if use.name == array.name]
        names = [name for name, _ in scene.source.names(function.body)].count(array.name)
        declared = [s for top in scene.source.statements(function) for s in top.all() if s.name == array.name]
        uses = [use for use in uses if not any(s.span.holds(use.span) and s.kind == "declare" for s in declared)]
        if len(declared) != 1 or names != len(uses) + 1 or not all(len(use.indices) == 2 for use in uses) or not uses:
            continue
        texts = [scene.source.slice(index) for use in uses for index in use.indices]
        if any(re.search(rf"\^|\b{array.name}\b", text) for text in texts) or _has_address(
            scene, function.body, array.name
        ):
            continue
        edits = []
        for use in uses:
            row, column = (scene.source.slice(index).strip() for index in use.indices)
            edits.append(Edit(use.indices[1], f"({column}) ^ (({row}) & ({size} - 1))"))
        yield Application(
            edits=tuple(edits),
            summary=f"{array.function}: {array.name} swizzled by its row number",
            arguments={"function": array.function, "array": array.name},
        )


def _has_address(scene: Scene, body: Span, name: str) -> bool:
    return re.search(rf"&\s*{name}\b", scene.source.slice(body)) is not None


def _find_tree(scene: Scene) -> Iterator[Application]:
    for function, launch in kernels(scene):
        for top in scene.source.statements(function):
            for loop in top.all():
                if loop.kind != "for" or loop.header is None or loop.body_span is None:
                    continue
                header = _TREE.match(scene.source.slice(loop.header))
                found = _tree_step(scene, loop, header[1]) if header else None
                if header is None or found is None:
                    continue
                thread, array, combine = found
                half = re.fullmatch(r"(.+?)\s*(?:/\s*2|>>\s*1)", header[2].strip())
                block = launch.block[0].text
                if half is None or len(launch.block) > 1 or not (same(half[1], block) or half[1] == "blockDim.x"):
                    continue
                indent = indent_of(scene.source, loop.span.start)
                value = f"__shfl_down_sync(0xffffffffu, part, {header[1]})"
                step = f"part += {value}" if combine == "+" else f"part = {combine}(part, {value})"
                s = header[1]
                text = (
                    f"\n{indent}if ({thread} < 32) {{\n{indent}    float part = {array}[{thread}];\n#pragma unroll\n"
                    f"{indent}    for (int {s} = 16; {s} > 0; {s} /= 2) {step};\n"
                    f"{indent}    if ({thread} == 0) {array}[0] = part;\n{indent}}}\n{indent}__syncthreads();"
                )
                at = loop.header.start + scene.source.slice(loop.header).index("> 0")
                yield Application(
                    edits=(
                        *require(scene, f"{block} % 32 == 0"),
                        Edit(Span(at, at + 3), ">= 32"),
                        Edit(Span(loop.span.end, loop.span.end), text),
                    ),
                    summary=f"{function.name}: the last five steps of the tree over {array} as shuffles",
                    arguments={"kernel": function.name, "array": array},
                )


def _tree_step(scene: Scene, loop: Statement, step: str) -> tuple[str, str, str] | None:
    """`if (t < s) buf[t] += buf[t + s]; __syncthreads();`: t, buf, and how they are combined."""
    text = " ".join(re.sub(r"//[^\n]*", "", scene.source.slice(loop.body_span or loop.span)).split())
    add = re.fullmatch(
        rf"\{{ if \((\w+(?:\.x)?) < {step}\) \{{? ?(\w+)\[\1\] \+= \2\[\1 \+ {step}\]; ?\}}? __syncthreads\(\); \}}",
        text,
    )
    if add:
        return (add[1], add[2], "+") if _is_float_array(scene, add[2]) else None
    most = re.fullmatch(
        rf"\{{ if \((\w+(?:\.x)?) < {step}\) \{{? ?(\w+)\[\1\] = (fmaxf|fminf)\(\2\[\1\], \2\[\1 \+ {step}\]\); ?\}}?"
        r" __syncthreads\(\); \}",
        text,
    )
    return (most[1], most[2], most[3]) if most and _is_float_array(scene, most[2]) else None


def _is_float_array(scene: Scene, name: str) -> bool:
    sized = any(array.name == name and array.element == "float" for array in scene.source.shared_arrays)
    return sized or re.search(rf"\bextern\s+__shared__\s+float\s+{name}\[\]", scene.source.text) is not None


def _find_warp_barrier(scene: Scene) -> Iterator[Application]:
    for function, launch in kernels(scene):
        threads = 1
        for part in launch.block:
            text = part.text.strip()
            value = int(text) if text.isdigit() else None
            threads *= value if value is not None else 10_000
        calls = [c for c in scene.source.calls if c.name == "__syncthreads" and c.function == function.name]
        if threads <= 32 and calls:
            yield Application(
                edits=tuple(Edit(call.span, "__syncwarp()") for call in calls),
                summary=f"{function.name}: {len(calls)} barriers of one warp instead of the block",
                arguments={"kernel": function.name},
            )


def _find_keep(scene: Scene) -> Iterator[Application]:
    for function, launch in kernels(scene):
        text = scene.source.slice(function.body)
        if launch.shared.text.strip() != "0" or "extern __shared__" in text or len(launch.block) > 1:
            continue
        tops = scene.source.statements(function)
        loops = [
            s for s in tops if s.kind == "for" and s.start is not None and scene.source.slice(s.start) == "threadIdx.x"
        ]
        heads = {scene.source.slice(s.header).strip() for s in loops if s.header is not None}
        if len(loops) < 2 or len(heads) != 1 or any(shareable(scene.source, s) is None for s in loops):
            continue
        first = loops[0]
        assert first.limit is not None
        axis = scene.axis_of(function, scene.source.slice(first.limit))
        if axis is None or first.body_span is None:
            continue
        for name in sorted({use.name for use in scene.source.subscripts(first.body_span) if use.is_read}):
            edits = _kept(scene, function.body, loops, name)
            kind = scene.source.element_type(function.name, name)
            if edits is None or kind not in BYTES:
                continue
            line = line_span(scene, launch.line)
            at = line.start + scene.source.slice(line).rindex("shared 0")
            start = function.body.start + 1
            yield Application(
                edits=(
                    *require(scene, "shared <= chip.shared_per_block_optin"),
                    Edit(Span(at, at + len("shared 0")), f"shared ({axis} * {BYTES[kind]})"),
                    Edit(Span(start, start), f"\n    extern __shared__ {kind} {name}_kept[];"),
                    *edits,
                ),
                summary=f"{function.name}: {name} is kept in shared memory between its {len(loops)} passes",
                arguments={"kernel": function.name, "array": name},
            )


def _kept(scene: Scene, body: Span, loops: list[Statement], name: str) -> list[Edit] | None:
    """The first loop fills what the others read: each thread its own elements, so no barrier is needed."""
    uses = [use for use in scene.source.subscripts(body) if use.name == name]
    read_by = [[use for use in uses if loop.body_span is not None and loop.body_span.holds(use.span)] for loop in loops]
    inside = sum(len(each) for each in read_by)
    if f"{name}_kept" in scene.source.text or inside != len(uses) or not all(read_by[:1]) or not any(read_by[1:]):
        return None
    for loop, each in zip(loops, read_by, strict=True):
        if any(not use.is_read or scene.source.slice(use.indices[0]).strip() != loop.name for use in each):
            return None
    first, i = loops[0], loops[0].name
    assert first.body_span is not None
    if any(scene.source.is_conditional(use.span, first.body_span) for use in read_by[0]):
        return None
    begin = f"{{ {name}_kept[{i}] = {name}[{i}]; "
    edits = [
        Edit(Span(first.body_span.start, first.body_span.start), begin),
        Edit(Span(first.body_span.end, first.body_span.end), " }"),
    ]
    return edits + [Edit(use.span, f"{name}_kept[{i}]") for each in read_by for use in each]


_TILE = "  __shared__ float t[32][32];\n  t[n][threadIdx.x] = a[n];\n  __syncthreads();\n  o[0] = t[threadIdx.x][n];\n"
_SWIZZLED = (
    "  __shared__ float t[32][32];\n  t[n][(threadIdx.x) ^ ((n) & (32 - 1))] = a[n];\n  __syncthreads();\n"
    "  o[0] = t[threadIdx.x][(n) ^ ((threadIdx.x) & (32 - 1))];\n"
)
_REDUCE = (
    "// evo: launch k grid (1) block (128) shared 0\n"
    'extern "C" __global__ void k(const float* a, float* o) {{\n  __shared__ float b[128];\n'
    "  const int t = threadIdx.x;\n"
    "  b[t] = a[t];\n  __syncthreads();\n"
    "  for (int s = 128 / 2; s {}; s /= 2) {{\n    if (t < s) b[t] += b[t + s];\n    __syncthreads();\n  }}{}\n"
    "  if (t == 0) o[0] = b[0];\n}}\n"
)
_SHUFFLED = (
    "\n  if (t < 32) {\n      float part = b[t];\n#pragma unroll\n"
    "      for (int s = 16; s > 0; s /= 2) part += __shfl_down_sync(0xffffffffu, part, s);\n"
    "      if (t == 0) b[0] = part;\n  }\n  __syncthreads();"
)
_WALK = "for (int i = threadIdx.x; i < n; i += 32)"
_ROW = (
    'extern "C" __global__ void k(const float* a, float* o, int n) {{{}\n  float s = 0.0f;\n'
    "  {} {}\n  {} o[i] = {} / s;\n}}\n"
)
RULES = (
    Rule(
        name="xor_swizzle",
        family="layout",
        sentence="Stores a row of a `__shared__` array under a column number exclusive-or its row number.",
        find=_find_xor,
        examples=(Example(_TILE, _SWIZZLED),),
        reason="rows a multiple of 128 bytes apart start in the same bank, and column accesses queue up",
        expected="no bank conflicts down columns, without the memory that a pad costs",
        risk="an instruction more per address; no gain where accesses were conflict-free",
        next_if_kept="take a pad away, now that it is not needed",
        next_if_reverted="a pad instead",
    ),
    Rule(
        name="shuffle_tree",
        family="shuffle",
        sentence="Does the last five steps of a reduction tree in shared memory with warp shuffles.",
        find=_find_tree,
        examples=(
            Example(
                _REDUCE.format("> 0", ""),
                "// evo: require 128 % 32 == 0\n"
                + _REDUCE.format(">= 32", _SHUFFLED.replace("{", "{{").replace("}", "}}"))
                .replace("{{", "{")
                .replace("}}", "}"),
            ),
        ),
        reason="the last five steps keep one warp busy and make the whole block wait at each of five barriers",
        expected="four barriers and five rounds of shared memory fewer",
        risk="the block must hold whole warps; sums are added in another order",
        next_if_kept="reduce each warp in registers first",
        next_if_reverted="fewer threads in the block",
    ),
    Rule(
        name="warp_barrier",
        family="shuffle",
        sentence="Waits for the warp instead of the block, where a block is one warp.",
        find=_find_warp_barrier,
        examples=(
            Example(
                "  __shared__ float t[32];\n  t[threadIdx.x] = a[n];\n  __syncthreads();\n  o[0] = t[0];\n",
                "  __shared__ float t[32];\n  t[threadIdx.x] = a[n];\n  __syncwarp();\n  o[0] = t[0];\n",
            ),
        ),
        reason="a block of one warp needs no barrier across warps",
        expected="a cheaper instruction at each meeting point",
        risk="wrong as soon as the block grows; the launch line is part of the text, so that is seen",
        next_if_kept="shuffles instead of shared memory",
        next_if_reverted="more warps per block",
    ),
    Rule(
        name="keep_row",
        family="staging",
        sentence="Keeps the elements of a row in shared memory between the passes of a block over it.",
        find=_find_keep,
        examples=(
            Example(
                "// evo: launch k grid (1) block (32) shared 0\n" + _ROW.format("", _WALK, "s += a[i];", _WALK, "a[i]"),
                "// evo: require shared <= chip.shared_per_block_optin\n"
                "// evo: launch k grid (1) block (32) shared (N * 4)\n"
                + _ROW.format(
                    "\n    extern __shared__ float a_kept[];",
                    _WALK,
                    "{ a_kept[i] = a[i]; s += a_kept[i]; }",
                    _WALK,
                    "a_kept[i]",
                ),
                axes=("N",),
            ),
        ),
        reason="each pass over a row that the caches do not hold reads it from memory again",
        expected="one read of the row from global memory instead of one per pass",
        risk="shared memory per block limits how many blocks run; the caches may have held the row",
        next_if_kept="wider loads in the first pass",
        next_if_reverted="fewer passes",
    ),
)
