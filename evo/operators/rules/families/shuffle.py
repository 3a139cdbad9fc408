"""The last steps of a reduction tree in shared memory, as warp shuffles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span, Statement
from evo.operators.rules.directives import require
from evo.operators.rules.rewriting import indent_of, same
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels

_TREE = re.compile(
    r"for\s*\(\s*(?:int|unsigned|unsigned int)\s+(\w+)\s*=\s*([^;]+);\s*\1\s*>\s*0\s*;\s*\1\s*(?:>>=\s*1|/=\s*2)\s*\)"
)


def _find_tree(ctx: RuleContext) -> Iterator[Application]:
    for function, launch in kernels(ctx):
        for top in ctx.source.statements(function):
            for loop in top.all():
                if loop.kind != "for" or loop.header is None or loop.body_span is None:
                    continue
                header = _TREE.match(ctx.source.slice(loop.header))
                found = _tree_step(ctx, loop, header[1]) if header else None
                if header is None or found is None:
                    continue
                thread, array, combine = found
                half = re.fullmatch(r"(.+?)\s*(?:/\s*2|>>\s*1)", header[2].strip())
                block = launch.block[0].text
                if half is None or len(launch.block) > 1 or not (same(half[1], block) or half[1] == "blockDim.x"):
                    continue
                indent = indent_of(ctx.source, loop.span.start)
                value = f"__shfl_down_sync(0xffffffffu, part, {header[1]})"
                step = f"part += {value}" if combine == "+" else f"part = {combine}(part, {value})"
                s = header[1]
                text = (
                    f"\n{indent}if ({thread} < 32) {{\n{indent}    float part = {array}[{thread}];\n#pragma unroll\n"
                    f"{indent}    for (int {s} = 16; {s} > 0; {s} /= 2) {step};\n"
                    f"{indent}    if ({thread} == 0) {array}[0] = part;\n{indent}}}\n{indent}__syncthreads();"
                )
                at = loop.header.start + ctx.source.slice(loop.header).index("> 0")
                yield Application(
                    edits=(
                        *require(ctx, f"{block} % 32 == 0"),
                        Edit(Span(at, at + 3), ">= 32"),
                        Edit(Span(loop.span.end, loop.span.end), text),
                    ),
                    summary=f"{function.name}: the last five steps of the tree over {array} as shuffles",
                    arguments={"kernel": function.name, "array": array},
                )


def _tree_step(ctx: RuleContext, loop: Statement, step: str) -> tuple[str, str, str] | None:
    """`if (t < s) buf[t] += buf[t + s]; __syncthreads();`: t, buf, and how they are combined."""
    text = " ".join(re.sub(r"//[^\n]*", "", ctx.source.slice(loop.body_span or loop.span)).split())
    add = re.fullmatch(
        rf"\{{ if \((\w+(?:\.x)?) < {step}\) \{{? ?(\w+)\[\1\] \+= \2\[\1 \+ {step}\]; ?\}}? __syncthreads\(\); \}}",
        text,
    )
    if add:
        return (add[1], add[2], "+") if _is_float_array(ctx, add[2]) else None
    most = re.fullmatch(
        rf"\{{ if \((\w+(?:\.x)?) < {step}\) \{{? ?(\w+)\[\1\] = (fmaxf|fminf)\(\2\[\1\], \2\[\1 \+ {step}\]\); ?\}}?"
        r" __syncthreads\(\); \}",
        text,
    )
    return (most[1], most[2], most[3]) if most and _is_float_array(ctx, most[2]) else None


def _is_float_array(ctx: RuleContext, name: str) -> bool:
    sized = any(array.name == name and array.element == "float" for array in ctx.source.shared_arrays)
    return sized or re.search(rf"\bextern\s+__shared__\s+float\s+{name}\[\]", ctx.source.text) is not None


RULES = (
    Rule(
        name="shuffle_tree",
        family="shuffle",
        sentence="Does the last five steps of a reduction tree in shared memory with warp shuffles.",
        find=_find_tree,
        examples=(Example.of_files("shuffle_tree"),),
        reason="the last five steps keep one warp busy and make the whole block wait at each of five barriers",
        expected="four barriers and five rounds of shared memory fewer",
        risk="the block must hold whole warps; sums are added in another order",
        next_if_kept="reduce each warp in registers first",
        next_if_reverted="fewer threads in the block",
    ),
)
