"""Threads or blocks that walk what more could take at once: the turns of a loop become blocks, or threads of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.analysis.access import THREAD, Access, LaunchAnalysis, Loop, Symbol, number_of
from evo.cuda.source import CountedFor, Edit, Function, Span
from evo.operators.rules.directives import relaunched
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.one_turn import launch_words
from evo.operators.rules.rewriting import LEAVES, bare, bracketed, indent_of
from evo.operators.rules.rule import Application, Example, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import thread_indices
from evo.spec.comments import without_comments

_AXES = "xyz"
_FEW = 1024  # threads of an SM
_MOST = 65535  # blocks along y or z
_UNROLL = re.compile(rb"[ \t]*#[ \t]*pragma[ \t]+unroll[^\n]*\n(?=[ \t]*\Z)")


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    form, sizes = analysis.form, analysis.sizes
    if not analysis.legality.is_seen:
        return
    tops = ctx.source.statements(function)
    loop = tops[-1] if tops else None
    if not isinstance(loop, CountedFor):
        return
    is_alone = not (form.barriers or form.exchanges or form.shared)
    if is_alone and (edits := _threads_along(ctx, analysis, function, loop)):
        yield Application(
            edits=tuple(edits),
            summary=f"{function.name}: neighbouring threads take the turns over {loop.name}, a block what one had",
            arguments={"kernel": function.name, "loop": loop.name, "to": "threads"},
            is_schedule=True,
        )
    if sizes.blocks * sizes.threads >= _FEW * analysis.chip.sms:
        return
    if edits := _edits(ctx, analysis, function, loop):
        yield Application(
            edits=tuple(edits),
            summary=f"{function.name}: the turns over {loop.name} are blocks of their own",
            arguments={"kernel": function.name, "loop": loop.name},
            is_schedule=True,
        )


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, loop: CountedFor) -> list[Edit]:
    """None if a turn needs another one, or nothing says how many there are."""
    source, form = ctx.source, analysis.form
    launch = ctx.variant.launches[form.position]
    known = [each for each in form.loops.values() if each.span == loop.span and not each.calls]
    body, kind = source.slice(loop.body_span), loop.type.replace("const", "").strip()
    if len(known) != 1 or not kind or loop.relation != "<" or LEAVES.search(body) or known[0].carried:
        return []
    stores = [a for a in form.accesses if a.is_write and a.is_global]
    if not _is_apart(analysis, known[0]) or any(known[0].symbol not in a.loops for a in stores):
        return []
    grid = [part.text for part in launch.grid if part.text != "1"]
    limit = source.slice(loop.limit).strip()
    extent = launch_words(ctx, function, limit)
    if extent is None or len(grid) > 2 or loop.name in source.changed_in(loop.body_span):
        return []
    start, step, threads = source.slice(loop.start).strip(), bare(loop.step), launch.block[0].text
    head, indent = f"const {kind} {loop.name} = blockIdx", f"\n{indent_of(source, loop.span.start)}"
    words = {name for name, _ in source.names(loop.start)}
    is_set = not words & source.changed_in(loop.body_span)
    if is_set and step == "1" and (analysis.turns(known[0]) or 0) <= _MOST and "threadIdx" not in start:
        grid.append(extent)
        test = "" if start == "0" else f"if ({loop.name} >= {bracketed(start)}) "
        edits = [Edit(loop.header, f"{head}.{_AXES[len(grid) - 1]};{indent}{test}")]
    elif start == "threadIdx.x" and step in ("blockDim.x", bare(threads)):
        is_left = any(LEAVES.search(source.slice(s.span)) for s in source.statements(function)[:-1])
        if (
            is_left
            or form.barriers
            or form.exchanges
            or form.shared
            or (moved := _moved(ctx, function, loop, len(grid))) is None
        ):
            return []
        # Neighbouring threads stay along x, and so are the blocks that they are in.
        grid.insert(0, f"ceil_div({extent}, {threads})")
        said = f"{head}.x * {loop.step.strip()} + threadIdx.x;{indent}if ({loop.name} < {limit}) "
        edits = [*moved, Edit(loop.header, said)]
    else:
        return []
    return [*edits, *_without_pragma(ctx, function, loop), relaunched(ctx, launch, grid=", ".join(grid))]


def _is_apart(analysis: LaunchAnalysis, loop: Loop) -> bool:
    """Whether blocks may take the turns: none needs another, but for shared memory that each fills before it reads."""
    may = analysis.legality.parallel(loop)
    return bool(may.holds) or bool(may.buffers and all(d.array.space == "shared" for d in may.dependences))


def _threads_along(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, loop: CountedFor) -> list[Edit]:
    """A block for each index of a thread, and threads for the turns of its loop, whose stores are neighbours."""
    source, form = ctx.source, analysis.form
    index = next((each for each in thread_indices(ctx, whole=True) if each.function == function), None)
    known = [each for each in form.loops.values() if each.span == loop.span and not each.calls]
    kind = loop.type.replace("const", "").strip()
    if index is None or index.lanes or len(index.launch.grid) > 1 or len(index.launch.block) > 1 or len(known) != 1:
        return []
    is_counted = loop.relation == "<" and loop.step == "1" and source.slice(loop.start).strip() == "0"
    body = source.slice(loop.body_span)
    if not kind or not is_counted or known[0].carried or LEAVES.search(body) or not body.startswith("{"):
        return []
    extent = launch_words(ctx, function, source.slice(loop.limit).strip())
    if extent is None or loop.name in source.changed_in(loop.body_span):
        return []
    stores = [each for each in form.accesses if each.is_write and each.is_global]
    if not stores or not all(_lies_along(analysis, known[0].symbol, each) for each in stores):
        return []
    if not analysis.legality.parallel(known[0]).holds:
        return []
    head = f"const {kind} {loop.name} = blockIdx.y * blockDim.x + threadIdx.x;\n{indent_of(source, loop.span.start)}"
    assert index.statement.value is not None
    return [
        Edit(index.statement.value, "blockIdx.x"),
        *_without_pragma(ctx, function, loop),
        Edit(loop.header, f"{head}if ({loop.name} < {source.slice(loop.limit).strip()}) "),
        relaunched(ctx, index.launch, grid=f"{index.extent}, ceil_div({extent}, {index.threads})"),
    ]


def _without_pragma(ctx: RuleContext, function: Function, loop: CountedFor) -> list[Edit]:
    """What says how to unroll a loop says nothing once it is none."""
    found = _UNROLL.search(ctx.source.data[function.body.start : loop.span.start])
    if found is None:
        return []
    return [Edit(Span(function.body.start + found.start(), function.body.start + found.end()), "")]


def _lies_along(analysis: LaunchAnalysis, turn: Symbol, store: Access) -> bool:
    """Whether turns store next to each other, and neighbouring threads do not."""
    apart = store.offset.coefficient(THREAD[0])
    number = number_of(apart, analysis.sizes.values) if apart is not None else None
    along = store.offset.coefficient(turn)
    is_near = along is not None and along.value == store.memory.element_bytes
    return is_near and number is not None and abs(number) > 2 * store.bytes


def _moved(ctx: RuleContext, function: Function, loop: CountedFor, axes: int) -> list[Edit] | None:
    """The edits by which the blocks' axes are each the next one; None if there is no such axis, or they are looked at
    in another way.
    """
    source = ctx.source
    text = source.slice(function.body)
    others = (without_comments(source.slice(f.body)) for f in source.functions if f is not function)
    if axes > 2 or not text.isascii() or any(re.search(r"\bblockIdx\b|\bgridDim\b", each) for each in others):
        return None
    if re.search(r"\bgridDim\b|\bblockIdx\b(?!\.[xy]\b)", without_comments(text)):
        return None
    found = [(m.start() + function.body.start, m[1]) for m in re.finditer(r"\bblockIdx\.([xy])\b", text)]
    if any(_AXES.index(axis) >= axes or loop.header.holds(Span(at, at)) for at, axis in found):
        return None
    return [Edit(Span(at, at + len("blockIdx.x")), f"blockIdx.{_AXES[_AXES.index(axis) + 1]}") for at, axis in found]


RULES = (
    Rule(
        name="spread_loop",
        sentence="Makes blocks of the turns of a kernel's loop, where a few blocks walk what more could take at once,"
        " or threads, where each thread walks along what it stores.",
        find=behind_guard(by_launch(_find, once=True)),
        examples=(Example.of_files("spread_loop", axes=("N", "C", "P")),),
        reason="fewer threads than the chip holds walk one turn after the other, or neighbours store far apart",
        expected="as many more threads as the loop has turns",
        risk="blocks may become many and short",
        next_if_kept="lanes that share what a thread still walks",
        next_if_reverted="lanes for the loops inside",
    ),
)
