"""Neighbouring elements in one instruction: 32, 64 and 128-bit accesses where a loop walks them one by one.

Alignment is not assumed: the wide loop runs where the addresses turn out to be aligned, and the old one does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evo.analysis.access.legality import is_inside
from evo.cuda.source import CountedFor, CountedLoop, Edit, Function, Source, Span, Statement
from evo.operators.rules.directives import definition_place
from evo.operators.rules.element import BYTES, pack_name, pack_struct
from evo.operators.rules.families.vector.interleaved import Records, record_of
from evo.operators.rules.joined_totals import is_joined, stays_apart
from evo.operators.rules.loops import above, counted_loops, is_rest, loop_words, reads_unseen
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.reductions import counts_down, is_continue, offset_of, takes_any_order
from evo.operators.rules.rewriting import balanced, fresh, indented, merged, rewritten, same
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels, takes_turns
from evo.spec.variant import LaunchLine

_MOST_BYTES = 16
_WRITTEN_OUT = 64  # turns
# Written out, three turns that are left become one load of four elements, of which the last may lie outside.
_ONE_BY_ONE = "#pragma unroll 1\n"
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_BUILT_IN = frozenset(("blockIdx", "threadIdx", "blockDim", "gridDim", "size_t", "int", "long", "unsigned"))
_LEAVES = re.compile(r"\b(break|continue|return|goto)\b|__sync|_sync\b|\basm\b|\[&|\[=")
_Packs = dict[tuple[str, str] | Records, str]  # what is loaded or stored at once, by the name that it gets
_ATOMIC = re.compile(r"atomic(Add|Max|Min|Or|And|Xor)\s*\([^;{}=]*\)\s*;")


@dataclass(slots=True)
class _WideLoop:
    """A loop over neighbouring elements: what it reads and writes at `offset + i`, or backwards at `E - i`, whose
    offset is that text, and how it advances.
    """

    loop: CountedFor
    stride: str  # empty for one by one; else the number of lanes or threads that take turns
    trips: int = 0  # of a loop that indexes a thread's own arrays, which stay in registers if all turns are written out
    kinds: dict[str, str] = field(default_factory=dict)  # pointer -> element
    reads: dict[tuple[str, str], list[Span]] = field(default_factory=dict)
    writes: dict[tuple[str, str], Statement] = field(default_factory=dict)
    records: dict[Records, list[tuple[Span, int]]] = field(default_factory=dict)  # and which element of one

    @property
    def places(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((*self.reads, *self.writes)))

    def note(self, span: Span, found: tuple[Records, int] | None) -> None:
        if found is not None:
            self.records.setdefault(found[0], []).append((span, found[1]))

    def is_backward(self, offset: str) -> bool:
        return re.search(rf"\b{self.loop.name}\b", offset) is not None

    def address(self, place: tuple[str, str], turn: str, count: int) -> str:
        """Of the first of the elements that so many turns from one on touch."""
        name, offset = place
        if self.is_backward(offset):
            last = re.sub(rf"\b{self.loop.name}\b", f"({turn} + {count - 1})", offset)
            return f"&{name}[{last}]"
        at = " + ".join(part for part in (offset, turn if turn != "0" else "") if part)
        return f"&{name}[{at}]" if at else name

    def is_off(self, source: Source) -> bool:
        """Whether turns begin where no wide element does, and one place tells for all where the next one is."""
        start = source.slice(self.loop.start).strip()
        directions = {self.is_backward(offset) for _, offset in self.places}
        sizes = {BYTES[kind] for kind in self.kinds.values()}
        is_later = start.isdigit() and int(start) > 0
        return (
            not self.stride
            and not self.trips
            and len(sizes) == len(directions) == 1
            and not self.records
            and (is_later or True in directions)
        )


def _find(ctx: RuleContext) -> Iterator[Application]:
    launched = {function.name: (function, launch) for function, launch in kernels(ctx)}
    loops = [(loop, statement) for loop, statement, _ in counted_loops(ctx) if loop.function in launched]
    walks = [(loop, _walk(ctx, *launched[loop.function], statement, loop.trips or 0)) for loop, statement in loops]
    known = [(loop, walk) for loop, walk in walks if walk is not None]
    seen: list[Span] = []
    for loop, walk in known:
        if loop.span in seen:
            continue
        every = _dealt_together(ctx, launched[loop.function][0], (loop, walk), known)
        seen += [each.span for each, _ in every]
        largest = max((BYTES[kind] for _, each in every for kind in each.kinds.values()), default=0)
        for count in (16, 8, 4, 2):
            is_short = all(records.fits(count) for _, each in every for records in each.records)
            if every and is_short and count * largest <= _MOST_BYTES and all(e.trips % count == 0 for _, e in every):
                names = dict.fromkeys(name for _, each in every for name in each.kinds)
                yield Application(
                    edits=tuple(_all_edits(ctx, every, count)),
                    summary=f"{loop_words(ctx, loop)}: {count} elements per access to {', '.join(names)}",
                    arguments={"function": loop.function, "to": count},
                    rank=(_MOST_BYTES // (count * largest)).bit_length() - 1,
                    is_schedule=len(every) > 1,
                )


def _dealt_together(
    ctx: RuleContext,
    function: Function,
    ours: tuple[CountedLoop, _WideLoop],
    known: list[tuple[CountedLoop, _WideLoop]],
) -> list[tuple[CountedLoop, _WideLoop]]:
    """A loop with those whose turns are to be dealt to threads as its own are; none if others are not."""
    loop, walk = ours
    if not walk.stride or stays_apart(ctx, function, [walk.loop]):
        return [ours]
    header = _turns_of(ctx.source, walk)
    every = [each for each in known if each[0].function == loop.function and _turns_of(ctx.source, each[1]) == header]
    starts = [each.span.start for each, _ in every]
    known_here = {*ctx.source.declared(Span(function.body.start, min(starts))), *(p.name for p in function.params)}
    changed = ctx.source.changed_in(Span(min(starts), max(starts))) - {n for _, each in every for n in each.kinds}
    places = [(*each.places, *((r.name, r.offset) for r in each.records)) for _, each in every]
    words = set(_NAME.findall(" ".join(text for own in places for place in own for text in place)))
    if changed & words or words - known_here - _BUILT_IN:
        return []  # one test, in front of the first loop, tells for all whether addresses are aligned
    return every if stays_apart(ctx, function, [each.loop for _, each in every]) else []


def _turns_of(source: Source, walk: _WideLoop) -> tuple[str, ...]:
    loop = walk.loop
    return source.slice(loop.start).strip(), loop.relation, source.slice(loop.limit).strip(), walk.stride


def _all_edits(ctx: RuleContext, every: list[tuple[CountedLoop, _WideLoop]], count: int) -> list[Edit]:
    found: list[Edit] = []
    tests = [_aligned(ctx, walk, count, ("", "", ""))[0].split(" && ") for _, walk in every[1:]]
    flag = ""
    for loop, walk in every:
        taken = "\n".join(edit.text for edit in found)
        view = replace(ctx, written=f"{ctx.written}\n{taken}")
        found += _edits(view, loop, walk, count, flag, [test for each in tests for test in each])
        flag = flag or fresh(ctx, f"{loop.variable}_wide")
    return merged(found)


def _open_loop(ctx: RuleContext, function: Function, launch: LaunchLine, statement: CountedFor) -> _WideLoop | None:
    """A loop whose turns stay within it and walk one by one or side by side; nothing is known of what they touch."""
    source = ctx.source
    if is_rest(ctx.source, function, statement):
        return None
    skips = [each.body[0] for each in statement.body if is_continue(source, each)]
    if (
        source.is_bare(statement.span)
        or _LEAVES.search(rewritten(source, statement.body_span, [Edit(each.span, ";") for each in skips]))
        or any(s.kind in ("for", "other") for s in statement.all() if s is not statement and s not in skips)
    ):
        return None
    if statement.step == "1":
        return _WideLoop(statement, "")
    is_open = _is_counting(source, statement) or takes_any_order(source, statement)
    return _WideLoop(statement, statement.step) if is_open and takes_turns(ctx, launch, function, statement) else None


def _walk(
    ctx: RuleContext, function: Function, launch: LaunchLine, statement: CountedFor, trips: int
) -> _WideLoop | None:
    """trips: how often the loop runs, 0 if the text does not tell."""
    source, body = ctx.source, statement.body_span
    walk = _open_loop(ctx, function, launch, statement)
    if walk is None or reads_unseen(source, function, statement):
        return None
    uses = source.subscripts(body)
    guarded, always, others = dict[tuple[str, str], list[Span]](), set[tuple[str, str]](), set[str]()
    skipped = min((s.span.end for s in statement.body if is_continue(source, s)), default=body.end)
    written = {s.target: s for s in statement.all() if s.kind == "assign" and s.value is not None}
    for use in uses:
        offset = offset_of(source, statement, use.indices[0]) if len(use.indices) == 1 else None
        if len(use.indices) == 1 and offset is None and counts_down(source, statement, use.indices[0]):
            offset = source.slice(use.indices[0]).strip() if not walk.stride else None
        kind = source.element_type(function.name, use.name)
        inner = [other.span for other in uses if other.span != use.span and use.span.holds(other.span)]
        names = {
            name for index in use.indices for name, at in source.names(index) if not any(o.holds(at) for o in inner)
        }
        if offset is None or _is_array(ctx, function, use.name):
            if statement.name in names and (kind is None or _is_array(ctx, function, use.name)):
                if not 1 < trips <= _WRITTEN_OUT or walk.stride or source.slice(statement.start).strip() != "0":
                    return None  # a private array would be indexed at run time
                walk.trips = trips
            others.add(use.name)
            is_always = use.is_read and use.span.end <= skipped and not source.is_conditional(use.span, body)
            if is_always and _is_pointer(ctx, function, use.name):
                walk.note(use.span, record_of(source, statement, use, kind))
            continue
        if kind not in BYTES or not _is_pointer(ctx, function, use.name):
            return None
        if any(other.span != use.span and use.span.holds(other.span) for other in uses):
            return None
        tested = (s.condition for s in statement.body if s.kind == "if" and s.condition is not None)
        within = next((test for test in tested if test.holds(use.span)), body)
        if use.span.start >= skipped or source.is_conditional(use.span, within):
            if not use.is_read:
                return None
            guarded.setdefault((use.name, offset), []).append(use.span)
        else:
            always.add((use.name, offset))
        walk.kinds[use.name] = kind
        if use.is_read:
            walk.reads.setdefault((use.name, offset), []).append(use.span)
        elif use.span in written and (use.name, offset) not in walk.writes and written[use.span] in statement.body:
            walk.writes[use.name, offset] = written[use.span]
            if written[use.span].operator != "=":
                walk.reads.setdefault((use.name, offset), [])
        else:
            return None
    stored = {name for name, _ in walk.writes}
    if not walk.kinds or stored & others or any(p[0] in stored and p not in walk.writes for p in walk.reads):
        return None  # what one turn stores, another one may read
    if any(not _lies_inside(ctx, function, spans[0]) for place, spans in guarded.items() if place not in always):
        return None  # what a test guards may lie outside
    if walk.stride and not is_joined(source, function, statement, frozenset(stored)):
        return None
    return walk if _is_stored_apart(source, walk) else None


def _is_stored_apart(source: Source, walk: _WideLoop) -> bool:
    """Whether no two stores meet: one to an array, or two whose second begins where the first one's turns end."""
    for name in {name for name, _ in walk.writes}:
        first, *others = sorted((offset for array, offset in walk.writes if array == name), key=len)
        limit, start = source.slice(walk.loop.limit), source.slice(walk.loop.start).strip()
        if others and walk.loop.relation != "<":
            return False
        if others and (first or len(others) > 1 or not same(others[0], limit) or not (walk.stride or start == "0")):
            return False
    return True


