"""Whether a loop's turns may be dealt to threads in another way: nothing else may depend on whose turn one was.

Not if what threads come to, each over its share, is not joined before anything follows from it: a thread's own maximum
may be the shift of what it adds up in the next loop, whose turns are dealt as before, and a thread without a turn in
one of them has none there. Nor if an element that a turn stores is touched elsewhere and no barrier lies between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import CountedFor, Function, Source, Statement
from evo.operators.rules.rule_context import RuleContext

_JOINS = re.compile(r"_sync\s*\(|__syncthreads|\batomic\w*\s*\(|[Rr]educe\w*\s*[(<]|\basm\b")
_TOGETHER = re.compile(r"[\s{},.\w]*")  # `{largest, sum}`


def is_joined(source: Source, function: Function, loop: CountedFor, stored: frozenset[str]) -> bool:
    """stored: what the loop's turns store to, each to its own element."""
    own = {inner.name for inner in loop.all() if inner.kind == "declare"} | {loop.name}
    totals = set(source.changed_in(loop.body_span)) - own - stored
    for statement in _after(source, source.statements(function), loop):
        found = totals & statement.reads
        if not found or _keeps_apart(source, statement, found):
            continue
        if _is_copy(source, statement):
            totals.add(statement.name)
        elif _joins(source, statement):
            totals -= found
        else:
            return False
    return True


def stays_apart(ctx: RuleContext, function: Function, loops: Sequence[CountedFor]) -> bool:
    """Whether a barrier lies between what these loops store or read and what others store or read of the same."""
    for form in (each.form for each in ctx.launches if each.form.kernel == function.name):
        inside = [next((loop.span for loop in loops if loop.span.holds(a.span)), None) for a in form.accesses]
        barriers = [each.span for each in form.barriers]
        for ours, one in zip(inside, form.accesses, strict=True):
            for theirs, other in zip(inside, form.accesses, strict=True):
                if ours is None or theirs is not None or not one.is_global or one.array != other.array:
                    continue
                first, last = sorted((ours, other.span))
                if (one.is_write or other.is_write) and not any(
                    first.end <= barrier.start < last.start for barrier in barriers
                ):
                    return False
    return True


def _after(source: Source, statements: Sequence[Statement], loop: Statement) -> Iterator[Statement]:
    """What follows a loop, in order; in a loop around it the statements of another turn too."""
    for number, statement in enumerate(statements):
        if not statement.span.holds(loop.span):
            continue
        if statement.span != loop.span:
            for inner in (statement.body, statement.alternative):
                yield from _after(source, inner, loop)
            if statement.kind == "for":
                yield from (each for each in statement.body if not each.span.holds(loop.span))
        for each in statements[number + 1 :]:
            yield from each.body if each.kind == "block" else (each,)


def _keeps_apart(source: Source, statement: Statement, found: set[str]) -> bool:
    """Whether it changes these totals by nothing but themselves: a factor, or further turns of the same loop."""
    if statement.kind == "assign":
        return found == {statement.name}
    if not isinstance(statement, CountedFor):
        return False
    own = {inner.name for inner in statement.all() if inner.kind == "declare"} | {statement.name}
    return set(source.changed_in(statement.body_span)) - own <= found


def _is_copy(source: Source, statement: Statement) -> bool:
    if statement.kind != "declare" or statement.value is None:
        return False
    return _TOGETHER.fullmatch(source.slice(statement.value)) is not None


def _joins(source: Source, statement: Statement) -> bool:
    """Whether it hands totals to other threads: by a shuffle, an atomic, a place in an array."""
    if any(each.target is not None and "[" in source.slice(each.target) for each in statement.all()):
        return True
    names = {name for name, _ in source.names(statement.span)}
    texts = [source.slice(each.body) for each in source.functions if each.name in names]
    return any(_JOINS.search(text) for text in (source.slice(statement.span), *texts))
