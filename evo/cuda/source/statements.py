"""Function bodies as a tree of statements with spans, for edits that move or repeat code.

Only the kinds that edits need are distinguished; the rest is `other`, which an edit skips or which ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from evo.cuda.source.nodes import span_of
from evo.cuda.source.parser import Node
from evo.cuda.source.spans import Span
from evo.cuda.source.types import declarator_name, text_of

CONDITIONAL = ("preproc_if", "preproc_ifdef")
_ASSIGNS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement.

    kind: declare (one variable), assign, call, for, if, return, block, empty or other.
    declare: `name` with its `type` (text before the name, `const float `), `dims` and `value`.
    assign: `target`, `operator` (`=`, `+=` ...) and `value`; `name` if the target is a plain variable.
    for: with a `header`; a `CountedFor` if one variable runs up to a limit.
    """

    kind: str
    span: Span
    name: str = ""
    type: str = ""
    dims: tuple[Span, ...] = ()
    value: Span | None = None
    target: Span | None = None
    operator: str = ""
    header: Span | None = None
    condition: Span | None = None
    body: tuple[Statement, ...] = ()
    body_span: Span | None = None
    alternative: tuple[Statement, ...] = ()
    reads: frozenset[str] = field(default=frozenset(), compare=False)  # every name in it, written ones too

    def all(self) -> Iterator[Statement]:
        """This statement and all inside it."""
        yield self
        for inner in (*self.body, *self.alternative):
            yield from inner.all()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFor(Statement):
    """`for (T name = start; name < limit; name += step)`; relation is `<` or `<=`, step is `1` for `++`.

    update: where the last part of the header stands.
    """

    start: Span
    relation: str
    limit: Span
    step: str
    update: Span
    header: Span
    body_span: Span

    @property
    def takes_each(self) -> bool:
        """Whether it takes each integer below its limit: `++` and `<`."""
        return self.step == "1" and self.relation == "<"


def names_in(node: Node) -> Iterator[Node]:
    """Identifiers that stand for variables, functions or macros; not fields, types or labels."""
    return (inner for inner in node.walk() if inner.type == "identifier")


def statements_in(block: Node) -> tuple[Statement, ...]:
    """The statements of a compound statement, in order."""
    return tuple(_statement(node) for node in block.named_children if _counts(node))


def _counts(node: Node) -> bool:
    """Whether it is more than a comment. Text behind `#if` may or may not be compiled, and counts as `other`."""
    return node.type in CONDITIONAL or (node.type != "comment" and not node.type.startswith("preproc"))


def _statement(node: Node) -> Statement:
    build: Callable[[Node], Statement | None] | None = _KINDS.get(node.type)
    found = build(node) if build is not None else None
    return found if found is not None else _plain("other", node)


def _reads(node: Node) -> frozenset[str]:
    return frozenset(text_of(name) for name in names_in(node))


def _plain(kind: str, node: Node) -> Statement:
    return Statement(kind=kind, span=span_of(node), reads=_reads(node))


def _declare(node: Node) -> Statement | None:
    declarators = node.children_of("declarator")
    if len(declarators) != 1:
        return None
    declarator, value = declarators[0], None
    if declarator.type == "init_declarator":
        value = declarator.child("value")
        inner = declarator.child("declarator")
        if value is None or inner is None:
            return None
        declarator = inner
    name = declarator_name(declarator)
    dims: list[Span] = []
    while declarator.type == "pointer_declarator" and (inner := declarator.child("declarator")) is not None:
        declarator = inner  # an array of pointers is one
    while declarator.type == "array_declarator":
        size, inner = declarator.child("size"), declarator.child("declarator")
        if size is None or inner is None:
            return None
        dims.insert(0, span_of(size))
        declarator = inner
    if name is None or any(part.type == "reference_declarator" for part in declarator.walk()):
        return None
    at = next(part for part in declarator.walk() if part.type == "identifier")
    whole = text_of(node).encode()
    return Statement(
        kind="declare",
        span=span_of(node),
        name=name,
        type=whole[: at.start_byte - node.start_byte].decode(),
        dims=tuple(dims),
        value=span_of(value) if value is not None else None,
        reads=_reads(node),
    )


