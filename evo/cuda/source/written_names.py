"""Where the names of a text get their values: constants, macros, functions of numbers, templates and their members."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node
from evo.cuda.source.query import Source
from evo.cuda.source.types import text_of
from evo.spec.size_terms import SizeTerm

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)([uUlL]*)")
_REAL = re.compile(r"((?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?)[fF]?")
_STRUCTS = ("struct_specifier", "class_specifier", "union_specifier")
_WRITES = ("assignment_expression", "update_expression")
_SCOPES = ("compound_statement", "for_statement")


def kind_of(text: str) -> str:
    """`i32` and the like for a C type of numbers, `bool`; empty for any other, `auto` too."""
    words = set(re.findall(r"\w+", text)) - {"const", "constexpr", "static", "std", "inline", "signed", "volatile"}
    if words == {"bool"}:
        return "bool"
    if words <= {"float", "double"} and words:
        return "f64"
    if words & {"uint64_t", "size_t"} or (words <= {"unsigned", "long", "int"} and {"unsigned", "long"} <= words):
        return "u64"
    if words <= {"long", "int", "int64_t", "ptrdiff_t"} and words & {"long", "int64_t", "ptrdiff_t"}:
        return "i64"
    if words & {"uint32_t"} or (words <= {"unsigned", "int"} and "unsigned" in words):
        return "u32"
    return "i32" if words and words <= {"int", "int32_t", "short", "char"} else ""


def literal_term(text: str) -> SizeTerm | None:
    """A number as C reads it."""
    plain = text.replace("'", "")
    if match := _NUMBER.fullmatch(plain):
        digits = match[1]
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            value = int(digits, 8 if octal else 0)
        except ValueError:
            return None
        suffix = match[2].lower()
        kind = ("u" if "u" in suffix or value >= 1 << 63 else "i") + (
            "64" if "l" in suffix or value >= 1 << 32 else "32"
        )
        kind = "i64" if kind == "i32" and value >= 1 << 31 else kind
        return SizeTerm("number", number=value if value < 1 << 63 else value - (1 << 64), kind=kind)
    match_real = _REAL.fullmatch(plain)
    return SizeTerm("number", number=float(match_real[1]), kind="f64") if match_real else None


@dataclass(frozen=True, slots=True)
class Definition:
    """value: the node of what a name stands for. scope: the node within which it does; None: the file."""

    name: str
    start: int
    value: Node
    kind: str
    scope: Node | None


@dataclass(frozen=True, slots=True)
class WrittenFunction:
    """A function or macro with parameters: their names and kinds, the kind of its result, its body."""

    node: Node
    start: int
    parameters: tuple[str, ...]
    kinds: tuple[str, ...]
    kind: str
    body: Node | None


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct template (given: None) or a specialisation of it."""

    parameters: tuple[str, ...]
    given: tuple[Node, ...] | None
    node: Node

    def member(self, name: str) -> Node | None:
        for node in self.node.walk():
            if node.type == "field_declaration" and text_of(node.child("declarator")) == name:
                return node.child("default_value")
            if node.type == "enumerator" and text_of(node.child("name")) == name:
                return node.child("value")
        return None


