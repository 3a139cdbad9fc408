"""Parameters of functions and templates, as they are declared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name
from evo.interop.adopt.host_values import Address, DevicePointer, HostRecord


@dataclass(frozen=True, slots=True)
class Parameter:
    """kind: its type, with a `*` for arrays. default: what it is if a call leaves it out."""

    kind: str
    name: str
    default: Node | None = None


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """default: the text behind `=`."""

    name: str
    default: str | None


def parameters_of(function: Node) -> list[Parameter]:
    """Of a function or lambda, those that have a name."""
    declarator = declared_as(function)
    inside = declarator.child("parameters") if declarator is not None else None
    found = []
    for param in inside.named_children if inside is not None else []:
        inner = param.child("declarator")
        name = declarator_name(inner) if inner is not None else None
        if param.type.endswith("parameter_declaration") and name:
            default = param.child("default_value")
            text = param.text[: default.start_byte - param.start_byte] if default is not None else param.text
            kind = text.rsplit(name, 1)[0] + ("*" if "[" in text else "")
            found.append(Parameter(kind, name, default))
    return found


def declared_as(function: Node) -> Node | None:
    """The declarator of a function or lambda, below the marks of what it returns: `T& at(int i)`."""
    outer = function.child("declarator")
    kinds = ("function_declarator", "lambda_declarator")
    return next((node for node in outer.walk() if node.type in kinds), None) if outer is not None else None


def template_parameters(node: Node) -> list[TemplateParameter]:
    """Of a declaration with a template's head; none for others."""
    if node.type != "template_declaration":
        return []
    inside = node.child("parameters")
    declared = [c for c in (inside.named_children if inside is not None else []) if c.type.endswith("declaration")]
    return [_template_parameter(param) for param in declared]


def deduced_type(function: Node, name: str, arguments: Sequence[object]) -> str | None:
    """The type that a template's parameter is by the pointers and structs of a call; None if they do not tell."""
    for param, passed in zip(parameters_of(function), arguments, strict=False):
        value = passed.cell.value if isinstance(passed, Address) else passed
        kind = re.sub(r"\b(?:const|volatile|__restrict__|__restrict)\b|[*&]", " ", param.kind).strip()
        if kind == name and isinstance(value, DevicePointer) and value.memory.element:
            return value.memory.element
        if kind == name and isinstance(value, HostRecord):
            return value.type + (f"<{', '.join(value.arguments)}>" if value.arguments else "")
        given = re.search(r"<([^<>]*+)>", kind) if isinstance(value, HostRecord) else None  # `Matrix<T>`
        words = [word.strip() for word in given[1].split(",")] if given is not None else []
        if isinstance(value, HostRecord) and name in words and len(words) == len(value.arguments):
            return value.arguments[words.index(name)]
    return None


def _template_parameter(param: Node) -> TemplateParameter:
    declarator = param.child("declarator") or param.child("name")
    default = param.child("default_value") or param.child("default_type")
    name = declarator_name(declarator) if declarator is not None else None
    if name is None:
        words = re.findall(r"[A-Za-z_]\w*", param.text.split("=")[0])
        pointer = re.search(r"\(\s*+[*&]\s*+([A-Za-z_]\w*)\s*+\)", param.text)  # `T (*F)(const T&)`
        name = pointer[1] if pointer is not None else words[-1] if words else ""
    return TemplateParameter(name, default.text if default is not None else None)


def takes(maker: Node, count: int) -> bool:
    """Whether a function with a body may be called with so many arguments."""
    declarator = next((n for n in maker.walk() if n.type == "function_declarator"), None)
    inside = declarator.child("parameters") if declarator is not None else None
    params = [c for c in (inside.named_children if inside is not None else []) if "parameter" in c.type]
    least = sum(c.type == "parameter_declaration" for c in params)
    return least <= count <= len(params) and maker.child("body") is not None
