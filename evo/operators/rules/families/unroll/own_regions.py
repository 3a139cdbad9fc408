"""A small matrix that a thread has for itself in a tensor, and reads again, as an array of the thread's own.

`float* l = L + b * 36;` with `l[i * 6 + k]` behind it, or `L[b * 36 + i * 6 + k]` throughout: the array is filled in
front, if the kernel changes what it was given, and stored as a whole at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import THREAD, Access, Array, LaunchAnalysis, Term, number_of
from evo.cuda.source import Edit, Function, Span, Statement
from evo.operators.rules.lifting import NotPrinted, type_of_elements
from evo.operators.rules.rewriting import fresh, indent_of
from evo.operators.rules.rule_context import RuleContext

_MOST = 64  # elements of an array that may lie in registers
_SUBSCRIPT = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\[(?P<index>[^\[\]]*)\]")
_OFFSET = re.compile(r"[+-]\s*\d+\s*(?:$|[+-])")
_MOVED = r"(?:\+\+|--)\s*{name}\b(?!\s*\[)|\b{name}\s*(?:\+\+|--|[-+]=)|;\s*{name}\s*="
_LEAVES = re.compile(r"\b(?:return|goto|asm)\b|__sync")


@dataclass(frozen=True, slots=True)
class _Region:
    """Elements 0 .. size - 1 behind `start` of a tensor. texts: what stands for each access, where that changes."""

    array: Array
    start: str
    size: int
    texts: dict[Span, str]
    declared: Statement | None  # of the pointer that it is reached by
    block: tuple[Statement, ...]  # the statements of the innermost block that has all accesses


def with_own_regions(ctx: RuleContext) -> list[Edit]:
    """The edits that make of such regions arrays, in all kernels that have some."""
    found: list[Edit] = []
    for analysis, function in ctx.analysed(once=True):
        for array in analysis.form.tensors:
            try:
                found += _edits(ctx, function, _region(ctx, analysis, function, array))
            except NotPrinted:
                continue
    return found


def _region(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, array: Array) -> _Region:
    """Raises NotPrinted."""
    form = analysis.form
    touched = form.of(array)
    if {a.mode for a in touched} != {"read", "write"} or any(a.calls or a.blocked or a.elements > 1 for a in touched):
        raise NotPrinted("not read again, or not by this text alone")
    size = _size(analysis, touched)
    if array.role != "inout" and not _is_whole(analysis, array):
        raise NotPrinted("elements that it leaves alone")
    found = [_SUBSCRIPT.fullmatch(access.text) for access in touched]
    names = {match["name"] if match is not None else "" for match in found}
    if len(names) != 1 or "" in names:
        raise NotPrinted("places in several words")
    (name,) = names
    blocks = list(_around(ctx.source.statements(function), [access.span for access in touched]))
    inside = [(s, block) for block in blocks for s in block if s.kind == "declare" and s.name == name]
    said, block = inside[0] if inside else (None, blocks[-1])
    if said is not None:
        if said.value is None or len(inside) > 1:
            raise NotPrinted("a pointer that is set later")
        moved = re.search(_MOVED.format(name=name), ctx.source.slice(function.body))
        if _OFFSET.search(ctx.source.slice(said.value)) or moved is not None:
            raise NotPrinted("a pointer that begins elsewhere")
        return _Region(array, name, size, {}, said, block)
    return _Region(array, *_common(name, touched, size), block)


def _around(block: tuple[Statement, ...], spans: Sequence[Span]) -> Iterator[tuple[Statement, ...]]:
    """The blocks of a kernel that hold all places, the outer ones first: it and branches, no loops."""
    yield block
    for statement in block:
        inside = statement.body_span if statement.kind == "if" else None
        if inside is not None and all(inside.holds(span) for span in spans):
            yield from _around(statement.body, spans)


def _size(analysis: LaunchAnalysis, touched: Sequence[Access]) -> int:
    """How many elements a thread has. Raises NotPrinted unless they are its own."""
    bases, largest = set[Term](), 0
    for access in touched:
        inner = {symbol for symbol in access.offset.symbols() if symbol.kind == "loop"}
        if access.index is None or any(symbol not in access.loops for symbol in inner):
            raise NotPrinted("no element")
        outer = access.index.without(inner)
        base = outer - outer.constant
        rest = access.index - base
        low, high = analysis.form.bounds.smallest(rest), analysis.form.bounds.largest(rest)
        if low is None or high is None or low < 0 or rest.symbols() - inner:
            raise NotPrinted("no known place in the thread's part")
        bases.add(base)
        largest = max(largest, high)
    stride = bases.copy().pop().coefficient(THREAD[0]) if len(bases) == 1 else None
    if stride is None or stride.value is None or not largest < abs(stride.value) or not 1 < largest + 1 <= _MOST:
        raise NotPrinted("a part that others have too")
    return largest + 1


def _is_whole(analysis: LaunchAnalysis, array: Array) -> bool:
    elements = 1
    for extent in array.shape:
        number = number_of(extent, analysis.sizes.values)
        if number is None:
            return False
        elements *= number
    return analysis.traffic.arrays[array.name].compulsory == elements * array.element_bytes


def _common(name: str, touched: Sequence[Access], size: int) -> tuple[str, int, dict[Span, str], None]:
    """Where the region begins, in words that all subscripts begin with, and the rest of each."""
    split = {a.span: [part.strip() for part in _SUBSCRIPT.fullmatch(a.text)["index"].split("+")] for a in touched}  # type: ignore[index]
    first = next(iter(split.values()))
    shared = 0
    while all(len(parts) > shared and parts[shared] == first[shared] for parts in split.values()):
        shared += 1
    if not shared or any(part.count("(") != part.count(")") for parts in split.values() for part in parts):
        raise NotPrinted("places in other words")
    rest = {span: " + ".join(parts[shared:]) or "0" for span, parts in split.items()}
    return f"{name} + {' + '.join(first[:shared])}", size, rest, None


def _edits(ctx: RuleContext, function: Function, region: _Region) -> Iterator[Edit]:
    """Raises NotPrinted."""
    source, array = ctx.source, region.array
    behind = region.declared.span.end if region.declared is not None else _behind(ctx, region)
    outer = next((s.body_span for s in source.inside(function) if s.kind == "if" and s.body == region.block), None)
    end = (function.body if outer is None else outer).end - 1
    if source.slice(Span(end, end + 1)) != "}" or _LEAVES.search(source.slice(Span(behind, end))):
        raise NotPrinted("it leaves before the end")
    kind = type_of_elements(ctx, function, array.parameter or array.name)
    own = fresh(ctx, "own")
    whole, indent = fresh(ctx, f"{region.start.split()[0]}_all"), indent_of(source, region.block[-1].span.start)
    filled = f"\n{indent}for (int e = 0; e < {region.size}; ++e) {{name}}[e] = {whole}[e];"
    filled = filled if array.role == "inout" else ""
    stored = f"for (int e = 0; e < {region.size}; ++e) {whole}[e] = {{name}}[e];\n"
    if region.declared is not None:
        said = source.slice(region.declared.span)
        renamed = re.sub(rf"\b{region.start}\b", whole, said, count=1)
        own = region.start
        text = f"{renamed}\n{indent}{kind} {own}[{region.size}];{filled.format(name=own)}"
        yield Edit(region.declared.span, text)
    else:
        text = f"\n{indent}{kind}* const {whole} = {region.start};\n{indent}{kind} {own}[{region.size}];"
        yield Edit(Span(behind, behind), text + filled.format(name=own))
        for span, rest in region.texts.items():
            yield Edit(span, f"{own}[{rest}]")
    line = source.line_start(end)
    at = end if source.data[line:end].strip() else line
    yield Edit(Span(at, at), f"{indent}{stored.format(name=own)}")


def _behind(ctx: RuleContext, region: _Region) -> int:
    """Where all that says where the region begins is known. Raises NotPrinted."""
    words, block = set(re.findall(r"[A-Za-z_]\w*", region.start.partition("+")[2])), region.block
    first = next(at for at, top in enumerate(block) if any(top.span.holds(span) for span in region.texts))
    if any(words & set(ctx.source.changed_in(top.span)) for top in block[first:]):
        raise NotPrinted("it begins elsewhere later")
    return block[first - 1].span.end if first else ctx.source.line_start(block[0].span.start) - 1


__all__ = ["with_own_regions"]
