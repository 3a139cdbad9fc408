"""Loops that store what they have come to on the way, as lanes share them: running sums, products and extrema, and
recurrences `x = a * x + b`, of which a stretch comes to a factor of what was before it and an addend."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from evo.analysis.access import LaunchAnalysis
from evo.analysis.access.reductions import RECURRENCE
from evo.cuda.source import CountedFor, Edit, Span, Statement
from evo.operators.rules.families.work.slopes import slope_of
from evo.operators.rules.families.work.walks import (
    SharedLoop,
    combined,
    neutral_of,
    parts_name,
    type_of,
)
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import LEAVES, fresh, indent_of
from evo.operators.rules.rule_context import RuleContext

_ALL, _WARP = "0xffffffffu", 32
_SIGNS = {"sum": "+", "product": "*"}
_KINDS = ("sum", "product", "max", "min", "argmax", "argmin", RECURRENCE)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a turn does. early: all that its carried numbers need; late: stores, and what only they need.

    Of a late statement: whether it stands in front of what changes the carried numbers. kept: declarations of early
    variables that late statements read.
    """

    loop: CountedFor
    kinds: dict[str, str]  # the carried names with their types
    slopes: dict[str, str]  # of recurrences, what their factors are called
    early: tuple[Statement, ...]
    late: tuple[tuple[Statement, bool], ...]
    kept: tuple[Statement, ...]

    @property
    def parts(self) -> dict[str, str]:
        """All that a lane's turns come to, with types: the carried names, and the factors of recurrences."""
        return self.kinds | {slope: self.kinds[name] for name, slope in self.slopes.items()}


def is_scanned(shared: SharedLoop) -> bool:
    """Whether lanes can combine all that the loop carries, in the order of its turns."""
    return all(found.kind in _KINDS for found in shared.reductions)


def _turn(ctx: RuleContext, analysis: LaunchAnalysis, shared: SharedLoop) -> _Turn:
    """Raises NotPrinted if stores and sums of a turn cannot be told apart."""
    source, span = ctx.source, shared.loop.span
    function = next(f for f in source.functions if f.body.holds(span))
    loop = next((s for s in source.inside(function) if s.span == span), None)
    if not isinstance(loop, CountedFor) or loop.step != "1" or shared.loop.calls:
        raise NotPrinted("a loop that does not count up by one")
    if LEAVES.search(source.slice(loop.body_span)) or not is_scanned(shared) or shared.edits:
        raise NotPrinted("a turn that may end early")
    kinds = {name: type_of(ctx, shared.loop, name) for found in shared.reductions for name in found.names}
    slopes = {f.names[0]: f"{f.names[0]}.slope" for f in shared.reductions if f.kind == RECURRENCE}
    early, late = list[Statement](), list[tuple[Statement, int]]()
    own, waiting, updates = set[str](), set[str](kinds), 0
    for each in loop.body:
        changed = source.changed_in(each.span)
        if changed & kinds.keys():
            updates += 1
            early.append(each)
        elif each.kind == "declare" and not each.dims and each.reads & waiting:
            waiting.add(each.name)
            late.append((each, updates))
        elif _is_store(ctx, each, changed):
            late.append((each, updates))
        elif not each.reads & waiting and (each.kind == "declare" or changed <= own):
            own.add(each.name)
            early.append(each)
        else:
            raise NotPrinted("what a turn does beside its sum")
    is_mixed = any(each.reads & waiting - kinds.keys() for each in early)
    if not late or is_mixed or any(at not in (0, updates) for _, at in late):
        raise NotPrinted("a store in the middle of a sum")
    read = frozenset[str]().union(*(each.reads for each, _ in late))
    kept = tuple(each for each in early if each.kind == "declare" and each.name in read)
    found = _Turn(loop, kinds, slopes, tuple(early), tuple((each, not at) for each, at in late), kept)
    _check(ctx, analysis, shared, found)
    return found


def _is_store(ctx: RuleContext, statement: Statement, changed: frozenset[str]) -> bool:
    """Whether a statement changes elements of arrays and nothing else, under a condition or not."""
    parts = [each for each in statement.all() if each.kind not in ("if", "block")]
    named = {each.name for each in ctx.source.subscripts(statement.span)}
    return bool(parts) and changed <= named and all(s.kind == "assign" and not s.name for s in parts)


