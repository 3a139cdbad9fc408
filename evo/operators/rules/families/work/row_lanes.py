"""What each thread walks alone is shared by a warp or a block, in whatever way the kernel is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from evo.analysis.access import THREAD, Access, Form, LaunchAnalysis, Loop, Node, Symbol, Term
from evo.analysis.access.numeric import number_of
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.families.work.row_places import WARP, RowPlace, block_place, row_place, shared_out
from evo.operators.rules.families.work.scanning import scanned_row
from evo.operators.rules.families.work.tile_rows import found_tile_rows
from evo.operators.rules.families.work.walks import (
    SharedLoop,
    going_on,
    is_called_by,
    is_met_in,
    nests,
    shared_of,
    stay_with_their_lane,
    stored_if,
)
from evo.operators.rules.index_text import with_turns
from evo.operators.rules.rewriting import fresh, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thin_view import behind_thin_blocks

Placed = Callable[[RuleContext, LaunchAnalysis, Function], RowPlace | None]

_LONG = 256  # turns, from which on a block may share them
_FEW = 4  # turns of a loop that is not shared out; of a lane of a warp, with fewer of which a group is enough
_GROUPS = (8, 4)  # lanes, where rows are short
_TURN = Symbol("turn", "loop")
_RECORD, _WHOLE = 128, 16  # bytes of what a lane reads, or writes, whole in one turn


def found_rows(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, *, is_block: bool, is_scan: bool = False
) -> Iterator[Application]:
    """The kernels whose rows a warp or a block can share; is_scan: those that store on the way what a row comes to."""
    if not is_block and not is_scan:
        yield from found_tile_rows(ctx, analysis, function)
    ways: list[tuple[Placed, str, int | str]] = [(block_place, "threads of a block", "block")]
    if not is_block:
        ways = [(row_place, "lanes of a warp", WARP)]
        for lanes in () if is_scan else _GROUPS:
            ways.append((partial(row_place, lanes=lanes), f"lanes of a group of {lanes}", lanes))
    for rank, (placed, who, to) in enumerate(ways):
        if edits := _edits(ctx, analysis, function, placed, is_scan=is_scan):
            yield Application(
                edits=tuple(merged(edits)),
                summary=f"{function.name}: the {who} share what each thread walked alone",
                arguments={"kernel": function.name, "to": to},
                rank=rank,
                is_schedule=any(each.calls for each in analysis.form.loops.values()),  # several functions are touched
            )


def _edits(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, placed: Placed, *, is_scan: bool
) -> list[Edit] | None:
    form = analysis.form
    if form.barriers or form.exchanges or form.shared:
        return None
    place = placed(ctx, analysis, function)
    shared = _walked(ctx, analysis, form.body, place) if place is not None else None
    if place is None or not shared or not stay_with_their_lane(analysis, shared) or _leave_arrays(form, shared):
        return None
    if any(each.is_scan for each in shared) != is_scan:
        return None
    longest, is_block = max(analysis.turns(each.loop) or 0 for each in shared), not place.lanes.isdigit()
    if longest < _LONG if is_block else place.lanes != str(WARP) and not 0 < longest < _FEW * WARP:
        return None
    if place.lanes == str(_GROUPS[-1]) and longest >= _GROUPS[0]:
        return None
    if not is_block:
        lane = fresh(ctx, "lane")
        start = function.body.start + 1
        is_last = not ctx.source.data[start:].partition(b"\n")[0].strip()
        behind = "" if is_last else "\n   "  # no code behind the comment
        who = "a warp" if place.lanes == str(WARP) else "a few lanes"
        named = Edit(Span(start, start), f"\n    const int {lane} = {place.lane};  // {who} for each index{behind}")
    else:
        lane, named = place.lane, None
    edits = [*place.edits]
    seen: dict[Span, list[Edit]] = {}
    for each in shared:
        # In a function of its own the kernel's variable cannot be seen.
        here = lane if not each.loop.calls or lane == place.lane else f"({place.lane})"
        made = (
            scanned_row(ctx, analysis, each, here, place.lanes)
            if each.is_scan
            else shared_out(
                ctx, each, here, place, is_again=_is_again(form, each), taken=_shared_names(seen, each.loop.span)
            )
        )
        if made is None or seen.setdefault(each.loop.span, made) != made or not is_called_by(ctx, each.loop, function):
            return None
    edits += [edit for made in seen.values() for edit in made]
    inside = {each.loop.symbol for each in shared}
    for access in form.accesses:
        if not access.is_write or not access.is_global or inside & set(access.loops):
            continue
        edit = stored_if(ctx, access, f"{lane} == 0")
        if edit is None or is_met_in(ctx, access, shared):
            return None
        edits.append(edit)
    is_named = named is not None and any(re.search(rf"\b{lane}\b", edit.text) for edit in edits)
    return [named, *edits] if named is not None and is_named else edits


def _shared_names(made: dict[Span, list[Edit]], beside: Span) -> set[str]:
    """What the edits for the other loops declare in shared memory."""
    texts = [edit.text for span, edits in made.items() if span != beside for edit in edits]
    return {name for text in texts for name in re.findall(r"\b__shared__ [\w ]+ (\w+)\[", text)}


def _is_again(form: Form, shared: SharedLoop) -> bool:
    """Whether a thread may come to the loop more than once: it stands in another, or in a function."""
    symbol = (shared.whole or shared.loop).symbol
    inner = any(symbol in access.loops and access.loops[0] != symbol for access in form.accesses)
    return inner or bool(shared.loop.calls)


def _walked(
    ctx: RuleContext, analysis: LaunchAnalysis, nodes: tuple[Node, ...], place: RowPlace
) -> list[SharedLoop] | None:
    """The outermost loops that walk along the contiguous dimension; None if something else is in the way."""
    form, least = analysis.form, int(place.lanes) if place.lanes.isdigit() else WARP
    found: list[SharedLoop] = []
    for loop, body in nests(nodes):
        inside = [access for access in form.accesses if loop.symbol in access.loops]
        if not any(a.is_global for a in inside):
            continue
        if _is_rest(analysis, loop, body) or _is_of_own(inside):
            continue  # each lane takes the few turns that another loop has left, or stores its own array
        if _walks(analysis, loop, inside, place.is_alone):
            shared = shared_of(ctx, analysis, loop)
            if shared is not None:
                found.append(shared)
                continue
        # Every lane takes all turns of a loop whose inner loops are long walks, with what little is beside them.
        inner = _walked(ctx, analysis, body, place)
        if not inner or any((analysis.turns(each.loop) or 0) < least for each in inner):
            return None  # each lane would do all of it again
        found += [going_on(ctx, analysis, loop, inner[0])] if len(inner) == 1 else inner
    return found


def _leave_arrays(form: Form, shared: list[SharedLoop]) -> bool:
    """Whether a loop fills a thread's own array for what follows: each lane would have some of its elements."""
    for each in shared:
        symbol, combined_ones = each.loop.symbol, {at for found in each.reductions for at in found.accesses}
        filled = {a.memory.name for a in form.accesses if _is_local(a) and a.is_write and symbol in a.loops}
        filled -= {a.memory.name for a in form.accesses if _is_local(a) and a.number in combined_ones}
        if any(_is_local(a) and a.memory.name in filled and symbol not in a.loops for a in form.accesses):
            return True
    return False


