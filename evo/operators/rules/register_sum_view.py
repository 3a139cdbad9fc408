"""What a loop keeps in memory, as rules know it: `y[i] = 0; for (...) y[i] += x;` with the sum in a variable.

The element is written once, behind the last statement that has it. It stays in memory if one of them touches its tensor
anywhere else, or changes what its place depends on. Sums side by side, to all of which each turn of a loop adds, are
seen one after the other: `for (i) y[i] = 0; for (k) for (i) y[i] += a[k] * x[k][i];` as the sum over k for each i.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from evo.cuda.source import CountedFor, Edit, Function, Source, Span, Statement
from evo.operators.rules.rewriting import CHANGES, bare, fresh, indent_of
from evo.operators.rules.rule_context import RuleContext

_ELEMENT = re.compile(r"(?P<pointer>\w+)\s*\[(?P<index>[^\[\]]*)\]")
_MEETS = re.compile(r"\b(?:return|goto|__sync\w*|atomic\w*)\b|&\s*\w+\s*\[")
_LEAVES = re.compile(r"\b(?:break|continue)\b")  # a body, unless a loop stands around
_ZERO = re.compile(r"0|0\.0?f?|0\.f")


def with_register_sums(ctx: RuleContext) -> list[Edit]:
    """The edits that keep such elements in variables, in all kernels."""
    made: list[Edit] = []
    for function, tensors in _kernels(ctx):
        names: list[str] = []
        for block in blocks_of(ctx.source.statements(function)):
            for at, first in enumerate(block):
                if first.kind == "assign" and first.operator == "=" and not first.name:
                    made += _element(ctx, function, first, block[at + 1 :], tensors, names)
    return made


def with_sums_in_turn(ctx: RuleContext) -> list[Edit]:
    """The edits that add up one sum after the other, in all kernels that add to many in each turn."""
    return [
        edit
        for function, tensors in _kernels(ctx)
        for block in blocks_of(ctx.source.statements(function))
        for first, loop in pairwise(block)
        if isinstance(first, CountedFor) and isinstance(loop, CountedFor)
        for edit in _sums(ctx, function, first, loop, tensors)
    ]


def _kernels(ctx: RuleContext) -> Iterator[tuple[Function, dict[str, str]]]:
    """Kernels with the outputs of the task."""
    tensors = {array.parameter: array.element for a in ctx.launches for array in a.form.tensors if array.role == "out"}
    return ((function, tensors) for function in ctx.source.functions if function.is_kernel)


def blocks_of(statements: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    """The statements of a body, and those of tests in it."""
    yield statements
    for statement in statements:
        if statement.kind in ("if", "block"):
            yield from blocks_of(statement.body)


def _element(
    ctx: RuleContext,
    function: Function,
    first: Statement,
    behind: Sequence[Statement],
    tensors: dict[str, str],
    names: list[str],
) -> Iterator[Edit]:
    """Of an element that is set, then read and written in a loop, and maybe by the statements behind that.

    names: those of the kernel's elements before it, to which its own is added.
    """
    source = ctx.source
    if first.target is None or first.value is None:
        return
    place, begun = source.slice(first.target), source.slice(first.value)
    match = _ELEMENT.fullmatch(place)
    pointer = match["pointer"] if match is not None else ""
    kind = source.element_type(function.name, pointer)
    if match is None or kind not in ("float", "int", "double") or not _is_alone(ctx, function, pointer, tensors):
        return
    words = set(re.findall(r"[A-Za-z_]\w*", match["index"]))
    if pointer in re.findall(r"\w+", begun):
        return
    uses, end, loops = list[Span](), first, 0
    for statement in behind:
        found = [at for name, at in source.names(statement.span) if name == pointer]
        text = source.slice(statement.span)
        is_left = _MEETS.search(text) or (statement.kind != "for" and _LEAVES.search(text))
        if not found:
            if is_left or _names(source, statement) & words:
                break
            continue
        whole = [_whole(source, at) for at in found]
        if any(bare(source.slice(at)) != bare(place) for at in whole) or _names(source, statement) & words:
            return
        if is_left:
            return
        uses, end, loops = [*uses, *whole], statement, loops + (statement.kind == "for")
    if not loops:
        return
    is_sum = "+=" in source.slice(Span(first.span.start, end.span.end))
    name, indent = fresh(ctx, "sum" if is_sum else f"own_{pointer}", names), indent_of(source, end.span.start)
    names.append(name)
    yield Edit(first.span, f"{kind} {name} = {begun};")
    is_set = end.kind == "assign" and end.operator == "=" and end.target in uses
    yield from (Edit(at, name) for at in uses if not is_set or at != end.target)
    if not is_set:
        yield Edit(Span(end.span.end, end.span.end), f"\n{indent}{place} = {name};")


def _whole(source: Source, at: Span) -> Span:
    """`y[i]` around the name of `y`; no further than the name if that is another expression."""
    match = _ELEMENT.match(source.data[at.start :].decode(errors="replace"))
    return Span(at.start, at.start + len(match[0].encode())) if match is not None else at


def _names(source: Source, statement: Statement) -> set[str]:
    """What a statement declares or changes."""
    return {*source.changed_in(statement.span)} | {s.name for s in statement.all() if s.kind in ("declare", "for")}


def _sums(
    ctx: RuleContext, function: Function, zeros: CountedFor, around: CountedFor, tensors: dict[str, str]
) -> Iterator[Edit]:
    """Of a loop that clears elements and one whose turns add to each of them."""
    source, (*before, inner) = ctx.source, around.body or (around,)
    if not isinstance(inner, CountedFor) or len(zeros.body) != 1 or len(inner.body) != 1:
        return
    cleared, added, own = zeros.body[0], inner.body[0], {inner.name: zeros.name}
    parts = [part for s in (cleared, added) for part in (s.target, s.value) if part is not None]
    if (cleared.operator, added.operator, len(parts)) != ("=", "+=", 4) or _turns(source, zeros) != _turns(
        source, inner
    ):
        return
    place, nothing = (source.slice(part) for part in parts[:2])
    there, value = (source.renamed(part, own) for part in parts[2:])
    match = _ELEMENT.fullmatch(place)
    pointer = match["pointer"] if match is not None else ""
    kind = source.element_type(function.name, pointer)
    if kind not in ("float", "int", "double") or not _is_alone(ctx, function, pointer, tensors):
        return
    if not _ZERO.fullmatch(nothing.strip()) or bare(there) != bare(place) or not _stay(source, zeros, around, pointer):
        return
    name, indent = fresh(ctx, "sum"), indent_of(source, zeros.span.start)
    lines = [*(source.slice(s.span) for s in before), f"{name} += {value};"]
    turn = "".join(f"\n{indent}        {line}" for line in lines)
    head, outer = (source.slice(Span(s.span.start, s.body_span.start)).rstrip() for s in (around, zeros))
    yield Edit(
        Span(zeros.span.start, around.span.end),
        f"{outer} {{\n{indent}    {kind} {name} = 0;\n{indent}    {head} {{{turn}\n{indent}    }}\n"
        f"{indent}    {place} = {name};\n{indent}}}",
    )


def _stay(source: Source, zeros: CountedFor, around: CountedFor, pointer: str) -> bool:
    """Whether nothing in a loop of sums changes where they are, reads one of them, or does more than declare."""
    *before, inner = around.body
    (added,) = inner.body
    text = source.slice(around.span)
    where = source.slice(Span(zeros.span.start, zeros.span.end))
    words = set(re.findall(r"[A-Za-z_]\w*", where)) - {zeros.name, pointer}
    inside = {s.name for s in around.all() if s.kind in ("assign", "declare", "for")} - {inner.name}
    if inside & (words | {zeros.name}) or len(re.findall(rf"\b{pointer}\b", text)) != 1:
        return False
    if zeros.name != inner.name and re.search(rf"\b{zeros.name}\b", text):
        return False
    plain = all(s.kind == "declare" and s.value is not None and not s.dims for s in before)
    return plain and not any(CHANGES.search(source.slice(s.value)) for s in (*before, added) if s.value is not None)


def _turns(source: Source, loop: CountedFor) -> tuple[str, ...]:
    return bare(source.slice(loop.start)), loop.relation, bare(source.slice(loop.limit)), loop.step


def _is_alone(ctx: RuleContext, function: Function, pointer: str, tensors: dict[str, str]) -> bool:
    """Whether a pointer is an output of the kernel, or goes into one that nothing else does."""
    if pointer in tensors:
        return True
    said = [s for s in ctx.source.inside(function) if s.name == pointer]
    if len(said) != 1 or said[0].kind != "declare" or said[0].value is None:
        return False
    into = {name for name, _ in ctx.source.names(said[0].value)} & tensors.keys()
    uses = [name for name, _ in ctx.source.names(function.body) if name in into]
    return len(into) == len(uses) == 1
