"""Pointers that a loop moves on by an element each turn, where its turns are shared out: an index takes their place."""

from __future__ import annotations

import re

from evo.cuda.source import Edit, Span
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_MOVED = re.compile(
    r"(?<![\w.>])(?:(?P<after>\w+)\s*(?:\+\+|--|[-+*/|&^%]=(?!=)|<<=|>>=)|(?:\+\+|--)\s*(?P<before>\w+))"
)
_REFERENCE = re.compile(r"^(?!const\b[^*]*&).*&")


def indexed(
    ctx: RuleContext, loop: Span, header: Span, index: str, known: set[str], *, takes_each: bool
) -> list[Edit] | None:
    """`name[index]` for each `*name++` of a loop; None if a turn moves something on in another way.

    known: what the loop sums up. takes_each: its index is 0, 1, 2 ...
    """
    body = Span(header.end, loop.end)
    text = ctx.source.slice(body)
    plain = without_comments(text)
    moved = {match["after"] or match["before"] for match in _MOVED.finditer(plain)} - known - {index}
    moved -= {name for name in moved if re.search(rf"(?<![\w.>]){name}\s*=(?!=)", plain)}  # set anew in each turn
    by_reference = {f.name for f in ctx.source.functions if any(_REFERENCE.search(param.type) for param in f.params)}
    handed = {name for call in ctx.source.calls if call.name in by_reference and body.holds(call.span)
              for span in call.arguments for name, _ in ctx.source.names(span)}  # fmt: skip
    moved |= (handed & ctx.source.changed_in(body)) - {*ctx.source.declared(body), *known, index}
    edits: list[Edit] = []
    for name in sorted(moved):
        place = re.compile(rf"\*\s*(?:{name}\s*\+\+|\(\s*{name}\s*\+\+\s*\))")
        found = [*place.finditer(text)]
        if len(found) != 1 or not takes_each or not _is_its_own(ctx, loop, name, plain):
            return None
        start = body.start + len(text[: found[0].start()].encode())
        edits.append(Edit(Span(start, start + len(found[0].group().encode())), f"{name}[{index}]"))
    return edits


def _is_its_own(ctx: RuleContext, loop: Span, name: str, body: str) -> bool:
    """Whether the loop names the pointer once, nothing behind it does, and it is set in the same block before it."""
    function = next((f for f in ctx.source.functions if f.body.holds(loop)), None)
    if function is None or len(re.findall(rf"\b{name}\b", body)) != 1:
        return False
    behind = without_comments(ctx.source.slice(Span(loop.end, function.body.end)))
    between = without_comments(ctx.source.slice(Span(function.body.start, loop.start)))
    set_at = [match.end() for match in re.finditer(rf"\b{name}\s*=(?!=)", between)]
    if not set_at or re.search(rf"\b{name}\b", behind):
        return False
    since = between[set_at[-1] :]
    return since.count("{") == since.count("}") and not re.search(rf"\b{name}\b", since)
