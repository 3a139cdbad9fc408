"""Loops over the grid, one or one in another, as the single turn that they take where the grid covers the index.

`for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)` is seen as a test `if (i < n)`
behind a launch of as many blocks as the index needs: rules on the index of a thread then see it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evo.cuda.source import CountedFor, Edit, Function, Source, Span, Statement
from evo.operators.rules.directives import relaunched
from evo.operators.rules.rewriting import bare, indent_of, rewritten, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import index_in, kernels
from evo.spec.expr import parse
from evo.spec.variant import LaunchLine

_HEADLESS = re.compile(
    r"for\s*\(\s*;\s*(?P<name>\w+)\s*<(?P<limit>[^;{}=]+);\s*(?P=name)\s*\+=(?P<step>[^;{}]+)\)\s*\Z"
)
_LEAVES = re.compile(r"\b(?:break|continue|goto|return)\b|__sync|gridDim|_sync\b")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WHOLE = ("int", "unsigned", "unsigned int", "size_t", "long", "long long")
_WORD = re.compile(r"[\w.]+")
_CAST = re.compile(r"\(\s*(?:(?:unsigned|signed|long|int|size_t|u?int(?:32|64)_t)\s*)+\)\s*|static_cast<[\w ]+>(?=\()")


def one_turn(ctx: RuleContext) -> list[Edit]:
    """The edits that make of each loop over the grid at the end of a kernel a test, and of its grid a whole one."""
    return [edit for function, launch in kernels(ctx) for edit in _of_kernel(ctx, function, launch)]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One loop over an axis of the grid: what stands for its header, and for that axis in the launch line."""

    axis: str
    declared: str
    test: str
    extent: str
    names: frozenset[str]  # that its header alone may use


def _of_kernel(ctx: RuleContext, function: Function, launch: LaunchLine) -> Iterator[Edit]:
    source, tops = ctx.source, ctx.source.statements(function)
    if not tops or any("chip." in part.text for part in launch.grid):
        return  # a few blocks for each SM, which somebody chose
    loops = _nest(source, tops[-1])
    if not loops or source.is_bare(loops[0].span) or loops[-1].body_span is None:
        return
    body = source.slice(loops[-1].body_span)
    skips = [s.span for s in loops[-1].body for s in _of_this_loop(s) if source.slice(s.span).strip() == "continue;"]
    left = rewritten(source, loops[-1].body_span, [Edit(span, ";") for span in skips])
    turns = [_turn(ctx, function, launch, loop, tops) for loop in loops]
    found = [turn for turn in turns if turn is not None]
    axes = {turn.axis: turn for turn in found}
    if len(axes) < len(loops) or not (body.startswith("{") or len(loops) > 1) or _LEAVES.search(left):
        return
    if any(part.text != "1" and axis not in axes for axis, part in zip("xyz", launch.grid, strict=False)):
        return
    first, last = loops[0].header, loops[-1].header
    assert first is not None
    assert last is not None
    indent = f"\n{indent_of(source, first.start)}"
    declared = "".join(f"{turn.declared}{indent}" for turn in found if turn.declared)
    yield Edit(Span(first.start, last.end), f"{declared}if ({' && '.join(turn.test for turn in found)}) ")
    if len(loops) > 1 and loops[0].span.end > loops[1].span.end:
        yield Edit(Span(loops[1].span.end, loops[0].span.end), "")  # the braces around the second loop
    yield from (Edit(span, "return;") for span in skips)
    for word in sorted({name for turn in found for name in turn.names}):
        uses = [at for each, at in source.names(function.body) if each == word]
        uses = [at for at in uses if not any(loop.header is not None and loop.header.holds(at) for loop in loops)]
        only = next((s for s in tops if s.kind == "declare" and s.name == word), None)
        if only is not None and all(only.span.holds(at) for at in uses):  # nothing else uses it, which is an error
            yield Edit(with_its_line(source, only.span), "")
    block = dict(zip("xyz", (part.text for part in launch.block), strict=False))
    kept = dict(zip("xyz", (part.text for part in launch.grid), strict=False))
    kept |= {axis: f"ceil_div({turn.extent}, {block[axis]})" for axis, turn in axes.items()}
    yield relaunched(ctx, launch, grid=", ".join(kept.values()))


def _nest(source: Source, outer: Statement) -> list[Statement]:
    """A loop, and the one that is all that stands in it."""
    if outer.kind != "for" or outer.header is None:
        return []
    inner = outer.body[0] if len(outer.body) == 1 else None
    is_second = inner is not None and inner.header is not None and "gridDim" in source.slice(inner.header)
    return [outer, inner] if inner is not None and is_second else [outer]


