"""A block that sums up one column reads an element of each row; one that has several columns reads whole sectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from evo.analysis.access import BLOCK, THREAD, Access, Carried, Data, LaunchAnalysis, Loop, Term
from evo.analysis.access.block_sums import BlockResult, block_results
from evo.analysis.access.numeric import number_of
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.families.work.columns import COLUMNS, PLACED, applications, launch_edits, turns_of
from evo.operators.rules.families.work.walks import SharedLoop, combined_in_shared, starts_neutral, stepped
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted, Printer, in_c, names_of, stored
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.rewriting import fresh, indent_of, rewritten, with_its_line
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_SHARED = re.compile(r"(?:extern\s+)?__shared__\b|(?:extern\s+)?__align__\(\d+\)\s*__shared__\b")
_OURS = re.compile(r"\bblockIdx\.x\b")


@dataclass(frozen=True, slots=True)
class _Columns:
    """A kernel with a block for each column. head: the statements up to the last walk over memory."""

    function: Function
    analysis: LaunchAnalysis
    walks: tuple[SharedLoop, ...]
    results: tuple[BlockResult, ...]
    head: tuple[Statement, ...]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = _columns(ctx, analysis, function)
    if found is not None:
        yield from applications(
            analysis,
            analysis.sizes.blocks,
            turns_of(analysis, [each.loop for each in found.walks]) * analysis.sizes.threads,
            "{columns} columns for each block, {lanes} threads share each",
            partial(_edits, ctx, found),
        )


def _columns(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Columns | None:
    form, sizes = analysis.form, analysis.sizes
    if sizes.block[1:] != (1, 1) or form.blocked or form.multiplies or sizes.grid[0] < min(COLUMNS):
        return None
    walks = _walks(analysis)
    results = block_results(form, {each.loop.symbol for each in walks})
    combined = {sum_.carried for result in results for sum_ in result.sums.values()}
    if not results or any(not _is_kept(each, combined, results) for each in walks):
        return None
    if any(result.write.offset.coefficient(BLOCK[0]) in (None, Term.number(0)) for result in results):
        return None
    if any(set(part.symbols()) - {THREAD[0]} for result in results for part in result.write.conditions):
        return None
    for array in analysis.legality.rereads_output:  # `out[c] += sum` reads its own element alone
        if {access.offset for access in form.of(array)} != {r.write.offset for r in results if r.write.array == array}:
            return None
    head = _head(ctx, function, walks)
    return _Columns(function, analysis, walks, results, head) if head else None


def _is_kept(walk: SharedLoop, combined: set[Carried], results: tuple[BlockResult, ...]) -> bool:
    """Whether all that a loop leaves is combined over the block, and in the way in which the loop combines it."""
    kinds = {id(s.carried): s.kind for result in results for s in result.sums.values()}
    return all(
        found.kind in ("sum", "max", "min")
        and found.place == "register"
        and all(c in combined and kinds[id(c)] == found.kind for c in found.carried)
        and (found.kind != "sum" or starts_neutral(found))
        for found in walk.reductions
    )


def _walks(analysis: LaunchAnalysis) -> tuple[SharedLoop, ...]:
    """The loops over global memory, if the threads of a block take turns in each and a block is a column of it."""
    form, legality = analysis.form, analysis.legality
    found: dict[object, SharedLoop] = {}
    for access in form.accesses:
        if not access.is_global or access.is_write:
            continue
        if access.offset.symbols().isdisjoint(THREAD) and not access.loops:
            continue  # the same for every thread
        if len(access.loops) != 1 or access.mode != "read":
            return ()
        loop = form.loops[access.loops[0]]
        reductions = legality.is_reduction(loop)
        if not _takes_turns(analysis, loop, access) or loop.calls or not legality.parallel(loop).holds:
            return ()
        if {c.name for c in loop.carried} != {name for each in reductions for name in each.names}:
            return ()
        found[loop.symbol] = SharedLoop(loop, reductions)
    sides = [a for a in form.accesses if a.loops and a.loops[0] in found and _is_beside(a)]
    return tuple(found.values()) if sides else ()


def _takes_turns(analysis: LaunchAnalysis, loop: Loop, access: Access) -> bool:
    """Whether thread t takes the turns t, t + threads, ... and a thread's place has no other part in the address."""
    if loop.values is not None or loop.until is not None or loop.blocked is not None or loop.parent is not None:
        return False
    if loop.start != Term.of(THREAD[0]) or number_of(loop.step, analysis.sizes.values) != analysis.sizes.threads:
        return False
    conditions = [part for part in access.context if part not in (loop.symbol, loop.condition)]
    return access.offset.symbols().isdisjoint(THREAD) and not conditions


def _is_beside(access: Access) -> bool:
    """Whether the next block's element is the next one, and the next turn's is not."""
    across = access.offset.coefficient(BLOCK[0])
    down = access.offset.coefficient(access.loops[0])
    size = access.memory.element_bytes
    return across is not None and across.value == size and (down is None or down.value not in (0, size))


def _head(ctx: RuleContext, function: Function, walks: tuple[SharedLoop, ...]) -> tuple[Statement, ...]:
    """The statements up to the last walk; none if a walk is no statement of the kernel itself."""
    tops = ctx.source.statements(function)
    places = [at for at, top in enumerate(tops) if any(top.span == each.loop.span for each in walks)]
    return tops[: max(places) + 1] if len(places) == len(walks) and places else ()


