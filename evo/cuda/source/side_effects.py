"""Names that a function body may change implicitly.

An edit that moves or repeats statements reads off them what they change. A call that takes a reference, a method, an
address, `x++` inside an expression or a macro that assigns changes a name unseen; the edit has to leave it alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from evo.cuda.source.nodes import function_of
from evo.cuda.source.parser import Node
from evo.cuda.source.statements import CONDITIONAL
from evo.cuda.source.types import declarator_name, text_of

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)|<<=|>>=|\+\+|--")
_LOADS = re.compile(r"__ld\w*")  # take an address and change nothing
_BLANK = re.compile(r"\s+")


def _takers(root: Node) -> dict[str, set[int]]:
    """The functions of a text, methods included, and which of their parameters are references or pointers."""
    found: dict[str, set[int]] = {}
    for node in root.walk():
        head = node.child("declarator") if node.type == "function_definition" else None
        while head is not None and head.type != "function_declarator":
            head = head.child("declarator")
        if head is None:
            continue
        name = re.split(r"\W+", text_of(head.child("declarator")))[-1]
        params = head.child("parameters")
        rows = params.inside if params is not None else []
        found.setdefault(name, set()).update(place for place, row in enumerate(rows) if _is_writable(text_of(row)))
    return found


def _constant_methods(root: Node) -> set[str]:
    """Methods that say of themselves that they change nothing, under every definition of their name."""
    said: dict[str, bool] = {}
    for node in root.walk():
        if node.type == "function_definition" and (body := node.child("body")) is not None:
            head = text_of(node)[: len(text_of(node)) - len(text_of(body))]
            names = re.findall(r"\b([A-Za-z_]\w*+|operator\s*+\S{1,40}?)\s*+\(", head)
            is_constant = _is_constant_method(head)
            if names:
                said[names[-1]] = said.get(names[-1], True) and is_constant
    return {name for name, is_constant in said.items() if is_constant}


def _is_constant_method(head: str) -> bool:
    """Whether `const` stands behind the parameters."""
    _, bracket, tail = head.rpartition(")")
    qualifiers = re.match(r"(?:\s++|(?:const|noexcept)\b)*+", tail)
    return bool(bracket) and "(" not in tail and qualifiers is not None and "const" in qualifiers[0]


def _macros(root: Node) -> dict[str, str]:
    """Macros that assign something, and their text."""
    found = {}
    for node in root.walk():
        if node.type in ("preproc_def", "preproc_function_def"):
            value = text_of(node.child("value"))
            if _ASSIGNS.search(value):
                found[text_of(node.child("name"))] = value
    return found


def hidden_writes(root: Node) -> dict[str, frozenset[str]]:
    """By function: names changed by more than the plain statements `x = ...`, `x += ...`, `++x` and loop heads."""
    known, constant, macros = _takers(root), _constant_methods(root), _macros(root)
    found: dict[str, set[str]] = {}
    for node in root.walk():
        function = function_of(node) if node.type == "function_definition" else None
        body = node.child("body")
        if function is not None and body is not None:
            names = found.setdefault(function.name, set())
            for inner in body.walk():
                names.update(_changed(inner, known, constant, macros))
    return {name: frozenset(names) for name, names in found.items()}


def changed_in(root: Node, nodes: Iterable[Node]) -> frozenset[str]:
    """Names that some nodes declare or change in any way, elements of an array included."""
    nodes = tuple(nodes)
    known, constant, macros = _takers(root), _constant_methods(root), _macros(root)
    found: set[str] = set()
    for node in nodes:
        found.update(_changed(node, known, constant, macros))
        if node.type in ("update_expression", "assignment_expression"):
            found.update(_base(node.child("argument") or node.child("left")))
    return frozenset(found | set(declared(nodes)))


def declared(nodes: Iterable[Node]) -> Iterator[str]:
    """Each name as often as some nodes declare it, the parameters of lambdas included."""
    for node in nodes:
        if node.type in ("declaration", "parameter_declaration", "for_range_loop"):
            yield from (name for each in node.children_of("declarator") if (name := declarator_name(each)))


def _changed(node: Node, known: Mapping[str, set[int]], constant: set[str], macros: Mapping[str, str]) -> Iterator[str]:
    kind = node.type
    if kind in ("update_expression", "assignment_expression"):
        if not _is_plain(node):
            yield from _base(node.child("argument") or node.child("left"))
    elif kind == "pointer_expression" and text_of(node).startswith("&"):
        call = node.parent.parent if node.parent is not None else None
        if call is None or not _LOADS.fullmatch(text_of(call.child("function"))):
            yield from _base(node.child("argument"))
    elif kind == "gnu_asm_output_operand":
        yield from _base(node.named_children[-1])
    elif kind == "identifier" and text_of(node) in macros:
        yield from _NAME.findall(macros[text_of(node)])
    elif kind == "lambda_expression" and text_of(node).startswith("[&"):
        yield from _NAME.findall(text_of(node))
    elif kind == "init_declarator":
        declarator = text_of(node.child("declarator"))
        is_const = node.parent is not None and text_of(node.parent).lstrip().startswith("const")
        if declarator.lstrip().startswith("&") and not is_const:
            yield from (*_base(node.child("value")), declarator.lstrip("& \t"))
    elif kind == "call_expression":
        yield from _by_call(node, known, constant, macros)


def _by_call(node: Node, known: Mapping[str, set[int]], constant: set[str], macros: Mapping[str, str]) -> Iterator[str]:
    callee, listed = node.child("function"), node.child("arguments")
    arguments = listed.inside if listed is not None else []
    if callee is None:
        return
    if callee.type == "field_expression" and text_of(callee.child("field")) not in constant:
        yield from _base(callee.child("argument"))
    name = _NAME.findall(text_of(callee).partition("<")[0])[-1:]
    is_unknown = callee.type == "qualified_identifier" and not known.keys() & set(name)
    takes = known.get(name[0], set()) if name else set()
    for place, argument in enumerate(arguments):
        if (name and name[0] in macros) or is_unknown or place in takes:
            yield from _base(argument)


def _is_plain(node: Node) -> bool:
    """Whether it is a whole statement, or the head of a loop; False behind `#if`, which hides statements."""
    around = node.around(*CONDITIONAL, "function_definition")
    if around is not None and around.type in CONDITIONAL:
        return False
    outer = node.parent
    while outer is not None and outer.type == "comma_expression":
        outer = outer.parent
        if outer is not None and outer.type == "expression_statement":
            return False
    return outer is not None and outer.type in ("expression_statement", "for_statement")


def _is_writable(param: str) -> bool:
    """Whether a parameter is a reference or pointer to a non-const type."""
    text = _BLANK.sub(" ", param)
    parts = re.split(r"[*&]", text)  # the last mark refers to what is before it: in `const float*& p` to a pointer
    return len(parts) > 1 and not re.search(r"\bconst\b", parts[-2])


def _base(node: Node | None) -> Iterator[str]:
    """The name that an expression starts from: `x` of `x.y[i]`, of `(x)` and of `*x++`."""
    while node is not None and node.type != "identifier":
        inner = node.child("argument") or node.child("left")
        if inner is None and node.type in ("parenthesized_expression", "conditional_expression", "comma_expression"):
            for child in node.named_children:
                yield from _base(child)
            return
        node = inner
    if node is not None:
        yield text_of(node)
