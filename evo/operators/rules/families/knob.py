"""Knobs moved to another value of their domain, and literal block sizes turned into knobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import THREAD
from evo.analysis.access.data_values import accesses_in
from evo.cuda.source import Define, Edit, Function, Span
from evo.operators.rules.directives import directive_place, line_span, new_knob
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule import Application, Example, Rule, RuleContext
from evo.operators.rules.thread_index import ThreadIndex, kernels, thread_indices
from evo.spec.variant import Knob, LaunchLine

_WARP = 32
_SIZES = (32, 64, 128, 256, 512, 1024)
_SIDES = (1, 2, 4, 8, 16, 32, 64, 128)
_NUMBER = re.compile(rb"(?<![\w.])(\d+)[uU]?(?![\w.])")
_AXES = "xyz"
# `for (int s = 64; s > 0; s >>= 1)`, halved in any of its spellings
_HALVING = re.compile(
    rb"\b(\w+)\s*=\s*(\d+)[uU]?\s*;[^;{}]*;\s*\1\s*(?:>>=\s*1\b|/=\s*2\b|=\s*\1\s*(?:>>\s*1\b|/\s*2\b))"
)
_TREE_STEP = re.compile(rb"(?:\+|<=?|>=)\s*(\d+)[uU]?(?![\w.])")  # `tid < 64`, `buf[tid + 64]`


def _moves(ctx: RuleContext, knob: Knob) -> Iterator[Application]:
    """Every other value of the domain; rank is the distance within the domain as declared."""
    line = line_span(ctx, knob.line)
    text = ctx.source.slice(line)
    match = re.search(rf"\b{knob.name}\b(?:\s*=)?\s+(-?\w+)", text) or re.search(rf"\b{knob.name}\s*=\s*(-?\w+)", text)
    if match is None:
        return
    at = line.start + len(text[: match.start(1)].encode())
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


def _find_moves(ctx: RuleContext) -> Iterator[Application]:
    for knob in ctx.variant.knobs:
        yield from _moves(ctx, knob)


_MODE = (
    "// evo: knob MODE in fast, safe\nenum {{ fast, safe }};\nconstexpr int MODE = {};\n"
    "__device__ int mode() {{ return MODE; }}\n"
)

_PLACED = re.compile(r"\bblockIdx\.x\s*\*\s*blockDim\.x\b|\bblockDim\.x\s*\*\s*blockIdx\.x\b")  # by the launch alone


def _find_sizes(ctx: RuleContext) -> Iterator[Application]:
    if len(ctx.variant.launches) != 1:
        return  # several kernels may share a size, or what one leaves for the other
    for function, launch in kernels(ctx):
        if len(launch.block) == 1:
            yield from _find_line(ctx, function, launch)
    for index in thread_indices(ctx, whole=True):
        if len(index.launch.block) > 1 and not index.lanes:
            yield from _find_side(ctx, index)


def _find_line(ctx: RuleContext, function: Function, launch: LaunchLine) -> Iterator[Application]:
    """Blocks of one row: every place of the launch line and the kernel that says so many threads."""
    written = launch.block[0].text.strip()
    now = int(written) if written.isdigit() else 0
    if now % _WARP or now not in _SIZES:
        return
    line, body = line_span(ctx, launch.line), Span(function.span.start, function.body.end)
    planned, used = _numbers(ctx, line, now), _numbers(ctx, body, now)
    outside = _numbers(ctx, Span(0, len(ctx.source.data)), now)
    defines = [d for d in ctx.source.defines if re.fullmatch(rf"{now}[uU]?", d.value)]
    spans = [span for span in outside if not any(place.holds(span) for place in (line, body))]
    if len(defines) > 1 or any(not any(d.span.holds(span) for d in defines) for span in spans):
        return  # what else has that size is not known
    warps, text = now // _WARP, ctx.source.slice(body)
    if (warps > 2 and _numbers(ctx, body, warps)) or (warps == 1 and re.search(r"_sync\b|\blane", text)):
        return  # as many warps, written out, or a kernel for one
    halves = _halved(ctx, body, now)
    follows = any(str(now) in re.findall(r"\w+", part.text) for part in launch.grid)
    if _is_laid_out(ctx, function, now, follows=follows):
        return  # the threads of a block are a length of the problem
    if halves is None:
        return  # half as many threads, written out
    own = defines[0] if defines else None
    if own is None and _PLACED.search(text) and (used or (not follows and "gridDim" not in text)):
        return  # that number is something else in the kernel, or the grid would not follow
    is_told = bool(used or own or re.search(r"\bblockDim\.x\b", text) or len(planned) > 1)
    for place, value in enumerate(_nearest(_SIZES, now) if is_told else ()):
        name, edits = _size_knob(ctx, own, _SIZES, value)  # what is a `#define` already keeps its name
        yield Application(
            edits=(
                *edits,
                *(Edit(span, name) for span in (*planned, *used)),
                *(Edit(span, f"{name} / 2") for span in halves),
            ),
            summary=f"{function.name}: {now} -> {value} threads a block",
            arguments={"kernel": function.name, "from": now, "to": value},
            rank=place // 2,
        )


def _is_laid_out(ctx: RuleContext, function: Function, threads: int, *, follows: bool) -> bool:
    """Whether what is stored lies by threads of the block alone, in no loop that goes on by as many.

    follows: the grid covers what blocks leave out, so only what the threads before a thread have come to counts.
    """
    for form in (analysis.form for analysis, kernel in ctx.analysed() if kernel.name == function.name):
        shared = [a for a in form.accesses if a.array is not None and a.array.space == "shared"]
        writes = [a for a in shared if a.mode == "write"]
        met = {a.array for a in writes if any(read in shared for read in accesses_in(form, a.value))}
        strided = {loop.symbol for loop in form.loops.values() if (loop.step.value or 1) % threads == 0}
        whole = {a.array for a in shared if strided & {*a.loops}}
        for access in form.accesses:
            is_by_thread = access.is_write and THREAD[0] in access.offset.symbols()
            is_whole = bool(strided & {*access.loops})
            if is_by_thread and not is_whole and access.array in whole & met:
                return True  # threads have an element each of what they fill in turns of all of them
            is_by_thread &= access.is_global
            from_others = any(read.array in met or read.array is None for read in accesses_in(form, access.value))
            if is_by_thread and not is_whole and (not follows or (from_others and shared)):
                return True
    return False


def _halved(ctx: RuleContext, body: Span, threads: int) -> list[Span] | None:
    """Where loops over a tree begin with half the threads; None if a tree's step is written out anywhere else."""
    data, half = ctx.source.data, threads // 2
    if b"__shared__" not in data[body.start : body.end]:
        return []
    found = [Span(*m.span(2)) for m in _HALVING.finditer(data, body.start, body.end) if int(m[2]) == half]
    steps = [Span(*m.span(1)) for m in _TREE_STEP.finditer(data, body.start, body.end) if int(m[1]) == half]
    return None if any(span not in found and half > 1 for span in steps) else found