def _turn(
    ctx: RuleContext, function: Function, launch: LaunchLine, loop: Statement, tops: tuple[Statement, ...]
) -> _Turn | None:
    source, header = ctx.source, _header(ctx, loop, tops)
    if header is None or loop.body_span is None:
        return None
    name, kind, start, limit, step = header
    declared = [s for s in tops[:-1] if s.kind == "declare" and s.value is not None]
    written = {s.name for top in tops for s in top.all() if s.kind == "assign"} | source.hidden_writes(function)
    constant = {s.name: source.slice(s.value) for s in declared if s.value is not None and s.name not in written}
    index = index_in(_CAST.sub("", _spelt(start, constant)))
    if index is None or index[0] != index[1] or "xyz".index(index[0]) >= min(len(launch.block), len(launch.grid)):
        return None
    axis = index[0]
    threads = {f"blockDim.{axis}", bare(launch.block["xyz".index(axis)].text)}
    factors = {bare(part) for part in bare(_CAST.sub("", _spelt(step, constant))).split("*")}
    extent = launch_words(ctx, function, limit)
    changed = source.changed_in(loop.body_span) | source.hidden_writes(function)
    changed -= {loop.body[0].name} if len(loop.body) == 1 and loop.body[0].kind == "for" else set()
    if extent is None or factors not in ({f"gridDim.{axis}", each} for each in threads) or name in changed:
        return None
    if bare(index[2]) not in threads or set(_NAME.findall(limit)) & changed:
        return None
    begins = set(_NAME.findall(start))  # stays where the loop declares its variable
    names = set(_NAME.findall(step)) - begins if kind else begins | set(_NAME.findall(step))
    return _Turn(axis, f"{kind} {name} = {start};" if kind else "", f"{name} < {limit}", extent, frozenset(names))


def _of_this_loop(statement: Statement) -> Iterator[Statement]:
    """A statement and those inside, without what stands in loops of their own."""
    yield statement
    for inner in (*statement.body, *statement.alternative) if statement.kind != "for" else ():
        yield from _of_this_loop(inner)


def _spelt(text: str, constant: Mapping[str, str]) -> str:
    """An expression with what its names were set to: a name, a number, or a product that is all there is."""
    whole = constant.get(text, text)
    return _NAME.sub(lambda word: said if _WORD.fullmatch(said := constant.get(word[0], word[0])) else word[0], whole)


def _header(ctx: RuleContext, loop: Statement, tops: tuple[Statement, ...]) -> tuple[str, str, str, str, str] | None:
    """The variable, its type if the loop declares it, its start, limit and step."""
    source = ctx.source
    assert loop.header is not None
    if isinstance(loop, CountedFor) and loop.relation == "<":
        head = re.match(r"for\s*\(\s*((?:const\s+)?[\w ]+?)\s+\w+\s*=", source.slice(loop.header))
        start, limit = source.slice(loop.start).strip(), source.slice(loop.limit).strip()
        return (loop.name, head[1], start, limit, loop.step) if head is not None else None
    match = _HEADLESS.match(source.slice(loop.header))
    before = [s for s in tops[:-1] if match is not None and s.name == match["name"]]
    if match is None or len(before) != 1 or before[0].kind != "declare" or before[0].value is None:
        return None
    return match["name"], "", source.slice(before[0].value).strip(), match["limit"].strip(), match["step"].strip()


def launch_words(ctx: RuleContext, function: Function, limit: str) -> str | None:
    """An integer expression over axes, or a name for one, in the words of a launch line; None for another."""
    limit = _CAST.sub("", limit)
    if not re.fullmatch(r"[\w\s*/+()-]+", limit) or not _NAME.search(limit):
        return None
    said: dict[str, str] = {}
    for name in _NAME.findall(limit):
        axis, value = ctx.axis_of(function, name), ctx.constant(function, name, _WHOLE)
        found = axis or (launch_words(ctx, function, value) if value not in (None, name) else None)
        if found is None and name in ctx.variant.integer_knobs:
            found = name
        if found is None and (number := ctx.source.integer(name)) is not None:
            found = str(number)
        if found is None and (found := ctx.passed(function, name)) is None:
            return None
        said[name] = found if found.isalnum() or limit.strip() == name else f"({found})"
    return _NAME.sub(lambda match: said[match[0]], re.sub(r"/+", "//", limit))


def derived_sizes(ctx: RuleContext, function: Function, place: int) -> dict[str, str]:
    """Sizes that a kernel works out in front of a statement, by its number, in the words of a launch line."""
    found: dict[str, str] = {}
    for each in ctx.source.statements(function)[:place]:
        said = launch_words(ctx, function, each.name) if each.kind == "declare" else None
        if said is not None:
            found[each.name] = plain_words(said)
    return found


def plain_words(text: str) -> str:
    """An expression of a launch line with the blanks and brackets that it needs."""
    return ast.unparse(parse(text).tree)
