"""A running sum that each thread stores along a row: lanes take neighbouring elements, and add up by shuffles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access import LaunchAnalysis, Loop
from evo.cuda.source import CountedFor, Edit, Function, Span, Statement
from evo.operators.rules.families.work.row_places import row_place
from evo.operators.rules.families.work.walks import outermost, stored_if
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext

_ALL = "0xffffffffu"
_TYPES = ("float", "double", "int", "unsigned", "unsigned int", "long long", "unsigned long long")


@dataclass(frozen=True, slots=True)
class _Scan:
    """A loop whose turns add `value` to `total`. before, after: the statements on either side of that sum."""

    loop: CountedFor
    total: str
    kind: str
    value: str
    before: tuple[Statement, ...]
    after: tuple[Statement, ...]


def _find(ctx: RuleContext) -> Iterator[Application]:
    for analysis in ctx.launches:
        name = analysis.form.kernel
        function = ctx.kernel(name)
        if function is None:
            continue
        try:
            edits = _edits(ctx, analysis, function)
        except NotPrinted:
            continue
        yield Application(
            edits=tuple(merged(edits)),
            summary=f"{name}: the lanes of a warp add up a row together, 32 elements at a time",
            arguments={"kernel": name, "to": 32},
            is_schedule=True,
        )


def _edits(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> list[Edit]:
    """Raises NotPrinted."""
    form = analysis.form
    place = row_place(ctx, analysis, function)
    if place is None or form.barriers or form.exchanges or form.shared:
        raise NotPrinted("which thread has which row")
    touched = {symbol for a in form.accesses if a.array is not None and a.array.space == "global" for symbol in a.loops}
    loops = [loop for loop in outermost(form.body) if loop.symbol in touched]
    if len(loops) != 1 or loops[0].calls:
        raise NotPrinted("more than one loop over memory")
    (loop,) = loops
    scan = _scan(ctx, analysis, function, loop)
    lane, start = fresh(ctx, "lane"), function.body.start + 1
    edits = [
        Edit(Span(start, start), f"\n    const int {lane} = {place.lane};  // a warp for each index"),
        *place.edits,
        Edit(scan.loop.span, _written(ctx, scan, lane)),
    ]
    for access in form.accesses:
        if access.is_write and access.array is not None and access.array.space == "global" and not access.loops:
            edit = stored_if(ctx, access, f"{lane} == 0")
            if edit is None:
                raise NotPrinted(access.text)
            edits.append(edit)
    return edits


def _scan(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, loop: Loop) -> _Scan:
    """Raises NotPrinted if a turn needs anything of the one before but the sum."""
    source, form = ctx.source, analysis.form
    found = [s for top in source.statements(function) for s in top.all() if s.span == loop.span]
    if not found or not isinstance(found[0], CountedFor) or not found[0].takes_each or source.is_bare(loop.span):
        raise NotPrinted("a loop that does not count up by one")
    inside = [access for access in form.accesses if loop.symbol in access.loops]
    if any(access.loops != (loop.symbol,) or access.calls or access.mode == "atomic" for access in inside):
        raise NotPrinted("a loop in the loop")
    for access in inside:
        array = access.array
        step = access.offset.coefficient(loop.symbol)
        if array is None or not array.is_tensor or access.blocked is not None:
            raise NotPrinted(access.text)
        if step is None or step.value not in (0, array.element_bytes) or (access.is_write and not step.value):
            raise NotPrinted("it does not walk along memory")
        if access.is_write and {each.offset for each in form.of(array)} != {access.offset}:
            raise NotPrinted("what is written is read at another turn")
    if len(loop.carried) != 1:
        raise NotPrinted("more than a sum is carried")
    return _parts(ctx, function, found[0], loop.carried[0].name)


def _parts(ctx: RuleContext, function: Function, loop: CountedFor, total: str) -> _Scan:
    """Raises NotPrinted."""
    source = ctx.source
    sums = [place for place, s in enumerate(loop.body) if s.kind == "assign" and s.name == total]
    if len(sums) != 1 or loop.body[sums[0]].value is None:
        raise NotPrinted("not one sum")
    (place,) = sums
    statement, before, after = loop.body[place], loop.body[:place], loop.body[place + 1 :]
    assert statement.value is not None
    value = source.slice(statement.value)
    if statement.operator == "=":
        match = re.fullmatch(rf"\s*{total}\s*\+\s*(?P<value>.+)", value, re.DOTALL)
        value = match["value"] if match is not None else ""
    if (statement.operator not in ("+=", "=")) or not value or re.search(rf"\b{total}\b|[-?:<>=&|]", value):
        raise NotPrinted("another sum")
    if not any(each.kind == "assign" and total in each.reads for each in (*before, *after)):
        raise NotPrinted("a sum that no turn stores")
    declared = {s.name for s in before if s.kind == "declare"}
    for each in (*before, *after):
        is_store = each.kind == "assign" and not each.name and each.operator == "="
        if not is_store and not (each.kind == "declare" and each in before and total not in each.reads):
            raise NotPrinted("what a turn does beside its sum")
        if is_store and (declared & each.reads):
            raise NotPrinted("a variable of the turn")
    every = [s for top in source.statements(function) for s in top.all()]
    kinds = {s.type.strip() for s in every if s.kind == "declare" and s.name == total}
    kind = kinds.pop() if len(kinds) == 1 else source.element_type(function.name, total) or ""
    if kind not in _TYPES:
        raise NotPrinted(f"the type of {total}")
    return _Scan(loop, total, kind, value, before, after)


def _written(ctx: RuleContext, scan: _Scan, lane: str) -> str:
    """The loop anew: a warp's elements, what the lanes before have added, and the sum so far."""
    source, loop = ctx.source, scan.loop
    indent = indent_of(source, loop.span.start)
    first, part, here = fresh(ctx, "first"), fresh(ctx, "part"), fresh(ctx, f"{scan.total}_here")
    earlier, step = fresh(ctx, "earlier"), fresh(ctx, "step")
    start, limit = source.slice(loop.start).strip(), source.slice(loop.limit).strip()
    kind, index = scan.kind, loop.name
    declared = [source.slice(s.span) for s in scan.before if s.kind == "declare"]
    stores = [s for s in (*scan.before, *scan.after) if s.kind == "assign"]
    inner = [*declared, f"{part} = {scan.value.strip()};"]
    lines = [
        f"for ({loop.type.strip()} {first} = {start}; {first} < {limit}; {first} += 32) {{",
        f"    const {loop.type.replace('const', '').strip()} {index} = {first} + {lane};",
        f"    {kind} {part} = 0;",
        f"    if ({index} < {limit}) {inner[0]}" if len(inner) == 1 else f"    if ({index} < {limit}) {{",
        *([f"        {line}" for line in inner] + ["    }"] if len(inner) > 1 else []),
        f"    for (int {step} = 1; {step} < 32; {step} *= 2) {{",
        f"        const {kind} {earlier} = __shfl_up_sync({_ALL}, {part}, {step});",
        f"        if ({lane} >= {step}) {part} += {earlier};",
        "    }",
    ]
    if any(store in scan.before for store in stores):
        lines += [
            f"    const {kind} {earlier} = __shfl_up_sync({_ALL}, {part}, 1);",
            f"    const {kind} {here}_before = {lane} > 0 ? {scan.total} + {earlier} : {scan.total};",
        ]
    lines.append(f"    const {kind} {here} = {scan.total} + {part};")
    for store in stores:
        name = f"{here}_before" if store in scan.before else here
        text = re.sub(rf"\b{scan.total}\b", name, source.slice(store.span))
        lines.append(f"    if ({index} < {limit}) {text}")
    lines += [f"    {scan.total} = __shfl_sync({_ALL}, {here}, 31);", "}"]
    return f"\n{indent}".join(lines)


RULES = (
    Rule(
        name="scan_lanes",
        family="work",
        sentence="Gives each row a warp where a thread adds up a row and stores each sum: 32 neighbouring elements at a"
        " time, whose running sums come from shuffles.",
        find=_find,
        examples=(Example.of_files("scan_lanes"),),
        reason="threads that each walk a row of their own read and write a row apart: one sector per element",
        expected="each sector is used whole, and 32 times as many threads keep the memory busy",
        risk="ten shuffles for 32 elements; sums are added in another order",
        next_if_kept="another number of warps in a block",
        next_if_reverted="wide loads of the row",
    ),
)
