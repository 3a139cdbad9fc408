"""The types that declarations spell: pointers, references, arrays, structs, templates, typedefs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evo.analysis.access.c_types import (
    AUTO,
    INT,
    OTHER,
    CType,
    array_of,
    named_type,
    pointer_to,
    struct_of,
)
from evo.analysis.access.places import LoadsAndStores
from evo.analysis.access.preprocess import Expanded
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.values import ArrayPlace, Binding, Cell, Number, Part, Value
from evo.cuda.source.parser import Node

_TYPE_NODES = frozenset(
    [
        "primitive_type",
        "sized_type_specifier",
        "type_identifier",
        "qualified_identifier",
        "template_type",
        "placeholder_type_specifier",
        "struct_specifier",
        "class_specifier",
        "enum_specifier",
        "decltype",
        "dependent_type",
        "type_descriptor",
        "union_specifier",
    ]
)


Bound = dict[str, "CType | Cell | ArrayPlace | Part"]


@dataclass(frozen=True, slots=True)
class Declarator:
    """One declarator: the name, the type, whether it is a reference, and what it is initialised with."""

    name: str
    type: CType
    is_reference: bool
    value: Node | None
    is_function: bool = False
    node: Node | None = None


class Declarators(LoadsAndStores):
    """Reads types. struct_types: layouts by name; struct_nodes: their text with the template parameters bound."""

    def __init__(self, text: Expanded, data: bytes, bounds: Bounds) -> None:
        super().__init__(text, data, bounds)
        self.struct_types: dict[str, CType] = {}
        self.struct_nodes: dict[str, tuple[Node, Bound]] = {}

    def evaluate(self, node: Node) -> Value:
        """The value of an expression; given by the classes above."""
        raise AssertionError(node.type)

    def base_type(self, node: Node | None, qualifiers: str = "") -> CType:
        """The type that a specifier names."""
        if node is None:
            return INT
        match node.type:
            case "placeholder_type_specifier" | "decltype" | "auto":
                return AUTO
            case "struct_specifier" | "class_specifier" | "union_specifier":
                return self.struct_type(node, {})
            case "enum_specifier":
                return INT
            case "template_type":
                return self._template_type(node)
            case "qualified_identifier":
                inner = node.child("name")
                found = self.base_type(inner) if inner is not None else OTHER
                return found if found.kind != "other" else named_type(node.text)
            case "dependent_type":
                return self.base_type(next(iter(node.named_children), None))
            case "type_descriptor":
                return self.descriptor(node)
        found = self._known_type(node.text) or named_type(f"{qualifiers} {node.text}")
        if found.kind == "other" and node.text in self.structs:
            return self.struct_type(self.structs[node.text], {})
        return replace(found, is_const=True) if "const" in qualifiers and found.kind != "auto" else found

    def _known_type(self, name: str) -> CType | None:
        found = self.lookup(name)
        return found if isinstance(found, CType) else None

    def _template_type(self, node: Node) -> CType:
        name = node.child("name")
        template = self.structs.get(name.text) if name is not None else None
        if template is None:
            return CType(node.text, "other")
        return self.struct_type(template, self.template_arguments(template, node.child("arguments")))

    def template_arguments(self, template: Node, given: Node | None) -> Bound:
        """Template parameters by name, bound to the arguments that stand in the text, or to their defaults."""
        bound: Bound = {}
        arguments = given.inside if given is not None else []
        for at, (name, default, is_type) in enumerate(template_params(template)):
            argument = arguments[at] if at < len(arguments) else default
            if argument is None:
                continue
            value = self.template_argument(argument, is_type=is_type)
            if value is not None:
                bound[name] = value
        return bound

    def template_argument(self, node: Node, *, is_type: bool) -> CType | Binding | None:
        if is_type:
            return self.descriptor(node) if node.type == "type_descriptor" else self.base_type(node)
        if node.type == "type_descriptor":  # a name that may be a constant
            inner = node.child("type")
            if inner is None or self._known_type(inner.text) is not None:
                return self.descriptor(node)
            found = self.lookup(inner.text)
            return found if isinstance(found, Cell) else None
        return Cell("", INT, self.evaluate(node))

    def struct_type(self, node: Node, bound: Bound) -> CType:
        """The layout of a struct; its methods are found by its name."""
        name_node, body = node.child("name"), node.child("body")
        name = name_node.text if name_node is not None else ""
        if body is None:
            known = self._known_type(name)
            if known is not None:
                return known
            return self.struct_type(self.structs[name], bound) if name in self.structs else CType(name, "other")
        words = [value.name if isinstance(value, CType) else _number_word(value) for value in bound.values()]
        whole = f"{name}<{', '.join(words)}>" if words else name or f"struct@{node.start_byte}"
        if whole in self.struct_types:
            return self.struct_types[whole]
        fields: list[tuple[str, CType]] = []
        with self.scope() as inner:
            inner.update(bound)
            for member in body.named_children:
                if member.type != "field_declaration":
                    continue
                base = self.base_type(member.child("type"), qualifiers_of(member))
                for declarator in member.children_of("declarator"):
                    declared = self.declared(base, declarator)
                    if not declared.is_function:
                        fields.append((declared.name, declared.type))
        found = struct_of(whole, fields)
        self.struct_types[whole] = found
        self.struct_nodes[whole] = node, dict(bound)
        return found

    def method(self, kind: CType, name: str) -> tuple[Node, Bound] | None:
        """A method of a struct by name, with the template parameters of the struct."""
        known = self.struct_nodes.get(kind.name)
        if known is None:
            return None
        node, bound = known
        body = node.child("body")
        for member in body.named_children if body is not None else ():
            inner = member
            if member.type == "template_declaration":
                inner = next((c for c in member.named_children if c.type == "function_definition"), member)
            if inner.type == "function_definition" and function_name(inner) == name:
                return inner, bound
        return None

    def static_member(self, kind: CType, name: str) -> Node | None:
        """The value of `static constexpr int name = ...;` of a struct."""
        known = self.struct_nodes.get(kind.name)
        body = known[0].child("body") if known is not None else None
        for member in body.named_children if body is not None else ():
            declarator = member.child("declarator") if member.type == "field_declaration" else None
            if declarator is not None and declarator.text == name:
                return member.child("default_value")
        return None

    def descriptor(self, node: Node) -> CType:
        """The type of a cast or template argument: `const float4*`."""
        inner = node.child("type")
        base = self.base_type(inner, node.text.split(inner.text)[0] if inner is not None else "")
        declarator = node.child("declarator")
        return self.declared(base, declarator).type if declarator is not None else base

    def declared(self, base: CType, node: Node) -> Declarator:
        """What a declarator makes of a base type."""
        kind, value = base, None
        is_reference, is_function = False, False
        current: Node | None = node
        name = ""
        if node.type == "init_declarator":
            value, current = node.child("value"), node.child("declarator")
        if node.type == "optional_parameter_declaration":
            current = node.child("declarator")
        while current is not None:
            match current.type:
                case "identifier" | "field_identifier" | "type_identifier" | "operator_name" | "destructor_name":
                    name, current = current.text, None
                    continue
                case "pointer_declarator" | "abstract_pointer_declarator":
                    kind = pointer_to(kind)
                case "array_declarator" | "abstract_array_declarator":
                    kind = array_of(kind, self._count(current.child("size")))
                case "reference_declarator" | "abstract_reference_declarator":
                    is_reference = True
                case "function_declarator" | "abstract_function_declarator":
                    is_function = "parenthesized" not in getattr(current.child("declarator"), "type", "")
                    kind = kind if is_function else CType("function", "other")
            inner = current.child("declarator")
            if inner is None:
                inner = next(
                    (c for c in current.named_children if "declarator" in c.type or "identifier" in c.type), None
                )
            current = inner
        return Declarator(name, kind, is_reference, value, is_function, node)

    def _count(self, node: Node | None) -> int | None:
        if node is None:
            return None
        value = self.evaluate(node)
        if isinstance(value, Number):
            found = value.term.value
            return found if found is not None else self.bounds.largest(value.term)
        return None


def _number_word(value: object) -> str:
    inner = getattr(value, "value", None)
    return inner.term.text if isinstance(inner, Number) else "?"


def template_params(node: Node) -> list[tuple[str, Node | None, bool]]:
    """(name, default, whether it is a type) of each parameter of the template that a definition stands in."""
    above = node.parent
    listed = above.child("parameters") if above is not None and above.type == "template_declaration" else None
    found = []
    for param in listed.named_children if listed is not None else ():
        is_type = "type_parameter" in param.type
        if is_type:
            name = next((c.text for c in param.named_children if c.type == "type_identifier"), "")
            default = param.child("default_type")
        else:
            declarator = param.child("declarator")
            name = declarator.text if declarator is not None else ""
            default = param.child("default_value")
        found.append((name, default, is_type))
    return found


def function_name(node: Node) -> str:
    """The name of a function definition."""
    declarator = node.child("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child("declarator") or next(
            (c for c in declarator.named_children if "declarator" in c.type), None
        )
    name = declarator.child("declarator") if declarator is not None else None
    return name.text.replace(" ", "") if name is not None else ""


def function_params(node: Node) -> list[Node]:
    """The parameter declarations of a function definition or lambda."""
    declarator = node.child("declarator")
    while declarator is not None and declarator.child("parameters") is None:
        declarator = declarator.child("declarator") or next(
            (c for c in declarator.named_children if "declarator" in c.type), None
        )
    listed = declarator.child("parameters") if declarator is not None else None
    words = ("parameter_declaration", "optional_parameter_declaration")
    return [c for c in listed.named_children if c.type in words and c.text != "void"] if listed is not None else []


def is_type_node(node: Node) -> bool:
    return node.type in _TYPE_NODES


def qualifiers_of(node: Node) -> str:
    """`const` and the like in front of a declaration's type."""
    return " ".join(child.text for child in node.children if child.type == "type_qualifier")