def _is_local(access: Access) -> bool:
    return access.array is not None and access.array.space == "local"


def _is_rest(analysis: LaunchAnalysis, loop: Loop, body: tuple[Node, ...]) -> bool:
    """Whether a loop is known to take no turns or a few, without others inside."""
    turns = analysis.turns(loop)
    return turns is not None and turns <= _FEW and not any(True for _ in nests(body))


def _is_of_own(inside: list[Access]) -> bool:
    """Whether a loop stores elements of a thread's own array, which a lane's number would move out of registers."""
    is_own = any(each.array is not None and each.array.space == "local" for each in inside)
    return is_own and not any(each.is_global and each.is_read for each in inside)


def _walks(analysis: LaunchAnalysis, loop: Loop, inside: list[Access], is_alone: bool) -> bool:
    """Whether a turn further is an element further at most, for most of what the loop touches."""
    if (loop.step.value or 0) < 1 or loop.values is not None or loop.until is not None:
        return False
    if loop.blocked is not None and not loop.is_given:
        return False
    far, ways = 0, set[bool]()  # a walk may go backwards as a whole
    for access in inside:
        if not access.is_global:
            continue
        way = _apart(analysis, loop, access)
        if way is None:
            return False
        ways |= {way > 0} if way else set()
        apart = abs(way)
        is_record = apart > access.memory.element_bytes and _is_record(analysis, loop, access, inside)
        if apart > access.memory.element_bytes and not is_record:
            return False
        if apart not in (access.memory.element_bytes, 0) and access.is_write and not is_record:
            return False
        far += _is_far(analysis, loop, access)
    return len(ways) == 1 and (far > 0 or is_alone)


