"""An element that two branches store, one of them with a `return`, as one store of a value that the branches choose.

`if (edge) { v[i] = u[i]; return; } ... v[i] = x;` is seen as `float stored; if (edge) { stored = u[i]; } else { ...
stored = x; } v[i] = stored;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import Edit, Function, Source, Span, Statement
from evo.operators.rules.element import BYTES
from evo.operators.rules.rewriting import WORD, bare, fresh, indent_of, indented, rewritten
from evo.operators.rules.rule_context import RuleContext

_ELEMENT = re.compile(r"(?P<name>\w+)\s*\[[^\[\]]*\]|\*\s*(?P<pointer>\w+)")
_STAYS = re.compile(r"\b(?:return|goto|break|continue)\b|__sync|_sync\b|__shared__|\basm\b")


def with_single_stores(ctx: RuleContext) -> list[Edit]:
    """The edits for one such element of a kernel."""
    for function in ctx.source.functions:
        for block in _blocks(ctx.source.statements(function)) if function.is_kernel else ():
            if made := _joined(ctx, function, block):
                return made
    return []


def _blocks(statements: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    """The statements of a body, and those of a test around the last of them."""
    yield statements
    last = statements[-1] if statements else None
    if last is not None and last.kind in ("if", "block") and not last.alternative:
        yield from _blocks(last.body)


def _joined(ctx: RuleContext, function: Function, block: Sequence[Statement]) -> list[Edit]:
    source = ctx.source
    for place, test in enumerate(block):
        if test.kind != "if" or len(test.body) < 2 or test.alternative or source.is_bare(test.span):
            continue
        (*before, kept, left), rest = test.body, block[place + 1 :]
        if source.slice(left.span).strip() != "return;" or not rest:
            continue
        last = rest[-1]
        if not (_is_store(kept) and _is_store(last)) or kept.target is None or last.target is None:
            continue
        target, inside = source.slice(last.target), Span(rest[0].span.start, last.span.end)
        match = _ELEMENT.fullmatch(target)
        kind = source.element_type(function.name, match["name"] or match["pointer"]) if match is not None else None
        beside = "".join(source.slice(s.span) for s in (*before, *rest[:-1]))
        changed = source.changed_in(test.span) | source.changed_in(inside) | set(source.declared(inside))
        changed -= {match["name"], match["pointer"]} if match is not None else set()
        if kind not in BYTES or bare(target) != bare(source.slice(kept.target)) or _STAYS.search(beside):
            continue
        if match is None or changed & set(WORD.findall(target)) or re.search(rf"\b{match[1] or match[2]}\b", beside):
            continue
        return list(_edits(source, test, (kept, left), rest, (kind, target, fresh(ctx, "stored"))))
    return []


def _is_store(statement: Statement) -> bool:
    return statement.kind == "assign" and statement.operator == "=" and not statement.name


def _edits(
    source: Source,
    test: Statement,
    ends: tuple[Statement, Statement],
    rest: Sequence[Statement],
    stored: tuple[str, str, str],
) -> Iterator[Edit]:
    (kept, left), (kind, target, name), last = ends, stored, rest[-1]
    assert kept.target is not None
    assert last.target is not None
    indent = f"\n{indent_of(source, test.span.start)}"
    inside = rewritten(source, Span(rest[0].span.start, last.span.end), [Edit(last.target, name)])
    yield Edit(Span(test.span.start, test.span.start), f"{kind} {name};{indent}")
    yield Edit(kept.target, name)
    yield Edit(Span(kept.span.end, left.span.end), "")
    text = f" else {{{indent}    {indented(inside).lstrip()}{indent}}}{indent}{target} = {name};"
    yield Edit(Span(test.span.end, last.span.end), text)
