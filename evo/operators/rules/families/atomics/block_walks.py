"""A block that adds up in shared memory and hands its part on once takes the elements of many blocks before that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import BLOCK, Access, Array, Condition, LaunchAnalysis
from evo.analysis.access.data_values import read_of
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.families.atomics.combining import (
    RESIDENT,
    Combining,
    combining,
    fewer_blocks,
    over_a_warp,
    statements,
    strides,
)
from evo.operators.rules.lifting import NotPrinted, in_c, is_zero, named, names_of, taken
from evo.operators.rules.rewriting import indent_of, indented, rewritten, with_its_line
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_BLOCK = re.compile(r"\bblockIdx\.x\b")
_GRID = re.compile(r"\b(?:blockIdx|gridDim)\b")
_LEAVES = re.compile(r"\b(?:return|goto|asm)\b")


@dataclass(frozen=True, slots=True)
class _Parts:
    """The statements of a kernel: what is set up, what adds up between the first and the last barrier, and the rest.

    sums: shared arrays that the middle adds to by atomics, and how.
    """

    function: Function
    analysis: LaunchAnalysis
    head: tuple[Statement, ...]
    middle: tuple[Statement, ...]
    tail: tuple[Statement, ...]
    sums: dict[Array, Combining]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    parts = _parts(ctx, analysis, function)
    if parts is not None:
        yield Application(
            edits=tuple(_edits(ctx, parts)),
            summary=f"{function.name}: a block adds up the elements of many before it hands its part on",
            arguments={"kernel": function.name},
            is_schedule=True,
        )


def _parts(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Parts | None:
    form, sizes = analysis.form, analysis.sizes
    if sizes.block[1:] != (1, 1) or sizes.grid[1:] != (1, 1) or form.exchanges or form.multiplies:
        return None
    if any(barrier.context or barrier.scope != "block" for barrier in form.barriers):
        return None
    tops = ctx.source.statements(function)
    meets = [at for at, top in enumerate(tops) if any(top.span.holds(b.span) for b in form.barriers)]
    if len(meets) != 2 or len(form.barriers) != 2 or any(access.calls for access in form.accesses):
        return None
    head, middle, tail = tops[: meets[0]], tops[meets[0] + 1 : meets[1]], tops[meets[1] + 1 :]
    sums = _sums(ctx, analysis, middle)
    added = [access.span for array in sums for access in form.of(array) if access.mode == "atomic"]
    if any(not any(span.holds(part.span) for span in added) for part in form.blocked):
        return None  # which element of a block's own sums may be any
    if not sums or not all(_is_set_up(access, sums) for access in _of(analysis, head)):
        return None
    if not all(_hands_on(ctx, analysis, access, sums) for access in _of(analysis, tail)):
        return None
    return _Parts(function, analysis, head, middle, tail, sums)


def _of(analysis: LaunchAnalysis, part: Sequence[Statement]) -> list[Access]:
    """The accesses of some statements."""
    return [a for a in analysis.form.accesses if any(statement.span.holds(a.span) for statement in part)]


def _sums(ctx: RuleContext, analysis: LaunchAnalysis, middle: Sequence[Statement]) -> dict[Array, Combining]:
    """All shared arrays, if the middle only adds to them; else nothing."""
    found: dict[Array, Combining] = {}
    for array in analysis.form.shared:
        inside = [access for access in _of(analysis, middle) if access.array == array]
        how = combining(ctx, inside[0]) if inside and inside[0].mode == "atomic" else None
        if how is None or any(a.mode != "atomic" or a.operation != inside[0].operation for a in inside):
            return {}
        found[array] = how
    return found


def _is_set_up(access: Access, sums: dict[Array, Combining]) -> bool:
    """Whether an access in front of the first barrier begins a sum, or only reads what no block writes."""
    if access.array in sums:
        how = sums[access.array]
        return access.mode == "write" and (how.neutral != "0" or is_zero(access.value))
    return access.mode == "read"


def _hands_on(ctx: RuleContext, analysis: LaunchAnalysis, access: Access, sums: dict[Array, Combining]) -> bool:
    """Whether an access behind the last barrier reads a sum, or adds it to an element of all blocks."""
    if BLOCK[0] in access.offset.symbols() or access.array is None:
        return False
    if access.array in sums:
        return access.mode == "read"
    added = read_of(analysis.form, access.value)
    how = combining(ctx, access) if access.mode == "atomic" else None
    if added is None or how is None or added.array not in sums or sums[added.array].atomic != how.atomic:
        return False
    tests = [part for part in access.context if isinstance(part, Condition)]
    return all(symbol.kind in ("thread", "axis", "loop") for test in tests for symbol in test.symbols())


def _edits(ctx: RuleContext, parts: _Parts) -> list[Edit]:
    """Raises NotPrinted."""
    source, analysis = ctx.source, parts.analysis
    whole = Span(source.line_start(parts.middle[0].span.start), parts.middle[-1].span.end)
    first, last, added = _in_registers(ctx, parts)
    body = rewritten(source, whole, added)
    indent = indent_of(source, parts.middle[0].span.start)
    moved = _moved(ctx, parts)
    edits = [Edit(with_its_line(source, statement.span), "") for statement in moved]
    fewer = fewer_blocks(ctx, analysis)
    if not first and analysis.sizes.blocks * analysis.sizes.threads <= RESIDENT * analysis.chip.sms:
        raise NotPrinted("as many blocks as before")
    if strides(analysis, source.slice(parts.function.body)):
        edits, text = [fewer], body
    else:
        head = "".join(f"{indent}{source.slice(statement.span)}\n" for statement in moved)
        edits, text = [*edits, fewer], _around(ctx, parts, indent, head + body)
    lines = [f"{indent}{line}\n" for line in first] + [text] + [f"\n{indent}{line}" for line in last]
    own = {name for name, _ in source.names(parts.function.span)} | set(source.declared(parts.function.span))
    own |= taken(ctx, names_of(ctx, parts.function))
    return [*edits, Edit(whole, named("".join(lines), own))]


def _around(ctx: RuleContext, parts: _Parts, indent: str, inside: str) -> str:
    """A loop over the blocks that there were. Raises NotPrinted."""
    grid = ctx.variant.launches[parts.analysis.form.position].grid[0]
    blocks = in_c(grid.tree, names_of(ctx, parts.function))
    blocks = blocks[1:-1] if blocks.startswith("((") else blocks
    if _GRID.search(_BLOCK.sub("", inside)) or _LEAVES.search(inside) or grid.text.isdigit():
        raise NotPrinted("a block's place in another form")
    head = f"{indent}for (int $block = blockIdx.x; $block < {blocks}; $block += gridDim.x) {{"
    return f"{head}\n{indented(_BLOCK.sub('$block', inside))}\n{indent}}}"


def _moved(ctx: RuleContext, parts: _Parts) -> list[Statement]:
    """Declarations of the head that follow from the block's number, if nothing but the middle uses them."""
    names: set[str] = set()
    found: list[Statement] = []
    for top in parts.head:
        text = ctx.source.slice(top.span)
        if not _GRID.search(text) and not names & top.reads:
            continue
        if top.kind != "declare" or top.dims:
            raise NotPrinted("a block's number in front of the first barrier")
        names.add(top.name)
        found.append(top)
    mine = names | {top.name for top in parts.middle if top.kind == "declare"}
    if any(mine & top.reads or _GRID.search(ctx.source.slice(top.span)) for top in parts.tail):
        raise NotPrinted("a block's number behind the last barrier")
    return found


