"""Loops over the grid as the single turn that they take where the grid covers the index.

`for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)` is seen as a test `if (i < n)`
behind a launch of as many blocks as the index needs: rules on the index of a thread then see it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from evo.cuda.source import CountedFor, Edit, Function, Statement
from evo.operators.rules.directives import relaunched
from evo.operators.rules.rewriting import bare, indent_of, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import index_in, kernels
from evo.spec.expr import parse
from evo.spec.variant import LaunchLine

_HEADLESS = re.compile(
    r"for\s*\(\s*;\s*(?P<name>\w+)\s*<(?P<limit>[^;{}=]+);\s*(?P=name)\s*\+=(?P<step>[^;{}]+)\)\s*\Z"
)
_LEAVES = re.compile(r"\b(?:break|continue|goto|return)\b|__sync|gridDim|_sync\b")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORD = re.compile(r"[\w.]+")


def one_turn(ctx: RuleContext) -> list[Edit]:
    """The edits that make of each loop over the grid at the end of a kernel a test, and of its grid a whole one."""
    return [edit for function, launch in kernels(ctx) for edit in _of_kernel(ctx, function, launch)]


def _of_kernel(ctx: RuleContext, function: Function, launch: LaunchLine) -> Iterator[Edit]:
    source, tops = ctx.source, ctx.source.statements(function)
    if not tops or len(launch.block) != 1 or any(part.text != "1" for part in launch.grid[1:]):
        return
    if "chip." in launch.grid[0].text:
        return  # a few blocks for each SM, which somebody chose
    loop = tops[-1]
    if loop.kind != "for" or loop.body_span is None or loop.header is None or source.is_bare(loop.span):
        return
    body = source.slice(loop.body_span)
    found = _header(ctx, loop, tops)
    if found is None or not body.startswith("{") or _LEAVES.search(body):
        return
    name, kind, start, limit, step = found
    declared = [s for s in tops[:-1] if s.kind == "declare" and s.value is not None]
    written = {s.name for top in tops for s in top.all() if s.kind == "assign"} | source.hidden_writes(function)
    constant = {s.name: source.slice(s.value) for s in declared if s.value is not None and s.name not in written}
    index = index_in(_spelt(start, constant))
    threads = {"blockDim.x", bare(launch.block[0].text)}
    factors = {bare(part) for part in bare(re.sub(r"\((?:int|size_t)\)", "", _spelt(step, constant))).split("*")}
    if index is None or index[:2] != ("x", "x") or bare(index[2]) not in threads:
        return
    extent = launch_words(ctx, function, limit)
    changed = source.changed_in(loop.body_span) | source.hidden_writes(function)
    if extent is None or factors not in ({"gridDim.x", each} for each in threads) or name in changed:
        return
    if set(_NAME.findall(limit)) & changed:
        return
    first = f"{kind} {name} = {start};\n{indent_of(source, loop.span.start)}" if kind else ""
    yield Edit(loop.header, f"{first}if ({name} < {limit}) ")
    for word in {*_NAME.findall(step), *(_NAME.findall(start) if not kind else ())}:
        uses = [at for each, at in source.names(function.body) if each == word and not loop.header.holds(at)]
        only = next((s for s in tops if s.kind == "declare" and s.name == word), None)
        if only is not None and all(only.span.holds(at) for at in uses):  # nothing else uses it, which is an error
            yield Edit(with_its_line(source, only.span), "")
    grid = f"ceil_div({extent}, {launch.block[0].text})"
    yield relaunched(ctx, launch, grid=grid)


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
    if not re.fullmatch(r"[\w\s*/+()-]+", limit) or not _NAME.search(limit):
        return None
    said: dict[str, str] = {}
    for name in _NAME.findall(limit):
        axis, value = ctx.axis_of(function, name), ctx.constant(function, name)
        found = axis or (launch_words(ctx, function, value) if value not in (None, name) else None)
        if found is None and name in ctx.variant.integer_knobs:
            found = name
        if found is None and (number := ctx.source.integer(name)) is not None:
            found = str(number)
        if found is None:
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
