"""Other ways to write the same: rules see a kernel in the form that they know, and change it as it is written.

Work that stands in `if (i < n) { ... }` is seen behind `if (i >= n) return;`, `float a = 0, b = 1;` as two
declarations, and `i < 2 * n` with a name for the bound. The rule's edits and those of the guard become one change;
declarations that a rule leaves alone stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from evo.cuda.source import Edit, Function, Source, Span, Statement
from evo.operators.rules.application import Application, Find
from evo.operators.rules.rewriting import WORD, fresh, indent_of
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import found_in_view

_INSIDE = re.compile(r"\s*\(?\s*(\w+)\s*<\s*(\w+)\s*\)?\s*")
_SEVERAL = re.compile(
    r"((?:const\s+)?(?:int|float|unsigned int|unsigned|double|half|__half))\s+([A-Za-z_].*),.*;$", re.DOTALL
)
_PARTS = re.compile(r"&&|\|\|")
_BOUND = re.compile(
    r"[\s(]*(?P<name>\w+)\s*(?:<|>=)\s*(?P<bound>\w+\s*[*+/-](?:[\w\s*+/-]|\(\s*\w+\s*[*+/-]\s*\w+\s*\))*)"
)
_SIZE = re.compile(r"[\w\s+*/()-]+")
_ONE = re.compile(r"[A-Za-z_]\w*\s*(?:\[[^\[\]]*\]\s*)*(?:=(?!=)|$)")


def behind_guard(find: Find) -> Find:
    """The same rule, which also finds its places behind a test that is around the rest of a kernel."""

    def both(ctx: RuleContext) -> Iterator[Application]:
        found = tuple(find(ctx))
        kernels = [f for f in ctx.source.functions if f.is_kernel]
        if not found:
            guards = [edit for f in kernels for edit in _turned(ctx.source, f)]
            apart = [edit for f in kernels for edit in declared_apart(ctx.source, f)]
            found = tuple(found_in_view(find, ctx, guards, apart))
        yield from found
        if not found:
            bounds = [edit for f in kernels for edit in _named_bounds(ctx, f)]
            yield from found_in_view(both, ctx, bounds)

    return both


def _named_bounds(ctx: RuleContext, function: Function) -> Iterator[Edit]:
    """`if (i >= 2 * n) return;` and `if (i < 2 * n)` with the bound as a variable in front."""
    source, names = ctx.source, dict[str, str]()
    for statement in source.statements(function):
        if statement.kind != "if" or statement.condition is None:
            continue
        head, declared = source.slice(statement.condition), ""
        for part in _PARTS.split(head):
            match = _BOUND.fullmatch(part)
            if match is None or not _is_size(ctx, function, match["bound"]):
                continue
            text = match["bound"].rstrip()
            if text not in names:
                names[text] = fresh(ctx, f"{match['name']}_end", names.values())
                declared += f"const int {names[text]} = {text};\n{indent_of(source, statement.span.start)}"
            at = statement.condition.start + len(head[: head.index(part) + match.start("bound")].encode())
            yield Edit(Span(at, at + len(text.encode())), names[text])
        if declared:
            yield Edit(Span(statement.span.start, statement.span.start), declared)


def _is_size(ctx: RuleContext, function: Function, text: str) -> bool:
    """Whether nothing but whole numbers, sizes and what is set to such once is in an expression."""
    ints = {param.name for param in function.params if param.type.removeprefix("const ") == "int"}
    for word in WORD.findall(text):
        if word in ints or ctx.source.integer(word) is not None:
            continue
        value = ctx.constant(function, word)
        if value is None or value == word or not _SIZE.fullmatch(value) or not _is_size(ctx, function, value):
            return False
    return True


def _turned(source: Source, function: Function) -> Sequence[Edit]:
    """`if (i < n && j < m) { ... }` at the end of a kernel as `if (i >= n || j >= m) return;` and what was inside."""
    tops = source.statements(function)
    last = tops[-1] if tops else None
    if last is None or last.kind != "if" or last.alternative or not last.body:
        return ()
    assert last.condition is not None
    assert last.body_span is not None
    parts = [_INSIDE.fullmatch(part) for part in source.slice(last.condition).split("&&")]
    if any(inner.kind == "return" for inner in last.body) or _hides(source, function, tops, last):
        return ()
    tests = [f"{part[1]} >= {part[2]}" for part in parts if part is not None]
    if len(tests) < len(parts):
        return ()
    head = f"if ({' || '.join(tests)}) return;"
    body = last.body_span
    if source.data[body.start : body.start + 1] != b"{":
        return (Edit(Span(last.span.start, body.start), f"{head} "),)
    end = source.data[: body.end - 1].rstrip(b" \t\r\n")
    return (Edit(Span(last.span.start, body.start + 1), head), Edit(Span(len(end), body.end), ""))


def declared_apart(source: Source, function: Function) -> Iterator[Edit]:
    """The commas of `float a = 0, b = 1;` as the ends of declarations, in the body, in its loops and behind a test
    around it.
    """
    tops = source.statements(function)
    inside = tops[-1].body if tops and tops[-1].kind == "if" else ()
    turns = [each for top in (*tops, *inside) if top.kind == "for" for each in top.all() if each is not top]
    for statement in (*tops, *inside, *turns):
        match = _SEVERAL.match(source.slice(statement.span)) if statement.kind == "other" else None
        if match is None:
            continue
        text, depth, commas = match[0], 0, []
        for place, character in enumerate(text):
            depth += (character in "([{") - (character in ")]}")
            if character == "," and not depth:
                commas.append(place)
        parts = [text[a + 1 : b].strip() for a, b in pairwise([match.start(2) - 1, *commas, len(text) - 1])]
        if not depth and text.isascii() and all(_ONE.match(part) for part in parts):
            for place in commas:
                gap = len(text[place + 1 :]) - len(text[place + 1 :].lstrip())
                at = statement.span.start + place
                yield Edit(Span(at, at + 1 + gap), f"; {match[1]} ")


def _hides(source: Source, function: Function, tops: Sequence[Statement], last: Statement) -> bool:
    """Whether something inside has the name of what is declared outside: in one scope the two would meet."""
    outer = {param.name for param in function.params}
    outer |= {name for top in tops if top is not last for name in _own(source, top)}
    return any(name in outer for inner in last.body for name in _own(source, inner))


def _own(source: Source, statement: Statement) -> Sequence[str]:
    """Names that a statement declares for those that follow it."""
    return source.declared(statement.span) if statement.kind in ("declare", "other") else ()


def guard_of(source: Source, statements: Sequence[Statement], name: str) -> tuple[int, str] | None:
    """`if (name >= BOUND || ...) return;`: its place and the bound, which is one name."""
    for place, statement in enumerate(statements):
        if not is_guard(statement) or statement.condition is None:
            continue
        for part in source.slice(statement.condition).split("||"):
            if match := re.fullmatch(rf"\s*\(?\s*{name}\s*>=\s*(\w+)\s*\)?\s*", part):
                return place, match[1]
    return None


def is_guard(statement: Statement) -> bool:
    """`if (...) return;`"""
    only = len(statement.body) == 1 and statement.body[0].kind == "return"
    return statement.kind == "if" and only and not statement.alternative
