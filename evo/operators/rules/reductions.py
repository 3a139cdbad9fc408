"""Loops whose iterations may be shared out or taken in another order: element by element, or adding up.

`shareable` is the proof that the rules on such loops start from; what it cannot tell is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import CountedFor, Source, Span, Statement
from evo.operators.rules.rewriting import balanced, closed

_COMBINE = {"fmaxf": "fmaxf", "fminf": "fminf", "max": "max", "min": "min"}
NEUTRAL = {"+": "0.0f", "fmaxf": "-INFINITY", "fminf": "INFINITY"}
_THREAD_PLACE = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]\b")
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
    own element. A sum that several statements add to is one reduction, the first."""

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
    if not isinstance(loop, CountedFor) or not _is_plain(source, loop):
        return None
    reductions: dict[str, list[ReductionLoop]] = {}
    stores: set[str] = set()
    own = {inner.name for inner in loop.all() if inner.kind == "declare"}
    for inner in loop.body:
        if inner.kind == "declare" and not inner.dims and inner.value is not None:
            continue
        if inner.kind == "assign" and inner.name in own:
            continue  # a value of this step's own
        if (found := reduction_of(source, inner)) is not None and found.name not in own:
            reductions.setdefault(found.name, []).append(found)
        elif (name := _own_element(source, loop, inner)) is not None:
            stores.add(name)
        else:
            return None
    if not reductions and not stores:
        return None
    uses = [name for name, _ in source.names(loop.body_span)]
    if any(uses.count(name) != sum(map(_uses, parts)) for name, parts in reductions.items()):
        return None  # a running total is looked at
    if any(len(parts) > 1 and {part.combine for part in parts} != {"+"} for parts in reductions.values()):
        return None
    if source.changed_in(loop.body_span) - {*source.declared(loop.body_span), *reductions, *stores, loop.name}:
        return None  # a function moves something on
    for each in source.subscripts(loop.body_span):
        if each.name in stores and not _is_element(source, loop, each.indices):
            return None
    return Shareable(loop, tuple(parts[0] for parts in reductions.values()), frozenset(stores))


def takes_any_order(source: Source, loop: Statement) -> bool:
    """Whether lanes may share a loop's turns out in another way, if each takes its own in rising order.

    As `shareable`, and `sum = fmaf(a, b, sum)`, `sum = sum + a`, and the best element with its place, if lanes with
    equal ones take the smaller place; all of them behind tests, and behind `if (...) continue;`, too.
    """
    if shareable(source, loop) is not None:
        return True
    if not isinstance(loop, CountedFor) or not _is_plain(source, loop):
        return False
    own = {inner.name for inner in loop.all() if inner.kind == "declare"}
    totals: dict[str, list[Statement]] = {}
    for inner, names in _adding(source, loop, loop.body):
        before = [each for name in names for each in totals.get(name, ())]
        if not names or own & {*names} or not (not before or all(_adds(source, each) for each in (inner, *before))):
            return False
        for name in names:
            totals.setdefault(name, []).append(inner)
    everywhere = [name for name, _ in source.names(loop.body_span)]
    return bool(totals) and all(
        everywhere.count(name) == [each for s in statements for each, _ in source.names(s.span)].count(name)
        for name, statements in totals.items()
    )


def _adding(source: Source, loop: Statement, body: Sequence[Statement]) -> Iterator[tuple[Statement, tuple[str, ...]]]:
    """What carries something from turn to turn, behind tests too, with the names of what it carries."""
    for inner in body:
        if inner.kind == "declare" and not inner.dims and inner.value is not None:
            continue
        names = _carried_by(source, loop, inner)
        if names or inner.kind != "if" or not inner.body:
            yield inner, names
        elif not is_continue(source, inner):
            yield from _adding(source, loop, (*inner.body, *inner.alternative))


def is_continue(source: Source, statement: Statement) -> bool:
    """Whether a statement is `if (...) continue;`."""
    only = statement.body[0] if statement.kind == "if" and len(statement.body) == 1 else None
    return only is not None and not statement.alternative and source.slice(only.span).strip() == "continue;"


def _is_plain(source: Source, loop: CountedFor) -> bool:
    """Whether turns have no effects but what they write, and the one that fails the test is the last of all."""
    names = {name for name, _ in source.names(loop.limit)}
    ends_once = not names & (source.changed_in(loop.body_span) | {loop.name})
    return ends_once and not _EFFECTS.search(source.slice(loop.body_span))


