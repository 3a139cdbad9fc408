"""The indices of threads as rules know them, whatever words a kernel has for them.

`bid * blockDim.x + tid`, `(int)(blockIdx.x * blockDim.x + threadIdx.x)`, `__mul24`, a macro, a shift, a function: where
the analysis says that a variable is a block's number times the block's size, plus the thread's, it is seen set to just
that. A variable that is declared first and set once later, or set and added to once, is seen declared with its value.
A place that a loop names first, `int at = row * n + i; s += x[at];`, is seen where it is used, and so is a pointer.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from evo.analysis.access import BLOCK, THREAD, LaunchAnalysis, Term
from evo.cuda.source import Edit, Function, Span, Statement
from evo.errors import SyntaxInvalid
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.index_text import IndexText
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.rewriting import merged, rewritten, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import is_index_text
from evo.operators.rules.through import through
from evo.spec.comments import without_comments

_AXES = "xyz"
_WIDE = re.compile(r"\b(?:size_t|u?int64_t|long)\b")
_INTEGER = re.compile(r"(?:const\s+)?(?:int|unsigned|unsigned int|size_t|long|long long|u?int(?:32|64)_t)\s*")
_OPERATIONS = re.compile(r"(?!\s*\*)(?:[\w\s.+\-/%]|\*(?!\s*\*)|(?<!\w)\((?!\s*\*)|\))+")
_POINTED = re.compile(r"(?P<base>\w+)\s*\+\s*(?P<place>.+)|&\s*(?P<of>\w+)\s*\[(?P<at>[^\[\]]+)\]", re.DOTALL)
_PLACED = re.compile(r"\b(?:threadIdx|blockIdx)\b")


def plain_indices(ctx: RuleContext) -> list[Edit]:
    """The edits after which indices of threads are declared in the words that rules know."""
    first = list(_set_where_declared(ctx))
    try:
        view = ctx.after(first) if first else ctx
    except SyntaxInvalid:
        first, view = [], ctx
    second = [edit for analysis, function in view.analysed(once=True) for edit in _spelled(view, analysis, function)]
    second += _unasked(view, second) if second else []
    return list(through(view.source, first, second)) if first else second


def places_in_full(ctx: RuleContext) -> list[Edit]:
    """The edits after which subscripts in loops say where an element is, if an integer of the loop held that alone."""
    found = [
        edit
        for function in ctx.source.functions
        if function.is_kernel
        for loop in ctx.source.inside(function)
        if loop.kind == "for" and loop.body_span is not None
        for each in loop.body
        for edit in _in_full(ctx, each, Span(each.span.end, loop.body_span.end))
    ]
    for analysis, function in ctx.analysed(once=True):
        made = _put_together(ctx, analysis, function)
        found += [edit for edit in made if not any(edit.span.holds(e.span) or e.span.holds(edit.span) for e in found)]
    return found


def _put_together(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> list[Edit]:
    """Places that are taken apart and put together again, `x[i / W * W + i % W]`, as what they are."""
    form, given = analysis.form, names_of(ctx, function)
    words = IndexText(form, ctx.source, function, given, {symbol: symbol.name for symbol in form.loops})
    said: dict[Span, str] = {}
    for access in form.accesses:
        text = ctx.source.slice(access.span)
        if not access.is_global or access.calls or access.blocked or access.index is None or access.elements != 1:
            continue
        if not access.loops or "%" not in text or any(True for _ in access.index.ops()):
            continue
        if access.memory.name in given and access.route == "plain":
            with contextlib.suppress(NotPrinted):
                said[access.span] = f"{given[access.memory.name]}[{words.at(access.index, access.span)}]"
    return [Edit(span, text) for span, text in said.items()]


def _in_full(ctx: RuleContext, declared: Statement, behind: Span) -> list[Edit]:
    source, name = ctx.source, declared.name
    if declared.kind != "declare" or declared.value is None or declared.dims:
        return []
    text = source.slice(declared.value).strip()
    pointed = _POINTED.fullmatch(text) if "*" in declared.type else None
    place = pointed["place"] or pointed["at"] if pointed is not None else text
    words = {word for word, _ in source.names(declared.value)}
    if not _OPERATIONS.fullmatch(place) or {name, *words} & source.changed_in(behind):
        return []
    known = [use for use in source.subscripts(behind) if len(use.indices) == 1]
    uses = [at for word, at in source.names(behind) if word == name]
    if not uses or source.declared(declared.span) != (name,):
        return []
    gone = Edit(with_its_line(source, declared.span), "")
    if pointed is not None:
        ours = [use for use in known if use.name == name and _OPERATIONS.fullmatch(source.slice(use.indices[0]))]
        base = pointed["base"] or pointed["of"]
        edits = [Edit(use.span, f"{base}[{place} + {source.slice(use.indices[0]).strip()}]") for use in ours]
        return [gone, *edits] if len(ours) == len(uses) else []
    whole = {index for use in known for index in use.indices}
    is_whole = _INTEGER.fullmatch(declared.type) and whole.issuperset(uses)
    return [gone, *(Edit(at, text) for at in uses)] if is_whole else []


def _spelled(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> list[Edit]:
    form, source = analysis.form, ctx.source
    if _has_idle_axis(ctx, analysis):
        return []
    places = {
        Term.of(BLOCK[block]) * form.block[thread] + Term.of(THREAD[thread]): (_AXES[block], _AXES[thread])
        for block in range(3)
        for thread in range(3)
        if form.block[thread].value != 1
    }
    meant = {name: places[term] for term, name in form.names.items() if term in places}
    tops, edits = source.statements(function), list[Edit]()
    for at, each in enumerate(tops):
        if each.kind != "declare" or each.name not in meant or each.value is None or each.dims:
            continue
        is_plain = is_index_text(source.slice(each.value)) and "auto" not in each.type.split()
        if is_plain or source.declared(each.span) != (each.name,):
            continue
        if _is_changed(ctx, [*tops[:at], *tops[at + 1 :]], each.name):
            continue
        block, thread = meant[each.name]
        kind = re.sub(r"\bauto\b", _auto(source.slice(each.value)), each.type.strip())
        wide = re.sub(r"\bconst\b", "", kind).strip()
        number = f"({wide})blockIdx.{block}" if _WIDE.search(wide) else f"blockIdx.{block}"
        text = f"{kind} {each.name} = {number} * blockDim.{thread} + threadIdx.{thread};"
        edits.append(Edit(each.span, text))
    return merged(without_unused(ctx, function, function.body, edits)) if edits else []


def _unasked(ctx: RuleContext, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Without functions that say where a thread is, and that nobody asks any more."""
    source = ctx.source
    left = without_comments(rewritten(source, Span(0, len(source.data)), edits))
    for function in source.functions:
        is_template = source.data[: function.span.start].rstrip().endswith(b">")
        if function.is_kernel or is_template or not _PLACED.search(source.slice(function.body)):
            continue
        if len(re.findall(rf"\b{function.name}\b", left)) == 1:
            yield Edit(with_its_line(source, function.span), "")


