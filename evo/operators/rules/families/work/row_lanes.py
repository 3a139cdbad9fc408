"""What each thread walks alone is shared by the lanes of a warp, in whatever way the kernel is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evo.analysis.access import BLOCK, THREAD, Access, Branch, Data, LaunchAnalysis, Loop, Nest, Node, Reduction, Term
from evo.analysis.access.reductions import parts_of
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import ceil_divs, line_span, new_knob
from evo.operators.rules.rewriting import fresh, indent_of, merged, same
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext

_WARP = 32
_WARPS = (1, 2, 4, 8, 16)  # of a block
_HEADER = re.compile(r"for\s*\((?P<init>[^;]*);(?P<test>[^;]*);(?P<step>[^;]*)\)\s*$", re.DOTALL)
_INIT = re.compile(r"(?P<head>\s*(?:[\w:]+[\s*&]+)*?(?P<name>\w+)\s*=\s*)(?P<value>.+?)\s*$", re.DOTALL)
_COMBINED = {"sum": "{0} += {1}", "product": "{0} *= {1}"}
_NEUTRAL = {"sum": "0", "product": "1"}
_PLACED = re.compile(r"\b(?:threadIdx|blockIdx|gridDim|__shared__|__sync\w*|\w+_sync|laneid)\b")


@dataclass(frozen=True, slots=True)
class _Shared:
    """A loop that the lanes share out, with what they combine behind it."""

    loop: Loop
    reductions: tuple[Reduction, ...]


def _find(ctx: RuleContext) -> Iterator[Application]:
    for analysis in ctx.launches:
        edits = _edits(ctx, analysis)
        if edits:
            name = analysis.form.kernel
            yield Application(
                edits=tuple(merged(edits)),
                summary=f"{name}: the lanes of a warp share what each thread walked alone",
                arguments={"kernel": name, "to": _WARP},
                is_schedule=any(each.calls for each in analysis.form.loops.values()),  # several functions are touched
            )


def _edits(ctx: RuleContext, analysis: LaunchAnalysis) -> list[Edit] | None:
    form, sizes = analysis.form, analysis.sizes
    function = next((f for f in ctx.source.functions if f.name == form.kernel and f.is_kernel), None)
    if function is None or sizes.block[1:] != (1, 1) or sizes.grid[1:] != (1, 1) or sizes.threads % _WARP:
        return None
    if form.barriers or form.exchanges or form.shared:
        return None
    shared = _loops(analysis)
    index = _index(ctx, analysis, function)
    if not shared or index is None or not _stay_with_their_lane(analysis, shared):
        return None
    lane = fresh(ctx, "lane")
    start = function.body.start + 1
    edits = [
        Edit(index, f"(blockIdx.x * blockDim.x + threadIdx.x) / {_WARP}"),
        Edit(Span(start, start), f"\n    const int {lane} = threadIdx.x % {_WARP};  // a warp for each index"),
        *_launch(ctx, analysis),
    ]
    seen: dict[Span, list[Edit]] = {}
    for each in shared:
        # In a function of its own the kernel's variable cannot be seen.
        here = lane if not each.loop.calls else f"(threadIdx.x % {_WARP})"
        made = _shared_out(ctx, each, here)
        if made is None or seen.setdefault(each.loop.span, made) != made or not _is_ours(ctx, each.loop, function):
            return None
    edits += [edit for made in seen.values() for edit in made]
    inside = {each.loop.symbol for each in shared}
    for access in form.accesses:
        if not access.is_write or access.array is None or access.array.space != "global" or inside & set(access.loops):
            continue
        edit = _once(ctx, access, lane)
        if edit is None:
            return None
        edits.append(edit)
    return edits


def _loops(analysis: LaunchAnalysis) -> list[_Shared] | None:
    """The outermost loops that walk along the contiguous dimension; None if something else is in the way."""
    form = analysis.form
    found: list[_Shared] = []
    for loop in _outermost(form.body):
        inside = [access for access in form.accesses if loop.symbol in access.loops]
        if not any(a.array is not None and a.array.space == "global" for a in inside):
            continue
        if _walks(analysis, loop, inside):
            reductions = analysis.legality.is_reduction(loop)
            if analysis.legality.parallel(loop).holds and _are_known(loop, reductions):
                found.append(_Shared(loop, reductions))
                continue
        return None  # each lane would do all of it again
    return found


def _is_ours(ctx: RuleContext, loop: Loop, kernel: Function) -> bool:
    """Whether only this kernel calls the functions that a loop stands in."""
    others = [f for f in ctx.source.functions if f.is_kernel and f.name != kernel.name]
    return not any(re.search(rf"\b{name}\b", ctx.source.slice(f.body)) for f in others for name in loop.calls)


def _outermost(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    for node in nodes:
        if isinstance(node, Nest):
            yield node.loop
        elif isinstance(node, Branch):
            yield from _outermost(node.then)
            yield from _outermost(node.otherwise)


def _walks(analysis: LaunchAnalysis, loop: Loop, inside: list[Access]) -> bool:
    """Whether a turn further is an element further, for most of what the loop touches."""
    if loop.step.value != 1 or loop.values is not None or loop.until is not None or loop.blocked is not None:
        return False
    far = 0
    for access in inside:
        if access.array is None or access.array.space != "global":
            continue
        apart = access.offset.coefficient(loop.symbol)
        if apart is None or apart.value not in (access.array.element_bytes, 0):
            return False
        traffic = analysis.traffic.accesses.get(access.number)
        far += traffic is not None and traffic.sectors is not None and traffic.sectors > 2 * max(traffic.ideal or 1, 1)
    return far > 0


def _are_known(loop: Loop, reductions: tuple[Reduction, ...]) -> bool:
    known = ("sum", "product", "max", "min", "argmax", "argmin", "online_softmax")
    named = {name for r in reductions for name in r.names}
    return (
        all(r.kind in known and r.place == "register" for r in reductions)
        and {carried.name for carried in loop.carried} <= named
        and all(not _HIDDEN.search(name) for name in named)
        and all(r.kind != "online_softmax" or _is_natural(r) for r in reductions)
    )


def _is_natural(found: Reduction) -> bool:
    """Whether sums are scaled by e to the power of something, and there is one of them."""
    calls = {str(part.detail) for carried in found.carried for part in parts_of(carried.update) if part.op == "call"}
    return bool(calls) and calls <= {"exp", "expf", "__expf"} and len(found.names) == 2


_HIDDEN = re.compile(r"\W")  # a field or element, which no shuffle takes by that name


def _stay_with_their_lane(analysis: LaunchAnalysis, shared: list[_Shared]) -> bool:
    """Whether what is written and read again is touched by one lane: at the same turn of every loop."""
    loops = {each.loop.symbol: each.loop for each in shared}
    for array in analysis.legality.rereads_output:
        places = set[Term]()
        for access in analysis.form.of(array):
            ours = [symbol for symbol in access.loops if symbol in loops]
            if len(ours) != 1:
                return False
            turn = Term.of(THREAD[2])
            places.add(access.offset.substitute({ours[0]: turn + loops[ours[0]].start}))
        if len(places) != 1:
            return False
    return True


def _index(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Span | None:
    """What the kernel's one index is set to, if nothing else depends on which thread it is."""
    form = analysis.form
    wanted = Term.of(BLOCK[0]) * form.block[0] + Term.of(THREAD[0])
    name = form.names.get(wanted)
    for statement in (each for top in ctx.source.statements(function) for each in top.all()):
        if statement.kind == "declare" and statement.name == name and statement.value is not None:
            span, body = statement.value, function.body
            text = ctx.source.data
            rest = (text[body.start : span.start] + text[span.end : body.end]).decode()
            here = ctx.source.slice(span)
            aliases = re.findall(r"\b(\w+)\s*=\s*threadIdx\.x\s*;", rest)
            for alias in aliases:
                if len(re.findall(rf"\b{alias}\b", rest)) == 1 and re.search(rf"\b{alias}\b", here):
                    rest = re.sub(rf"\b{alias}\s*=\s*threadIdx\.x", "", rest)
            return span if not _PLACED.search(_without_comments(rest)) else None
    return None


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _launch(ctx: RuleContext, analysis: LaunchAnalysis) -> list[Edit]:
    """As many more blocks as an index has lanes."""
    launch = ctx.variant.launches[analysis.form.position]
    threads, warps = launch.block[0].text, analysis.sizes.threads // _WARP
    line = line_span(ctx, launch.line)
    shared = f"shared {launch.shared.text}{launch.args_text}"
    for _, extent, per in ceil_divs(ctx, launch):
        if same(per, threads) and warps in _WARPS and threads.isdigit():
            # The block's size is a knob from here on: grid and block follow it together.
            knob = fresh(ctx, "WARPS")
            text = f"// evo: launch {launch.kernel} grid (ceil_div({extent}, {knob})) block ({_WARP} * {knob}) {shared}"
            return [Edit(line, text), *new_knob(ctx, knob, _WARPS, warps)]
        if same(per, threads):
            text = (
                f"// evo: launch {launch.kernel} grid (ceil_div({extent}, {per} // {_WARP})) block ({threads}) {shared}"
            )
            return [Edit(line, text)]
    text, grid = ctx.source.slice(line), launch.grid[0].text
    return [Edit(line, text.replace(f"({grid})", f"(({grid}) * {_WARP})", 1))] if f"({grid})" in text else []


