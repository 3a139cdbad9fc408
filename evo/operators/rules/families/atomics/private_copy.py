"""Atomics that meet on few elements are combined within a block first, over many elements for each thread."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import Access, Array, LaunchAnalysis
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import relaunched
from evo.operators.rules.families.atomics.combining import (
    RESIDENT,
    Combining,
    combining,
    fewer_blocks,
    over_a_warp,
    statements,
    strides,
)
from evo.operators.rules.lifting import NotPrinted, in_c, named, names_of, taken
from evo.operators.rules.rewriting import bracketed, closed, indented, rewritten
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.variant import LaunchLine

_ROOM = 32 * 1024  # bytes of a block's own copy
_OFTEN = 8.0  # atomics for each element
_THREAD = "threadIdx.y * blockDim.x + threadIdx.x"


@dataclass(frozen=True, slots=True)
class _Met:
    """An array of `count` elements that atomics of a kernel combine with. own: the name of a block's part."""

    array: Array
    count: int
    accesses: tuple[Access, ...]
    how: Combining
    parameter: str
    own: str

    @property
    def words(self) -> str:
        return f"its own copy of `{self.array.name}`" if self.count > 1 else f"what goes to `{self.array.name}`"


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    if analysis.sizes.block[2] != 1 or analysis.sizes.grid[2] != 1:
        return
    met = tuple(_met(ctx, analysis, function))
    for rank, chosen in enumerate([met, *((each,) for each in met if len(met) > 1)]):
        try:
            edits = _edits(ctx, analysis, function, chosen)
        except NotPrinted:
            continue
        names, parts = (" and ".join(each) for each in zip(*((e.array.name, e.words) for e in chosen), strict=True))
        yield Application(
            edits=tuple(edits),
            summary=f"{function.name}: each block adds up {parts}, over many elements",
            arguments={"kernel": function.name, "array": names},
            rank=rank,
            is_schedule=True,
        )


