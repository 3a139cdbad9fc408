"""Edits of a text that was itself edited, as edits of the first text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from evo.cuda.source import Edit, Source, Span
from evo.errors import SyntaxInvalid
from evo.operators.rules.application import Application, Find
from evo.operators.rules.rule_context import RuleContext


@dataclass(slots=True)
class _Piece:
    """A stretch of the text between: where it lies there and in the first text, and what becomes of it."""

    start: int
    end: int
    edits: list[Edit]
    is_free: bool = False  # may stay as it was in the first text


def found_in_view(
    find: Find, ctx: RuleContext, always: Sequence[Edit], free: Sequence[Edit] = ()
) -> Iterator[Application]:
    """What a rule finds in the text that these edits make, as changes of the text as it is written.

    free: edits that are left out where an application does not touch them. So are those of kernels that it is not for.
    """
    first = [*always, *free]
    if not first:
        return
    try:
        view = ctx.after(first)
    except SyntaxInvalid:
        return
    for found in find(view):
        kernel = found.arguments.get("kernel")
        others = [each.body for each in ctx.source.functions if each.is_kernel and kernel not in (None, each.name)]
        elsewhere = [edit for edit in always if any(body.holds(edit.span) for body in others)]
        yield replace(found, edits=through(view.source, first, found.edits, [*free, *elsewhere]))


def through(
    between: Source, first: Sequence[Edit], second: Iterable[Edit], free: Sequence[Edit] = ()
) -> tuple[Edit, ...]:
    """The edits that make of a first text at once what `second` makes of `between`, which `first` made of it.

    free: of the first ones, those that are left out where the second ones do not touch them.
    """
    moved = _places(first)
    left = {edit.span for edit in free}
    pieces = [_Piece(start, end, [], Span(*was) in left) for start, end, *was in moved]
    pieces += [_Piece(edit.span.start, edit.span.end, [edit]) for edit in second]
    joined: list[_Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.start, p.end)):
        before = joined[-1] if joined else None
        if before is not None and piece.start <= before.end:
            before.end = max(before.end, piece.end)
            before.edits += piece.edits
            before.is_free &= piece.is_free
        else:
            joined.append(piece)
    found = []
    for piece in joined:
        if piece.is_free:
            continue
        data, last = "", piece.start
        for edit in sorted(piece.edits, key=lambda edit: edit.span):
            data += between.slice(Span(last, edit.span.start)) + edit.text
            last = edit.span.end
        data += between.slice(Span(last, piece.end))
        found.append(Edit(Span(_back(moved, piece.start, begins=True), _back(moved, piece.end, begins=False)), data))
    return tuple(found)


def _places(first: Sequence[Edit]) -> list[tuple[int, int, int, int]]:
    """Of each edit: its new text's bytes in the text that it made, and the bytes that it replaced."""
    found, shift = [], 0
    for edit in sorted(first, key=lambda edit: edit.span):
        start, length = edit.span.start + shift, len(edit.text.encode())
        found.append((start, start + length, edit.span.start, edit.span.end))
        shift += length - (edit.span.end - edit.span.start)
    return found


def _back(moved: Sequence[tuple[int, int, int, int]], at: int, *, begins: bool) -> int:
    """Where a byte of the text between was in the first one: one that begins a stretch, or ends it.

    Of several edits that left nothing at one place, the stretch holds all.
    """
    shift = 0
    for start, stop, was_start, was_stop in moved:
        if start == at and begins:
            return was_start
        if stop <= at:
            shift = was_stop - stop
    return at + shift