def _lies_inside(ctx: RuleContext, function: Function, span: Span) -> bool:
    """Whether what is read behind a test is an element of its tensor even where a test of data does not hold."""
    found = [
        (analysis.form, access)
        for analysis in ctx.launches
        if analysis.form.kernel == function.name
        for access in analysis.form.accesses
        if access.span == span
    ]
    return bool(found) and all(is_inside(form, access) for form, access in found)


def _is_counting(source: Source, statement: CountedFor) -> bool:
    """Whether a loop only adds by atomics whose results are not used: its turns are in any order."""
    calls = [s for s in statement.all() if s is not statement]
    return bool(calls) and all(s.kind == "call" and _ATOMIC.fullmatch(source.slice(s.span)) for s in calls)


def _is_array(ctx: RuleContext, function: Function, name: str) -> bool:
    return any(s.name == name and s.dims for s in ctx.source.inside(function))


def _is_pointer(ctx: RuleContext, function: Function, name: str) -> bool:
    if any(param.name == name and param.type.count("*") == 1 for param in function.params):
        return True
    found = [s for s in ctx.source.inside(function) if s.name == name and s.kind == "declare"]
    if len(found) != 1 or re.search(rf"\*[^=]*\b{name}\s*\[", ctx.source.slice(found[0].span)):
        return False  # an array of pointers, if there is one
    return found[0].type.count("*") == 1


