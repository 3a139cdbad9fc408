"""`#pragma unroll` on counted loops: add, change or remove."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evo.analysis.access import Form, Symbol
from evo.cuda.source import CountedLoop, Edit, Span
from evo.operators.rules.families.unroll.chosen_rows import with_fixed_rows
from evo.operators.rules.families.unroll.own_regions import with_own_regions
from evo.operators.rules.loops import unrolled
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import found_in_view

_DELIBERATE = 6
_FULL_LIMIT = 64  # a full unroll of more trips than this only fills the instruction cache
_INSTANCES = 1200  # of one statement, of which the same holds
_UNKNOWN = Span(0, 0)


def _find(ctx: RuleContext) -> Iterator[Application]:
    for loop in ctx.source.loops:
        if loop.factor and not loop.factor.isdigit():
            continue  # a knob decides, and moving it is the knob rule's business
        line = ctx.source.line(loop.span.start)
        now = _name(loop.factor)
        for rank, wanted in enumerate(_wanted(loop)):
            if wanted == loop.factor:
                continue
            yield Application(
                edits=(_edit(ctx, loop, wanted),),
                summary=f"loop over {loop.variable} (line {line}): unroll {now} -> {_name(wanted)}",
                arguments={"function": loop.function, "line": line, "from": now, "to": _name(wanted)},
                # A full unroll is mostly there to keep an array in registers: try the other loops first.
                rank=rank + (_DELIBERATE if loop.factor == "" else 0),
            )


def _find_registers(ctx: RuleContext) -> Iterator[Application]:
    """Arrays of a thread's own that loops of a known length index: unrolled together, they are registers."""
    chosen = {
        access.array.name
        for analysis in ctx.launches
        for access in analysis.form.accesses
        if access.array is not None and access.array.space == "local"
        if any(symbol.kind == "value" for symbol in access.offset.symbols())
    }
    fixed = with_fixed_rows(ctx, chosen) if chosen else []
    fixed = fixed or with_own_regions(ctx)
    yield from found_in_view(_registers, ctx, fixed) if fixed else _registers(ctx)


def _registers(ctx: RuleContext) -> Iterator[Application]:
    for analysis in ctx.launches:
        form = analysis.form
        loops = _of_arrays(form)
        edits = [edit for span in loops for edit in unrolled(ctx.source, span)]
        if len(loops) > 1:
            yield Application(
                edits=tuple(edits),
                summary=f"{form.kernel}: all {len(loops)} loops over arrays of a thread unrolled",
                arguments={"kernel": form.kernel, "loops": len(loops)},
                rank=-1,
                is_schedule=True,
            )


def _of_arrays(form: Form) -> dict[Span, None]:
    """The loops that index a thread's own arrays, with those around that say how long they are; none of an array that
    one of no known length indexes.
    """
    loops: dict[object, dict[Span, None]] = {}
    for access in form.accesses:
        if access.array is None or access.array.space != "local":
            continue
        known: dict[Symbol, None] = {}
        for symbol in access.loops:
            if symbol in access.offset.symbols() and form.loops[symbol].factor is None:
                known |= dict.fromkeys((symbol, *_told_by(form, symbol)))
        lengths = [_most(form, symbol) or 0 for symbol in known]
        ours = loops.setdefault(access.array.name, {})
        if any(not 1 < length <= _FULL_LIMIT for length in lengths) or math.prod(lengths) > _INSTANCES:
            ours[_UNKNOWN] = None
        ours |= {form.loops[symbol].span: None for symbol in known if form.loops[symbol].factor is None}
    return {span: None for ours in loops.values() if _UNKNOWN not in ours for span in ours}


def _told_by(form: Form, symbol: Symbol) -> Iterator[Symbol]:
    """The loops around that say where a loop begins or how often it runs, as in a triangle."""
    loop = form.loops[symbol]
    for term in (loop.start, loop.trip):
        for other in term.symbols() if term is not None else ():
            if other in form.loops and other != symbol:
                yield other
                yield from _told_by(form, other)


def _most(form: Form, symbol: Symbol) -> int | None:
    """The most turns of a loop that a compiler knows."""
    loop = form.loops[symbol]
    if loop.trip is None or any(each not in form.loops for each in loop.trip.symbols() | loop.start.symbols()):
        return None
    return loop.trip.value if loop.trip.value is not None else form.bounds.largest(loop.trip)


def _wanted(loop: CountedLoop) -> Iterator[str | None]:
    """The factors that make sense, the most promising first; None removes the pragma."""
    if loop.trips is not None and 1 < loop.trips <= _FULL_LIMIT:
        yield ""
    for factor in (4, 2, 8, 1, 16):
        if loop.trips is None or factor < loop.trips:
            yield str(factor)
    yield None


def _edit(ctx: RuleContext, loop: CountedLoop, wanted: str | None) -> Edit:
    start = ctx.source.line_start(loop.span.start)
    span = loop.pragma if loop.pragma is not None else Span(start, start)
    if wanted is None:
        return Edit(span, "")
    return Edit(span, f"{loop.indent}#pragma unroll{' ' + wanted if wanted else ''}\n")


def _name(factor: str | None) -> str:
    return "none" if factor is None else factor or "full"


_LOOP = "  for (int i = 0; i < 16; ++i) {\n    o[i] += a[i];\n  }\n"
RULES = (
    Rule(
        name="unroll_registers",
        sentence="Unrolls together all loops of a known length that index a thread's own arrays.",
        find=_find_registers,
        reason="an array that any loop indexes by a variable lies in local memory, whatever the other loops do",
        expected="the array lies in registers: no local loads and stores",
        risk="more registers, and code that leaves the instruction cache",
        next_if_kept="wide loads and stores of what the arrays hold",
        next_if_reverted="one loop alone",
    ),
    Rule(
        name="unroll",
        sentence="Adds, changes or removes `#pragma unroll` on one counted loop.",
        find=_find,
        examples=(
            Example(_LOOP, "  #pragma unroll\n" + _LOOP),
            Example("  #pragma unroll 4\n" + _LOOP, "  #pragma unroll 8\n" + _LOOP),
            Example("  #pragma unroll\n" + _LOOP, _LOOP),
        ),
        reason="unrolling lets independent loads and multiplies overlap, and turns array indices into registers",
        expected="more instruction-level parallelism, fewer loop instructions",
        risk="more registers, and code that leaves the instruction cache",
        next_if_kept="the next larger factor",
        next_if_reverted="another factor, or another loop",
    ),
)
