"""Queries at a place in a text: names, types, the statements around a span, and whether a statement fits there."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping

from evo.cuda.source.nodes import is_read, is_value, span_of
from evo.cuda.source.parser import Node, is_accepted
from evo.cuda.source.side_effects import changed_in, declared, hidden_writes
from evo.cuda.source.spans import Edit, Function, Param, Span, Subscript, SyntaxProblem
from evo.cuda.source.statements import Statement, names_in, statements_in
from evo.cuda.source.tree import Tree, readable
from evo.cuda.source.types import expression_type, text_of, type_aliases
from evo.spec.comments import without_comments

_PRAGMA = re.compile(r"#\s*pragma\b|_Pragma\b")
_BLOCKS = ("compound_statement", "case_statement")


class Source(Tree):
    """One text and its tree, read-only."""

    def nodes(self) -> Iterator[Node]:
        """Every node of the tree, each before those below it."""
        return self._root.walk()

    @functools.cached_property
    def _bodies(self) -> dict[Span, tuple[Statement, ...]]:
        return {}

    def statements(self, function: Function) -> tuple[Statement, ...]:
        """The statements of a function's body, nested ones inside them."""
        if function.body not in self._bodies:
            node = self._node(function.body)
            self._bodies[function.body] = statements_in(node) if node is not None else ()
        return self._bodies[function.body]

    def inside(self, function: Function) -> list[Statement]:
        """All statements of a function, outer ones before those that they hold."""
        return [inner for top in self.statements(function) for inner in top.all()]

    def hidden_writes(self, function: Function) -> frozenset[str]:
        """Names that a function changes implicitly: by reference, method, address or macro."""
        return self._hidden.get(function.name, frozenset())

    @functools.cached_property
    def _hidden(self) -> dict[str, frozenset[str]]:
        return hidden_writes(self._root)

    def changed_in(self, span: Span) -> frozenset[str]:
        """Names that the text of a span declares or changes, whether its statements say so or not."""
        return changed_in(self._root, self._within(span))

    def declared(self, span: Span) -> tuple[str, ...]:
        """Names of variables that are declared within a span, those of lambdas too, each as often as it is."""
        return tuple(declared(self._within(span)))

    def names(self, span: Span) -> tuple[tuple[str, Span], ...]:
        """Identifiers of variables, functions and macros within a span, in text order."""
        found = names_in(self._around(span))
        return tuple((text_of(name), span_of(name)) for name in found if span.holds(span_of(name)))

    def renamed(self, span: Span, names: Mapping[str, str]) -> str:
        """The text of a span with identifiers replaced; every other byte is the same."""
        data, last = "", span.start
        for name, at in self.names(span):
            if name in names:
                data += self.slice(Span(last, at.start)) + names[name]
                last = at.end
        return data + self.slice(Span(last, span.end))

    def subscripts(self, span: Span) -> tuple[Subscript, ...]:
        """`name[index]` and `name[i][j]` within a span, the outermost of each, in text order; also inside an index."""
        found = []
        for node in self._root.smallest(span.start, span.end).walk():
            if node.type != "subscript_expression" or not span.holds(span_of(node)):
                continue
            outer = node.parent
            if outer is not None and outer.type == node.type and outer.child("argument") == node:
                continue
            indices: list[Span] = []
            base: Node | None = node
            while base is not None and base.type == "subscript_expression":
                inside = base.child("indices")
                indices.insert(0, Span(inside.start_byte + 1, inside.end_byte - 1) if inside else span_of(base))
                base = base.child("argument")
            if base is not None and base.type == "identifier":
                found.append(
                    Subscript(name=text_of(base), span=span_of(node), indices=tuple(indices), is_read=is_value(node))
                )
        return tuple(found)

    def is_conditional(self, span: Span, within: Span) -> bool:
        """Whether an expression may be skipped while the text around it, up to `within`, is executed."""
        node: Node | None = self._around(span)
        while node is not None and within.holds(span_of(node)):
            above = node.parent
            if node.type in ("conditional_expression", "if_statement", "while_statement", "switch_statement"):
                return True
            if node.type == "for_statement" or (node.type == "binary_expression" and _skips(node)):
                return True
            node = above
        return False

    def dereferences(self, span: Span) -> bool:
        """Whether a pointer is followed with `*` or `->` within a span."""
        return any(
            (node.type == "pointer_expression" and text_of(node).startswith("*")) or node.type == "->"
            for node in self._root.smallest(span.start, span.end).walk()
            if span.holds(span_of(node))
        )

    def element_type(self, function: str, name: str) -> str | None:
        """`float`, `unsigned char` ...: a variable's type, or that of an array's or a pointer's elements; else None."""
        return self._exact.get(function, {}).get(name)

    def type_of(self, function: str, span: Span) -> str | None:
        """The type of an expression, as far as the text tells."""
        return expression_type(self._node(span), self._names.get(function, {}))

    def _within(self, span: Span) -> Iterator[Node]:
        return (node for node in self._around(span).walk() if span.holds(span_of(node)))

    def _around(self, span: Span) -> Node:
        return self._root.smallest(span.start, span.end)

    def _node(self, span: Span) -> Node | None:
        node: Node | None = self._around(span)
        while node is not None and span_of(node) != span:
            node = node.parent
        return node

    def is_bare(self, span: Span) -> bool:
        """Whether a statement is all that a loop or a test without braces holds: no other can stand beside it."""
        node = self._node(span)
        around = node.parent if node is not None else None
        return around is not None and (around.type.endswith(("_statement", "_clause")) and around.type not in _BLOCKS)

    def above(self, span: Span) -> int | None:
        """Where a line can be put in front of a statement and its pragma; None if it is bare, or inside a line."""
        node = self._node(span)
        if self.is_bare(span):
            return None
        before = node.previous if node is not None else None
        while before is not None and before.type == "comment":
            before = before.previous
        if before is not None and _PRAGMA.match(text_of(before)):
            return self.line_start(before.start_byte)
        start = self.line_start(span.start)
        return start if not self.data[start : span.start].strip() else None

    def enclosing_statement(self, span: Span) -> Span:
        """The smallest statement, declaration or directive around a span; the span itself at file level."""
        node: Node | None = self._around(span)
        while node is not None:
            if node.type.endswith("_statement") or node.type == "declaration" or node.type.startswith("preproc_"):
                if node.type != "compound_statement":
                    return span_of(node)
            elif node.type in ("function_definition", "translation_unit"):
                break
            node = node.parent
        return span

    def is_written(self, function: Function, name: str) -> bool:
        """Whether the function may write through a pointer parameter, or pass it on to something that may."""
        return any(
            text_of(node) == name and not is_read(node)
            for node in self._within(function.body)
            if node.type == "identifier"
        )

    def uses(self, function: str, name: str) -> tuple[str, ...]:
        """For each use of a name in a function: the whole expression of subscripts it starts, e.g. `tile[i][j]`."""
        body = next(f.body for f in self.functions if f.name == function)
        found = []
        for node in self._root.walk():
            if node.type == "identifier" and text_of(node) == name and body.holds(span_of(node)):
                outer = node
                while (parent := outer.parent) is not None and parent.type == "subscript_expression":
                    if parent.child("argument") != outer:
                        break
                    outer = parent
                if outer.parent is None or "declarator" not in outer.parent.type or outer is not node:
                    found.append(text_of(outer))
        return tuple(found)

    def reads_of(self, function: Function, name: str) -> tuple[Span, ...]:
        """`name[...]` reads as values, where `__ldg(&name[...])` would mean the same; for rules of plugins."""
        return tuple(
            span_of(node)
            for node in self._within(function.body)
            if node.type == "subscript_expression" and text_of(node.child("argument")) == name and is_value(node)
        )


