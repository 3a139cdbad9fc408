"""A tile with a border, and several rows of results for each thread: what neighbours share is read once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evo.analysis.access import THREAD, Access, LaunchAnalysis
from evo.cuda.source import CountedFor, Edit, Span, Statement
from evo.operators.rules.directives import new_knob
from evo.operators.rules.families.tile.halo import ROOM, Dim, box_of, replaced_reads, staged
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.loops import unrolled
from evo.operators.rules.normal_form import behind_guard, is_guard
from evo.operators.rules.rewriting import fresh, indent_of, indented, merged, rewritten, with_its_line
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_ROWS = (2, 4, 8)
_Y = THREAD[1]


def _find(ctx: RuleContext) -> Iterator[Application]:
    indices = [index for index in thread_indices(ctx) if index.axis == "y" and not index.lanes]
    for analysis in ctx.launches if indices else ():
        index = next((i for i in indices if i.function.name == analysis.form.kernel), None)
        if index is None or any(array.space == "shared" for array in analysis.form.arrays):
            continue
        name = analysis.form.kernel
        for rank, rows in enumerate(reversed(_ROWS)):
            try:
                edits = _edits(ctx, analysis, index, rows)
            except NotPrinted:
                continue
            yield Application(
                edits=tuple(edits),
                summary=f"{name}: a staged tile with its border, {rows} rows of results for each thread",
                arguments={"kernel": name, "to": rows},
                rank=rank,
                is_schedule=True,
            )


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, index: ThreadIndex, rows: int) -> list[Edit]:
    """Raises NotPrinted."""
    source, form, function = ctx.source, analysis.form, index.function
    found = [(array, box_of(ctx, analysis, array)) for array in form.tensors if array.role == "in"]
    boxes = [(array, dims) for array, dims in found if dims is not None and any(_Y in dim.walked for dim in dims)]
    if len(boxes) != 1:
        raise NotPrinted("no one tensor is read with a border")
    (array, dims) = boxes[0]
    more = analysis.sizes.block[1] * (rows - 1)
    elements = math.prod(dim.count + (more if _Y in dim.walked else 0) for dim in dims)
    if elements * array.element_bytes > ROOM:
        raise NotPrinted("the tile is too large")
    others = [access for access in form.accesses if access.array is not array]
    if any(not access.is_write and _is_placed(access) for access in others):
        raise NotPrinted("something else is read at the place of a thread")
    statements = source.statements(function)
    place = next((at for at, each in enumerate(statements) if is_guard(each)), None)
    if place is None or place < index.place:
        raise NotPrinted("no guard behind the index")
    guard, rest = statements[place], statements[place + 1 :]
    text = source.slice(Span(rest[0].span.start, rest[-1].span.end)) if rest else ""
    kept = source.changed_in(Span(rest[0].span.start, rest[-1].span.end)) if rest else frozenset[str]()
    if form.barriers or form.exchanges or re.search(r"\b(?:return|goto|static)\b", text):
        raise NotPrinted("it waits, or ends early")
    if kept & {each.name for each in statements[:place] if each.kind in ("declare", "other")}:
        raise NotPrinted("a row would see what another has left")
    between = [each for each in statements[index.place + 1 : place] if index.name in each.reads]
    if between or not rest:
        raise NotPrinted("it looks at its row before the guard")
    knob, row = fresh(ctx, f"{index.name.upper()}_ROWS"), fresh(ctx, "row_of")
    tall = [_taller(dim, index, knob) for dim in dims]
    head = _of_rows(staged(ctx, analysis, function, array, tall), index, knob)
    inner = list(replaced_reads(ctx, analysis, function, array, dims))
    inner = [Edit(edit.span, _of_thread(edit.text, knob, row)) for edit in inner]
    inner += _guarded(ctx, form.accesses, guard)
    loops = (each for top in rest for each in top.all() if isinstance(each, CountedFor))
    inner += [edit for loop in loops if not source.is_bare(loop.span) for edit in unrolled(source, loop.span)]
    indent = indent_of(source, index.statement.span.start)
    assert index.statement.value is not None
    whole = Span(source.line_start(rest[0].span.start), rest[-1].span.end)
    if source.line_start(rest[0].span.start) < guard.span.end:
        raise NotPrinted("a statement beside the guard")
    text = _without_blocks(index, knob, row)
    body = rewritten(source, whole, without_unused(ctx, function, whole, merged(inner)))
    loop = (
        f"{head.lstrip(chr(10))}\n#pragma unroll\n{indent}for (int {row} = 0; {row} < {knob}; ++{row}) {{\n"
        f"{indent}    {index.statement.type.strip()} {index.name} = {text};\n{indented(body)}\n{indent}}}"
    )
    return merged([
        *new_knob(ctx, knob, _ROWS, rows),
        Edit(index.grid_at, f"ceil_div({index.extent}, {index.threads} * {knob})"),
        Edit(with_its_line(ctx.source, index.statement.span), ""),
        Edit(with_its_line(ctx.source, guard.span), ""),
        Edit(whole, loop),
    ])  # fmt: skip


def _is_placed(access: Access) -> bool:
    """Whether a read goes to a place that a thread outside of the tensor would not have."""
    return not access.subscripts or any(s in THREAD for term in access.subscripts for s in term.symbols())


def _taller(dim: Dim, index: ThreadIndex, knob: str) -> Dim:
    if _Y not in dim.walked:
        return dim
    more = dim.count - int(index.threads) if index.threads.isdigit() else None
    if more is None:
        raise NotPrinted("a block of no known size")
    return replace(dim, size=f"({index.threads} * {knob} + {more})")


def _of_rows(text: str, index: ThreadIndex, knob: str) -> str:
    """The staging of a block that is some times as high: where it begins."""
    block = re.search(r"blockIdx\.[xyz]", index.value)
    assert block is not None
    return re.sub(rf"\b{re.escape(block[0])}\b", f"({block[0]} * {knob})", text)


def _of_thread(text: str, knob: str, row: str) -> str:
    return re.sub(r"\bthreadIdx\.y\b", f"(threadIdx.y * {knob} + {row})", text)


def _without_blocks(index: ThreadIndex, knob: str, row: str) -> str:
    block = re.search(r"blockIdx\.[xyz]", index.value)
    assert block is not None
    return f"({block[0]} * {index.threads} + threadIdx.y) * {knob} + {row}"


def _guarded(ctx: RuleContext, accesses: Sequence[Access], guard: Statement) -> Iterator[Edit]:
    """Writes for themselves behind the guard: what they write is computed in any case, so that rows can share it."""
    assert guard.condition is not None
    parts = [part.strip() for part in ctx.source.slice(guard.condition).split("||")]
    tests = [re.fullmatch(r"(\w+)\s*>=\s*(.+)", part) for part in parts]
    if any(test is None for test in tests):
        raise NotPrinted("the guard")
    test = " && ".join(f"{match[1]} < {match[2]}" for match in tests if match is not None)
    for span in sorted({ctx.source.enclosing_statement(a.span) for a in accesses if a.is_write and a.is_global}):
        yield Edit(Span(span.start, span.start), f"if ({test}) ")


RULES = (
    Rule(
        name="tile_rows",
        sentence="Stages what a block reads around its places, with its border, and gives each thread several rows of"
        " results, unrolled, so that what neighbouring windows share is read once.",
        find=behind_guard(_find),
        reason="the windows of neighbouring results overlap: each thread reads again what it has just read",
        expected="shared reads for each result fall to little more than one row of the window",
        risk="registers grow with the window; fewer threads",
        next_if_kept="other numbers of rows, or a wider block",
        next_if_reverted="fewer rows, or the tile alone",
    ),
)