def _in_registers(ctx: RuleContext, parts: _Parts) -> tuple[list[str], list[str], list[Edit]]:
    """A register for each sum that is one element: lines in front of the middle and behind it, and edits in it."""
    first: list[str] = []
    last: list[str] = []
    edits: list[Edit] = []
    if parts.analysis.sizes.threads % 32:
        return first, last, edits
    for array, how in parts.sums.items():
        if any(extent.value != 1 for extent in array.shape):
            continue
        own = f"$own_{array.name}"
        made = list(statements(ctx, [a for a in _of(parts.analysis, parts.middle) if a.array == array]))
        first.append(f"{array.element} {own} = {how.neutral};  // this thread's part of {array.name}")
        last += over_a_warp(own, how, made[0][1])
        edits += [Edit(span, how.statement.format(own, value)) for span, _, value in made]
    return first, last, edits


RULES = (
    Rule(
        name="block_walks",
        sentence="Lets a block that adds up in shared memory take the elements of many blocks before it hands its part"
        " on; a sum of one element is kept in registers.",
        find=by_launch(_find),
        reason="each block sets its sums up, waits and adds them to memory that all blocks share, for a few elements",
        expected="as many fewer atomics of all blocks, and no atomics in shared memory for single sums",
        risk="floats are added in another order",
        next_if_kept="wide loads, or several elements for each thread",
        next_if_reverted="more threads for each block",
    ),
)