def _shared_out(ctx: RuleContext, shared: _Shared, lane: str) -> list[Edit] | None:
    """The loop in steps of a warp, and what the lanes combine behind it."""
    source, loop = ctx.source, shared.loop
    header = _HEADER.match(source.slice(loop.header))
    init = _INIT.match(header["init"]) if header is not None else None
    if header is None or init is None or source.is_bare(loop.span):
        return None
    start = init["value"].strip()
    first = lane if start == "0" else f"{start} + {lane}"
    text = f"for ({init['head'].lstrip()}{first};{header['test']}; {init['name']} += {_WARP}) "
    edits = [Edit(loop.header, text if source.slice(loop.header).endswith((" ", "\n")) else text.rstrip())]
    indent = indent_of(source, loop.span.start)
    for found in shared.reductions:
        combined = _combine(ctx, found)
        if combined is None:
            return None
        lines = "\n".join(f"{indent}{line}" for line in combined)
        edits.append(Edit(Span(loop.span.end, loop.span.end), f"\n{lines}"))
        if found.kind in _NEUTRAL and not _starts_neutral(found):
            above = source.above(loop.span)
            if above is None:
                return None
            edits.append(
                Edit(Span(above, above), f"{indent}if ({lane} > 0) {found.names[0]} = {_NEUTRAL[found.kind]};\n")
            )
    return edits