def _is_far(analysis: LaunchAnalysis, loop: Loop, access: Access) -> bool:
    """Whether the threads of a warp touch more sectors than their elements need, as far as sizes or places tell."""
    traffic = analysis.traffic.accesses.get(access.number)
    if traffic is not None and traffic.sectors is not None:
        return traffic.sectors > 2 * max(traffic.ideal or 1, 1)
    place = _by_turns(analysis, loop, access)
    apart = place.coefficient(THREAD[0])
    number = number_of(apart, analysis.sizes.values) if apart is not None else None
    if number is not None and number:
        return abs(number) > 2 * access.bytes
    return any(symbol.kind == "value" for symbol in place.symbols())  # rows that begin where data says


def _by_turns(analysis: LaunchAnalysis, loop: Loop, access: Access) -> Term:
    """Where an access is, by the number of the turn in place of the loop's variable."""
    return with_turns(analysis.form, access.offset, {loop.symbol: loop.start + loop.step * Term.of(_TURN)})


def _apart(analysis: LaunchAnalysis, loop: Loop, access: Access) -> Fraction | None:
    """Bytes that a turn is from the next one, on average: several may share an element, as those of `a[i / 2]` do.

    None if that is not known, or not the same everywhere in the walk.
    """
    total = Fraction(0)
    for mono, count in _by_turns(analysis, loop, access).parts.items():
        if not any(_TURN in atom.symbols() for atom in mono):
            continue
        (atom, *others) = mono
        if others:
            return None
        if isinstance(atom, Symbol):
            total += count
            continue
        by, of = atom.terms[-1].value, atom.terms[0].coefficient(_TURN)
        if atom.name != "div" or not by or by < 0 or of is None or of.value is None or of.value < 0 or count < 0:
            return None
        total += Fraction(count * of.value, by)
    return total


def _is_record(analysis: LaunchAnalysis, loop: Loop, access: Access, inside: list[Access]) -> bool:
    """Whether a turn reads the whole of a short record, or writes that of a shorter one, each byte, and the next turn
    the one behind it."""
    here = _by_turns(analysis, loop, access)
    length = here.coefficient(_TURN)
    beside = [each for each in inside if each.array == access.array and each.is_write == access.is_write]
    longest = _WHOLE if access.is_write else _RECORD
    if length is None or length.value not in range(1, longest + 1) or access.mode == "atomic":
        return False
    touched: set[int] = set()
    for each in beside:
        there = _by_turns(analysis, loop, each)
        if there.coefficient(_TURN) != length:
            return False
        places = [there - here.substitute(_first_turn(analysis, loop, access))]
        for symbol in each.loops[each.loops.index(loop.symbol) + 1 :]:
            inner = analysis.form.loops[symbol]
            turns = inner.counted if inner.until is None else None
            if turns is None or len(turns) > _RECORD:
                return False
            places = [place.substitute({symbol: Term.number(turn)}) for place in places for turn in turns]
        if not places or len(places) > _RECORD or any(place.value is None for place in places):
            return False
        touched |= {byte for place in places for byte in range(place.value or 0, (place.value or 0) + each.bytes)}
    return len(touched) == length.value == max(touched) - min(touched) + 1


def _first_turn(analysis: LaunchAnalysis, loop: Loop, access: Access) -> dict[Symbol, Term]:
    inner = access.loops[access.loops.index(loop.symbol) + 1 :]
    return {symbol: analysis.form.loops[symbol].start for symbol in inner}


RULES = (
    Rule(
        name="row_lanes",
        sentence="Gives each index a warp instead of a thread where a thread walks along memory alone, or a few lanes"
        " where it walks tiles in shared memory: they take neighbouring elements, and shuffles combine their sums,"
        " maxima and best ones.",
        find=behind_thin_blocks(by_launch(partial(found_rows, is_block=False))),
        reason="threads that each walk a row of their own read addresses a row apart: one sector per element",
        expected="each fetched sector is used whole, and 32 times as many threads keep the memory busy",
        risk="short rows leave lanes idle; sums are added in another order",
        next_if_kept="wider loads, then values kept in registers between the loops",
        next_if_reverted="fewer passes over the row",
    ),
    Rule(
        name="row_blocks",
        sentence="Gives each index a block instead of a thread where a thread walks along memory alone: its threads"
        " take neighbouring elements and combine through shuffles and shared memory.",
        find=behind_thin_blocks(by_launch(partial(found_rows, is_block=True))),
        reason="a few long rows, each walked by a thread, keep a small part of the chip busy and waste sectors",
        expected="each fetched sector is used whole, and few rows fill the chip",
        risk="short rows leave threads idle at barriers; sums are added in another order",
        next_if_kept="wider loads, then values kept in registers between the loops; the number of threads",
        next_if_reverted="a warp for each row",
    ),
)
