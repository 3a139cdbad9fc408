"""Indices that a block has as a whole, `co = blockIdx.z` or a part of it, where several may be one block's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.directives import line_span
from evo.operators.rules.lifting import names_of
from evo.operators.rules.one_turn import derived_sizes, launch_words, plain_words
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, kernels
from evo.spec.comments import without_comments
from evo.spec.expr import parse
from evo.spec.variant import LaunchLine

_PART = re.compile(r"(?:\(int\)\s*)?blockIdx\.(?P<axis>[xyz])(?:\s*(?P<sign>[/%])\s*(?P<by>\w+))?")
_TYPES = ("int", "unsigned", "unsigned int")


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """An index of a whole block as one of its threads, whose extent is 1, and what its bound is called.

    by: the divisor that takes it out of the block's number, and where it stands, if there are fewer of them then.
    """

    index: ThreadIndex
    bound: str
    by: str = ""
    divisors: tuple[Span, ...] = ()

    def edits(self, knob: str) -> list[Edit]:
        """Blocks for every so many values, in the launch line and in the kernel."""
        start = self.index.threads_at
        made = [Edit(self.index.grid_at, f"ceil_div({self.index.extent}, {knob})"), Edit(start, f" * {knob}")]
        return [*made, *(Edit(span, f"(({self.by} + {knob} - 1) / {knob})") for span in self.divisors)]


def block_indices(ctx: RuleContext) -> Iterator[BlockIndex]:
    """All of the kernels that one launch line starts, whose block has nothing else to do with that number."""
    for function, launch in kernels(ctx):
        statements = ctx.source.statements(function)
        for place, statement in enumerate(statements):
            if statement.kind == "declare" and statement.value is not None and not statement.dims:
                kind = " ".join(word for word in statement.type.split() if word != "const")
                if kind in _TYPES and (found := _index(ctx, function, launch, statement, place)) is not None:
                    yield found


def _index(
    ctx: RuleContext, function: Function, launch: LaunchLine, statement: Statement, place: int
) -> BlockIndex | None:
    assert statement.value is not None
    value = ctx.source.slice(statement.value).strip()
    match = _PART.fullmatch(value)
    at = "xyz".index(match["axis"]) if match is not None else 3
    if match is None or at >= len(launch.grid) or re.search(r"\bgridDim\b", ctx.source.slice(function.body)):
        return None
    uses = _uses(ctx, function, match["axis"])
    signs = [sign for sign, _, _ in uses]
    if {by for _, by, _ in uses} != {match["by"] or ""} or signs.count(match["sign"] or "") != 1:
        return None
    sizes = {text: name for name, text in derived_sizes(ctx, function, place).items()} | names_of(ctx, function)
    factors = _factors(ctx, launch, at)
    divisor = launch_words(ctx, function, match["by"]) if match["by"] else None
    inner = [text for _, text in factors if divisor is not None and text == plain_words(divisor)]
    mine = [each for each in factors if (each[1] in inner) == (match["sign"] == "%")]
    if len(mine) != 1 or len(inner) != bool(match["by"]) or mine[0][1] not in sizes:
        return None
    (span, extent), end = mine[0], statement.value.start + len(ctx.source.slice(statement.value).rstrip().encode())
    index = ThreadIndex(
        name=statement.name,
        axis="block",
        function=function,
        launch=launch,
        statement=statement,
        place=place,
        value=value,
        threads="1",
        threads_at=Span(end, end),
        lanes="",
        extent=extent,
        grid_at=span,
    )
    is_inner = match["sign"] == "%"
    return BlockIndex(index, sizes[extent], match["by"] if is_inner else "", tuple(u[2] for u in uses if is_inner))


def _uses(ctx: RuleContext, function: Function, axis: str) -> list[tuple[str, str, Span]]:
    """The sign and the divisor behind each mention of the block's number, and where the divisor stands."""
    text, start = ctx.source.slice(function.body), function.body.start
    if not text.isascii() or len(re.findall(rf"blockIdx\.{axis}", without_comments(text))) != text.count(
        f"blockIdx.{axis}"
    ):
        return []
    found = []
    for match in re.finditer(rf"blockIdx\.{axis}(?:\s*(?P<sign>[/%])\s*(?P<by>\w+)\b)?", text):
        at = Span(start + match.start("by"), start + match.end("by")) if match["by"] else Span(0, 0)
        found.append((match["sign"] or "", match["by"] or "", at))
    return found


def _factors(ctx: RuleContext, launch: LaunchLine, at: int) -> list[tuple[Span, str]]:
    """The factors of a part of the grid, each with its place in the launch line; none where that is not plain."""
    line, part = line_span(ctx, launch.line), launch.grid[at].text
    text = ctx.source.slice(line)
    whole = f"grid ({', '.join(each.text for each in launch.grid)})"
    if text.count(whole) != 1 or not text.isascii():
        return []
    before = "".join(f"{each.text}, " for each in launch.grid[:at])
    start = line.start + text.index(whole) + len("grid (") + len(before)

    def split(tree: ast.expr) -> Iterator[tuple[Span, str]]:
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
            yield from split(tree.left)
            yield from split(tree.right)
        else:
            assert tree.end_col_offset is not None
            here = Span(start + tree.col_offset, start + tree.end_col_offset)
            yield here, ast.unparse(tree)

    return list(split(ast.parse(part, mode="eval").body)) if parse(part).text == part else []