def _starts_neutral(found: Reduction) -> bool:
    initial: Data | None = found.carried[0].initial
    while initial is not None and initial.op in ("same", "convert"):
        initial = initial.args[0]
    wanted = float(_NEUTRAL[found.kind])
    if initial is None or initial.op not in ("constant", "index"):
        return False
    value = initial.detail.value if isinstance(initial.detail, Term) else initial.detail
    return isinstance(value, int | float) and float(value) == wanted


def _combine(ctx: RuleContext, found: Reduction) -> list[str] | None:
    """What all lanes have, in each of them."""
    step = fresh(ctx, "step")
    head = f"for (int {step} = {_WARP // 2}; {step} > 0; {step} /= 2)"
    names: Mapping[int, str] = dict(enumerate(found.names))

    def other(name: str) -> str:
        return f"__shfl_xor_sync(0xffffffffu, {name}, {step})"

    if found.kind in _COMBINED:
        return [f"{head} {_COMBINED[found.kind].format(names[0], other(names[0]))};"]
    theirs, word = fresh(ctx, "theirs"), fresh(ctx, "their_other")
    if found.kind in ("max", "min"):
        sign = ">" if found.kind == "max" else "<"
        return [
            f"{head} {{",
            f"    const auto {theirs} = {other(names[0])};",
            f"    {names[0]} = {theirs} {sign} {names[0]} ? {theirs} : {names[0]};",
            "}",
        ]
    both = [f"    const auto {theirs} = {other(names[0])};", f"    const auto {word} = {other(names[1])};"]
    if found.kind in ("argmax", "argmin"):
        sign = ">" if found.kind == "argmax" else "<"
        test = f"{theirs} {sign} {names[0]} || ({theirs} == {names[0]} && {word} < {names[1]})"
        return [f"{head} {{", *both, f"    if ({test}) {names[0]} = {theirs}, {names[1]} = {word};", "}"]
    if found.kind == "online_softmax":
        top = fresh(ctx, "top")
        mine = f"({names[0]} == {top} ? {names[1]} : {names[1]} * expf({names[0]} - {top}))"
        its = f"({theirs} == {top} ? {word} : {word} * expf({theirs} - {top}))"
        largest = f"    const auto {top} = {theirs} > {names[0]} ? {theirs} : {names[0]};"
        return [f"{head} {{", *both, largest, f"    {names[1]} = {mine} + {its};", f"    {names[0]} = {top};", "}"]
    return None


def _once(ctx: RuleContext, access: Access, lane: str) -> Edit | None:
    """A store outside the loops is the first lane's."""
    statement = ctx.source.enclosing_statement(access.span)
    text = ctx.source.slice(statement)
    if not text.endswith(";") or text.startswith(("return", "for", "if", "while", "do")) or statement == access.span:
        return None
    return Edit(Span(statement.start, statement.start), f"if ({lane} == 0) ")


RULES = (
    Rule(
        name="row_lanes",
        family="work",
        sentence="Gives each index a warp instead of a thread where a thread walks along memory alone: lanes take"
        " neighbouring elements, and shuffles combine their sums, maxima and best ones.",
        find=_find,
        examples=(Example.of_files("row_lanes"),),
        reason="threads that each walk a row of their own read addresses a row apart: one sector per element",
        expected="each fetched sector is used whole, and 32 times as many threads keep the memory busy",
        risk="short rows leave lanes idle; sums are added in another order",
        next_if_kept="wider loads, then values kept in registers between the loops",
        next_if_reverted="fewer passes over the row",
    ),
)
