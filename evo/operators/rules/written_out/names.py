"""One name for one thing: variables that hide another (`int i = 0; ... for (int i = 0; ...)`) get names of their own,
references to elements (`float& sum = y[i];`) are those elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evo.cuda.source import Edit, Span
from evo.cuda.source.nodes import span_of
from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name
from evo.operators.rules.rewriting import fresh, with_its_line
from evo.operators.rules.rule_context import RuleContext

_SCOPES = ("compound_statement", "for_statement", "if_statement", "while_statement", "function_definition")

_REFERENCE = re.compile(
    r"(?:const\s+)?\w+\s*(?:const\s*)?&\s*(?P<name>\w+)\s*=\s*(?P<pointer>\w+)\s*\[(?P<index>[^\[\]]*)\]\s*;"
)


def without_references(ctx: RuleContext) -> Sequence[Edit]:
    """The edits that write one reference of a kernel to an element as the element."""
    source = ctx.source
    bodies = [function.body for function in source.functions if function.is_kernel]
    for node in source.nodes():
        here = span_of(node)
        match = _REFERENCE.fullmatch(source.slice(here)) if node.type == "declaration" else None
        body = next((each for each in bodies if each.holds(here)), None) if match is not None else None
        scope = _scope(node) if body is not None else None
        if match is None or body is None or scope is None or source.declared(body).count(match["name"]) > 1:
            continue
        uses = [at for name, at in source.names(Span(here.end, scope.end)) if name == match["name"]]
        end = max((source.enclosing_statement(at).end for at in uses), default=here.end)
        behind, pointer = Span(here.end, end), match["pointer"]
        words = set(re.findall(r"[A-Za-z_]\w*", match["index"]))
        moved = rf"(?:\+\+|--)\s*{pointer}\b|\b{pointer}\s*(?:\+\+|--|[-+]?=(?!=))"
        if source.changed_in(behind) & words or re.search(moved, source.slice(behind)):
            continue
        if not any(source.data[: at.start].rstrip().endswith(b"&") for at in uses):
            of = f"{pointer}[{match['index']}]"
            return [Edit(with_its_line(source, here), ""), *(Edit(at, of) for at in uses)]
    return ()


def without_shadows(ctx: RuleContext) -> Sequence[Edit]:
    """The edits that rename one variable of a kernel that hides another."""
    source = ctx.source
    for function in source.functions:
        if not function.is_kernel:
            continue
        outer = [(param.name, function.span) for param in function.params]
        for node in source.nodes():
            if node.type != "declaration" or not function.body.holds(span_of(node)):
                continue
            scope = _scope(node)
            for declarator in node.children_of("declarator"):
                name = declarator_name(declarator)
                if not name or scope is None:
                    continue
                if any(name == other and within.holds(scope) and within != scope for other, within in outer):
                    here = Span(node.start_byte, scope.end)
                    new = fresh(ctx, f"{name}_inner")
                    return [Edit(at, new) for each, at in source.names(here) if each == name]
                outer.append((name, scope))
    return ()


def _scope(node: Node) -> Span | None:
    above = node.around(*_SCOPES, "lambda_expression")
    return span_of(above) if above is not None and above.type != "lambda_expression" else None