def _expression(node: Node) -> Statement | None:
    inner = next(iter(node.named_children), None)
    if inner is None:
        return _plain("empty", node)
    if inner.type == "call_expression":
        return _plain("call", node)
    if inner.type == "update_expression":
        target = inner.child("argument")
        if target is None:
            return None
        name = text_of(target) if target.type == "identifier" else ""
        return Statement(
            kind="assign", span=span_of(node), name=name, target=span_of(target), operator="++", reads=_reads(node)
        )
    target, value = inner.child("left"), inner.child("right")
    operator = text_of(inner.child("operator"))
    if inner.type != "assignment_expression" or target is None or value is None or operator not in _ASSIGNS:
        return None
    return Statement(
        kind="assign",
        span=span_of(node),
        name=text_of(target) if target.type == "identifier" else "",
        target=span_of(target),
        operator=operator,
        value=span_of(value),
        reads=_reads(node),
    )


def _for(node: Node) -> Statement | None:
    body = node.child("body")
    if body is None:
        return None
    common = {
        "kind": "for",
        "span": span_of(node),
        "header": Span(node.start_byte, body.start_byte),
        "body": _inside(body),
        "body_span": span_of(body),
        "reads": _reads(node),
    }
    first, condition, update = (node.child(f) for f in ("initializer", "condition", "update"))
    declared = _declare(first) if first is not None and first.type == "declaration" else None
    step = _step(update, declared.name) if declared is not None and update is not None else ""
    if declared is None or update is None or not step or condition is None or condition.type != "binary_expression":
        return Statement(**common)  # type: ignore[arg-type]
    limit, relation = condition.child("right"), text_of(condition.child("operator"))
    is_own = text_of(condition.child("left")) == declared.name
    if limit is None or not is_own or relation not in ("<", "<=") or declared.value is None or declared.dims:
        return Statement(**common)  # type: ignore[arg-type]
    return CountedFor(
        **common,  # type: ignore[arg-type]
        name=declared.name,
        type=declared.type,
        start=declared.value,
        relation=relation,
        limit=span_of(limit),
        step=step,
        update=span_of(update),
    )


def _step(update: Node, name: str) -> str:
    text = " ".join(text_of(update).split())
    if re.fullmatch(rf"\+\+ ?{name}|{name} ?\+\+", text):
        return "1"
    match = re.fullmatch(rf"{name} ?\+= ?(.+)", text)
    return match[1] if match else ""


def _if(node: Node) -> Statement | None:
    condition, then = node.child("condition"), node.child("consequence")
    otherwise = node.child("alternative")
    inner = next(iter(condition.inside), None) if condition is not None else None
    if inner is None or then is None or len(condition.named_children if condition else []) != 1:
        return None
    other = next(iter(otherwise.named_children), None) if otherwise is not None else None
    return Statement(
        kind="if",
        span=span_of(node),
        condition=span_of(inner),
        body=_inside(then),
        body_span=span_of(then),
        alternative=_inside(other) if other is not None else (),
        reads=_reads(node),
    )


def _block(node: Node) -> Statement:
    return Statement(
        kind="block", span=span_of(node), body=statements_in(node), body_span=span_of(node), reads=_reads(node)
    )


def _inside(node: Node) -> tuple[Statement, ...]:
    return statements_in(node) if node.type == "compound_statement" else (_statement(node),)


_KINDS: dict[str, Callable[[Node], Statement | None]] = {
    "declaration": _declare,
    "expression_statement": _expression,
    "for_statement": _for,
    "if_statement": _if,
    "compound_statement": _block,
    "return_statement": lambda node: _plain("return", node),
}
