"""Which threads of a block come to a place: all of them, or the first one along x alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evo.analysis.access.comparisons import Compare
from evo.analysis.access.form import THREAD, Branch, EarlyExit, Nest, Node
from evo.analysis.access.terms import Term
from evo.cuda.source import Span


def all_arrive(nodes: Sequence[Node], span: Span) -> bool:
    """Whether no thread returns in front of a statement that others of its block carry out."""
    for node in nodes:
        if isinstance(node, Nest) and not all_arrive(node.body, span):
            return False
        if not isinstance(node, Branch):
            continue
        leaves = any(isinstance(inner, EarlyExit) for inner in (*node.then, *node.otherwise))
        is_uniform = all(symbol.kind in ("axis", "block") for symbol in node.condition.symbols())
        if leaves and not is_uniform and node.span.start < span.start:
            return False
        if not all_arrive(node.then, span) or not all_arrive(node.otherwise, span):
            return False
    return True


def lone_branches(nodes: Sequence[Node]) -> Iterator[Branch]:
    """Branches that the first thread along x alone takes, and that stand in no other branch."""
    for node in nodes:
        if isinstance(node, Branch) and not node.otherwise and _is_for_first(node):
            yield node
        elif isinstance(node, Nest):
            yield from lone_branches(node.body)


def _is_for_first(branch: Branch) -> bool:
    test = branch.condition
    first = Term.of(THREAD[0])
    return isinstance(test, Compare) and (
        (test.relation == "==" and test.term in (first, -first)) or (test.relation == ">=" and test.term == -first)
    )