def _met(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[_Met]:
    form, names = analysis.form, names_of(ctx, function)
    for array in form.tensors:
        accesses = form.of(array)
        if not accesses or any(a.mode != "atomic" or a.calls for a in accesses) or array.name not in names:
            continue
        how = combining(ctx, accesses[0])
        count = analysis.traffic.arrays[array.name].compulsory // array.element_bytes
        if how is None or len({a.operation for a in accesses}) > 1:
            continue
        if not count or count * array.element_bytes > _ROOM or (count == 1 and analysis.sizes.block[0] % 32):
            continue
        executions = sum(analysis.sizes.blocks * analysis.sizes.threads for _ in accesses)
        if executions / count >= _OFTEN:
            yield _Met(array, count, accesses, how, names[array.name], "own")


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, met: Sequence[_Met]) -> list[Edit]:
    """The body around a loop over the blocks that there were. Raises NotPrinted."""
    if not met:
        raise NotPrinted("no atomics that meet")
    source, names = ctx.source, names_of(ctx, function)
    if len(met) > 1:
        met = [_Met(e.array, e.count, e.accesses, e.how, e.parameter, f"own_{e.parameter}") for e in met]
    inner = [edit for each in met for edit in _replaced(ctx, analysis, each)]
    body = rewritten(source, Span(function.body.start + 1, function.body.end - 1), inner)
    is_striding = "gridDim" in body
    if re.search(r"\breturn\b", body) and (is_striding or _returns_in_loops(body)):
        raise NotPrinted("it returns early")
    launch = ctx.variant.launches[analysis.form.position]
    edits: list[Edit] = []
    if is_striding and len(launch.grid) > 1:
        raise NotPrinted("strides along two axes")
    if is_striding:
        edits += [fewer_blocks(ctx, analysis)] if strides(analysis, body) else []
        body = body.rstrip() + "\n"
    else:
        sides = [in_c(part.tree, names) for part in launch.grid[:2]]
        sides = [each[1:-1] if len(sides) == 1 and each.startswith("((") else each for each in sides]
        places = (
            ["$block"] if len(sides) == 1 else [f"($block % {_factor(sides[0])})", f"($block / {_factor(sides[0])})"]
        )
        for axis, place in zip("xy", places, strict=False):
            body = re.sub(rf"\bblockIdx\.{axis}\b", place, body)
        body = re.sub(r"\breturn\s*;", "continue;", body)
        end = "        __syncthreads();\n" if analysis.form.barriers else ""
        blocks = " * ".join(sides if len(sides) == 1 else map(_factor, sides))
        head = f"    for (int $block = blockIdx.x; $block < {blocks}; $block += gridDim.x) {{"
        body = f"{head}{indented(body.rstrip())}\n{end}    }}\n"
        many, parts = max(1, RESIDENT // analysis.sizes.threads), [part.text for part in launch.grid[:2]]
        grid = parts[0] if len(parts) == 1 else " * ".join(map(_factor, parts))
        edits.append(relaunched(ctx, launch, grid=f"min({grid}, {many} * chip.sms)"))
    own = {name for name, _ in source.names(function.span)} | set(source.declared(function.span))
    return [*edits, Edit(function.body, named(_around(met, body, launch), own | taken(ctx, names)))]


def _factor(text: str) -> str:
    """A factor of a product: in brackets unless it is one word or one call, or has some."""
    return text if closed(text, text.find("(")) == len(text) else bracketed(text)


def _replaced(ctx: RuleContext, analysis: LaunchAnalysis, met: _Met) -> Iterator[Edit]:
    """Each atomic as what it is in a block. Raises NotPrinted if its result is used, or if it adds a block's part."""
    shared = {array.name for array in analysis.form.arrays if array.space == "shared"}
    for span, address, value in statements(ctx, met.accesses):
        if any(re.search(rf"\b{name}\b", value) for name in shared):
            raise NotPrinted("the block added up its part before")
        if met.count == 1:
            yield Edit(span, met.how.statement.format(f"${met.own}", value))
        elif re.search(rf"\b{met.parameter}\b", address):
            text = ctx.source.slice(span)
            yield Edit(span, re.sub(rf"\b{met.parameter}\b", f"${met.own}", text))
        else:
            raise NotPrinted("a pointer of another name")


def _returns_in_loops(body: str) -> bool:
    """Whether a return may stand in a loop of the text's own: `continue` would go on with that one."""
    loops = re.search(r"\b(?:for|while|do)\b", body)
    return loops is not None and re.search(r"\breturn\b", body[loops.start() :]) is not None


def _around(met: Sequence[_Met], body: str, launch: LaunchLine) -> str:
    is_flat = len(launch.block) == 1 or launch.block[1].text == "1"
    thread, threads = ("threadIdx.x", "blockDim.x") if is_flat else (_THREAD, "blockDim.x * blockDim.y")
    head: list[str] = []
    tail: list[str] = []
    for each in met:
        kind, own, count, neutral = each.array.element, f"${each.own}", each.count, each.how.neutral
        if count == 1:
            head.append(f"{kind} {own} = {neutral};  // of all elements that this thread looks at")
            tail += over_a_warp(own, each.how, f"&{each.parameter}[0]")
            continue
        walk = f"for (int $e = {thread}; $e < {count}; $e += {threads})"
        head.append(f"__shared__ {kind} {own}[{count}];  // the block's part of {each.parameter}")
        head.append(f"{walk} {own}[$e] = {neutral};")
        tail.append(f"{walk} {{")
        tail.append(f"    if ({own}[$e] != {neutral}) {each.how.atomic}(&{each.parameter}[$e], {own}[$e]);")
        tail.append("}")
    if any(each.count > 1 for each in met):
        head.append("__syncthreads();")
        tail.insert(0, "__syncthreads();")
    lines = ["{", *(f"    {line}" for line in head), body.strip("\n"), *(f"    {line}" for line in tail), "}"]
    return "\n".join(lines)


RULES = (
    Rule(
        name="private_copy",
        sentence="Adds up within a block, in shared memory or a register, what atomics of all blocks add to a few"
        " elements; each block takes many elements, and adds its part once.",
        find=by_launch(_find),
        reason="atomics that meet on one element are carried out one after the other",
        expected="one atomic for each block and element instead of one for each value",
        risk="floats are added in another order; shared memory limits the blocks of an SM",
        next_if_kept="wide loads, then copies per warp",
        next_if_reverted="fewer threads for each block",
    ),
)
