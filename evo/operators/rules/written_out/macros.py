"""Macros of the file in functions, as what they stand for."""

from __future__ import annotations

import re

from evo.analysis.access.macro_uses import macro_uses
from evo.analysis.access.preprocess import ExpansionTooLong
from evo.cuda.source import Edit
from evo.operators.rules.rule_context import RuleContext

_PRAGMA = re.compile(r"_Pragma\s*\(\s*\"([^\"]*)\"\s*\)\s*")


def expanded_uses(ctx: RuleContext, *, everywhere: bool = False) -> list[Edit]:
    """The edits that write out what macros of the file stand for, in functions; those that are numbers stay."""
    source = ctx.source
    if b"#define" not in source.data and b"# define" not in source.data:
        return []
    try:
        uses = macro_uses(source.data, frozenset((*ctx.variant.macros, *ctx.axes)))
    except ExpansionTooLong:
        return []
    bodies = [function.body for function in source.functions]
    found = []
    for span, text in uses:
        if everywhere or any(body.holds(span) for body in bodies):
            said = _PRAGMA.sub(lambda match: f"\n#pragma {match[1]}\n", " ".join(text.split()))
            found.append(Edit(span, said.encode("latin-1").decode()))
    return found
