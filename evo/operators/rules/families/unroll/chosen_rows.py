"""Rows of a thread's array that data chooses, as in a search for a pivot: with a test for each that it may be.

`swap(a[col], a[piv])` is seen as `for (at ...) if (at == piv) swap(a[col], a[at])`, and `a[piv][col]` in the search
itself as a value beside the place. Unrolled, no index of the array is left that a compiler does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import CountedFor, Edit, Function, Source, Span, Statement, Subscript
from evo.operators.rules.rewriting import LEAVES, bare, fresh, indent_of, indented
from evo.operators.rules.rule_context import RuleContext

_MOST = 16  # rows


def with_fixed_rows(ctx: RuleContext, arrays: set[str]) -> list[Edit]:
    """The edits for all places that data chooses in these arrays of threads; none if one of them is left."""
    found: list[Edit] = []
    source = ctx.source
    for function in source.functions:
        uses = [use for use in source.subscripts(function.body) if use.name in arrays]
        for name, block in _places(source, function):
            chosen = [use for use in uses if _is_at(source, use, name)]
            if not chosen:
                continue
            made = _fixed(ctx, name, block, chosen)
            if made is None:
                return []
            found += made
    return found


def _places(source: Source, function: Function) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    """Integers that a search sets, each with the statements from its declaration on."""
    for block in (source.statements(function), *(each.body for each in source.inside(function))):
        for at, declared in enumerate(block):
            is_integer = declared.kind == "declare" and declared.type.split() in (["int"], ["unsigned"])
            if is_integer and declared.value is not None and not declared.dims:
                rest = block[at:]
                if any(s.kind == "assign" and s.name == declared.name for each in rest[1:] for s in each.all()):
                    yield declared.name, rest


def _is_at(source: Source, use: Subscript, name: str) -> bool:
    """Whether a name says where an element is."""
    return any(word == name for index in use.indices for word, _ in source.names(index))


def _fixed(ctx: RuleContext, name: str, block: Sequence[Statement], chosen: Sequence[Subscript]) -> list[Edit] | None:
    source, (declared, *rest) = ctx.source, block
    edits: list[Edit] = []
    left = list(chosen)
    sets = [s for each in rest for s in each.all() if s.kind == "assign" and s.name == name]
    rows = _rows(source, declared, rest, sets)
    at = fresh(ctx, "at")
    for statement in rest:
        ours = [use for use in chosen if statement.span.holds(use.span)]
        if not ours:
            continue
        made: list[Edit] | None = None
        if any(statement.span.holds(each.span) for each in sets):
            made = _with_value(ctx, name, declared, statement, ours)
        elif rows is not None and statement.kind != "declare" and not LEAVES.search(source.slice(statement.span)):
            made = [_tried(source, statement, (name, at), rows)]
        if made is None:
            return None
        edits += made
        left = [use for use in left if use not in ours]
    return edits if not left else None


def _rows(
    source: Source, declared: Statement, rest: Sequence[Statement], sets: Sequence[Statement]
) -> tuple[str, str] | None:
    """The first row that a place may be and the one behind the last: where it starts, and turns of loops behind."""
    assert declared.value is not None
    start = bare(source.slice(declared.value))
    loops = [s for each in rest for s in each.all() if isinstance(s, CountedFor)]
    limits = set[str]()
    for each in sets:
        value = source.slice(each.value).strip() if each.value is not None else ""
        loop = next((one for one in loops if one.name == value and one.span.holds(each.span)), None)
        if loop is None or loop.relation != "<" or each.operator != "=":
            return None
        if re.fullmatch(rf"{re.escape(start)}(?:\+\d+)?", bare(source.slice(loop.start))) is None:
            return None
        limits.add(source.slice(loop.limit).strip())
    rows = source.integer(next(iter(limits))) if len(limits) == 1 else None
    is_known = rows is not None and rows <= _MOST and re.fullmatch(r"\w+", start) is not None
    return (start, limits.pop()) if is_known else None


def _tried(source: Source, statement: Statement, names: tuple[str, str], rows: tuple[str, str]) -> Edit:
    """A statement behind a test for each row, with that row in place of the one that was chosen."""
    (name, at), (first, limit) = names, rows
    start, indent = source.line_start(statement.span.start), indent_of(source, statement.span.start)
    is_first = not source.data[start : statement.span.start].strip()
    text = indented(indented(source.renamed(statement.span, {name: at}))).lstrip()
    head = f"{indent}for (int {at} = {first}; {at} < {limit}; ++{at}) {{"
    body = f"{indent}    if ({at} == {name}) {{\n{indent}        {text}\n{indent}    }}\n{indent}}}"
    whole = Span(start if is_first else statement.span.start, statement.span.end)
    return Edit(whole, f"{'' if is_first else chr(10)}#pragma unroll\n{head}\n{body}")


def _with_value(
    ctx: RuleContext, name: str, declared: Statement, search: Statement, chosen: Sequence[Subscript]
) -> list[Edit] | None:
    """A search that compares with the element at the best place so far, as one that keeps that element."""
    source = ctx.source
    texts = {bare(source.slice(use.span)) for use in chosen}
    sets = [s for s in search.all() if s.kind == "assign" and s.name == name]
    tests = [s for s in search.all() if s.kind == "if" and s.condition is not None]
    test = next((s for s in tests if all(s.condition and s.condition.holds(use.span) for use in chosen)), None)
    assert declared.value is not None
    if len(texts) != 1 or len(sets) != 1 or test is None or sets[0] not in test.body or sets[0].value is None:
        return None
    if not isinstance(search, CountedFor) or test not in search.body or test.alternative or source.is_bare(search.span):
        return None
    use, array = chosen[0], chosen[0].name
    changed = source.changed_in(search.body_span)
    others = {word for index in use.indices for word, _ in source.names(index)} - {name}
    if array in changed or others & (changed | {search.name}):
        return None
    kind = source.element_type(_function(source, search), array)
    above = source.above(search.span)
    if kind is None or above is None or test.body_span is None:
        return None
    value, row = fresh(ctx, f"{name}_value"), source.slice(sets[0].value).strip()
    start = source.slice(declared.value).strip()
    edits = [Edit(use.span, value) for use in chosen]
    indent = indent_of(source, search.span.start)
    edits.append(Edit(Span(above, above), f"{indent}{kind} {value} = {_moved(source, use, name, start)};\n"))
    body = source.slice(test.body_span).strip()
    kept = f"{value} = {_moved(source, use, name, row)};"
    inner = body[1:-1].strip() if body.startswith("{") else body
    edits.append(Edit(test.body_span, f"{{ {kept} {inner} }}"))
    return edits


def _moved(source: Source, use: Subscript, name: str, other: str) -> str:
    return source.renamed(use.span, {name: other})


def _function(source: Source, statement: Statement) -> str:
    function = source.function_at(statement.span.start)
    return function.name if function is not None else ""
