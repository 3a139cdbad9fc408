"""Loops whose iterations may be shared out or taken in another order: element by element, or adding up.

`shareable` is the proof that the rules on such loops start from; what it cannot tell is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evo.cuda.source import CountedFor, Source, Span, Statement
from evo.operators.rules.rewriting import balanced

_COMBINE = {"fmaxf": "fmaxf", "fminf": "fminf", "max": "max", "min": "min"}
NEUTRAL = {"+": "0.0f", "fmaxf": "-INFINITY", "fminf": "INFINITY"}
_EFFECTS = re.compile(r"__sync|_sync\b|__shfl|\basm\b|\batomic|\+\+|--|->|\bprintf\b|\bgoto\b")


@dataclass(frozen=True, slots=True)
class ReductionLoop:
    """`name += value`, `name = combine(name, value)` or a test that does so; combine is `+` or a function."""

    name: str
    combine: str
    value: Span
    statement: Statement


@dataclass(frozen=True, slots=True)
class Shareable:
    """A loop whose iterations depend on one another through its reductions only. stores: pointers it writes at its
    own element."""

    loop: CountedFor
    reductions: tuple[ReductionLoop, ...]
    stores: frozenset[str]


def reduction_of(source: Source, statement: Statement) -> ReductionLoop | None:
    """What a statement adds up, if it does nothing else."""
    if statement.kind == "if":
        return _chosen(source, statement)
    if statement.kind != "assign" or not statement.name or statement.value is None:
        return None
    value = source.slice(statement.value)
    if statement.operator == "+=":
        found = ReductionLoop(statement.name, "+", statement.value, statement)
    elif statement.operator == "=" and (match := re.match(r"(\w+)\(", value)) and match[1] in _COMBINE:
        calls = [call for call in source.calls if call.span == statement.value]
        if not calls or len(calls[0].arguments) != 2:
            return None
        first, second = calls[0].arguments
        if source.slice(first) == statement.name:
            found = ReductionLoop(statement.name, match[1], second, statement)
        elif source.slice(second) == statement.name:
            found = ReductionLoop(statement.name, match[1], first, statement)
        else:
            return None
    else:
        return None
    return None if statement.name in {name for name, _ in source.names(found.value)} else found


def _chosen(source: Source, statement: Statement) -> ReductionLoop | None:
    """`if (value > name) name = value;` on floats is a maximum, with < a minimum."""
    only = statement.body[0] if len(statement.body) == 1 and not statement.alternative else None
    if only is None or only.kind != "assign" or only.operator != "=" or not only.name or only.value is None:
        return None
    assert statement.condition is not None
    test, value = (" ".join(source.slice(span).split()) for span in (statement.condition, only.value))
    function = source.function_at(statement.span.start)
    kinds = {source.type_of(function.name, span) for span in (only.target, only.value) if function and span}
    if kinds != {"float"} or only.name in {name for name, _ in source.names(only.value)}:
        return None
    forms = {f"{value} > {only.name}": "fmaxf", f"{only.name} < {value}": "fmaxf"}
    forms |= {f"{value} < {only.name}": "fminf", f"{only.name} > {value}": "fminf"}
    return ReductionLoop(only.name, forms[test], only.value, statement) if test in forms else None


def shareable(source: Source, loop: Statement) -> Shareable | None:
    """The proof for one counted loop, or None."""
    if not isinstance(loop, CountedFor) or _EFFECTS.search(source.slice(loop.body_span)):
        return None
    reductions: list[ReductionLoop] = []
    stores: set[str] = set()
    own = {inner.name for inner in loop.all() if inner.kind == "declare"}
    for inner in loop.body:
        if inner.kind == "declare" and not inner.dims and inner.value is not None:
            continue
        if inner.kind == "assign" and inner.name in own:
            continue  # a value of this step's own
        if (found := reduction_of(source, inner)) is not None and found.name not in own:
            reductions.append(found)
        elif (name := _own_element(source, loop, inner)) is not None:
            stores.add(name)
        else:
            return None
    if not reductions and not stores:
        return None
    totals = {found.name for found in reductions}
    uses = [name for name, _ in source.names(loop.body_span)]
    expected = {found.name: _uses(found) for found in reductions}
    if len(totals) != len(reductions) or any(uses.count(name) != expected[name] for name in totals):
        return None  # a running total is looked at
    for each in source.subscripts(loop.body_span):
        if each.name in stores and not _is_element(source, loop, each.indices):
            return None
    return Shareable(loop, tuple(reductions), frozenset(stores))


def _uses(found: ReductionLoop) -> int:
    return 1 if found.combine == "+" else 2


def _own_element(source: Source, loop: Statement, statement: Statement) -> str | None:
    """The pointer that a statement writes at the loop's own element."""
    if statement.kind != "assign" or statement.target is None or statement.name:
        return None
    for each in source.subscripts(statement.target):
        if each.span == statement.target and _is_element(source, loop, each.indices):
            return each.name
    return None


def _is_element(source: Source, loop: Statement, indices: tuple[Span, ...]) -> bool:
    return len(indices) == 1 and offset_of(source, loop, indices[0]) is not None


def offset_of(source: Source, loop: Statement, index: Span) -> str | None:
    """`i` -> "", `E + i` or `i + E` -> "E", where E does not change in the loop; None for other indices."""
    text = source.slice(index).strip()
    if text == loop.name:
        return ""
    changed = {loop.name} | {inner.name for inner in loop.all() if inner.kind in ("declare", "assign") and inner.name}
    for pattern in (rf"(?P<rest>.+?)\s*\+\s*{loop.name}", rf"{loop.name}\s*\+\s*(?P<rest>.+)"):
        match = re.fullmatch(pattern, text, re.DOTALL)
        if match is None or changed & set(re.findall(r"[A-Za-z_]\w*", match["rest"])):
            continue
        if re.fullmatch(r"[\w\s*()+]+", match["rest"]) and balanced(match["rest"]):
            return match["rest"]
    return None