def _check(ctx: RuleContext, analysis: LaunchAnalysis, shared: SharedLoop, turn: _Turn) -> None:
    """Raises NotPrinted where early statements would come before stores that they have to follow."""
    inside = [access for access in analysis.form.accesses if shared.loop.symbol in access.loops]
    if any(access.calls or access.blocked is not None or access.mode == "atomic" for access in inside):
        raise NotPrinted("places that are not known")
    written = {access.array: access.number for access in reversed(inside) if access.is_write}
    for access in inside:
        is_early = any(each.span.holds(access.span) for each in turn.early)
        if is_early and (access.is_write or access.number > written.get(access.array, access.number)):
            raise NotPrinted("an element that is read after it was written")
    for late, _ in turn.late:
        behind = [each for each in turn.early if each.span.start > late.span.start]
        if any(ctx.source.changed_in(each.span) & (late.reads - turn.kinds.keys()) for each in behind):
            raise NotPrinted("a variable that changes behind the store")
    if any(not re.fullmatch(r"[\w\s*]+", each.type) or "auto" in each.type or each.dims for each in turn.kept):
        raise NotPrinted("a variable of the turn")


def _early(ctx: RuleContext, turn: _Turn, names: dict[str, str], signs: Mapping[str, str] | None = None) -> list[str]:
    """The early statements, their carried numbers by other names; kept variables are declared elsewhere.

    signs: of the numbers that begin with nothing and are changed by this one turn, which sets them then.
    """
    lines: list[str] = []
    for each in turn.early:
        if (only := _only_operand(ctx, turn, each, signs or {})) is not None:
            lines.append(f"{names[each.name]} = {only};")
        elif each not in turn.kept:
            lines += _lines(ctx, each, names)
        elif each.value is not None:
            lines.append(f"{each.name} = {ctx.source.renamed(each.value, names)};")
        for name in ctx.source.changed_in(each.span) & turn.slopes.keys():
            slope = slope_of(ctx.source, each, name)
            lines += [f"{names[turn.slopes[name]]} *= {slope};"] if slope != "1" else []
    return lines


def _only_operand(ctx: RuleContext, turn: _Turn, statement: Statement, signs: Mapping[str, str]) -> str | None:
    """x of `sum += x` or `sum = sum + x`, if nothing else in the turn changes the sum."""
    name, source = statement.name, ctx.source
    sign = signs.get(name) if statement.kind == "assign" else None
    if sign is None or statement.value is None or sum(name in source.changed_in(s.span) for s in turn.early) > 1:
        return None
    value = source.slice(statement.value).strip()
    if statement.operator == f"{sign}=":
        return value
    if statement.operator != "=" or sign != "+" or re.search(r"[?<>=&|]", value):
        return None
    if re.match(rf"{name}\s*\+", value):
        return value[len(name) :].strip()[1:].strip()
    return value[: -len(name)].strip()[:-1].strip() if re.search(rf"\+\s*{name}\Z", value) else None


def _lines(ctx: RuleContext, statement: Statement, names: dict[str, str]) -> list[str]:
    text = ctx.source.renamed(statement.span, names)
    return textwrap.dedent(indent_of(ctx.source, statement.span.start) + text).split("\n")


def _guarded(test: str, lines: list[str]) -> list[str]:
    if len(lines) == 1 or not test:
        return [f"{test} {line}".lstrip() for line in lines]
    return [f"{test} {{", *(f"    {line}" for line in lines), "}"]


def _merged(
    ctx: RuleContext,
    shared: SharedLoop,
    own: dict[str, str],
    head: str,
    other: dict[str, str],
    *,
    is_earlier: bool = False,
) -> list[str]:
    """Lines by which `own` names get what others have, of turns behind them or in front. Raises NotPrinted."""
    lines: list[str] = []
    theirs = {own[name]: other[name] for name in own}
    for found in shared.reductions:
        if found.kind == RECURRENCE:
            lines += _guarded(head, _continued(found.names[0], own, other, is_earlier=is_earlier))
            continue
        mine = replace(found, names=tuple(own[name] for name in found.names))
        made = combined(ctx, mine, head, theirs.__getitem__)
        if made is None:
            raise NotPrinted(f"a reduction by {found.kind}")
        lines += [line.strip() if head == "" and not at else line for at, line in enumerate(made)]
    return lines


def _continued(name: str, own: dict[str, str], other: dict[str, str], *, is_earlier: bool) -> list[str]:
    """A recurrence over two stretches, of which one has a factor and an addend."""
    slope = f"{name}.slope"
    if is_earlier:
        return [f"{own[name]} += {own[slope]} * {other[name]};", f"{own[slope]} *= {other[slope]};"]
    return [f"{own[name]} = {other[slope]} * {own[name]} + {other[name]};"]