def _edits(
    ctx: RuleContext, loop: CountedLoop, walk: _WideLoop, count: int, flag: str, others: list[str]
) -> Iterator[Edit]:
    """flag: what an earlier loop found out for this one too, for which it asked these others."""
    source, statement = ctx.source, walk.loop
    i, start, limit = loop.variable, source.slice(statement.start), source.slice(statement.limit)
    indent, done, e = loop.indent, fresh(ctx, f"{i}_done"), fresh(ctx, "e")
    if walk.trips == count:  # one access takes all turns
        done, e = "0", i
    packs: _Packs = {}
    for place in walk.places:
        packs[place] = fresh(ctx, f"{place[0]}_pack", packs.values())
    for records in walk.records:
        packs[records] = fresh(ctx, f"{records.name}_pack", packs.values())
    kinds = dict.fromkeys(walk.kinds.values())
    structs = [pack_struct(f"{pack_name(kind)}{count}", kind, count, count) for kind in kinds]
    structs += [records.struct(count)[1] for records in walk.records]
    missing = "".join(t for t in dict.fromkeys(structs) if t not in source.text and t not in ctx.written)
    if missing:
        yield Edit(definition_place(ctx), missing)
    wide, loads, stores = flag or fresh(ctx, f"{i}_wide"), "", ""
    for name, offset in walk.places:
        place, kind = (name, offset), f"{pack_name(walk.kinds[name])}{count}"
        at, own = walk.address(place, done, count), packs[name, offset]
        if place in walk.reads:
            held = kind if place in walk.writes else f"const {kind}"
            loads += f"{indent}    {held} {own} = *reinterpret_cast<const {kind}*>({at});\n"
        else:
            loads += f"{indent}    {kind} {own};\n"
        if place in walk.writes:
            stores += f"{indent}    *reinterpret_cast<{kind}*>({at}) = {own};\n"
    for records in walk.records:
        kind, at = records.struct(count)[0], records.address(done)
        loads += f"{indent}    const {kind} {packs[records]} = *reinterpret_cast<const {kind}*>({at});\n"
    step = f"{_factor(walk.stride)} * {count}" if walk.stride else str(count)
    first = f"{_factor(start)} * {count}" if walk.stride else start
    declared = "" if walk.stride else f"{indent}int {done} = {first};\n"
    begin = f"int {done} = {first}" if walk.stride else ""
    head = f"for ({begin}; {wide} && {done} + {count - 1} {statement.relation} {limit}; {done} += {step})"
    tests, turns = _aligned(ctx, walk, count, (wide, done, indent))
    tests = " && ".join(dict.fromkeys([*tests.split(" && "), *others]))
    if walk.trips:
        yield _written_out(ctx, loop, walk, tests, (done, e, loads, stores), (packs, count))
        return
    yield Edit(
        Span(above(ctx, loop), above(ctx, loop)),
        f"{'' if flag else f'{indent}const bool {wide} = {tests};{chr(10)}'}{declared}{turns}{indent}{head} {{\n{loads}"
        f"#pragma unroll\n{indent}    for (int {e} = 0; {e} < {count}; ++{e}) {{\n"
        f"{_body(ctx, walk, packs, (e, done, indent), count)}"
        f"{indent}    }}\n{stores}{indent}}}\n{'' if walk.stride or loop.pragma else _ONE_BY_ONE}",
    )
    turns_of = _factor(limit) if statement.relation == "<" else f"({limit} + 1)"
    rest = f"({wide} ? {turns_of} / {count} * {count} : 0) + {start}" if walk.stride else done
    yield Edit(statement.start, rest)


