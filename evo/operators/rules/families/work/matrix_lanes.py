"""Small matrices that a thread keeps to itself are shared by a few lanes, which have a column each in registers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evo.analysis.access import Array, LaunchAnalysis
from evo.cuda.source import CountedFor, Edit, Function, Span, Statement, Subscript
from evo.operators.rules.directives import ceil_divs, definition_place, relaunched
from evo.operators.rules.families.work.walks import index_of
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.rewriting import bracketed, fresh, indent_of, merged, rewritten, same
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_TYPES = ("float", "double", "int", "unsigned", "unsigned int")
_LEAST, _MOST = 3, 32  # columns
_EMPTY = re.compile(r"\{\s*(?:\{\s*)?(?:0(?:\.0*)?f?)?\s*(?:\}\s*)?\}")


@dataclass(slots=True)
class _Matrices:
    """A kernel with a thread for each matrix. columns: of each private array, as the kernel says them.

    count: how many these are at the headline case; lanes: the power of two they fit in, as the kernel and as the launch
    line say it. walks: the loops over columns, whose turns the lanes take.
    """

    ctx: RuleContext
    analysis: LaunchAnalysis
    function: Function
    arrays: dict[str, Array]
    columns: str
    count: int
    lanes: str
    in_launch: str
    walks: tuple[CountedFor, ...]
    lane: str
    group: str
    edits: list[Edit] = field(default_factory=list)

    def walk_around(self, span: Span) -> CountedFor | None:
        """The loop over columns that a place stands in."""
        return next((walk for walk in self.walks if walk.body_span is not None and walk.body_span.holds(span)), None)

    def is_own(self, use: Subscript) -> bool:
        """Whether a place is in the lane's own column."""
        walk = self.walk_around(use.span)
        return walk is not None and self.ctx.source.slice(use.indices[-1]).strip() == walk.name

    def place(self, use: Subscript) -> str:
        """An element of the lane's own column."""
        return use.name + "".join(f"[{self.text(index)}]" for index in use.indices[:-1])

    def shuffled(self, use: Subscript) -> str:
        """An element of another lane's column."""
        column = self.text(use.indices[-1])
        return f"__shfl_sync({self.group}, {self.place(use)}, {column}, {self.lanes})"

    def text(self, span: Span) -> str:
        """As it is written, with the lane in place of a loop's variable."""
        walk = self.walk_around(span)
        text = self.ctx.source.slice(span)
        return self.ctx.source.renamed(span, {walk.name: self.lane}) if walk is not None else text


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    yield Application(
        edits=tuple(merged(_edits(_matrices(ctx, analysis, function)))),
        summary=f"{function.name}: lanes share the matrix that a thread had, a column each",
        arguments={"kernel": function.name},
        is_schedule=True,
    )


def _edits(found: _Matrices) -> list[Edit]:
    """Raises NotPrinted."""
    ctx, analysis = found.ctx, found.analysis
    index = index_of(ctx, analysis, found.function)
    if index is None:
        raise NotPrinted("which thread has which matrix")
    uses = [use for use in ctx.source.subscripts(found.function.body) if use.name in found.arrays]
    if any(one != other and one.span.holds(other.span) for one in uses for other in uses):
        raise NotPrinted("a place that another matrix holds")
    for walk in found.walks:
        _shared_out(found, walk, [use for use in uses if found.walk_around(use.span) == walk])
    _elsewhere(found, [use for use in uses if found.walk_around(use.span) is None])
    declared = [edit for top in _every(found) for edit in _declared(found, top)]
    return [*_placed(found, index), *declared, *found.edits]


