"""Which pointers of a kernel are read and which are written, as far as the text shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import reduce

from evo.cuda.source.nodes import function_of
from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name
from evo.interop.adopt.host_expressions import bare_type
from evo.spec.element_types import OF_C_TYPE

_ATOMICS = re.compile(r"atomic\w+|red\w*")


@dataclass(frozen=True, slots=True)
class PointerAccess:
    """read_first: it is read, and not only by what this kernel has stored to it before. added: by atomics.

    used: it is read for more than to be added to.
    """

    read: bool = False
    written: bool = False
    read_first: bool = False
    added: bool = False
    used: bool = False

    def __or__(self, other: PointerAccess) -> PointerAccess:
        return PointerAccess(*(one or another for one, another in zip(astuple(self), astuple(other), strict=True)))


def _read(followed: bool = True) -> PointerAccess:
    return PointerAccess(read=followed, read_first=followed, used=followed)


Functions = Mapping[str, Sequence[Node]]  # overloads of one name stand together


def accesses_of(text: str, kernel: str) -> dict[str, PointerAccess]:
    """By parameter. text: the kernel and the functions that it may call, without macros."""
    functions: dict[str, list[Node]] = {}
    for node in read(text.encode()).walk():
        if node.type == "function_definition" and (function := function_of(node)) is not None:
            functions.setdefault(function.name, []).append(node)
    return _of(functions.get(kernel, [])[-1:], functions, ())


def _of(nodes: Sequence[Node], functions: Functions, above: tuple[Node, ...]) -> dict[str, PointerAccess]:
    """What these functions do to what their parameters point to."""
    found: dict[str, PointerAccess] = {}
    for node in nodes:
        function = function_of(node)
        if function is None or node in above:
            continue
        # A struct by value may hold a pointer: it goes by the struct's name.
        may_point = (p for p in function.params if re.search(r"[*&\[]", p.type) or bare_type(p.type) not in OF_C_TYPE)
        pointers = {p.name: frozenset({p.name}) for p in may_point}
        references = {p.name for p in function.params if "&" in p.type and "*" not in p.type}
        constant = {param.name for param in function.params if param.is_const}
        found |= {param: found.get(param, PointerAccess()) for param in pointers}
        body = node.child("body")
        for inner in body.walk() if body is not None else ():
            if inner.type in ("init_declarator", "assignment_expression"):
                _alias(inner, pointers, references)
            if inner.type != "identifier" or inner.text not in pointers:
                continue
            touch = _use(inner, inner.text in references, functions, (*above, node))
            for origin in pointers[inner.text]:
                read_only = PointerAccess(read=touch.read or touch.written, read_first=True)
                found[origin] |= read_only if origin in constant else touch
    return found


def _alias(node: Node, pointers: dict[str, frozenset[str]], references: set[str]) -> None:
    """`float4* p = reinterpret_cast<float4*>(x)`, `p = x + i * n` of a pointer, `float& y = x[i]`, `m.data = x`."""
    if node.type == "assignment_expression":
        declarator, value = node.child("left"), node.child("right")
        while declarator is not None and declarator.type == "field_expression" and "->" not in declarator.text:
            declarator = declarator.child("argument")
        is_place = declarator is not None and declarator.type == "identifier" and declarator.text not in references
    else:
        declarator, value = node.child("declarator"), node.child("value")
        inside = declarator.walk() if declarator is not None else ()
        is_place = any(n.type in ("pointer_declarator", "reference_declarator") for n in inside)
        is_place = is_place or (node.parent is not None and node.parent.text.startswith(("auto", "const auto")))
    if declarator is None or value is None or not is_place:
        return
    name = declarator.text if declarator.type == "identifier" else declarator_name(declarator)
    if declarator.type == "reference_declarator":
        name = name or declarator.text.lstrip("& ")
        references |= {name}
    used = [n for n in value.walk() if n.type == "identifier" and n.text in pointers]
    if not name or not used:
        return
    if node.type == "assignment_expression" and not _is_element(used[0], value):
        pointers[name] = pointers.get(name, frozenset()) | pointers[used[0].text]
    elif node.type == "init_declarator" and "[" not in value.text.split(used[0].text)[0]:
        pointers[name] = pointers[used[0].text]


def _is_element(pointer: Node, value: Node) -> bool:
    """Whether an expression over a pointer is what it points to, rather than another place."""
    found, inner = False, pointer
    while inner is not value and inner.parent is not None:
        inner = inner.parent
        found = found or inner.type == "subscript_expression"
        if inner.type == "pointer_expression":
            found = not inner.text.startswith("&")
    return found


def _use(node: Node, followed: bool, functions: Functions, above: tuple[Node, ...]) -> PointerAccess:
    """What one occurrence of a pointer's name does to what it points to. followed: the name is the element itself."""
    inner, parent = node, node.parent
    while parent is not None:
        kind = parent.type
        if kind == "subscript_expression" and parent.child("argument") is not inner:
            return PointerAccess() if not followed else _read()
        if kind == "field_expression" and parent.parent is not None and parent.parent.type == "call_expression":
            return _by_method(parent, functions, above)
        if kind == "field_expression":
            followed = followed or parent.text[len(inner.text) :].lstrip().startswith("->")
        elif kind in ("subscript_expression", "pointer_expression"):
            followed = not (kind == "pointer_expression" and parent.text.startswith("&"))
        elif kind == "assignment_expression":
            if parent.child("left") is not inner:
                return _read(followed)
            if not followed:
                return PointerAccess()  # the pointer itself moves
            operator = parent.child("operator")
            compound = operator is not None and operator.text != "="
            is_used = compound and operator is not None and operator.text not in ("+=", "-=")
            return PointerAccess(read=compound, written=True, read_first=compound, used=is_used)
        elif kind == "update_expression":
            return PointerAccess(read=True, written=True, read_first=True) if followed else PointerAccess()
        elif kind == "argument_list":
            return _passed(inner, parent, followed, functions, above)
        elif kind == "init_declarator":
            is_place = any(n.type in ("pointer_declarator", "reference_declarator") for n in parent.walk())
            return PointerAccess() if is_place else _read(followed)
        elif kind.endswith("statement") or kind in ("declaration", "condition_clause"):
            return _read(followed)
        inner, parent = parent, parent.parent
    return PointerAccess()


