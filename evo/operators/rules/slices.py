"""What a kernel computes one value by, cut out of its text: the statements that the value depends on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evo.cuda.source import Function, Span, Statement
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import WORD, indent_of
from evo.operators.rules.rule_context import RuleContext

# What makes a value depend on the thread, or a statement do more than compute it.
_FORBIDDEN = re.compile(
    r"\b(?:threadIdx|blockIdx|return|goto|asm|__shared__|static)\b|__sync|__shfl|__ballot|atomic|\$"
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Statements in the order of the text, and the expression of the value behind them."""

    statements: tuple[str, ...]
    value: str


def slice_of(ctx: RuleContext, function: Function, value: str, given: str, apart: list[Span]) -> Slice:
    """The statements by which an expression follows from a given variable and the kernel's parameters alone.

    apart: places that must not be among them. Raises NotPrinted if it depends on anything else.
    """
    tops = ctx.source.statements(function)
    writers = {top: {s.name for s in top.all() if s.name and s.kind in ("declare", "assign", "for")} for top in tops}
    declared = {s.name for top in tops for s in top.all() if s.kind in ("declare", "for") and s.name}
    hidden = ctx.source.hidden_writes(function)
    needed = set(WORD.findall(value)) & declared - {given}
    taken: set[Statement] = set()
    while True:
        more = {top for top in tops if writers[top] & needed} - taken
        if not more:
            break
        taken |= more
        for top in more:
            needed |= set(WORD.findall(ctx.source.slice(top.span))) & declared - {given}
    if needed & hidden or any(given in writers[top] for top in taken):
        raise NotPrinted(f"{value} is written in a way that is not followed")
    spans = sorted({top.span for top in taken})
    texts = [ctx.source.slice(span).replace("\n" + indent_of(ctx.source, span.start), "\n") for span in spans]
    if any(_FORBIDDEN.search(text) for text in (*texts, value)):
        raise NotPrinted(f"{value} depends on the thread")
    if any(span.holds(place) for span in spans for place in apart) or any(_stores(top) for top in taken):
        raise NotPrinted(f"{value} is computed together with something else")
    texts = [text.rstrip() for text in texts]
    return Slice(tuple(text if text.endswith((";", "}")) else f"{text};" for text in texts), value)


def _stores(top: Statement) -> bool:
    """Whether anything but a variable is written."""
    return any((s.kind == "assign" and not s.name) or s.kind in ("call", "other") for s in top.all())
