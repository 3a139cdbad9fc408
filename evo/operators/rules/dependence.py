"""Which names depend on a thread's index, and which statements change nothing but the thread's own variables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evo.cuda.source import CountedFor, Source, Statement
from evo.operators.rules.thread_index import ThreadIndex


def varying(source: Source, tops: Sequence[Statement], index: ThreadIndex) -> set[str]:
    """Names that depend on the index, through values and through loops and tests that do."""
    found, before = {index.name}, 0
    own = {s.name for top in tops for s in top.all() if s.kind == "declare"}
    own |= {name for top in tops for s in top.all() if s.kind == "other" for name, _ in source.names(s.span)}
    while before != len(found):
        before = len(found)
        for top in tops:
            _spread(source, top, found, own, under=False)
    return found


def _spread(source: Source, statement: Statement, found: set[str], own: set[str], *, under: bool) -> None:
    names = {name for name, _ in source.names(statement.span)}
    if statement.kind == "declare" and names & found:
        found.add(statement.name)
    if statement.kind == "assign" and statement.target is not None and (under or names & found):
        found |= {source.names(statement.target)[0][0]} & own
    if statement.kind == "other" and names & found:
        found |= names
    head = statement.limit if isinstance(statement, CountedFor) else statement.condition
    under = under or (head is not None and bool({name for name, _ in source.names(head)} & found))
    for inner in (*statement.body, *statement.alternative):
        _spread(source, inner, found, own, under=under)


def is_own(source: Source, statement: Statement) -> bool:
    """Whether a statement changes nothing but variables of the thread's own."""
    if statement.kind in ("declare", "empty") or (statement.kind == "assign" and statement.name):
        return True
    text = source.slice(statement.span)  # float a = 0, b = 0;
    return re.match(r"(const\s+)?(float|int)\s+\w+\s*=", text) is not None and not re.search(r"\*\s*\w+\s*=", text)