def _edits(ctx: RuleContext, found: _Columns, columns: int, lanes: int) -> list[Edit]:
    """Raises NotPrinted."""
    function, launch = found.function, ctx.variant.launches[found.analysis.form.position]
    count, per = fresh(ctx, "COLUMNS"), fresh(ctx, "LANES")
    made = launch_edits(
        ctx,
        function,
        launch,
        extent=launch.grid[0].text,
        names=(count, per),
        shape=(columns, lanes),
        shared="0",
    )
    return [*made, Edit(function.body, _body(ctx, found, count, per))]


def _body(ctx: RuleContext, found: _Columns, count: str, per: str) -> str:
    """The statements up to the last walk as they are written, then what the lanes combine. Raises NotPrinted."""
    function, launch = found.function, ctx.variant.launches[found.analysis.form.position]
    column, lane, block = fresh(ctx, "column"), fresh(ctx, "lane"), fresh(ctx, "block")
    extent = in_c(launch.grid[0].tree, names_of(ctx, function))
    indent = indent_of(ctx.source, found.head[0].span.start)
    head = _head_text(ctx, found, lane, per, block)
    place = f"min((int)blockIdx.x * {count} + {column}, {extent} - 1)"
    index = found.analysis.form.names.get(Term.of(BLOCK[0]), block)
    lines = [
        f"// A block has {count} neighbouring columns; its lanes share the rows of each.",
        f"const int {column} = threadIdx.x % {count}, {lane} = threadIdx.x / {count};",
    ]
    if re.search(rf"\b{index} = {block};", head) and len(re.findall(rf"\b{block}\b", head)) == 1:
        head = head.replace(f"{index} = {block};", f"{index} = {place};")
    else:
        lines.append(f"const int {block} = {place};")
        index = block
    tail: list[str] = []
    for walk in found.walks:
        tail += combined_in_shared(ctx, walk, (count, per), (column, lane))
    tail += [f"if ({lane} == 0 && (int)blockIdx.x * {count} + {column} < {extent}) {{"]
    tail += [f"    {line}" for line in _stores(ctx, found, index, head)] + ["}"]
    text = "".join(f"{indent}{line}\n" for line in lines) + head
    return "{\n" + text + "".join(f"\n{indent}{line}" for line in tail) + "\n}"


def _head_text(ctx: RuleContext, found: _Columns, lane: str, per: str, block: str) -> str:
    """The statements up to the last walk, without what only placed a thread. Raises NotPrinted."""
    source = ctx.source
    whole = Span(source.line_start(found.head[0].span.start), found.head[-1].span.end)
    edits = []
    for walk in found.walks:
        made = stepped(ctx, walk, lane, per, start="0")
        if made is None:
            raise NotPrinted("a loop that is written in another way")
        edits += made
    text = source.data.decode()
    if not text.isascii():
        raise NotPrinted("bytes that are no characters")
    walked = [walk.loop.header for walk in found.walks]
    for match in _OURS.finditer(text, whole.start, whole.end):
        if not any(span.holds(Span(*match.span())) for span in walked):
            edits.append(Edit(Span(*match.span()), block))
    edits += _shared(ctx, found)
    head = rewritten(source, whole, without_unused(ctx, found.function, whole, edits))
    if PLACED.search(without_comments(head)):
        raise NotPrinted("the place of a thread in the block counts")
    return head


def _shared(ctx: RuleContext, found: _Columns) -> Iterator[Edit]:
    """Declarations of shared memory go: the lanes have arrays of their own."""
    for top in found.head:
        if _SHARED.match(ctx.source.slice(top.span)):
            yield Edit(with_its_line(ctx.source, top.span), "")


def _stores(ctx: RuleContext, found: _Columns, index: str, head: str) -> Iterator[str]:
    """What a column's first lane writes. Raises NotPrinted."""
    form, names = found.analysis.form, names_of(ctx, found.function)
    places = {term: name for term, name in form.names.items() if re.search(rf"\b{name}\s*=[^=]", head)}
    places |= {Term.of(symbol): symbol.name for symbol in BLOCK[1:]} | {Term.of(BLOCK[0]): index}
    tensors = {tensor.name: tensor for tensor in found.analysis.task.tensors}
    for result in found.results:
        write = result.write
        if write.array is None or write.array.name not in tensors or not write.subscripts:
            raise NotPrinted("a result that is no tensor's")
        reads: dict[int, str] = {}
        value = _named(write.value, result, reads)
        say = Printer(found.analysis, names, places, {}, reads)
        target = say.element(tensors[write.array.name], [say.term(term) for term in write.subscripts])
        yield f"{target} = {stored(write.array.element, say.expression(value))};"


def _named(data: Data | None, result: BlockResult, reads: dict[int, str]) -> Data:
    """An expression whose sums over the block are reads by a name."""
    assert data is not None
    if id(data) in result.sums:
        number = -1 - len(reads)
        reads[number] = result.sums[id(data)].carried.name
        return Data("read", detail=number)
    return Data(data.op, tuple(_named(arg, result, reads) for arg in data.args), data.detail)


RULES = (
    Rule(
        name="column_blocks",
        sentence="Gives a block that sums up one column several neighbouring ones: each row's reads are next to each"
        " other, and the lanes of a column combine their sums in shared memory.",
        find=behind_guard(by_launch(_find, once=True)),
        reason="the threads of a block that sums up a column read elements a row apart: one sector for each",
        expected="each fetched sector is used whole",
        risk="fewer blocks; sums are added in another order",
        next_if_kept="the knobs of columns and lanes",
        next_if_reverted="another number of columns",
    ),
)