class WrittenNames:
    """Of one text."""

    def __init__(self, source: Source) -> None:
        self.nodes = list(source.nodes())
        self.root = self.nodes[0]
        self.source = source
        changed = {text_of(node.child("left") or node.child("argument")) for node in self.nodes if node.type in _WRITES}
        self._definitions: dict[str, list[Definition]] = {}
        for found in (one for node in self.nodes for one in self._defined(node)):
            if found.name not in changed or found.scope is None:
                self._definitions.setdefault(found.name, []).append(found)

    def line(self, node: Node) -> int:
        return node.row + 1 if node.data is self.root.data else 0

    def definition(self, name: str, at: int) -> Definition | None:
        """The last one before a place whose scope holds it; a macro may come to be defined later."""
        found = [
            one
            for one in self._definitions.get(name, ())
            if one.scope is None or one.scope.start_byte <= at < one.scope.end_byte
        ]
        before = [one for one in found if one.start < at]
        return (before or found)[-1] if found else None

    def member(self, scope: str, name: str) -> Definition | None:
        """A constant of a struct, an enumeration or a namespace."""
        del scope  # one of that name is enough
        return next(iter(self._definitions.get(name, ())), None)

    def _defined(self, node: Node) -> Iterator[Definition]:
        if node.type == "preproc_def" and (value := node.child("value")) is not None:
            if (expression := _expression(text_of(value))) is not None:
                yield Definition(text_of(node.child("name")), node.start_byte, expression, "", None)
        elif node.type == "init_declarator":
            above, value, name = node.parent, node.child("value"), node.child("declarator")
            if above is not None and value is not None and name is not None and name.type == "identifier":
                kind = kind_of(text_of(above.child("type")))
                yield Definition(name.text, node.start_byte, value, kind, node.around(*_SCOPES))
        elif node.type == "field_declaration" and (value := node.child("default_value")) is not None:
            name = node.child("declarator")
            yield Definition(text_of(name), node.start_byte, value, kind_of(text_of(node.child("type"))), None)
        elif node.type == "enumerator" and (value := node.child("value")) is not None:
            yield Definition(text_of(node.child("name")), node.start_byte, value, "", node.around(*_SCOPES))

    # Functions --------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _functions(self) -> dict[str, list[WrittenFunction]]:
        found: dict[str, list[WrittenFunction]] = {}
        for node in self.nodes:
            if node.type == "preproc_function_def" and (value := node.child("value")) is not None:
                names = tuple(child.text for child in (node.child("parameters") or node).named_children)
                body, kinds = _expression(text_of(value)), ("i64",) * len(names)
                one = WrittenFunction(node, node.start_byte, names, kinds, "", body)
                found.setdefault(text_of(node.child("name")), []).append(one)
            elif node.type == "function_definition" and (known := _number_function(node)) is not None:
                found.setdefault(known[0], []).append(known[1])
        return found

    def function(self, name: str, at: int) -> WrittenFunction | None:
        found = self._functions.get(name, [])
        before = [one for one in found if one.start < at]
        return (before or found)[-1] if found else None

    # Templates --------------------------------------------------------------------------------------------------

    def arguments(self, node: Node) -> tuple[Node, ...]:
        inside = node.child("arguments")
        return tuple(inside.inside) if inside else ()

    @functools.cached_property
    def _used(self) -> dict[str, list[tuple[Node, bool]]]:
        """By name: each use of a template with its arguments, and whether it is the head of a specialisation."""
        found: dict[str, list[tuple[Node, bool]]] = {}
        for node in self.nodes:
            if node.type in ("template_type", "template_function"):
                above = node.parent
                is_head = above is not None and (
                    (above.type in _STRUCTS and node.field == "name") or above.type == "function_declarator"
                )
                found.setdefault(text_of(node.child("name")), []).append((node, is_head))
        return found

    def uses(self, template: str) -> Iterator[tuple[Node, ...]]:
        return (self.arguments(node) for node, is_head in self._used.get(template, ()) if not is_head)

    def specialisations(self, template: str) -> list[Node]:
        return [node for node, is_head in self._used.get(template, ()) if is_head]

    def structs(self, template: str) -> list[Struct]:
        found = []
        for node in self.nodes:
            name = node.child("name") if node.type in _STRUCTS else None
            above = node.parent
            if name is None or above is None or above.type != "template_declaration" or node.child("body") is None:
                continue
            own = name.child("name") if name.type == "template_type" else name
            if text_of(own) == template:
                given = self.arguments(name) if name.type == "template_type" else None
                found.append(Struct(_template_parameters(above), given, node))
        return found

    def template_parameter(self, name: str, node: Node) -> tuple[str, Node, int] | None:
        """The template around a node with that parameter: its name, its node, and the parameter's place."""
        above = node.around("template_declaration")
        while above is not None and name not in _template_parameters(above):
            above = above.around("template_declaration")
        if above is None:
            return None
        return _declared_name(above.children[-1]), above, _template_parameters(above).index(name)


def _template_parameters(node: Node) -> tuple[str, ...]:
    inside = node.child("parameters")
    children: Sequence[Node] = inside.named_children if inside is not None else ()
    return tuple(text_of(child.child("declarator") or child.child("name")) for child in children)


def _declared_name(node: Node) -> str:
    if node.type in _STRUCTS:
        name = node.child("name")
        return text_of(name.child("name") if name is not None and name.type == "template_type" else name)
    for inner in node.walk():
        if inner.type == "function_declarator":
            return text_of(inner.child("declarator"))
    return ""


def _number_function(node: Node) -> tuple[str, WrittenFunction] | None:
    """A function of numbers, by its head."""
    declarator, body = node.child("declarator"), node.child("body")
    if declarator is None or declarator.type != "function_declarator" or body is None:
        return None
    name = text_of(declarator.child("declarator"))
    given = declarator.child("parameters")
    names, kinds = [], []
    for child in given.named_children if given is not None else ():
        own = child.child("declarator")
        kind = kind_of(text_of(child.child("type")))
        if own is None or own.type != "identifier" or not kind:
            return None
        names.append(own.text)
        kinds.append(kind if kind != "bool" else "i32")
    kind = kind_of(text_of(node.child("type")))
    if not kind and text_of(node.child("type")) != "auto":
        return None
    kind = "i32" if kind == "bool" else kind
    return name, WrittenFunction(node, node.start_byte, tuple(names), tuple(kinds), kind, body)


@functools.lru_cache(maxsize=256)
def _expression(text: str) -> Node | None:
    """The tree of an expression that stands alone, such as a macro's."""
    plain = " ".join(text.split("//", maxsplit=1)[0].replace("\\\n", " ").split())
    found = (node for node in Source(f"auto x = ({plain});").nodes() if node.type == "init_declarator")
    declared = next(found, None)
    value = declared.child("value") if declared is not None else None
    return None if value is None or any(node.is_error or node.is_missing for node in value.walk()) else value
