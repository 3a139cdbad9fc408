"""Kernels whose work stands in `if (i < n) { ... }`: rules that want `if (i >= n) return;` see them written so.

Either form does the same. The rule's edits and those of the guard become one change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from evo.errors import SyntaxInvalid
from evo.mutate.rules.rule import Application, Scene, source_of
from evo.source import Edit, Function, Source, Span, Statement
from evo.variant import parse_variant

_INSIDE = re.compile(r"\s*\(?\s*(\w+)\s*<\s*(\w+)\s*\)?\s*")
_Find = Callable[[Scene], Iterable[Application]]


def behind_guard(find: _Find) -> _Find:
    """The same rule, which also finds its places behind a test that is around the rest of a kernel."""

    def both(scene: Scene) -> Iterator[Application]:
        found = tuple(find(scene))
        yield from found
        turned = [] if found else [e for f in scene.source.functions if f.is_kernel for e in _turned(scene.source, f)]
        if not turned:
            return
        text = scene.source.replace(turned)
        try:
            variant = parse_variant(text, path=scene.variant.path)
        except SyntaxInvalid:
            return
        other = replace(scene, variant=variant, source=source_of(text))
        for application in find(other):
            yield replace(application, edits=through(other.source, turned, application.edits))

    return both


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


def _hides(source: Source, function: Function, tops: Sequence[Statement], last: Statement) -> bool:
    """Whether something inside has the name of what is declared outside: in one scope the two would meet."""
    outer = {param.name for param in function.params}
    outer |= {name for top in tops if top is not last for name in _own(source, top)}
    return any(name in outer for inner in last.body for name in _own(source, inner))


def _own(source: Source, statement: Statement) -> Sequence[str]:
    """Names that a statement declares for those that follow it."""
    return source.declared(statement.span) if statement.kind in ("declare", "other") else ()


@dataclass(slots=True)
class _Piece:
    """A stretch of the text between: where it lies there and in the first text, and what becomes of it."""

    start: int
    end: int
    edits: list[Edit]


def through(between: Source, first: Sequence[Edit], second: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that make of a first text at once what `second` makes of `between`, which `first` made of it."""
    moved = _places(first)
    pieces = [_Piece(start, end, []) for start, end, _, _ in moved]
    pieces += [_Piece(edit.span.start, edit.span.end, [edit]) for edit in second]
    joined: list[_Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.start, p.end)):
        before = joined[-1] if joined else None
        if before is not None and piece.start <= before.end:
            before.end = max(before.end, piece.end)
            before.edits += piece.edits
        else:
            joined.append(piece)
    found = []
    for piece in joined:
        data, last = "", piece.start
        for edit in sorted(piece.edits, key=lambda edit: edit.span):
            data += between.slice(Span(last, edit.span.start)) + edit.text
            last = edit.span.end
        data += between.slice(Span(last, piece.end))
        found.append(Edit(Span(_back(moved, piece.start, 0), _back(moved, piece.end, 1)), data))
    return tuple(found)


def _places(first: Sequence[Edit]) -> list[tuple[int, int, int, int]]:
    """Of each edit: its new text's bytes in the text that it made, and the bytes that it replaced."""
    found, shift = [], 0
    for edit in sorted(first, key=lambda edit: edit.span):
        start, length = edit.span.start + shift, len(edit.text.encode())
        found.append((start, start + length, edit.span.start, edit.span.end))
        shift += length - (edit.span.end - edit.span.start)
    return found


def _back(moved: Sequence[tuple[int, int, int, int]], at: int, end: int) -> int:
    """Where a byte of the text between was in the first one; end: 1 where it ends a stretch, 0 where it begins one."""
    shift = 0
    for start, stop, was_start, was_stop in moved:
        if start == at and not end:
            return was_start
        if stop == at and end:
            return was_stop
        if stop <= at:
            shift = was_stop - stop
    return at + shift