def _has_idle_axis(ctx: RuleContext, analysis: LaunchAnalysis) -> bool:
    """Whether a launch has one block or thread along an axis at the case that was analysed, and may have more at
    others: what a text says of that axis does not show in the terms then.
    """
    launch, sizes = ctx.variant.launches[analysis.form.position], analysis.sizes
    pairs = (*zip(launch.grid, sizes.grid, strict=False), *zip(launch.block, sizes.block, strict=False))
    return any(size == 1 and part.text.strip() != "1" for part, size in pairs)


def _auto(value: str) -> str:
    """The type of an index that is declared without one."""
    return "size_t" if _WIDE.search(value) else "unsigned"


def _is_changed(ctx: RuleContext, statements: Sequence[Statement], name: str) -> bool:
    return any(name in ctx.source.changed_in(each.span) for each in statements)


def _set_where_declared(ctx: RuleContext) -> Iterator[Edit]:
    """Variables at the top of a kernel that one statement sets, or adds to, and nothing looks at before."""
    source = ctx.source
    for function in source.functions:
        tops = source.statements(function) if function.is_kernel else ()
        for at, each in enumerate(tops):
            if each.kind != "declare" or each.dims or "*" in each.type or "const" in each.type:
                continue
            if source.declared(each.span) != (each.name,):
                continue
            later = next((k for k in range(at + 1, len(tops)) if _names(ctx, tops[k].span, each.name)), None)
            if later is None or (said := _value(ctx, each, tops[later])) is None:
                continue
            others = [*tops[:at], *tops[at + 1 : later], *tops[later + 1 :]]
            if not _PLACED.search(said) or _is_changed(ctx, others, each.name):
                continue
            words = {word for word, _ in source.names(each.value)} if each.value is not None else set()
            if any(_is_changed(ctx, tops[at + 1 : later], word) for word in words):
                continue  # what it begins with is another value where it is added to
            yield Edit(with_its_line(source, each.span), "")
            yield Edit(tops[later].span, f"{each.type.strip()} {each.name} = {said};")


def _names(ctx: RuleContext, span: Span, name: str) -> bool:
    return any(word == name for word, _ in ctx.source.names(span))


def _value(ctx: RuleContext, declared: Statement, later: Statement) -> str | None:
    """What a variable holds behind the statement that sets it."""
    if later.kind != "assign" or later.name != declared.name or later.value is None:
        return None
    text = ctx.source.slice(later.value)
    if _names(ctx, later.value, declared.name):
        return None
    if later.operator == "=" and declared.value is None:
        return text
    if later.operator == "+=" and declared.value is not None:
        return f"({ctx.source.slice(declared.value)}) + ({text})"
    return None
