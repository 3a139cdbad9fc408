"""Blocks of two or three dimensions whose threads are only counted through, as rules know them: a row of threads.

`threadIdx.y * blockDim.x + threadIdx.x` is seen as `threadIdx.x` behind a launch of as many threads in one dimension,
which is how the hardware numbers them anyway. Axes change places where x has one thread, and blocks of one thread are
seen as the threads of larger ones. A kernel that looks at a thread's place in any other way stays as it is.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import BLOCK, THREAD, LaunchAnalysis, Term
from evo.cuda.source import CountedFor, Edit, Function, Source, Span, Statement
from evo.operators.rules.directives import relaunched, without_bounds
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted, in_c, with_axes
from evo.operators.rules.rewriting import bracketed, closed, fresh, merged
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments
from evo.spec.variant import LaunchLine

_AXES = "xyz"
_JOINED = 128  # blocks of one thread that are seen as one
_PLACED = re.compile(r"\b(?:threadIdx|blockDim)\b")
_HIDDEN = re.compile(r"\b(?:threadIdx|blockDim|asm|cooperative_groups|this_thread_block)\b")
_BLOCKS = re.compile(r"\b(?:blockIdx|gridDim)\b")
_THREADS = re.compile(r"\bblockDim\s*\.\s*[xyz](?:\s*\*\s*blockDim\s*\.\s*[xyz])+")


def flat_blocks(ctx: RuleContext) -> list[Edit]:
    """The edits that number the threads of such blocks along x, in all kernels that have some."""
    found: list[Edit] = []
    for analysis, function in ctx.analysed(once=True):
        launch = ctx.variant.launches[analysis.form.position]
        if analysis.sizes.threads == 1:
            with contextlib.suppress(NotPrinted):
                found += joined_threads(ctx, analysis, function, _JOINED)
        elif len(launch.block) > 1:
            found += _turned(ctx, analysis, function, launch) or _of_kernel(ctx, analysis, function, launch)
    return found


def joined_threads(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, count: int) -> list[Edit]:
    """The edits that make of so many blocks of one thread each a block of as many threads along x, or none.

    Raises NotPrinted.
    """
    form, sizes, source = analysis.form, analysis.sizes, ctx.source
    launch = ctx.variant.launches[form.position]
    at = max(range(len(launch.grid)), key=lambda axis: sizes.grid[axis])
    if sizes.threads > 1 or sizes.grid[at] == 1 or form.barriers or form.shared or form.exchanges:
        return []
    text, place = source.slice(function.body), f"blockIdx.{_AXES[at]}"
    index, axes = f"{place} * blockDim.x + threadIdx.x", launch.grid[at].names & {*ctx.declared.axes}
    names, given, arguments = with_axes(ctx, function, launch, axes)
    extent = in_c(launch.grid[at].tree, names)
    extent = extent[1:-1] if extent.startswith("(") and closed(extent, 0) == len(extent) else extent
    tops, name = source.statements(function), form.names.get(Term.of(BLOCK[at]), "")
    said = next((s for s in tops if s.kind == "declare" and s.name == name and s.value is not None), None)
    is_fixed = sum(s.name == name for s in source.inside(function)) == 1 and name not in source.hidden_writes(function)
    if said is not None and said.value is not None and is_fixed and not _uses(source, function, place, said):
        edits, behind = [Edit(said.value, index)], said.span.end
    else:
        name, behind = fresh(ctx, "item"), function.body.start + 1
        edits = [Edit(Span(behind, behind), f"\n    const int {name} = {index};")]
        edits += [Edit(span, name) for span in _places(source, function, place)]
    blocks = _places(source, function, f"gridDim.{_AXES[at]}")
    edits += [Edit(span, _as_factor(source, span, extent)) for span in blocks]
    if not re.search(rf"\b{name}\s*(?:<|>=)\s*{re.escape(extent)}(?!\w)", text):
        edits.append(Edit(Span(behind, behind), f"\n    if ({name} >= {extent}) return;"))
    if _hides(ctx, function, edits, rf"\b(?:threadIdx|blockDim|asm|gridDim\.{_AXES[at]})\b"):
        return []
    grid = [part.text for part in launch.grid]
    grid[at] = f"ceil_div({grid[at]}, {count})"
    line = relaunched(ctx, launch, grid=", ".join(grid), block=str(count), arguments=arguments)
    return [*given, *merged(edits), line, *without_bounds(function)]


def _as_factor(source: Source, span: Span, extent: str) -> str:
    """How many blocks there were, where a kernel asks for it: elsewhere than in a product it has no sign."""
    before, after = (part.strip() for part in (source.data[: span.start], source.data[span.end :]))
    return bracketed(extent) if before.endswith(b"*") or after.startswith(b"*") else f"(unsigned){bracketed(extent)}"


def _uses(source: Source, function: Function, place: str, besides: Statement) -> bool:
    return any(not besides.span.holds(span) for span in _places(source, function, place))


def _places(source: Source, function: Function, word: str) -> list[Span]:
    """Where a kernel's body has `blockIdx.x` or such."""
    first, pattern = function.body.start, re.escape(word).replace(r"\.", r"\s*\.\s*")
    found = re.finditer(rf"\b{pattern}\b", without_comments(source.slice(function.body)))
    return [Span(first + match.start(), first + match.end()) for match in found]


