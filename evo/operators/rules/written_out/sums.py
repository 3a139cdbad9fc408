"""Sums that a thread keeps in several variables, or in an array of its own, and adds up at the end, as one sum."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import CountedFor, Edit, Function, Source, Span, Statement
from evo.cuda.source.nodes import span_of
from evo.cuda.source.parser import Node
from evo.operators.rules.normal_form import declared_apart
from evo.operators.rules.rewriting import bare, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import through

_ZERO = re.compile(r"-?0(?:\.0*)?[fF]?")
_ZEROS = re.compile(r"\{\s*(?:-?0(?:\.0*)?[fF]?\s*(?:,\s*)?)*\}")
_KINDS = ("float", "double", "int", "unsigned", "unsigned int")
_MOST = 64  # parts of a sum
_FUSED = re.compile(r"(?:fmaf?|__fmaf_rn)\s*\(")


@dataclass(slots=True)
class _Parts:
    """What is added up. uses: spans that are known, where a part is set to nothing, added to, or read in the total."""

    name: str
    kind: str
    declared: Statement
    count: int  # of elements; 0 for a variable
    uses: list[Span]
    added: list[Span]
    cleared: list[Span]


def with_single_sums(ctx: RuleContext) -> list[Edit]:
    """The edits that keep such sums in one variable, in all kernels."""
    found: list[Edit] = []
    for function in (f for f in ctx.source.functions if f.is_kernel):
        made = _in_kernel(ctx.source, function)
        if not made and (apart := list(declared_apart(ctx.source, function))):
            view = ctx.after(apart).source
            other = next(f for f in view.functions if f.is_kernel and f.name == function.name)
            made = list(through(view, apart, _in_kernel(view, other)))
        found += made
    return found


def _in_kernel(source: Source, function: Function) -> list[Edit]:
    inside = source.inside(function)
    known = {parts.name: parts for s in inside if (parts := _parts(source, inside, s)) is not None}
    for span, names in _totals(source, function, known):
        added = [known[name] for name in dict.fromkeys(names)]
        if any(not _is_whole(parts, names) for parts in added) or len({parts.kind for parts in added}) > 1:
            continue
        if all(_is_used_so(source, function, parts, [span]) for parts in added):
            return _as_one(source, added, [span])
    for parts in known.values():
        loops = [s for s in inside if _adds_all(source, s, parts)]
        spans = [loop.span for loop in loops]
        if loops and _is_used_so(source, function, parts, spans):
            return [*_as_one(source, [parts], []), *(_one_step(source, loop, parts.name) for loop in loops)]
    return []


def _parts(source: Source, inside: Sequence[Statement], declared: Statement) -> _Parts | None:
    """A variable, or an array, that is set to nothing and only added to."""
    kind = " ".join(declared.type.split())
    if declared.kind != "declare" or kind not in _KINDS or len(declared.dims) > 1:
        return None
    if sum(s.kind in ("declare", "for") and s.name == declared.name for s in inside) != 1:
        return None
    count = source.integer(source.slice(declared.dims[0])) if declared.dims else 0
    value = source.slice(declared.value).strip() if declared.value is not None else ""
    if count is None or count > _MOST or (value and not (_ZEROS if count else _ZERO).fullmatch(value)):
        return None
    parts = _Parts(declared.name, kind, declared, count, [], [], [])
    for s in inside:
        if s.kind == "assign" and s.target is not None and _element(source, s.target, parts) is not None:
            if s.operator == "=" and s.value is not None and _ZERO.fullmatch(source.slice(s.value).strip()):
                continue
            if not _adds(source, s, parts):
                return None
            parts.added.append(s.target)
            parts.uses.append(s.span)
    if not value:
        parts.cleared += _clearing(source, inside, parts)
        parts.uses += parts.cleared
    if not value and not parts.cleared:
        return None
    return parts if parts.added else None


def _element(source: Source, span: Span, parts: _Parts) -> str | None:
    """The index of an element, empty for a variable; None if the expression is something else."""
    text = source.slice(span).strip()
    if not parts.count:
        return "" if text == parts.name else None
    match = re.fullmatch(rf"{parts.name}\s*\[([^\[\]]*)\]", text)
    return match[1].strip() if match is not None else None


def _adds(source: Source, statement: Statement, parts: _Parts) -> bool:
    """`part += value` or `part = fmaf(a, b, part)`, whose value does not look at any part."""
    assert statement.target is not None
    if statement.value is None:
        return False
    names = [name for name, _ in source.names(statement.value)]
    if statement.operator in ("+=", "-="):
        return parts.name not in names
    text, place = source.slice(statement.value).strip(), source.slice(statement.target)
    last = re.fullmatch(r".*,\s*([^,]+)\)", text, re.DOTALL)
    if statement.operator != "=" or not _FUSED.match(text) or last is None or bare(last[1]) != bare(place):
        return False
    start = statement.value.start + len(source.slice(statement.value).rstrip()[: last.start(1)].encode())
    parts.added.append(Span(start, start + len(last[1].encode())))
    return names.count(parts.name) == 1


def _clearing(source: Source, inside: Sequence[Statement], parts: _Parts) -> list[Span]:
    """The loop that sets all elements to nothing, or the statements that do it one by one."""
    for s in inside:
        only = s.body[0] if isinstance(s, CountedFor) and len(s.body) == 1 and parts.count else None
        if only is None or only.kind != "assign" or only.operator != "=" or only.target is None or only.value is None:
            continue
        if _walks_all(source, s, parts, only.target) and _ZERO.fullmatch(source.slice(only.value).strip()):
            return [s.span]
    single: dict[int, Span] = {}
    for s in inside:
        if s.kind != "assign" or s.operator != "=" or s.value is None or s.target is None:
            continue
        at = _element(source, s.target, parts) if _ZERO.fullmatch(source.slice(s.value).strip()) else None
        if at is not None and (place := source.integer(at or "0")) is not None:
            single[place] = s.span
    return list(single.values()) if set(single) == set(range(max(parts.count, 1))) else []


def _walks_all(source: Source, loop: Statement, parts: _Parts, at: Span) -> bool:
    """Whether a loop has each element of an array once."""
    return (
        isinstance(loop, CountedFor)
        and loop.takes_each
        and source.slice(loop.start).strip() == "0"
        and source.integer(source.slice(loop.limit)) == parts.count
        and _element(source, at, parts) == loop.name
    )


def _adds_all(source: Source, loop: Statement, parts: _Parts) -> bool:
    """`for (u < 4) sum += acc[u];`."""
    only = loop.body[0] if isinstance(loop, CountedFor) and len(loop.body) == 1 and parts.count else None
    if only is None or only.kind != "assign" or only.operator != "+=" or not only.name or only.value is None:
        return False
    return _walks_all(source, loop, parts, only.value) and only.name != parts.name


def _one_step(source: Source, loop: Statement, name: str) -> Edit:
    only = loop.body[0]
    assert only.target is not None
    return Edit(loop.span, f"{source.slice(only.target)} += {name};")


def _totals(source: Source, function: Function, known: dict[str, _Parts]) -> Iterator[tuple[Span, list[str]]]:
    """Sums of nothing but parts: where each stands, and the name of each part in it."""
    for node in source.nodes():
        above = node.parent
        if node.type != "binary_expression" or not function.body.holds(span_of(node)):
            continue
        while above is not None and above.type == "parenthesized_expression":
            above = above.parent
        if above is not None and above.type == "binary_expression" and _leaves(above, known):
            continue
        if leaves := _leaves(node, known):
            yield span_of(node), leaves


def _leaves(node: Node, known: dict[str, _Parts]) -> list[str]:
    """The parts that a sum adds up; none if it adds anything else."""
    while node.type == "parenthesized_expression" and len(node.named_children) == 1:
        node = node.named_children[0]
    sign = node.child("operator")
    if node.type == "binary_expression" and sign is not None and sign.text == "+":
        sides = [_leaves(side, known) for side in (node.child("left"), node.child("right")) if side is not None]
        return [leaf for side in sides for leaf in side] if all(sides) else []
    name = node.text.split("[")[0].strip()
    is_part = node.type in ("identifier", "subscript_expression") and name in known
    return [name] if is_part else []


def _is_whole(parts: _Parts, total: Sequence[str]) -> bool:
    """Whether a total has each element of what it adds up once."""
    return total.count(parts.name) == max(parts.count, 1) and (bool(parts.count) or len(total) > 1)


def _is_used_so(source: Source, function: Function, parts: _Parts, totals: Sequence[Span]) -> bool:
    """Whether nothing else looks at a part, and elements of a total are all different ones."""
    known = [*totals, *parts.uses, parts.declared.span]
    uses = [at for name, at in source.names(function.body) if name == parts.name]
    if not all(any(span.holds(at) for span in known) for at in uses):
        return False
    for total in totals if parts.count else ():
        text = source.slice(total)
        places = re.findall(rf"\b{parts.name}\s*\[\s*(\w+)\s*\]", text)
        if not text.startswith(("for", "#")) and {source.integer(place) for place in places} != set(range(parts.count)):
            return False
    return True


def _as_one(source: Source, parts: Sequence[_Parts], totals: Sequence[Span]) -> list[Edit]:
    """The first of them adds up everything."""
    name = parts[0].name
    edits = [Edit(parts[0].declared.span, f"{parts[0].kind} {name} = 0;")]
    edits += [Edit(with_its_line(source, each.declared.span), "") for each in parts[1:]]
    for each in parts:
        edits += [Edit(span, name) for span in each.added]
        edits += [Edit(with_its_line(source, span), "") for span in each.cleared]
    return [*edits, *(Edit(span, name) for span in totals)]