def _written_out(
    ctx: RuleContext,
    loop: CountedLoop,
    walk: _WideLoop,
    test: str,
    parts: tuple[str, str, str, str],
    packed: tuple[_Packs, int],
) -> Edit:
    """Both loops with all turns written out, of which only one runs: arrays of the thread stay in registers."""
    (done, e, loads, stores), (packs, count), indent = parts, packed, loop.indent
    inner = f"{indent}    "
    head = f"for (int {done} = 0; {done} < {walk.trips}; {done} += {count})"
    each = f"for (int {e} = 0; {e} < {count}; ++{e})"
    old = indented(ctx.source.slice(walk.loop.span))
    if walk.trips == count:
        body = _body(ctx, walk, packs, (e, done, indent), count)
        wide = f"{loads}#pragma unroll\n{inner}{each} {{\n{body}{inner}}}\n{stores}"
    else:
        body = _body(ctx, walk, packs, (e, done, inner), count)
        wide = f"#pragma unroll\n{inner}{head} {{\n{indented(loads)}#pragma unroll\n{inner}    {each} {{\n"
        wide += f"{body}{inner}    }}\n{indented(stores)}{inner}}}\n"
    return Edit(
        Span(above(ctx, loop), walk.loop.span.end),
        f"{indent}if ({test}) {{\n{wide}{indent}}} else {{\n#pragma unroll\n{indent}{old}\n{indent}}}",
    )


