"""A search that keeps only the place of the best element, as rules know it: with that element's value beside it.

`if (p[i] > p[best]) best = i;` is seen as `if (p[i] > best_value) { best_value = p[i]; best = i; }`. The tensor is only
read, so the value stays that of the place. A place that does not start at 0 may be no element, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import CountedFor, Edit, Function, Span
from evo.operators.rules.rewriting import bare, fresh, indent_of
from evo.operators.rules.rule_context import RuleContext

_TEST = re.compile(r"\s*(?P<left>\w+\s*\[[^\[\]<>]*\])\s*(?P<relation>[<>])\s*(?P<right>\w+\s*\[[^\[\]<>]*\])\s*")


def with_kept_value(ctx: RuleContext) -> list[Edit]:
    """The edits that keep the value of the best element, in all kernels that look one up by its place."""
    found: list[Edit] = []
    for analysis, function in ctx.analysed(once=True):
        read_only = {array.parameter for array in analysis.form.tensors if analysis.legality.is_read_only(array)}
        for top in ctx.source.statements(function):
            for loop in top.all():
                if isinstance(loop, CountedFor) and len(loop.body) == 1:
                    found += _in_loop(ctx, function, loop, read_only)
    return found


def _search(ctx: RuleContext, loop: CountedFor) -> tuple[str, str] | None:
    """What a turn compares and the place that it sets, of `if (test) best = i;` or `best = test ? i : best;`."""
    (only,) = loop.body
    kept = only.body[0] if only.kind == "if" and len(only.body) == 1 and not only.alternative else only
    if kept.kind != "assign" or kept.operator != "=" or kept.value is None or not kept.name:
        return None
    value = ctx.source.slice(kept.value).strip()
    if kept is not only:
        return (ctx.source.slice(only.condition), kept.name) if only.condition and value == loop.name else None
    chosen = re.fullmatch(rf"\(?(?P<test>[^?()]+|\([^?()]+\))\?\s*{loop.name}\s*:\s*{kept.name}\s*\)?", value)
    return (chosen["test"].strip(), kept.name) if chosen is not None else None


def _in_loop(ctx: RuleContext, function: Function, loop: CountedFor, read_only: set[str]) -> Iterator[Edit]:
    source, found = ctx.source, _search(ctx, loop)
    text, best = found if found is not None else ("", "")
    index, match = loop.name, _TEST.fullmatch(text.strip("() "))
    if match is None or source.is_bare(loop.span):
        return
    mine, other = match["left"], match["right"]
    if re.search(rf"\b{best}\b", mine):
        mine, other = other, mine
    pointer = mine.split("[")[0].strip()
    if bare(re.sub(rf"\b{index}\b", best, mine)) != bare(other) or not re.search(rf"\b{index}\b", mine):
        return
    if not _is_of(ctx, function, pointer, read_only) or not _starts_at_0(ctx, function, loop, best):
        return
    kind, above = source.element_type(function.name, pointer), source.above(loop.span)
    if kind is None or above is None:
        return
    value, indent = fresh(ctx, f"{best}_value"), indent_of(source, loop.span.start)
    yield Edit(Span(above, above), f"{indent}{kind} {value} = {other};\n")
    test = text.strip("() ").replace(other, value, 1)
    yield Edit(loop.body[0].span, f"if ({test}) {{ {value} = {mine}; {best} = {index}; }}")


def _is_of(ctx: RuleContext, function: Function, pointer: str, read_only: set[str]) -> bool:
    """Whether a name is a tensor that is only read, or a pointer into one that stays where it is."""
    if pointer in read_only:
        return True
    said = [s for s in ctx.source.inside(function) if s.name == pointer]
    if len(said) != 1 or said[0].kind != "declare" or said[0].value is None or "*" not in said[0].type:
        return False
    text = ctx.source.slice(function.body)
    if re.search(rf"(?:\+\+|--)\s*{pointer}\b|\b{pointer}\s*(?:\+\+|--|[-+]=)", text):
        return False
    return bool(set(re.findall(r"\w+", ctx.source.slice(said[0].value))) & read_only)


def _starts_at_0(ctx: RuleContext, function: Function, loop: CountedFor, best: str) -> bool:
    """Whether the place is declared as 0, and set nowhere but in this loop."""
    said = [s for s in ctx.source.inside(function) if s.name == best]
    inside = [s for s in said if loop.span.holds(s.span)]
    before = [s for s in said if s not in inside]
    if len(inside) != 1 or len(before) != 1 or before[0].kind != "declare" or before[0].value is None:
        return False
    return ctx.source.slice(before[0].value).strip() == "0"
