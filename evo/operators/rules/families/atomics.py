"""Atomics that meet on few elements are combined within a block first, over many elements for each thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access import Access, Array, LaunchAnalysis
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import line_span
from evo.operators.rules.lifting import NotPrinted, in_c, named, names_of, taken
from evo.operators.rules.rewriting import indented
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext

_ROOM = 32 * 1024  # bytes of a block's own copy
_RESIDENT = 1024  # threads of an SM that are kept busy
_OFTEN = 8.0  # atomics for each element
_STARTS = {"add": "0"}
_PLACED = re.compile(r"\b(?:blockIdx|gridDim)\b")
_THREADS = re.compile(  # a thread's number in the grid, and the number of threads in it
    r"\b(?:threadIdx\.x \+ (?:blockIdx\.x \* blockDim\.x|blockDim\.x \* blockIdx\.x)"
    r"|(?:blockIdx\.x \* blockDim\.x|blockDim\.x \* blockIdx\.x) \+ threadIdx\.x"
    r"|gridDim\.x \* blockDim\.x|blockDim\.x \* gridDim\.x)\b"
)
_TYPES = ("float", "int", "unsigned", "unsigned int", "double", "unsigned long long")


@dataclass(frozen=True, slots=True)
class _Met:
    """An array of `count` elements that atomics of a kernel add to. accesses: those atomics."""

    array: Array
    count: int
    accesses: tuple[Access, ...]


def _find(ctx: RuleContext) -> Iterator[Application]:
    for analysis in ctx.launches:
        form = analysis.form
        function = ctx.kernel(form.kernel)
        if function is None or analysis.sizes.block[1:] != (1, 1) or analysis.sizes.grid[1:] != (1, 1):
            continue
        for met in _met(analysis):
            try:
                edits = _edits(ctx, analysis, function, met)
            except NotPrinted:
                continue
            what = f"its own copy of `{met.array.name}`" if met.count > 1 else f"what goes to `{met.array.name}`"
            yield Application(
                edits=tuple(edits),
                summary=f"{form.kernel}: each block adds up {what}, over many elements",
                arguments={"kernel": form.kernel, "array": met.array.name},
                is_schedule=True,
            )


def _met(analysis: LaunchAnalysis) -> Iterator[_Met]:
    form = analysis.form
    for array in form.tensors:
        accesses = form.of(array)
        if not accesses or any(a.mode != "atomic" or a.operation not in _STARTS or a.calls for a in accesses):
            continue
        count = analysis.traffic.arrays[array.name].compulsory // array.element_bytes
        if not count or count * array.element_bytes > _ROOM or array.element not in _TYPES:
            continue
        executions = sum(analysis.sizes.blocks * analysis.sizes.threads for _ in accesses)
        if executions / count >= _OFTEN:
            yield _Met(array, count, accesses)


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, met: _Met) -> list[Edit]:
    """The body around a loop over the blocks that there were. Raises NotPrinted."""
    source, names = ctx.source, names_of(ctx, function)
    parameter = names.get(met.array.name)
    if parameter is None:
        raise NotPrinted(met.array.name)
    inner = [Edit(span, text) for span, text in _replaced(ctx, analysis, met, parameter)]
    body = source.slice(Span(function.body.start + 1, function.body.end - 1))
    body = _edited(source.data, Span(function.body.start + 1, function.body.end - 1), inner) or body
    is_striding = "gridDim" in body
    if re.search(r"\breturn\b", body) and (is_striding or _returns_in_loops(body)):
        raise NotPrinted("it returns early")
    launch = ctx.variant.launches[analysis.form.position]
    edits: list[Edit] = []
    if not is_striding:
        blocks = in_c(launch.grid[0].tree, names)
        blocks = blocks[1:-1] if blocks.startswith("((") else blocks
        body = re.sub(r"\breturn\s*;", "continue;", re.sub(r"\bblockIdx\.x\b", "$block", body))
        end = "        __syncthreads();\n" if analysis.form.barriers else ""
        head = f"    for (int $block = blockIdx.x; $block < {blocks}; $block += gridDim.x) {{"
        body = f"{head}{indented(body.rstrip())}\n{end}    }}\n"
        many = max(1, _RESIDENT // analysis.sizes.threads)
        line = line_span(ctx, launch.line)
        whole = source.slice(line)
        grid = launch.grid[0].text
        if f"({grid})" not in whole:
            raise NotPrinted("the launch line")
        edits.append(Edit(line, whole.replace(f"({grid})", f"(min({grid}, {many} * chip.sms))", 1)))
    else:
        body = body.rstrip() + "\n"
        edits += _even_grid(ctx, analysis, body)
    text = _around(met, parameter, body)
    own = {name for name, _ in source.names(function.span)} | set(source.declared(function.span))
    return [*edits, Edit(function.body, named(text, own | taken(ctx, names)))]


def _even_grid(ctx: RuleContext, analysis: LaunchAnalysis, body: str) -> list[Edit]:
    """As many blocks for each SM, if the launch has a number of them and the body strides over any number."""
    launch = ctx.variant.launches[analysis.form.position]
    line = line_span(ctx, launch.line)
    whole, grid = ctx.source.slice(line), launch.grid[0].text
    if not grid.isdigit() or f"grid ({grid})" not in whole or _PLACED.search(_THREADS.sub("", body)):
        return []
    many = max(1, _RESIDENT // analysis.sizes.threads)
    return [Edit(line, whole.replace(f"grid ({grid})", f"grid ({many} * chip.sms)", 1))]


def _replaced(ctx: RuleContext, analysis: LaunchAnalysis, met: _Met, parameter: str) -> Iterator[tuple[Span, str]]:
    """Each atomic as what it is in a block. Raises NotPrinted if its result is used, or if it adds a block's part."""
    shared = {array.name for array in analysis.form.arrays if array.space == "shared"}
    for span in sorted({ctx.source.enclosing_statement(access.span) for access in met.accesses}):
        text = ctx.source.slice(span)
        if not re.match(r"atomicAdd\s*\(", text) or not text.endswith(";"):
            raise NotPrinted("the atomic is part of a larger statement")
        if any(re.search(rf"\b{name}\s*\[", _second_argument(text)) for name in shared):
            raise NotPrinted("the block added up its part before")
        if met.count == 1:
            value = _second_argument(text)
            yield span, f"$own += {value};"
        else:
            yield span, re.sub(rf"\b{parameter}\b", "$own", text)