def _turned(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, launch: LaunchLine) -> list[Edit]:
    """x and the one axis with several threads as each other: the order of threads stays."""
    wide = [at for at, size in enumerate(analysis.sizes.block) if size > 1]
    if len(wide) != 1 or wide[0] == 0 or analysis.sizes.grid[wide[0]] == 1 or _hides(ctx, function, [], r"\basm\b"):
        return []
    other, turned = _AXES[wide[0]], {"x": _AXES[wide[0]], _AXES[wide[0]]: "x"}
    edits = [
        Edit(span, f"{word}.{turned[axis]}")
        for word in ("threadIdx", "blockDim", "blockIdx", "gridDim")
        for axis in ("x", other)
        for span in _places(ctx.source, function, f"{word}.{axis}")
    ]
    shapes = []
    for shape in (launch.grid, launch.block):
        parts = [part.text for part in shape] + ["1"] * (wide[0] + 1 - len(shape))
        parts[0], parts[wide[0]] = parts[wide[0]], parts[0]
        while len(parts) > 1 and parts[-1] == "1":
            parts.pop()
        shapes.append(", ".join(parts))
    return [*edits, relaunched(ctx, launch, grid=shapes[0], block=shapes[1])]


def _hides(ctx: RuleContext, function: Function, edits: Sequence[Edit], words: str) -> bool:
    """Whether a function or a macro may ask where a thread is, or the kernel in other words than those edited."""
    bodies = [f.body for f in ctx.source.functions if f.is_kernel]
    beside = without_comments(_between(ctx, Span(0, len(ctx.source.data)), bodies))
    if _BLOCKS.search(beside) or _HIDDEN.search(
        "\n".join(line for line in beside.splitlines() if "__launch_bounds__" not in line)
    ):
        return True
    rest = without_comments(_between(ctx, function.body, [edit.span for edit in edits]))
    return re.search(words, rest) is not None or not ctx.source.data.isascii()


def _of_kernel(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, launch: LaunchLine) -> list[Edit]:
    source = ctx.source
    bodies = [f.body for f in source.functions if f.is_kernel]
    beside = without_comments(_between(ctx, Span(0, len(source.data)), bodies))
    if _HIDDEN.search("\n".join(line for line in beside.splitlines() if "__launch_bounds__" not in line)):
        return []  # a function or a macro that may ask where a thread is
    inside = source.inside(function)
    edits = [*_indices(ctx, analysis, inside)]
    edits += _products(ctx, function, [edit.span for edit in edits], tuple(part.text for part in launch.block))
    edits = without_unused(ctx, function, function.body, edits)
    rest = without_comments(_between(ctx, function.body, [edit.span for edit in edits]))
    is_thin = all(part.text == "1" for part in launch.block[1:])
    if re.search(r"\b(?:threadIdx|blockDim)\b(?!\s*\.\s*x\b)|\basm\b", rest) or (not is_thin and _PLACED.search(rest)):
        return []
    return [*edits, relaunched(ctx, launch, block=_threads(launch))]


def _threads(launch: LaunchLine) -> str:
    parts = [part.text.strip() for part in launch.block if part.text.strip() != "1"]
    if all(part.isdigit() for part in parts):
        return str(math.prod(map(int, parts)))
    return " * ".join(map(bracketed, parts)) if len(parts) > 1 else parts[0]


def _indices(ctx: RuleContext, analysis: LaunchAnalysis, inside: Sequence[Statement]) -> Iterator[Edit]:
    """What is set to a thread's number in its block, or in the grid along one axis of that, spelt along x."""
    form = analysis.form
    said = {name: term for term, name in form.names.items()}
    number, threads = Term.number(0), Term.number(1)
    for symbol, size in zip(THREAD, form.block, strict=True):
        if size.value != 1:  # of one thread the form knows that it is the first
            number += Term.of(symbol) * threads
        threads *= size
    texts = {number: "threadIdx.x"}
    for symbol, axis in zip(BLOCK, _AXES, strict=True):
        texts[number + Term.of(symbol) * threads] = f"blockIdx.{axis} * blockDim.x + threadIdx.x"
    placed: set[str] = set()
    for statement in inside:
        value = statement.start if isinstance(statement, CountedFor) else statement.value
        if statement.kind not in ("declare", "for") or value is None or statement.dims:
            if statement.kind == "other" and _PLACED.search(ctx.source.slice(statement.span)):
                placed.update(ctx.source.declared(statement.span))
            continue
        words = set(re.findall(r"\w+", ctx.source.slice(value)))
        if words & ({"threadIdx", "blockDim"} | placed):
            placed.add(statement.name)
            text = texts.get(said.get(statement.name, Term.number(0)))
            if text is not None and sum(each.name == statement.name for each in inside) == 1:
                yield Edit(value, text)


def _products(ctx: RuleContext, function: Function, edited: Sequence[Span], block: tuple[str, ...]) -> Iterator[Edit]:
    """`blockDim.x * blockDim.y` as the number of threads that it is."""
    wanted = {axis for axis, size in zip(_AXES, block, strict=False) if size != "1"}
    text = ctx.source.slice(function.body)
    for match in _THREADS.finditer(text) if text.isascii() else ():
        span = Span(function.body.start + match.start(), function.body.start + match.end())
        axes = re.findall(r"blockDim\s*\.\s*([xyz])", match[0])
        if wanted <= set(axes) and len(set(axes)) == len(axes) and not any(each.holds(span) for each in edited):
            yield Edit(span, "blockDim.x")


def _between(ctx: RuleContext, whole: Span, spans: Sequence[Span]) -> str:
    """A stretch of text without some of its parts."""
    data, last = b"", whole.start
    for span in sorted(each for each in spans if whole.holds(each)):
        data, last = data + ctx.source.data[last : span.start] + b" ", max(last, span.end)
    return (data + ctx.source.data[last : whole.end]).decode()
