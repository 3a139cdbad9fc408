"""Neighbouring elements that one thread reads apart, as the fields of a record are: one load for all of them.

`pos[4 * i]`, `pos[4 * i + 1]` ... or the two parts of a complex number. Alignment is not assumed: where a record turns
out not to be aligned, its elements are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import Access, Form, LaunchAnalysis, Symbol
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import definition_place
from evo.operators.rules.element import pack_name, pack_struct
from evo.operators.rules.lifting import type_of_elements
from evo.operators.rules.rewriting import fresh, indent_of, indented, merged, rewritten
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_MOST_BYTES = 16
_ELEMENT = re.compile(r"[A-Za-z_]\w*\s*\[.*\]", re.DOTALL)
_NOWHERE = Span(0, 0)
_HEADS = re.compile(r"(?:for|while|do|switch|if|else)\b")


@dataclass(frozen=True, slots=True)
class _Record:
    """So many elements of one array from an aligned one on, and who reads which of them; in the order of the text."""

    count: int
    reads: tuple[tuple[int, Access], ...]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = list(_records(ctx, analysis, function))
    if found:
        names = dict.fromkeys(f"`{record.reads[0][1].memory.parameter}`" for record in found)
        yield Application(
            edits=tuple(merged(list(_edits(ctx, function, found)))),
            summary=f"{function.name}: records of {' and '.join(names)} in one load each",
            arguments={"kernel": function.name, "records": len(found)},
            is_schedule=True,
        )


def _records(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[_Record]:
    form, groups = analysis.form, dict[object, list[tuple[int, Access]]]()
    moved = ctx.source.changed_in(function.body)
    for access in form.accesses:
        if access.array is None or not _is_plain(ctx, form, access):
            continue
        size, start = access.array.element_bytes, access.offset.constant
        key = (access.array.name, access.offset - start, access.context)
        if start % size == 0 and access.array.parameter not in moved:
            groups.setdefault(key, []).append((start // size, access))
    for reads in groups.values():
        (_, first), *_ = reads
        for count in (16, 8, 4, 2):
            if count * first.memory.element_bytes > _MOST_BYTES or not _is_aligned(form, first, count):
                continue
            for begin in dict.fromkeys(place // count * count for place, _ in reads):
                ours = tuple((place - begin, read) for place, read in reads if begin <= place < begin + count)
                places = {place for place, _ in ours}
                is_inside = len(places) == count or _is_last(first, count)
                if 2 * len(places) > count and len(places) > 1 and is_inside and _is_open(ctx, ours):
                    yield _Record(count, ours)
            break


def _is_plain(ctx: RuleContext, form: Form, access: Access) -> bool:
    """Whether an element that nobody writes is read, wherever the statement around it is carried out."""
    array = access.array
    if array is None or not array.is_tensor or access.elements > 1 or access.calls or access.blocked:
        return False
    statement = ctx.source.enclosing_statement(access.span)
    text = ctx.source.slice(statement)
    return (
        _ELEMENT.fullmatch(ctx.source.slice(access.span)) is not None
        and not _HEADS.match(text)
        and text.endswith(";")
        and not ctx.source.is_conditional(access.span, statement)
        and not any(other.is_write for other in form.of(array))
    )


def _is_aligned(form: Form, access: Access, count: int) -> bool:
    """Whether all that moves a read moves it by whole records."""
    size = count * access.memory.element_bytes
    for factors, number in access.offset.parts.items():
        steps = [number] if factors else [0]
        for factor in factors:
            loop = form.loops.get(factor) if isinstance(factor, Symbol) else None
            if loop is not None and loop.start.value is not None and loop.step.value is not None:
                steps = [step * by for step in steps for by in (loop.start.value, loop.step.value)]
        if any(step % size for step in steps):
            return False
    return True


def _is_last(access: Access, count: int) -> bool:
    """Whether records are the rows of a tensor: what is not read of one is there all the same."""
    shape = access.memory.shape
    return bool(shape) and shape[-1].value == count


def _is_open(ctx: RuleContext, reads: Sequence[tuple[int, Access]]) -> bool:
    """Whether a statement can stand in front of the first read."""
    statements = {ctx.source.enclosing_statement(read.span) for _, read in reads}
    return len(statements) == 1 or not any(ctx.source.is_bare(statement) for statement in statements)


def _edits(ctx: RuleContext, function: Function, records: Sequence[_Record]) -> Iterator[Edit]:
    """The outermost loops with whole records, beside what they were; outside of loops a test for each record."""
    source, taken, structs = ctx.source, list[str](), dict[str, None]()
    loops: dict[Span, list[_Record]] = {}
    for record in records:
        first = record.reads[0][1]
        around = [s.span for s in source.inside(function) if s.kind == "for" and s.span.holds(first.span)]
        loops.setdefault(max(around, key=lambda span: span.end - span.start, default=_NOWHERE), []).append(record)
    for loop, inside in loops.items():
        made: list[Edit] = []
        for record in inside:
            first = record.reads[0][1]
            kind = type_of_elements(ctx, function, first.memory.parameter)
            pack, name = f"{pack_name(kind)}{record.count}", fresh(ctx, f"{first.memory.parameter}_record", taken)
            taken.append(name)
            structs[pack_struct(pack, kind, record.count, record.count)] = None
            made += _loaded(ctx, record, (pack, name), "" if loop != _NOWHERE else _is_whole(record))
        made = merged(made)
        if loop == _NOWHERE:
            yield from made
            continue
        test = " && ".join(dict.fromkeys(_is_whole(record) for record in inside))
        above = source.above(loop)
        start = loop.start if above is None else above
        indent = indent_of(source, loop.start)
        whole = Span(start, loop.end)
        wide, narrow = (indented(text).strip() for text in (rewritten(source, whole, made), source.slice(whole)))
        head = indent if above is not None else ""
        yield Edit(
            whole, f"{head}if ({test}) {{\n{indent}    {wide}\n{indent}}} else {{\n{indent}    {narrow}\n{indent}}}"
        )
    if missing := "".join(text for text in structs if text not in source.text):
        yield Edit(definition_place(ctx), missing)


def _is_whole(record: _Record) -> str:
    """The test that records of an array are aligned: all begin whole ones behind its first element."""
    array = record.reads[0][1].memory
    return f"reinterpret_cast<unsigned long long>({array.parameter}) % {record.count * array.element_bytes} == 0"


def _loaded(ctx: RuleContext, record: _Record, named: tuple[str, str], test: str) -> list[Edit]:
    """The load in front of the first read, and all reads from what it left. test: empty if it is known to hold."""
    source, (pack, name) = ctx.source, named
    at, first = min(record.reads, key=lambda each: each[1].span)
    begin = f"&{source.slice(first.span)}{f' - {at}' if at else ''}"
    load = f"*reinterpret_cast<const {pack}*>({begin});"
    lines, each = [f"const {pack} {name} = {load}"], fresh(ctx, "e")
    if test:
        one_by_one = f"for (int {each} = 0; {each} < {record.count}; ++{each}) {name}.at[{each}] = ({begin})[{each}];"
        lines = [f"{pack} {name};", f"if ({test}) {name} = {load}", f"else {one_by_one}"]
    statement = source.enclosing_statement(first.span)
    indent, is_bare = indent_of(source, statement.start), source.is_bare(statement)
    text = "".join(f"{line}\n{indent}" for line in lines)
    edits = [Edit(Span(statement.start, statement.start), f"{'{ ' if is_bare else ''}{text}")]
    edits += [Edit(Span(statement.end, statement.end), " }")] if is_bare else []
    return edits + [Edit(read.span, f"{name}.at[{place}]") for place, read in record.reads]


RULES = (
    Rule(
        name="records",
        sentence="Loads neighbouring elements that a thread reads one by one, such as the fields of a record or the"
        " parts of a complex number, at once.",
        find=by_launch(_find, once=True),
        reason="each of the loads is an instruction and a wait, and a warp's lanes are a record apart in each",
        expected="as many times fewer loads as a record has elements",
        risk="records that are not aligned are read one by one behind a test",
        next_if_kept="several outputs for each thread",
        next_if_reverted="leave it: other loads bind",
    ),
)