def _by_method(called: Node, functions: Functions, above: tuple[Node, ...]) -> PointerAccess:
    """What a method, `store.store(x, i)`, does to what its object points to: to any of its fields."""
    name, found = called.child("field"), PointerAccess()
    for node in functions.get(name.text if name is not None else "", ()):
        function, body = function_of(node), node.child("body")
        if function is None or body is None or node in above:
            continue
        own = {param.name for param in function.params}
        own |= {word for n in body.walk() if n.type == "init_declarator" and (word := declarator_name(n))}
        fields = [n for n in body.walk() if n.type == "identifier" and n.text not in own]
        for each in fields:
            found |= _use(each, followed=False, functions=functions, above=(*above, node))
    return found


def _follows(argument: Node) -> bool:
    """Whether other arguments stand before it."""
    return argument.parent is not None and argument.parent.named_children[0].start_byte != argument.start_byte


def _passed(
    inner: Node, arguments: Node, followed: bool, functions: Functions, above: tuple[Node, ...]
) -> PointerAccess:
    call = arguments.parent
    callee = call.child("function") if call is not None else None
    name = callee.text.rpartition("::")[2].partition("<")[0] if callee is not None else ""
    if name in functions:
        places = arguments.inside
        at = next((i for i, c in enumerate(places) if c is inner), -1)
        found = [
            _of([node], functions, above).get(params[at].name, PointerAccess())
            for node in functions[name]
            if 0 <= at < len(params := getattr(function_of(node), "params", ()))
            and (not followed or ("&" in params[at].type and not params[at].is_const))
        ]
        return reduce(PointerAccess.__or__, found) if found else _read(followed)
    if followed:
        return _read()
    if _ATOMICS.fullmatch(name):
        return PointerAccess(read=True, written=True, read_first=True, added=True)
    if name in ("__ldg", "__ldcs", "__ldca", "__ldcg"):
        return _read()
    if name in ("__stcs", "__stcg", "__stwb", "__stwt") or (name == "store_matrix_sync" and not _follows(inner)):
        return PointerAccess(written=True)
    if callee is not None and callee.type == "template_function":  # a cast
        up = call.parent if call is not None else None
        return _use(call, followed, functions, above) if call is not None and up is not None else PointerAccess()
    return _read()