def _adds(source: Source, statement: Statement) -> bool:
    """Whether a statement that carries one name adds to it, rather than choose between it and another value."""
    found = reduction_of(source, statement)
    return found.combine == "+" if found is not None else statement.kind == "assign"


def _carried_by(source: Source, loop: Statement, statement: Statement) -> tuple[str, ...]:
    """What a statement carries from turn to turn: a sum, or the best element and its place."""
    if (found := reduction_of(source, statement)) is not None:
        return (found.name,)
    if statement.kind == "if":
        return _best(source, loop, statement)
    if statement.kind != "assign" or statement.operator != "=" or not statement.name or statement.value is None:
        return ()
    name = statement.name
    fused = next((call for call in source.calls if call.span == statement.value and len(call.arguments) == 3), None)
    value = source.slice(statement.value).strip()
    is_last = fused is not None and source.slice(fused.arguments[2]).strip() == name
    if not (is_last and re.match(r"(?:fmaf?|__fmaf_rn)\s*\(", value)) and not _is_plus(value, name):
        return ()
    return (name,) if [each for each, _ in source.names(statement.value)].count(name) == 1 else ()


def _is_plus(value: str, name: str) -> bool:
    """`name + a * b`: nothing else that binds as loosely stands behind the name."""
    match = re.fullmatch(rf"{name}\s*\+(?P<rest>[^?:<>=|&^,]+)", value)
    return match is not None and balanced(match["rest"])


def _best(source: Source, loop: Statement, statement: Statement) -> tuple[str, ...]:
    """`if (value > best) { best = value; place = i; }`, if other lanes' places are compared too."""
    function = source.function_at(statement.span.start)
    if statement.alternative or len(statement.body) != 2 or statement.condition is None or function is None:
        return ()
    said = {
        each.name: source.slice(each.value).strip()
        for each in statement.body
        if each.kind == "assign" and each.operator == "=" and each.name and each.value is not None
    }
    place = next((name for name, value in said.items() if value == loop.name), None)
    best = next((name for name in said if name != place), None)
    if len(said) != 2 or place is None or best is None:
        return ()
    test, value = (" ".join(text.split()) for text in (source.slice(statement.condition), said[best]))
    known = {f"{value} {sign} {best}" for sign in "<>"} | {f"{best} {sign} {value}" for sign in "<>"}
    body = source.slice(function.body)
    shown = {place, *re.findall(rf"\b(\w+)\[[^\[\]]*\]\s*=\s*{place}\s*;", body)}  # where other threads see it
    is_compared = any(re.search(rf"<\s*{name}\b|\b{name}(?:\[[^\[\]]*\])?\s*>", body) for name in shown)
    if test not in known or {best, place} & set(re.findall(r"\w+", value)) or not is_compared:
        return ()
    return best, place


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
    while text.startswith("(") and closed(text, 0) == len(text):
        text = text[1:-1].strip()
    if text == loop.name:
        return ""
    own = rf"(?:{loop.name}|\(\s*{loop.name}\s*\))"
    for pattern in (rf"(?P<rest>.+?)\s*\+\s*{own}", rf"{own}\s*\+\s*(?P<rest>.+)"):
        match = re.fullmatch(pattern, text, re.DOTALL)
        if match is not None and is_steady(loop, match["rest"]):
            return match["rest"]
    return None


def is_steady(loop: Statement, text: str) -> bool:
    """Whether a part of an index is plain arithmetic on what does not change in a loop."""
    changed = {loop.name} | {inner.name for inner in loop.all() if inner.kind in ("declare", "assign") and inner.name}
    rest = _THREAD_PLACE.sub("place", text)
    if changed & set(re.findall(r"[A-Za-z_]\w*", text)) or not balanced(rest):
        return False
    return re.fullmatch(r"(?:static_cast<[\w\s]+>|[\w\s*()+%-]|/(?![/*]))+", rest) is not None


def counts_down(source: Source, loop: Statement, index: Span) -> bool:
    """Whether an index is `E - i`, however its terms stand, where E does not change in the loop."""
    text = source.slice(index).strip()
    found = list(re.finditer(rf"\b{loop.name}\b", text))
    changed = {inner.name for inner in loop.all() if inner.kind in ("declare", "assign") and inner.name}
    if len(found) != 1 or not re.fullmatch(r"[\w\s*+()-]+", text) or changed & set(re.findall(r"[A-Za-z_]\w*", text)):
        return False
    before, after = text[: found[0].start()].rstrip(), text[found[0].end() :].lstrip()
    is_term = re.search(r"[\w)]\s*-$", before) is not None and not after.startswith("*")
    return is_term and balanced(before[:-1]) and balanced(after)
