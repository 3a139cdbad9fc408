"""Tiles in shared memory: what the threads of a row or a column of a block all read is loaded once for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import CountedFor, Edit, Function, Source, Span, Statement, Subscript
from evo.operators.rules.directives import new_knob
from evo.operators.rules.element import BYTES
from evo.operators.rules.normal_form import behind_guard, guard_of, is_guard
from evo.operators.rules.reductions import shareable
from evo.operators.rules.rewriting import fresh, indent_of, indented, rewritten
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_TILES = (8, 16, 32, 64)
_SHARING = ("__shared__", "__sync", "_sync", "asm", "atomic", "goto", "[&", "[=")


@dataclass(frozen=True, slots=True)
class _TiledSum:
    """A kernel whose block has rows and columns of threads that walk one sum together."""

    function: Function
    row: ThreadIndex  # along threadIdx.y
    column: ThreadIndex  # along threadIdx.x
    bounds: tuple[str, str]
    tops: tuple[Statement, ...]
    loop: CountedFor
    reads: tuple[tuple[Subscript, bool], ...]  # each, and whether it is the same for a row (else for a column)


def _find(ctx: RuleContext) -> Iterator[Application]:
    indices = tuple(thread_indices(ctx))
    for row in indices:
        for column in indices:
            if row.function.name != column.function.name or (row.axis, column.axis) != ("y", "x"):
                continue
            walk = _tiled_sum(ctx, row, column)
            if walk is None:
                continue
            for value in (16, 32, 8):
                yield Application(
                    edits=tuple(_edits(ctx, walk, value)),
                    summary=f"{row.function.name}: {' and '.join(dict.fromkeys(use.name for use, _ in walk.reads))}"
                    f" through shared memory, {value} steps of {walk.loop.name} at a time",
                    arguments={"kernel": row.function.name, "to": value},
                    rank=0 if value == 16 else 1,
                )


def _tiled_sum(ctx: RuleContext, row: ThreadIndex, column: ThreadIndex) -> _TiledSum | None:
    source, function = ctx.source, row.function
    text = source.slice(function.body)
    if any(word in text for word in _SHARING) or len(row.launch.block) != 2 or row.lanes or column.lanes:
        return None
    tops = source.statements(function)
    found = [guard_of(source, tops, index.name) for index in (row, column)]
    guards = [top for top in tops if is_guard(top)]
    loops = [top for top in tops if top.kind == "for"]
    if None in found or len(guards) != 1 or len(loops) != 1:
        return None
    condition, (loop,) = guards[0].condition, loops
    if condition is None or source.slice(condition).count("||") != 1:
        return None
    if not isinstance(loop, CountedFor) or not loop.takes_each or source.slice(loop.start) != "0":
        return None
    stores = [top for top in tops if top.kind == "assign" and not top.name]
    rest = [top for top in tops if top not in (*guards, *stores, loop)]
    if not stores or any(not _is_own(source, top) or top.dims for top in rest):
        return None
    if any(s.kind == "return" for top in tops if top is not guards[0] for s in top.all()):
        return None
    by_row, by_column = _varying(source, tops, row), _varying(source, tops, column)
    limit = {name for name, _ in source.names(loop.limit)}
    shared = shareable(source, loop)
    if shared is None or shared.stores:
        return None
    totals = {reduction.name for reduction in shared.reductions}
    inside = {s.name for s in loop.all() if s.kind == "declare"} | totals
    if limit & (by_row | by_column):
        return None
    reads = []
    for use in source.subscripts(loop.body_span):
        names = {name for name, _ in source.names(use.span)}
        kind = source.element_type(function.name, use.name)
        if loop.name not in names or not use.is_read or len(use.indices) != 1 or names & inside or kind not in BYTES:
            continue
        is_shared = bool(names & by_row) != bool(names & by_column)
        if is_shared and not source.is_conditional(use.span, loop.body_span):
            reads.append((use, bool(names & by_row)))
    bounds = tuple(guard[1] for guard in found if guard is not None)
    return _TiledSum(function, row, column, (bounds[0], bounds[1]), tops, loop, tuple(reads)) if reads else None


def _edits(ctx: RuleContext, walk: _TiledSum, value: int) -> Iterator[Edit]:
    source, loop = ctx.source, walk.loop
    tile, start, at = fresh(ctx, "TILE"), fresh(ctx, f"{loop.name}_tile"), fresh(ctx, "at")
    heres = [fresh(ctx, f"{index.name}_here") for index in (walk.row, walk.column)]
    yield from new_knob(ctx, tile, _TILES, value)
    for index, here, bound in zip((walk.row, walk.column), heres, walk.bounds, strict=True):
        indent = indent_of(source, index.statement.span.start)
        text = f"const {index.kind} {here} = {index.value};\n"
        yield Edit(index.statement.span, f"{text}{indent}const {index.kind} {index.name} = min({here}, {bound} - 1);")
    inside = fresh(ctx, "inside")
    for top in walk.tops:
        if is_guard(top):
            tests = (f"{here} < {bound}" for here, bound in zip(heres, walk.bounds, strict=True))
            yield Edit(top.span, f"const bool {inside} = {' && '.join(tests)};")
        elif top.kind == "assign" and not top.name:
            yield Edit(top.span, f"if ({inside}) {source.slice(top.span)}")
    above = source.above(loop.span)
    if above is None:
        above = loop.span.start
    yield Edit(Span(above, loop.span.end), _loop(ctx, walk, tile, start, at, above))


def _loop(ctx: RuleContext, walk: _TiledSum, tile: str, start: str, at: str, above: int) -> str:
    source, loop = ctx.source, walk.loop
    indent, i, limit = indent_of(source, loop.span.start), loop.name, source.slice(loop.limit)
    inner, names, declared, filled, edits = indent + "    ", dict[str, str](), "", "", []
    for use, is_row in walk.reads:
        text = source.slice(use.span)
        if text not in names:
            name = fresh(ctx, f"{use.name}_tile")
            names[text] = name = f"{name}_{len(names) + 1}" if name in names.values() else name
            kind = source.element_type(walk.function.name, use.name)
            index, other = (walk.row, walk.column) if is_row else (walk.column, walk.row)
            mine = f"threadIdx.{index.axis}"
            dims = f"[{index.threads}][{tile}]" if is_row else f"[{tile}][{index.threads}]"
            place = f"[{mine}][{at}]" if is_row else f"[{at}][{mine}]"
            declared += f"{indent}__shared__ {kind} {name}{dims};\n"
            filled += (
                f"{inner}for (int {at} = threadIdx.{other.axis}; {at} < {tile}; {at} += {other.threads}) {{\n"
                f"{inner}    const int {i} = min({start} + {at}, {limit} - 1);\n"
                f"{inner}    {name}{place} = {text};\n{inner}}}\n"
            )
        step = f"[{i} - {start}]"
        place = f"[threadIdx.y]{step}" if is_row else f"{step}[threadIdx.x]"
        edits.append(Edit(use.span, f"{names[text]}{place}"))
    edits += [Edit(loop.start, start), Edit(loop.limit, f"min({limit}, {start} + {tile})")]
    walked = indented(rewritten(source, Span(above, loop.span.end), edits))
    return (
        f"{declared}{indent}for (int {start} = 0; {start} < {limit}; {start} += {tile}) {{\n{filled}"
        f"{inner}__syncthreads();\n{walked}\n{inner}__syncthreads();\n{indent}}}"
    )


def _varying(source: Source, tops: Sequence[Statement], index: ThreadIndex) -> set[str]:
    """Names that depend on the index, through values and through loops and tests that do."""
    found, before = {index.name}, 0
    own = {s.name for top in tops for s in top.all() if s.kind == "declare"}
    own |= {name for top in tops for s in top.all() if s.kind == "other" for name, _ in source.names(s.span)}
    while before != len(found):
        before = len(found)
        for top in tops:
            _spread(source, top, found, own, under=False)
    return found


def _spread(source: Source, statement: Statement, found: set[str], own: set[str], *, under: bool) -> None:
    names = {name for name, _ in source.names(statement.span)}
    if statement.kind == "declare" and names & found:
        found.add(statement.name)
    if statement.kind == "assign" and statement.target is not None and (under or names & found):
        found |= {source.names(statement.target)[0][0]} & own
    if statement.kind == "other" and names & found:
        found |= names
    head = statement.limit if isinstance(statement, CountedFor) else statement.condition
    under = under or (head is not None and bool({name for name, _ in source.names(head)} & found))
    for inner in (*statement.body, *statement.alternative):
        _spread(source, inner, found, own, under=under)


def _is_own(source: Source, statement: Statement) -> bool:
    """Whether a statement changes nothing but variables of the thread's own."""
    if statement.kind in ("declare", "empty") or (statement.kind == "assign" and statement.name):
        return True
    text = source.slice(statement.span)  # float a = 0, b = 0;
    return re.match(r"(const\s+)?(float|int)\s+\w+\s*=", text) is not None and not re.search(r"\*\s*\w+\s*=", text)


RULES = (
    Rule(
        name="stage_tiles",
        sentence="Loads what the rows and the columns of a block read in common into tiles in shared memory, a number"
        " of steps at a time.",
        find=behind_guard(_find),
        reason="each thread of a row, and of a column, loads the same elements from global memory",
        expected="as many times fewer loads from global memory as the block is wide and high",
        risk="two barriers per tile; the caches may have held the elements anyway",
        next_if_kept="several outputs per thread, read from the tiles",
        next_if_reverted="several outputs per thread instead",
    ),
)
