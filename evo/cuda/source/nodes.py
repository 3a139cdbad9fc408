"""One node -> one fact: functions, parameters, and whether a place is read or written."""

from __future__ import annotations

import re

from evo.cuda.source.parser import Node
from evo.cuda.source.spans import Function, Param, Span
from evo.cuda.source.types import NAMES, declarator_name, text_of


def span_of(node: Node) -> Span:
    return Span(node.start_byte, node.end_byte)


def function_of(node: Node) -> Function | None:
    declarator, body, returned = node.child("declarator"), node.child("body"), text_of(node.child("type"))
    while declarator is not None and declarator.type != "function_declarator":
        if declarator.type == "reference_declarator":  # its part has no name in the grammar
            declarator, returned = next(iter(declarator.named_children), None), f"{returned}&"
        else:
            declarator = declarator.child("declarator")
    name = declarator.child("declarator") if declarator is not None else None
    if declarator is None or name is None or body is None:
        return None
    bounds = next((child for child in node.children if child.type == "launch_bounds"), None)
    params = declarator.child("parameters")
    return Function(
        name=text_of(name),
        is_kernel=any(child.type == "__global__" for child in node.children) and has_c_linkage(node),
        span=span_of(node),
        body=span_of(body),
        name_span=span_of(name),
        return_type=returned,
        params=tuple(p for child in (params.named_children if params else []) if (p := param_of(child)) is not None),
        bounds=span_of(bounds) if bounds is not None else None,
        outermost=(node.around("struct_specifier", "class_specifier") or node).start_byte,
    )


def has_c_linkage(node: Node) -> bool:
    above = node.around("linkage_specification")
    return above is not None and text_of(above.child("value")) == '"C"'


def param_of(node: Node) -> Param | None:
    """One parameter, its name empty if it has none."""
    if node.type not in ("parameter_declaration", "optional_parameter_declaration"):
        return None
    declarator = node.child("declarator")
    name = declarator_name(declarator) if declarator is not None else None
    whole = text_of(node)
    if whole.strip() == "void":
        return None
    at = Span(node.end_byte, node.end_byte)  # a parameter that the kernel does not use may have no name
    if declarator is not None and name is not None:
        at = next((span_of(n) for n in declarator.walk() if n.type in NAMES and text_of(n) == name), at)
    kind = re.sub(r"\b(__restrict__|__restrict|restrict)\b", " ", whole[: at.start - node.start_byte])
    kind = "*".join(part.strip() for part in " ".join(kind.split()).split("*"))
    return Param(
        type=kind + re.sub(r"\s+", "", whole[at.end - node.start_byte :]).split("=")[0],
        name=name or "",
        span=span_of(node),
        is_pointer="*" in kind,
        is_const=re.search(r"\bconst\b", kind.split("*")[0]) is not None,
        is_restrict="restrict" in whole,
        name_span=at,
    )


def is_value(node: Node) -> bool:
    """Whether an lvalue expression is only read where it stands."""
    parent = node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "field_expression"):
        node, parent = parent, parent.parent
    if parent is None or parent.type == "update_expression" or parent.type.startswith("gnu_asm"):
        return False
    if parent.type == "assignment_expression":
        return parent.child("left") != node
    return not (parent.type == "pointer_expression" and text_of(parent).startswith("&"))


def is_read(node: Node) -> bool:
    """Whether this use of a pointer's name is `name[...]` read as a value, or `*name` read."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "subscript_expression" and parent.child("argument") == node:
        return is_value(parent)
    if parent.type == "pointer_expression" and text_of(parent).startswith("*"):
        return is_value(parent)
    return False
