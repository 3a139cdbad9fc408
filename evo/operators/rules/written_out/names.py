"""Variables with names of their own where one hides another: `int i = 0; ... for (int i = 0; ...)`."""

from __future__ import annotations

from collections.abc import Sequence

from evo.cuda.source import Edit, Span
from evo.cuda.source.nodes import span_of
from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule_context import RuleContext

_SCOPES = ("compound_statement", "for_statement", "if_statement", "while_statement", "function_definition")


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