def _find_side(ctx: RuleContext, index: ThreadIndex) -> Iterator[Application]:
    """One side of a block of rows and columns, if nothing is shared among its threads."""
    body = ctx.source.slice(index.function.body)
    written = ctx.source.slice(index.threads_at)
    if not index.threads.isdigit() or re.search(r"__shared__|_sync", body) or int(index.threads) not in _SIDES:
        return
    if not (written.isdigit() or written == f"blockDim.{index.axis}"):
        return
    now, line = int(index.threads), line_span(ctx, index.launch.line)
    at = _side(ctx, line, _AXES.index(index.axis))
    other = [use for use in re.findall(r"\bblockDim\.[xyz]", body) if use == f"blockDim.{index.axis}"]
    if at is None or len(other) > (written == f"blockDim.{index.axis}"):
        return
    name = fresh(ctx, f"BLOCK_{index.axis.upper()}")
    for place, value in enumerate(_nearest(_SIDES, now)[:4]):
        yield Application(
            edits=(
                *new_knob(ctx, name, _SIDES, value),
                Edit(index.grid_at, f"ceil_div({index.extent}, {name})"),
                Edit(at, name),
                *([Edit(index.threads_at, name)] if written.isdigit() else []),
            ),
            summary=f"{index.function.name}: {now} -> {value} threads along {index.axis} of a block",
            arguments={"kernel": index.function.name, "axis": index.axis, "from": now, "to": value},
            rank=place // 2,
        )