def _skips(node: Node) -> bool:
    return text_of(node.child("operator")) in ("&&", "||")


@functools.lru_cache(maxsize=128)
def parse(text: str) -> Source:
    """The text with its tree, shared by all who ask for it. Never fails; see `syntax_errors`."""
    return Source(text)


def replace(text: str, edits: Iterable[Edit]) -> str:
    """A new text with byte spans replaced; every other byte is the same."""
    return parse(text).replace(edits)


def syntax_errors(text: str) -> tuple[SyntaxProblem, ...]:
    """Where the grammar could not follow the text. Heavy macros can cause false ones; compare against a parent."""
    return () if is_accepted(readable(text.encode())) else parse(text).problems


def kernel_signatures(text: str) -> dict[str, list[Param]]:
    """Parameters of each `extern "C" __global__` definition, by kernel name; types of other names as what they are."""
    plain = type_aliases(without_comments(text))
    word = re.compile(rf"\b(?:{'|'.join(map(re.escape, plain))})\b") if plain else None

    def resolved(param: Param) -> Param:
        return param if word is None else dataclasses.replace(param, type=word.sub(lambda m: plain[m[0]], param.type))

    kernels = [function for function in parse(text).functions if function.is_kernel]
    return {kernel.name: [resolved(param) for param in kernel.params] for kernel in kernels}