def _parts(shared: SharedLoop, turn: _Turn, parts: dict[str, str]) -> list[str]:
    """What each lane begins with: nothing of what adds up, and the extrema so far."""
    starts = {name: value for found in shared.reductions for name, value in neutral_of(found).items()}
    starts |= dict.fromkeys(turn.slopes, "0") | dict.fromkeys(turn.slopes.values(), "1")
    return [f"{kind} {parts[name]} = {starts.get(name, name)};" for name, kind in turn.parts.items()]


def _words(ctx: RuleContext, turn: _Turn, word: str) -> dict[str, str]:
    """New names for all that a lane's turns come to."""
    return {name: fresh(ctx, f"{name.replace('.', '_')}_{word}") for name in turn.parts}


def scanned_row(ctx: RuleContext, analysis: LaunchAnalysis, shared: SharedLoop, lane: str, lanes: str) -> list[Edit]:
    """The loop by as many neighbouring elements at a time as there are lanes. Raises NotPrinted."""
    turn, source = _turn(ctx, analysis, shared), ctx.source
    loop, is_block = turn.loop, lanes != str(_WARP)
    first, step, before = fresh(ctx, "first"), fresh(ctx, "step"), any(is_before for _, is_before in turn.late)
    part, near = _words(ctx, turn, "part"), _words(ctx, turn, "near")
    here, past = (
        {name: own for name, own in _words(ctx, turn, word).items() if name in turn.kinds}
        for word in ("here", "before")
    )
    start, limit, index = (source.slice(loop.start).strip(), source.slice(loop.limit).strip(), loop.type.strip())
    place = f"{lane} % {_WARP}" if is_block else lane
    signs = {name: _SIGNS[found.kind] for found in shared.reductions for name in neutral_of(found)}
    up = [
        f"const {kind} {near[name]} = __shfl_up_sync({_ALL}, {part[name]}, {{}});" for name, kind in turn.parts.items()
    ]
    body = [
        f"const {index} {loop.name} = {first} + {lane};",
        *map(_declared, turn.kept),
        *_parts(shared, turn, part),
        *_guarded(f"if ({loop.name} {loop.relation} {limit})", _early(ctx, turn, part, signs)),
        f"for (int {step} = 1; {step} < {_WARP}; {step} *= 2) {{",
        *(f"    {line.format(step)}" for line in up),
        *(f"    {line}" for line in _merged(ctx, shared, part, f"if ({place} >= {step})", near, is_earlier=True)),
        "}",
    ]  # fmt: skip
    if is_block:
        body += [f"{kind} {here[name]} = {name};" for name, kind in turn.kinds.items()]
        body += _of_earlier_warps(ctx, shared, turn, (lane, lanes), (part, here))
    if before:
        body += [line.format(1) for line in up]
        body += [f"{kind} {past[name]} = {here[name] if is_block else name};" for name, kind in turn.kinds.items()]
        body += _merged(ctx, shared, past, f"if ({place} > 0)", near)
    if is_block:
        body += _merged(ctx, shared, here, "", part)
    else:
        # Extrema know of all before.
        here |= {name: part[name] for name in here if name not in signs and name not in turn.slopes}
        body += [
            f"const {turn.kinds[name]} {here[name]} = {part[slope]} * {name} + {part[name]};"
            for name, slope in turn.slopes.items()
        ]
        body += [f"const {turn.kinds[name]} {here[name]} = {name} {sign} {part[name]};" for name, sign in signs.items()]
    stores = [line for each, is_before in turn.late for line in _lines(ctx, each, past if is_before else here)]
    body += _guarded(f"if ({loop.name} {loop.relation} {limit})", stores)
    if is_block:
        body += _of_all_warps(ctx, shared, turn, lanes)
    else:
        body += [f"{name} = __shfl_sync({_ALL}, {here[name]}, {_WARP - 1});" for name in turn.kinds]
    indent = indent_of(source, loop.span.start)
    lines = [f"for ({index} {first} = {start}; {first} {loop.relation} {limit}; {first} += {lanes}) {{"]
    lines += [f"    {line}" if line else line for line in body]
    return [Edit(loop.span, f"\n{indent}".join([*lines, "}"]))]


