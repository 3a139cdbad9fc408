"""Declarations that edits leave without a use: the compiler warns of them, and a warning is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import CountedFor, Edit, Function, Span, Statement
from evo.operators.rules.rewriting import CHANGES, listed, rewritten, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_DECLARED = re.compile(
    r"(?P<type>(?:const\s+|__shared__\s+__align__\(\d+\)\s+)?[A-Za-z_][\w:]*(?:\s+\w+)*?[\s*&]+(?:const\s+|__restrict__\s+)*)(?P<rest>[A-Za-z_]\w*\s*[=;,\[].*)",
    re.DOTALL,
)


def without_unused(ctx: RuleContext, function: Function, span: Span, edits: Sequence[Edit]) -> list[Edit]:
    """The edits within a span, and those that take away what is then declared in it and never used but set."""
    source = ctx.source
    found, every = list(edits), list(source.inside(function))
    takers = {f.name for f in source.functions if any(param.is_pointer or "&" in param.type for param in f.params)}
    left = {
        s.span: [*_declarators(source.slice(s.span))]
        for s in every
        if s.kind in ("declare", "other") and span.holds(s.span) and not any(edit.span.holds(s.span) for edit in edits)
    }
    changed = True
    while changed:
        changed = False
        text = without_comments(rewritten(source, span, found))
        for declared, parts in left.items():
            sets = {name: list(_sets(ctx, every, name, part, span, found)) for name, part in parts}
            idle = [
                part for part in parts
                if uses_of(part[0], text) == 1 + len(sets[part[0]]) and not _does_more(part[1], takers)
                and not any(_does_more(f"= {text}", takers) for s in sets[part[0]] for text in _texts(ctx, s))
            ]  # fmt: skip
            if not idle:
                continue
            changed = True
            for gone in {_whole(ctx, every, s) for name, _ in idle for s in sets[name]}:
                found = [*_outside(gone, found), Edit(gone, "")]
            left[declared] = [part for part in parts if part not in idle]
            kept = ", ".join(part for _, part in left[declared])
            place = declared if kept else with_its_line(source, declared)
            found = _outside(place, found)
            head = _DECLARED.match(source.slice(declared))
            found.append(Edit(place, f"{head['type']}{kept};" if kept and head is not None else ""))
            break
    return found


def _sets(
    ctx: RuleContext, every: Sequence[Statement], name: str, part: str, span: Span, edits: Sequence[Edit]
) -> Iterator[Statement]:
    """The statements that set an element of an array, of those that the edits leave as they are.

    part: its declaration, which is no pointer's.
    """
    depth = part.partition("=")[0].count("[")
    for s in every if depth else ():
        target = ctx.source.slice(s.target) if s.kind == "assign" and s.operator == "=" and s.target else ""
        is_as_it_was = span.holds(s.span) and not any(e.span.holds(s.span) or s.span.holds(e.span) for e in edits)
        if is_as_it_was and target.startswith(f"{name}[") and target.endswith("]") and target.count("[") == depth:
            yield s


def _texts(ctx: RuleContext, s: Statement) -> list[str]:
    """What an assignment says on either side."""
    return [ctx.source.slice(side) for side in (s.target, s.value) if side is not None]


def _outside(place: Span, edits: Sequence[Edit]) -> list[Edit]:
    """The edits that are not of a place, but stand beside it."""
    return [edit for edit in edits if not place.holds(edit.span) or edit.span.start == place.end]


def _whole(ctx: RuleContext, every: Sequence[Statement], s: Statement) -> Span:
    """The place of a statement with the loops that do nothing else, and the spaces behind it."""
    while (around := next((w for w in every if isinstance(w, CountedFor) and w.body == (s,)), None)) is not None:
        s = around
    place = with_its_line(ctx.source, s.span)
    rest = ctx.source.data[place.end :]
    return place if place != s.span else Span(place.start, place.end + len(rest) - len(rest.lstrip(b" ")))


def uses_of(name: str, text: str) -> int:
    """How often a variable is named; a field of that name is another."""
    return len(re.findall(rf"(?<![.\w]){name}\b", text))


def _declarators(text: str) -> Iterator[tuple[str, str]]:
    """`int a = f(x, y), b;`: each name, and its part of the declaration."""
    match = _DECLARED.fullmatch(text.strip())
    if match is None or match["type"].split()[0] in ("return", "else", "goto", "case", "static", "extern", "using"):
        return
    for part in listed(match["rest"].rstrip(";")):
        if name := re.match(r"\w+", part):
            yield name[0], part


def _does_more(part: str, takers: set[str]) -> bool:
    """Whether a declaration's value changes something else."""
    value = part.partition("=")[2]
    return bool(CHANGES.search(value)) or any(re.search(rf"\b{name}\s*\(", value) for name in takers)