def _aligned(ctx: RuleContext, walk: _WideLoop, count: int, names: tuple[str, str, str]) -> tuple[str, str]:
    """Whether the wide loop may run, and the turns in front of its first."""
    wide, done, indent = names
    start = ctx.source.slice(walk.loop.start)
    begin = "0" if walk.stride or start == "0" else f"({start})"
    bytes_of = {name: count * BYTES[kind] for name, kind in walk.kinds.items()}
    at = {place: f"reinterpret_cast<unsigned long long>({walk.address(place, begin, count)})" for place in walk.places}
    if not walk.is_off(ctx.source):
        walls = [(at[place], bytes_of[place[0]]) for place in walk.places]
        walls += [(f"reinterpret_cast<unsigned long long>({r.address(begin)})", r.unit(count)) for r in walk.records]
        return " && ".join(f"{place} % {wall} == 0" for place, wall in walls), ""
    first, *others = walk.places
    wall = bytes_of[first[0]]
    tests = [f"({at[place]} - {at[first]}) % {wall} == 0" for place in others]
    here = f"reinterpret_cast<unsigned long long>({walk.address(first, done, count)})"
    limit = ctx.source.slice(walk.loop.limit)
    body = "".join(f"{indent}    {ctx.source.slice(statement.span)}\n" for statement in walk.loop.body)
    if re.search(rf"\b{walk.loop.name}\b", body):
        body = f"{indent}    const int {walk.loop.name} = {done};\n{body}"
    # A row of no whole words has none of them anywhere: its turns are all taken below.
    head = f"for (; {wide} && {done} {walk.loop.relation} {limit} && {here} % {wall} != 0; ++{done})"
    return " && ".join(tests) or "true", f"{indent}{head} {{\n{body}{indent}}}\n"


def _factor(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+|\(.*\)", text) and balanced(text.strip("()")) else f"({text})"


def _body(ctx: RuleContext, walk: _WideLoop, packs: _Packs, names: tuple[str, str, str], count: int) -> str:
    """The body's statements with elements taken from the packs."""
    e, done, indent = names
    own = {p: f"{packs[p]}.at[{f'{count - 1} - {e}' if walk.is_backward(p[1]) else e}]" for p in walk.places}
    swaps = [Edit(span, own[place]) for place, spans in walk.reads.items() for span in spans]
    swaps += [Edit(s.target, own[place]) for place, s in walk.writes.items() if s.target is not None]
    for records, uses in walk.records.items():
        swaps += [Edit(span, f"{packs[records]}.at[{records.length} * {e} + {at}]") for span, at in uses]
    texts = (rewritten(ctx.source, statement.span, swaps) for statement in walk.loop.body)
    text = "".join(f"{indent}        {indented(each).lstrip()}\n" for each in texts)
    if re.search(rf"\b{walk.loop.name}\b", text) and e != walk.loop.name:
        text = f"{indent}        const int {walk.loop.name} = {done} + {e};\n{text}"
    return text


RULES = (
    Rule(
        name="wide_access",
        sentence="Lets a loop over neighbouring elements load and store 2, 4 or 8 of them per instruction, where the"
        " addresses are aligned at run time.",
        find=behind_guard(_find),
        reason="a warp moves 32 elements per instruction; wider ones keep more bytes in flight for the same count",
        expected="as many times fewer memory instructions as elements per access",
        risk="rows that are not aligned still take the narrow loop; more registers",
        next_if_kept="the other loops over the same row",
        next_if_reverted="unroll the narrow loop instead",
    ),
)