def _of_earlier_warps(
    ctx: RuleContext,
    shared: SharedLoop,
    turn: _Turn,
    lanes: tuple[str, str],
    names: tuple[dict[str, str], dict[str, str]],
) -> list[str]:
    """What the warps in front of a thread's own have come to. names: of a lane's part, and of what it is added to."""
    (lane, count), (part, here) = lanes, names
    warps, warp = {name: parts_name(ctx, name) for name in turn.parts}, fresh(ctx, "warp")
    lines = [f"__shared__ {kind} {warps[name]}[{count} / {_WARP}];" for name, kind in turn.parts.items()]
    stores = [f"{warps[name]}[{lane} / {_WARP}] = {part[name]};" for name in turn.parts]
    lines += [*_guarded(f"if ({lane} % {_WARP} == {_WARP - 1})", stores), "__syncthreads();"]
    head = f"for (int {warp} = 0; {warp} < (int){lane} / {_WARP}; ++{warp})"
    return lines + _merged(ctx, shared, here, head, {name: f"{own}[{warp}]" for name, own in warps.items()})


def _of_all_warps(ctx: RuleContext, shared: SharedLoop, turn: _Turn, count: str) -> list[str]:
    """The carried numbers behind what all warps have come to."""
    warp, own = fresh(ctx, "warp"), {name: name for name in turn.kinds}
    head = f"for (int {warp} = 0; {warp} < {count} / {_WARP}; ++{warp})"
    theirs = {name: f"{parts_name(ctx, name)}[{warp}]" for name in turn.parts}
    return [*_merged(ctx, shared, own, head, theirs), "__syncthreads();"]


def scanned_column(
    ctx: RuleContext, analysis: LaunchAnalysis, shared: SharedLoop, shape: tuple[str, str], place: tuple[str, str]
) -> list[Edit]:
    """Each lane's stretch of a column twice: for what it comes to, and again behind what the lanes before it have.

    shape: names of the numbers of columns and lanes; place: of a thread's column and lane. Raises NotPrinted.
    """
    turn, source = _turn(ctx, analysis, shared), ctx.source
    loop, (count, per), (column, lane) = turn.loop, shape, place
    start, limit = source.slice(loop.start).strip(), source.slice(loop.limit).strip()
    kind = loop.type.replace("const", "").strip()
    each, begin, end, other = (fresh(ctx, word) for word in ("each", "begin", "end", "other"))
    part = _words(ctx, turn, "part")
    parts = {name: parts_name(ctx, name) for name in turn.parts}
    theirs = {name: f"{own}[{other}][{column}]" for name, own in parts.items()}
    turns, at = (limit, "") if start == "0" else (f"{limit} - ({start})", f"{start} + ")
    lines = [
        f"const {kind} {each} = ({turns} + {per} - 1) / {per};  // turns of a lane",
        f"const {kind} {begin} = {at}{lane} * {each}, {end} = min({limit}, {begin} + {each});",
        *_parts(shared, turn, part),
        f"for ({kind} {loop.name} = {begin}; {loop.name} < {end}; ++{loop.name}) {{",
        *(f"    {line}" for line in _early(ctx, replace(turn, kept=()), part)),
        "}",
        *(f"__shared__ {kind} {parts[name]}[{per}][{count}];" for name, kind in turn.parts.items()),
        *(f"{parts[name]}[{lane}][{column}] = {part[name]};" for name in turn.parts),
        "__syncthreads();",
    ]
    after, whole = [], {name: fresh(ctx, f"{name.replace('.', '_')}_whole") for name in turn.kinds}
    body = next(f.body for f in source.functions if f.body.holds(loop.span))
    if any(name in turn.kinds for name, _ in source.names(Span(loop.span.end, body.end))):
        lines += [f"{kind} {whole[name]} = {name};" for name, kind in turn.kinds.items()]
        lines += _merged(ctx, shared, whole, f"for (int {other} = 0; {other} < {per}; ++{other})", theirs)
        after = [f"{name} = {whole[name]};" for name in turn.kinds]
    own = {name: name for name in turn.kinds}
    lines += _merged(ctx, shared, own, f"for (int {other} = 0; {other} < {lane}; ++{other})", theirs)
    above, indent = source.above(loop.span), indent_of(source, loop.span.start)
    if above is None or not loop.takes_each:
        raise NotPrinted("no line in front of the loop")
    edits = [Edit(Span(above, above), "".join(f"{indent}{line}\n" for line in lines))]
    edits += [Edit(loop.start, begin), Edit(loop.limit, end)]
    behind = Span(loop.span.end, loop.span.end)
    return [*edits, Edit(behind, "".join(f"\n{indent}{line}" for line in after))] if after else edits


def _declared(statement: Statement) -> str:
    kind = statement.type.strip() if "*" in statement.type else statement.type.replace("const ", "").strip()
    return f"{kind} {statement.name};"
