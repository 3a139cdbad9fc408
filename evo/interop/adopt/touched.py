"""Which pointers of a kernel are read and which are written, as far as the text shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evo.cuda.source.nodes import function_of
from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name

_ATOMICS = re.compile(r"atomic\w+|red\w*")


@dataclass(frozen=True, slots=True)
class Touch:
    """read_first: it is read, and not only by what this kernel has stored to it before. added: by atomics alone."""

    read: bool = False
    written: bool = False
    read_first: bool = False
    added: bool = False

    def __or__(self, other: Touch) -> Touch:
        return Touch(
            self.read or other.read,
            self.written or other.written,
            self.read_first or other.read_first,
            self.added or other.added,
        )


def touches_of(text: str, kernel: str) -> dict[str, Touch]:
    """By parameter. text: the kernel and the functions that it may call, without macros."""
    functions: dict[str, Node] = {}
    for node in read(text.encode()).walk():
        if node.type == "function_definition" and (function := function_of(node)) is not None:
            functions[function.name] = node
    return _of(kernel, functions, ())


def _of(name: str, functions: Mapping[str, Node], above: tuple[str, ...]) -> dict[str, Touch]:
    node = functions.get(name)
    function = function_of(node) if node is not None else None
    if node is None or function is None or name in above:
        return {}
    body = node.child("body")
    pointers = {param.name: param.name for param in function.params if re.search(r"[*&\[]", param.type)}
    constant = {param.name for param in function.params if param.is_const}
    found = {param: Touch() for param in pointers}
    if body is None:
        return found
    for inner in body.walk():
        if inner.type == "init_declarator":
            _alias(inner, pointers)
        if inner.type == "identifier" and inner.text in pointers:
            origin = pointers[inner.text]
            touch = _use(inner, functions, (*above, name))
            if origin in constant:
                touch = Touch(read=touch.read or touch.written, read_first=True)
            found[origin] |= touch
    return found


def _alias(node: Node, pointers: dict[str, str]) -> None:
    """`float4* p = reinterpret_cast<float4*>(x)`, `float* row = x + i * n`, `float& y = x[i]`."""
    declarator, value = node.child("declarator"), node.child("value")
    if declarator is None or value is None:
        return
    is_place = any(n.type in ("pointer_declarator", "reference_declarator") for n in declarator.walk())
    whole = node.parent.text if node.parent is not None else ""
    if not is_place and not whole.startswith(("auto", "const auto")):
        return
    name = declarator_name(declarator)
    if name is None and declarator.type == "reference_declarator":
        name = declarator.text.lstrip("& ")
    used = [n.text for n in value.walk() if n.type == "identifier" and n.text in pointers]
    if name and used and "[" not in value.text.split(used[0])[0]:
        pointers[name] = pointers[used[0]]


def _use(node: Node, functions: Mapping[str, Node], above: tuple[str, ...]) -> Touch:
    """What one occurrence of a pointer's name does to what it points to."""
    inner, parent, followed = node, node.parent, False
    while parent is not None:
        kind = parent.type
        if kind == "subscript_expression" and parent.child("argument") is not inner:
            return Touch() if not followed else Touch(read=True, read_first=True)
        if kind in ("subscript_expression", "pointer_expression", "field_expression"):
            followed = not (kind == "pointer_expression" and parent.text.startswith("&"))
        elif kind == "assignment_expression":
            if parent.child("left") is not inner:
                return Touch(read=followed, read_first=followed)
            operator = parent.child("operator")
            compound = operator is not None and operator.text != "="
            return Touch(read=compound, written=True, read_first=compound)
        elif kind == "update_expression":
            return Touch(read=True, written=True, read_first=True) if followed else Touch()
        elif kind == "argument_list":
            return _passed(inner, parent, followed, functions, above)
        elif kind == "init_declarator":
            is_place = any(n.type in ("pointer_declarator", "reference_declarator") for n in parent.walk())
            return Touch() if is_place else Touch(read=followed, read_first=followed)
        elif kind.endswith("statement") or kind in ("declaration", "condition_clause"):
            return Touch(read=followed, read_first=followed)
        inner, parent = parent, parent.parent
    return Touch()


def _passed(
    inner: Node, arguments: Node, followed: bool, functions: Mapping[str, Node], above: tuple[str, ...]
) -> Touch:
    call = arguments.parent
    callee = call.child("function") if call is not None else None
    name = callee.text.rpartition("::")[2].partition("<")[0] if callee is not None else ""
    if followed:
        return Touch(read=True, read_first=True)
    if _ATOMICS.fullmatch(name):
        return Touch(read=True, written=True, read_first=True, added=True)
    if name in ("__ldg", "__ldcs", "__ldca", "__ldcg"):
        return Touch(read=True, read_first=True)
    if name in ("__stcs", "__stcg", "__stwb", "__stwt"):
        return Touch(written=True)
    if name in functions:
        function = function_of(functions[name])
        places = [c for c in arguments.named_children if c.type != "comment"]
        at = next((i for i, c in enumerate(places) if c is inner), -1)
        if function is not None and 0 <= at < len(function.params):
            return _of(name, functions, above).get(function.params[at].name, Touch())
    if callee is not None and callee.type == "template_function":  # a cast
        up = call.parent if call is not None else None
        return _use(call, functions, above) if call is not None and up is not None else Touch()
    return Touch(read=True, read_first=True)