def _second_argument(text: str) -> str:
    depth, start = 0, None
    inside = text[text.index("(") + 1 : text.rindex(")")]
    for at, character in enumerate(inside):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            start = at
            break
    if start is None:
        raise NotPrinted("an atomic of one argument")
    return inside[start + 1 :].strip()


def _edited(data: bytes, within: Span, edits: list[Edit]) -> str:
    text, last = b"", within.start
    for edit in sorted(edits, key=lambda each: each.span):
        text += data[last : edit.span.start] + edit.text.encode()
        last = edit.span.end
    return (text + data[last : within.end]).decode()


def _returns_in_loops(body: str) -> bool:
    """Whether a return may stand in a loop of the text's own: `continue` would go on with that one."""
    loops = re.search(r"\b(?:for|while|do)\b", body)
    return loops is not None and re.search(r"\breturn\b", body[loops.start() :]) is not None


def _around(met: _Met, parameter: str, body: str) -> str:
    kind = met.array.element
    if met.count == 1:
        return f"""{{
    {kind} $own = 0;  // of all elements that this thread looks at
{body.strip(chr(10))}
    for (int $step = 16; $step > 0; $step /= 2) $own += __shfl_xor_sync(0xffffffffu, $own, $step);
    if (threadIdx.x % 32 == 0) atomicAdd(&{parameter}[0], $own);
}}"""
    return f"""{{
    __shared__ {kind} $own[{met.count}];  // the block's part of {parameter}
    for (int $e = threadIdx.x; $e < {met.count}; $e += blockDim.x) $own[$e] = 0;
    __syncthreads();
{body.strip(chr(10))}
    __syncthreads();
    for (int $e = threadIdx.x; $e < {met.count}; $e += blockDim.x) {{
        if ($own[$e] != 0) atomicAdd(&{parameter}[$e], $own[$e]);
    }}
}}"""


RULES = (
    Rule(
        name="private_copy",
        family="atomics",
        sentence="Adds up within a block, in shared memory or a register, what atomics of all blocks add to a few"
        " elements; each block takes many elements, and adds its part once.",
        find=_find,
        examples=(Example.of_files("private_copy"),),
        reason="atomics that meet on one element are carried out one after the other",
        expected="one atomic for each block and element instead of one for each value",
        risk="floats are added in another order; shared memory limits the blocks of an SM",
        next_if_kept="wide loads, then copies per warp",
        next_if_reverted="fewer threads for each block",
    ),
)