def _nearest(sizes: Sequence[int], now: int) -> list[int]:
    """The other powers of two, the nearest first."""
    return sorted((size for size in sizes if size != now), key=lambda size: abs(size.bit_length() - now.bit_length()))


def _numbers(ctx: RuleContext, span: Span, wanted: int) -> list[Span]:
    """Where an integer stands in a span, remarks and directives but the launch line left out."""
    data = ctx.source.data
    found = []
    for match in _NUMBER.finditer(data, span.start, span.end):
        before = data[ctx.source.line_start(match.start()) : match.start()]
        is_remark = b"//" in before and not re.match(rb"\s*//\s*evo:\s*launch\b", before)
        if int(match[1]) == wanted and not is_remark:
            found.append(Span(match.start(), match.end()))
    return found


def _side(ctx: RuleContext, line: Span, place: int) -> Span | None:
    """The number in one part of a launch line's block."""
    match = re.search(r"\bblock\s*\(([^()]*)\)", ctx.source.slice(line))
    parts = match[1].split(",") if match is not None else []
    if match is None or place >= len(parts) or not parts[place].strip().isdigit():
        return None
    start = line.start + match.start(1) + sum(len(part) + 1 for part in parts[:place])
    start += len(parts[place]) - len(parts[place].lstrip())
    return Span(start, start + len(parts[place].strip()))


def _size_knob(ctx: RuleContext, own: Define | None, domain: Sequence[int], value: int) -> tuple[str, list[Edit]]:
    """A new knob, or the `#define` that says so many threads made one."""
    if own is None:
        name = fresh(ctx, "THREADS")
        return name, new_knob(ctx, name, domain, value)
    line = f"// evo: knob {own.name} in {', '.join(map(str, domain))}\n"
    at = Span(own.span.start, own.span.start + len(own.value.encode()))  # without what ends the line
    return own.name, [Edit(directive_place(ctx, ("knob", "macro", "task")), line), Edit(at, str(value))]


RULES = (
    Rule(
        name="knob",
        sentence="Moves one declared knob to another value of its domain, neighbours first.",
        find=_find_moves,
        examples=(
            Example(
                "// evo: knob BLOCK_N in 16, 32\n#define BLOCK_N 16\n",
                "// evo: knob BLOCK_N in 16, 32\n#define BLOCK_N 32\n",
            ),
            Example(_MODE.format("safe"), _MODE.format("fast")),
        ),
        reason="tile shapes and stages trade reuse against occupancy; only a measurement shows the best balance",
        expected="a better balance of reuse, latency hiding and occupancy",
        risk="more shared memory or registers per block can cost resident blocks",
        next_if_kept="the next value in the same direction",
        next_if_reverted="the other direction, or another knob",
    ),
    Rule(
        name="block_size",
        sentence="Turns a literal block size into a knob, with another value.",
        find=_find_sizes,
        reason="the block size decides how many warps an SM holds, and how large the last wave is",
        expected="more resident warps, or less waiting at barriers",
        risk="another use of the same number in the kernel may depend on it",
        next_if_kept="the next size",
        next_if_reverted="a size in the other direction",
    ),
)