def _matrices(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Matrices:
    """Raises NotPrinted."""
    form, sizes = analysis.form, analysis.sizes
    if sizes.block[1:] != (1, 1) or sizes.threads % 32:
        raise NotPrinted("another launch")
    if form.barriers or form.exchanges or form.shared or form.multiplies or form.blocked or form.loops == {}:
        raise NotPrinted("threads that meet")
    if analysis.legality.rereads_output or any(a.mode == "atomic" or a.calls for a in form.accesses):
        raise NotPrinted("what a lane may not do alone")
    arrays = {array.name: array for array in form.arrays if array.space == "local"}
    if not arrays or any(not array.shape or array.element not in _TYPES for array in arrays.values()):
        raise NotPrinted("no private matrix")
    counts = {array.shape[-1].value for array in arrays.values()}
    if len(counts) != 1 or not any(len(array.shape) == 2 for array in arrays.values()):
        raise NotPrinted("matrices of different sizes")
    (count,) = counts
    if count is None or not _LEAST <= count <= _MOST:
        raise NotPrinted("too many columns")
    names = fresh(ctx, "lane"), fresh(ctx, "group")
    found = _Matrices(ctx, analysis, function, arrays, str(count), count, "", "", (), *names)
    _sized(found)
    found.walks = tuple(_walks(found))
    return found


def _sized(found: _Matrices) -> None:
    """How many columns and lanes there are: numbers, or what follows from an axis. Raises NotPrinted."""
    ctx, count = found.ctx, found.count
    dims = [s.dims[-1] for s in _every(found) if s.kind == "declare" and s.dims and s.name in found.arrays]
    said = {ctx.source.slice(dim).strip() for dim in dims}
    if not said & {*ctx.axes, *ctx.variant.macros}:
        if any(not text.isdigit() and not re.search(rf"(?m)^#define {text} \d+\s*$", ctx.source.text) for text in said):
            raise NotPrinted("a size that is computed")
        found.lanes = found.in_launch = str(1 << (count - 1).bit_length())
        return
    if len(said) != 1 or ctx.task is None:
        raise NotPrinted("sizes of two names")
    (found.columns,) = said
    sizes = [case.axes.get(found.columns, 0) for case in (*ctx.task.check, *ctx.task.bench)]
    if not sizes or min(sizes) < 1 or max(sizes) > _MOST:
        raise NotPrinted("too many columns")
    found.lanes = fresh(ctx, "LANES")
    larger = [lanes for lanes in (4, 8, 16) if lanes < max(sizes)]
    found.in_launch = " + ".join(["4", *(f"{lanes} * min(1, {found.columns} // {lanes + 1})" for lanes in larger)])
    choice = "".join(f"{found.columns} > {lanes} ? {2 * lanes} : " for lanes in reversed(larger))
    found.edits.append(Edit(definition_place(ctx), f"#define {found.lanes} ({choice}4)\n"))


def _every(found: _Matrices) -> list[Statement]:
    return found.ctx.source.inside(found.function)


def _walks(found: _Matrices) -> Iterator[CountedFor]:
    """The loops whose turns touch a column each, or each store a result of the matrix, one for each column.

    Raises NotPrinted if none is over all columns.
    """
    form = found.analysis.form
    columns: set[Span] = set()
    others: set[Span] = set()  # loops that write a column that is not their turn's
    stored: set[Span] = set()  # loops whose turns store results
    for access in form.accesses:
        if access.is_write and access.is_global:
            stored |= {form.loops[symbol].span for symbol in access.loops if symbol in access.offset.symbols()}
        if access.array is None or access.array.space != "local":
            continue
        last = access.subscripts[-1].atom if access.subscripts else None
        for symbol in access.loops:
            if symbol == last:
                columns.add(form.loops[symbol].span)
            elif access.is_write:
                others.add(form.loops[symbol].span)
    whole = False
    inside: list[Span] = []
    for statement in _every(found):
        if statement.span not in (columns | stored) - others or any(span.holds(statement.span) for span in inside):
            continue
        if not isinstance(statement, CountedFor) or not _can_be_shared(found, statement):
            continue
        if statement.span in columns or _stores_alone(found, statement):
            whole = whole or _is_whole(found, statement)
            inside.append(statement.span)
            yield statement
    if not whole:
        raise NotPrinted("no loop over all columns")


def _stores_alone(found: _Matrices, walk: CountedFor) -> bool:
    """Whether there is a lane for each turn, and a turn names no element of a matrix by its own number."""
    uses = [use for use in found.ctx.source.subscripts(walk.body_span) if use.name in found.arrays]
    named = {name for use in uses for index in use.indices for name, _ in found.ctx.source.names(index)}
    return bool(uses) and walk.name not in named and _is_whole(found, walk) and not _tests(found, walk)


def _can_be_shared(found: _Matrices, walk: CountedFor) -> bool:
    """Whether lanes may take the turns of a loop at once; if not, all of them do all of it."""
    loops = [loop for loop in found.analysis.form.loops.values() if loop.span == walk.span]
    if walk.step != "1" or walk.relation not in ("<", "<="):
        return False
    if any(loop.carried or loop.until or not found.analysis.legality.parallel(loop).holds for loop in loops):
        return False
    own = {inner.name for inner in walk.all() if inner.kind in ("declare", "for")}
    if any(s.kind == "assign" and s.name and s.name not in own for s in walk.all()):
        return False
    return not any(s.kind in ("return", "other") for s in walk.all())


def _tests(found: _Matrices, walk: CountedFor) -> list[str]:
    """What a lane asks before it takes its turn of a loop."""
    source = found.ctx.source
    start, limit = source.slice(walk.start).strip(), source.slice(walk.limit).strip()
    if _is_whole(found, walk):
        return [] if found.lanes == found.columns else [f"{found.lane} < {found.columns}"]
    tests = [f"{found.lane} >= {bracketed(start)}"] if start != "0" else []
    return [*tests, f"{found.lane} {walk.relation} {bracketed(limit)}"]


def _is_whole(found: _Matrices, walk: CountedFor) -> bool:
    """Whether a loop takes all columns."""
    loops = [loop for loop in found.analysis.form.loops.values() if loop.span == walk.span]
    if not found.columns.isdigit() and found.ctx.source.slice(walk.limit).strip() != found.columns:
        return False
    return all(loop.start.value == 0 and loop.trip is not None and loop.trip.value == found.count for loop in loops)


def _shared_out(found: _Matrices, walk: CountedFor, uses: Sequence[Subscript]) -> None:
    """A loop over columns as one lane's turn; what it reads of another column comes in front. Raises NotPrinted."""
    source = found.ctx.source
    inside = {inner.name for inner in walk.all() if inner.kind in ("declare", "for") and inner is not walk}
    tests = _tests(found, walk)
    lines: list[str] = []
    for use in uses:
        names = {name for index in use.indices for name, _ in source.names(index)}
        if found.is_own(use):
            if any(walk.name in {name for name, _ in source.names(index)} for index in use.indices[:-1]):
                raise NotPrinted("a lane's own row")
            found.edits.append(Edit(use.span, found.place(use)))
            continue
        if not use.is_read or walk.name in names or not _all_reach(found, walk, use.span):
            raise NotPrinted("another column in a lane's turn")
        if tests and names & inside:
            raise NotPrinted("an exchange that not all lanes reach")
        if tests:
            value = fresh(found.ctx, f"{use.name}_other", [line.split()[2] for line in lines])
            lines.append(f"const auto {value} = {found.shuffled(use)};")
            found.edits.append(Edit(use.span, value))
        else:
            found.edits.append(Edit(use.span, found.shuffled(use)))
    spans = [use.span for use in uses]
    for name, at in source.names(walk.body_span):
        if name == walk.name and not any(span.holds(at) for span in spans):
            found.edits.append(Edit(at, found.lane))
    for loop in source.loops:
        if loop.span == walk.span and loop.pragma is not None:
            found.edits.append(Edit(loop.pragma, ""))
    head = f"if ({' && '.join(tests)}) " if tests else ""
    if lines:
        indent = indent_of(source, walk.span.start)
        head = "{\n" + "".join(f"{indent}    {line}\n" for line in lines) + f"{indent}    {head}"
        found.edits.append(Edit(Span(walk.span.end, walk.span.end), f"\n{indent}}}"))
    found.edits.append(Edit(walk.header, head))


def _all_reach(found: _Matrices, walk: CountedFor, span: Span) -> bool:
    """Whether all lanes that take their turn of a loop come by a place together: no test, no loop of a lane's own."""
    source = found.ctx.source
    own = {walk.name, *found.arrays, *(s.name for s in walk.all() if s.kind == "declare")}
    level: Statement = walk
    while True:
        inner = next((each for each in (*level.body, *level.alternative) if each.span.holds(span)), None)
        if inner is None or inner.kind not in ("for", "block"):
            break
        is_own = inner.header is not None and own & {name for name, _ in source.names(inner.header)}
        if is_own or (inner.kind == "for" and not isinstance(inner, CountedFor)):
            return False
        level = inner
    return inner is not None and inner.kind in ("declare", "assign") and not source.is_conditional(span, inner.span)


def _elsewhere(found: _Matrices, uses: Sequence[Subscript]) -> None:
    """Outside of the loops over columns all lanes do the same, and one of them writes. Raises NotPrinted."""
    source = found.ctx.source
    written = [use for use in uses if not use.is_read]
    stores: dict[Span, str] = {source.enclosing_statement(use.span): "" for use in written}
    for use in written:
        stores[source.enclosing_statement(use.span)] = bracketed(found.text(use.indices[-1]))
    for access in found.analysis.form.accesses:
        is_store = access.is_write and access.is_global
        if is_store and found.walk_around(access.span) is None:
            stores[source.enclosing_statement(access.span)] = "0"
    every = {each.span: each for each in _every(found)}
    for use in uses:
        if use.is_read:
            found.edits.append(Edit(use.span, found.shuffled(use)))
    for span, column in stores.items():
        statement = every.get(span)
        if statement is None or statement.kind != "assign" or statement.target is None or statement.value is None:
            raise NotPrinted("a store in another form")
        value = rewritten(source, statement.value, found.edits)
        own = next((use for use in written if use.span == statement.target), None)
        if any(statement.target.holds(use.span) and use != own for use in uses):
            raise NotPrinted("a place that a matrix tells")
        target = found.place(own) if own is not None else source.slice(statement.target)
        kept = fresh(found.ctx, "kept")
        text = f"{{ const auto {kept} = {value}; if ({found.lane} == {column}) {target} {statement.operator} {kept}; }}"
        found.edits = [edit for edit in found.edits if not span.holds(edit.span)] + [Edit(span, text)]


def _declared(found: _Matrices, statement: Statement) -> Iterator[Edit]:
    """A private array without its columns. Raises NotPrinted."""
    if statement.kind != "declare" or statement.name not in found.arrays:
        return
    source = found.ctx.source
    dims = "".join(f"[{source.slice(dim)}]" for dim in statement.dims[:-1])
    text = f"{statement.type}{statement.name}{dims}"
    if statement.value is not None and not _EMPTY.fullmatch(source.slice(statement.value)):
        raise NotPrinted("a matrix that is given")
    if statement.value is not None or found.lanes != found.columns:  # lanes without a column hand theirs on, too
        text += " = {0}" if dims else " = 0"
    yield Edit(statement.span, f"{text};")


def _placed(found: _Matrices, index: Span) -> list[Edit]:
    """The launch of as many times more threads, and which lane of which group a thread is. Raises NotPrinted."""
    ctx, lanes = found.ctx, found.lanes
    launch = ctx.variant.launches[found.analysis.form.position]
    (grid, *rest), threads, times = [p.text for p in launch.grid], launch.block[0].text, bracketed(found.in_launch)
    known = [extent for _, extent, per in ceil_divs(ctx, launch) if same(per, threads)]
    if len(known) == 1 and grid.startswith("ceil_div("):
        grid = f"ceil_div({bracketed(known[0])} * {times}, {threads})"
    elif rest:
        raise NotPrinted("a grid of several dimensions")
    else:
        grid = f"{bracketed(grid)} * {times}"
    declared = [statement for statement in _every(found) if statement.kind == "declare"]
    if len(found.arrays) != sum(statement.name in found.arrays for statement in declared):
        raise NotPrinted("matrices of one name")
    body = found.function.body.start + 1
    text = f"\n    const int {found.lane} = threadIdx.x % {lanes};  // {lanes} lanes for each matrix"
    if any(re.search(rf"\b{found.group}\b", made.text) for made in found.edits):
        mask = f"0xffffffffu >> (32 - {lanes}) << (threadIdx.x % 32 / {lanes} * {lanes})"
        text += f"\n    const unsigned {found.group} = {'0xffffffffu' if lanes == '32' else mask};"
    return [
        relaunched(ctx, launch, grid=", ".join([grid, *rest])),
        Edit(Span(body, body), text),
        Edit(index, f"(blockIdx.x * blockDim.x + threadIdx.x) / {lanes}"),
    ]


RULES = (
    Rule(
        name="matrix_lanes",
        sentence="Shares a small matrix that a thread had for itself among a few lanes: each keeps a column in"
        " registers, and gets elements of other columns by shuffles.",
        find=behind_guard(by_launch(_find, once=True)),
        reason="a matrix in one thread's arrays lies in local memory, or takes more registers than a thread has",
        expected="the matrix in registers, loads that lie next to each other, and more threads",
        risk="what no loop over columns does is done by all lanes; a shuffle for each element of another column",
        next_if_kept="the loops over rows unrolled",
        next_if_reverted="the loops over rows unrolled, with the matrix in one thread",
    ),
)
