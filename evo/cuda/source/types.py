"""A guess at the scalar type of a C++ expression, for edits that are only right on `float`; other names of types.

Not a type checker: an unknown type is None, and an edit skips it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from evo.cuda.source.parser import Node

NAMES = ("identifier", "field_identifier")

_WORD = re.compile(r"\w+")
_INTEGERS = frozenset(
    _WORD.findall(
        "int unsigned long short char bool size_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t"
    )
)
_RANK = ("int", "float", "double")  # the wider one wins in a mixed expression
_VECTORS = {"float2": "float", "float3": "float", "float4": "float", "int2": "int", "int4": "int", "uint4": "int"}
_FLOAT_CALLS = frozenset(
    _WORD.findall(
        "expf __expf exp2f exp10f logf __logf log2f __log2f sqrtf rsqrtf fmaxf fminf fabsf fmaf tanhf erff powf __powf"
        " sinf cosf __sinf __cosf __fdividef __frcp_rn __fdiv_rn __fmaf_rn __fmul_rn __fadd_rn __half2float __low2float"
        " __high2float __bfloat162float __int_as_float __uint_as_float __int2float_rn __saturatef"
    )
)
_SHUFFLES = frozenset(("__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync"))
_TRANSPARENT = frozenset(("parenthesized_expression", "unary_expression", "update_expression"))
# Possessive, so that no text takes longer than its length.
_TYPEDEF = r"typedef[ \t]++(?P<words>\w++(?:[ \t]++\w++)++)"
_USING = r"using[ \t]++(?P<name>\w++)[ \t]*+=[ \t]*+(?P<kind>\w++(?:[ \t]++\w++)*+)"
_DEFINITION = re.compile(rf"^[ \t]*+(?:{_TYPEDEF}|{_USING})\s*+;", re.MULTILINE)
_DEEP = 8  # names of names


def text_of(node: Node | None) -> str:
    return node.text if node is not None else ""


def scalar_name(type_text: str) -> str | None:
    """`const float` -> float, `unsigned int` -> int; None for other types than plain numbers."""
    words = [w for w in re.findall(r"\w+", type_text) if w not in ("const", "volatile", "static", "constexpr")]
    if words and all(word in _INTEGERS for word in words):
        return "int"
    return words[0] if len(words) == 1 and words[0] != "auto" else None


def exact_name(type_text: str) -> str | None:
    """`const unsigned char` -> unsigned char; None for `auto`."""
    words = [w for w in type_text.split() if w not in ("const", "volatile", "static", "constexpr")]
    return " ".join(words) if words and words != ["auto"] else None


def declared_types(scope: Node, read: Callable[[str], str | None] = scalar_name) -> dict[str, str | None]:
    """Name -> type of a variable, or of the element of an array or pointer; None if one name has two types."""
    found: dict[str, str | None] = {}
    for node in scope.walk():
        if node.type not in ("declaration", "parameter_declaration", "optional_parameter_declaration"):
            continue
        kind = read(text_of(node.child("type")))
        for declarator in node.children_of("declarator"):
            if name := declarator_name(declarator):
                found[name] = kind if found.get(name, kind) == kind else None
    return found


def declarator_name(node: Node) -> str | None:
    """The identifier inside pointers, arrays, references and initialisers; None for a function declarator."""
    while node.type not in NAMES:
        inner = node.child("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type == "identifier" or "declarator" in c.type), None)
        if inner is None or node.type == "function_declarator":
            return None
        node = inner
    return text_of(node)


def literal_type(text: str) -> str | None:
    """The type of a number literal: 1.0f -> float, 1e3 -> double, 7u -> int."""
    if re.fullmatch(r"-?(0[xX][\da-fA-F']++|\d[\d']*+)[uUlL]*+", text):
        return "int"
    if re.fullmatch(r"-?(\d[\d']*+\.?\d*+|\.\d++)([eE][+-]?\d++)?[fF]", text):
        return "float"
    return "double" if re.fullmatch(r"-?(\d[\d']*+\.?\d*+|\.\d++)([eE][+-]?\d++)?", text) else None


def expression_type(node: Node | None, names: Mapping[str, str | None]) -> str | None:
    """float, int, double, half ...; None if the text does not show it. `names` also holds return types."""
    try:
        return _type(node, names)
    except RecursionError:  # a generated expression thousands of terms deep
        return None


def _type(node: Node | None, names: Mapping[str, str | None]) -> str | None:
    if node is None:
        return None
    kind = node.type
    if kind == "number_literal":
        return literal_type(text_of(node))
    if kind == "identifier":
        return names.get(text_of(node))
    if kind in _TRANSPARENT:
        inner = node.child("argument") or next(iter(node.named_children), None)
        return _type(inner, names)
    if kind in ("subscript_expression", "pointer_expression"):
        if text_of(node).startswith("&"):
            return None
        return _type(node.child("argument"), names)
    if kind == "field_expression":
        vector = _type(node.child("argument"), names)
        return _VECTORS.get(vector or "")
    if kind == "binary_expression":
        return _binary_type(node, names)
    if kind == "assignment_expression":
        return _type(node.child("left"), names)
    if kind == "conditional_expression":
        sides = {_type(node.child(f), names) for f in ("consequence", "alternative")}
        return sides.pop() if len(sides) == 1 else None
    if kind == "cast_expression":
        type_text = text_of(node.child("type"))
        return None if "*" in type_text else scalar_name(type_text)
    return _call_type(node, names) if kind == "call_expression" else None


def _binary_type(node: Node, names: Mapping[str, str | None]) -> str | None:
    operator = text_of(node.child("operator"))
    if operator in ("<", ">", "<=", ">=", "==", "!=", "&&", "||"):
        return "int"
    sides = [_type(node.child(field), names) for field in ("left", "right")]
    if any(side not in _RANK for side in sides):
        return sides[0] if sides[0] == sides[1] else None
    return max((side for side in sides if side is not None), key=_RANK.index)


def _call_type(node: Node, names: Mapping[str, str | None]) -> str | None:
    function, arguments = node.child("function"), node.child("arguments")
    name = text_of(function)
    if name in _FLOAT_CALLS:
        return "float"
    inner = arguments.named_children if arguments is not None else []
    if name in _SHUFFLES and len(inner) > 1:
        return _type(inner[1], names)
    if name in ("min", "max") and inner:
        kinds = {_type(argument, names) for argument in inner}
        return kinds.pop() if len(kinds) == 1 else None
    if name == "__ldg" and inner:
        return _type(inner[0].child("argument") or inner[0], names)
    if match := re.fullmatch(r"static_cast<([^<>*&]*)>", name):
        return scalar_name(match[1])
    return scalar_name(name) if name in ("float", "int", "double", "half") else names.get(f"{name}()")


def alias_definitions(text: str) -> Iterator[re.Match[str]]:
    """Where a text gives a plain type another name: `typedef float real;`, `using real = float;`."""
    yield from _DEFINITION.finditer(text)


def type_aliases(text: str) -> dict[str, str]:
    """What each such name stands for, through other names. One that is defined twice, maybe under #if, is left out."""
    found = [_defined(match) for match in alias_definitions(text)]
    times = Counter(name for name, _ in found)
    once = {name: kind for name, kind in found if times[name] == 1}
    for _ in range(_DEEP):
        once = {name: once.get(kind, kind) for name, kind in once.items()}
    return once


def _defined(match: re.Match[str]) -> tuple[str, str]:
    if match["name"]:
        return match["name"], " ".join(match["kind"].split())
    *kind, name = match["words"].split()
    return name, " ".join(kind)
