"""`__constant__` structs and numbers as parameters of the kernels that read them: a task passes tensors and numbers.

`__constant__ Model model;` becomes the host's `Model filled_model;`, and `model.dt` in device code `model_dt`. A kernel
takes the parts that it and what it calls read, and a launch passes what was copied last: `filled_model.dt`. Arrays
inside become `__constant__` arrays of their own, which are tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.host_expressions import VECTOR_BASES, VECTORS, bare_type
from evo.interop.adopt.host_records import RecordType, record_of
from evo.interop.adopt.host_values import problem
from evo.spec.element_types import OF_C_TYPE

FILLED = "filled_"  # the host's variable of what is copied to such a symbol
_FUNCTION = re.compile(r"__(?:global|device)__")
_TYPES = ("type_definition", "alias_declaration", "struct_specifier", "class_specifier")
Edit = tuple[int, int, str]


@dataclass(frozen=True)
class _Part:
    """place: `model.dt`. flat: the parameter. array: `[9]` of one that stays in constant memory."""

    place: str
    flat: str
    kind: str
    array: str = ""


@dataclass(frozen=True)
class _Symbol:
    kind: str
    parts: list[_Part]

    @property
    def has_arrays(self) -> bool:
        return any(part.array for part in self.parts)


@dataclass
class _Function:
    """A function of the device, or a macro. parts: what it reads, by flat name. whole: structs it uses as such."""

    node: Node
    name: str
    is_kernel: bool = False
    parts: dict[str, _Part] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    @property
    def passed(self) -> list[_Part]:
        return [part for _, part in sorted(self.parts.items()) if not part.array]


def without_constant_parts(path: Path, text: str) -> str:
    """The same lines with such symbols as parameters. Raises SyntaxInvalid for a struct with arrays used as a whole."""
    data = text.encode()
    root = read(data)
    symbols, edits = _symbols(root)
    if not symbols:
        return text
    functions = [each for node in root.walk() if (each := _function(node)) is not None]
    for each in functions:
        edits += _uses(path, each, symbols)
    _hand_on(functions)
    takers = {each.name: each for each in functions if each.passed and each.node.type == "function_definition"}
    for each in takers.values():
        edits += _taken(each, symbols)
    edits += _given(root, takers)
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


def _symbols(root: Node) -> tuple[dict[str, _Symbol], list[Edit]]:
    """The parts of each symbol, and their declarations anew."""
    records: dict[str, RecordType] = {}
    types: dict[str, str] = {}
    found: dict[str, _Symbol] = {}
    edits: list[Edit] = []
    for node in root.walk():
        if node.type in _TYPES and (record := record_of(node)) is not None:
            records[record.name] = record
        elif node.type in _TYPES[:2]:
            types[text_of(node.child("declarator") or node.child("name"))] = bare_type(text_of(node.child("type")))
        if node.type != "declaration" or not re.match(r"(?:static\s+|extern\s+)*__constant__\b", node.text):
            continue
        kind = bare_type(text_of(node.child("type")))
        names = [(each, each.text) for each in node.children_of("declarator") if each.type == "identifier"]
        parts = {name: _parts(kind, name, name, records, types) for _, name in names}
        if len(names) < len(node.children_of("declarator")) or not all(parts.values()):
            continue
        found |= {name: _Symbol(kind, own) for name, own in parts.items()}
        arrays = [f"__constant__ {p.kind} {p.flat}{p.array};" for own in parts.values() for p in own if p.array]
        plain = f"{kind} {', '.join(FILLED + name for name in parts)};"
        lines = "\n" * node.text.count("\n")
        edits.append((node.start_byte, node.end_byte, " ".join([plain, *arrays]) + lines))
    return found, edits


def _parts(
    kind: str, place: str, flat: str, records: Mapping[str, RecordType], types: Mapping[str, str]
) -> list[_Part]:
    """The parts of one symbol or field; none if one of them is neither a number nor an array of numbers."""
    kind = types.get(kind, kind)
    if kind in OF_C_TYPE:
        return [_Part(place, flat, kind)]
    if kind in VECTORS:
        base, count = VECTORS[kind]
        return [_Part(f"{place}.{x}", f"{flat}_{x}", VECTOR_BASES.get(base, base)) for x in "xyzw"[:count]]
    found: list[_Part] = []
    record = records.get(kind)
    for each in record.fields if record is not None else ():
        inner = types.get(bare_type(each.kind), bare_type(each.kind))
        own = _parts(inner, f"{place}.{each.name}", f"{flat}_{each.name}", records, types)
        if each.extents:
            extents = "".join(f"[{extent.text}]" for extent in each.extents)
            own = [_Part(own[0].place, own[0].flat, inner, extents)] if inner in OF_C_TYPE else []
        if "*" in each.kind or not own:
            return []
        found += own
    return found


def _function(node: Node) -> _Function | None:
    if node.type in ("preproc_def", "preproc_function_def"):
        return _Function(node, text_of(node.child("name")))
    body = node.child("body") if node.type == "function_definition" else None
    if body is None:
        return None
    whole = node.parent if node.parent is not None and node.parent.type == "template_declaration" else node
    head = whole.text[: whole.text.index("{")]
    declarator = next((n for n in node.walk() if n.type == "function_declarator"), None)
    name = text_of(declarator.child("declarator")) if declarator is not None else ""
    return _Function(node, name, "__global__" in head) if name and _FUNCTION.search(head) else None


def _uses(path: Path, function: _Function, symbols: Mapping[str, _Symbol]) -> list[Edit]:
    """What a function reads of the symbols, with flat names; function: filled."""
    if function.node.type != "function_definition":
        return _uses_of_macro(function, symbols)
    own = {declarator_name(n) for n in function.node.walk() if n.type in ("parameter_declaration", "init_declarator")}
    edits: list[Edit] = []
    for node in function.node.walk():
        if node.type != "identifier" or node.text not in symbols or node.text in own or node.field == "field":
            continue
        name, top = node.text, node
        by_place = {part.place: part for part in symbols[name].parts}
        key = name
        while key not in by_place and top.parent is not None and top.parent.type == "field_expression":
            top = top.parent
            key = re.sub(r"\s", "", top.text)
        if (part := by_place.get(key)) is not None:
            function.parts[part.flat] = part
            if part.flat != part.place:
                edits.append((top.start_byte, top.end_byte, part.flat))
            continue
        if symbols[name].has_arrays:
            hint = f"read its fields in place, {symbols[name].parts[0].place}; or pass its arrays as pointers"
            raise problem(path, node.row + 1, f"{name}, a struct with arrays, is used as a whole", hint)
        function.whole.add(name)
        function.parts |= {each.flat: each for each in symbols[name].parts}
    return edits


def _uses_of_macro(macro: _Function, symbols: Mapping[str, _Symbol]) -> list[Edit]:
    value = macro.node.child("value")
    text = value.text if value is not None else ""
    new = text
    for name, symbol in symbols.items():
        for part in symbol.parts if re.search(rf"\b{name}\b", text) else ():
            pattern = r"\s*\.\s*".join(map(re.escape, part.place.split(".")))
            new, count = re.subn(rf"(?<![.\w]){pattern}\b", part.flat, new)
            macro.parts |= {part.flat: part} if count else {}
    return [(value.start_byte, value.end_byte, new)] if value is not None and new != text else []


def _hand_on(functions: list[_Function]) -> None:
    """Whoever calls a function takes what that takes."""
    words = {id(each): set(re.findall(r"[A-Za-z_]\w*", each.node.text)) for each in functions}
    changed = True
    while changed:
        changed = False
        for each in functions:
            for other in functions:
                is_called = other is not each and not other.is_kernel and other.name in words[id(each)]
                if is_called and not other.parts.keys() <= each.parts.keys():
                    each.parts |= other.parts
                    changed = True


def _taken(function: _Function, symbols: Mapping[str, _Symbol]) -> Iterator[Edit]:
    """A function's parameters for its parts, and the structs that it uses as a whole put together again."""
    head = next(n for n in function.node.walk() if n.type == "function_declarator")
    params, body = head.child("parameters"), head.parent and function.node.child("body")
    if params is None or body is None:
        return
    new = ", ".join(f"{part.kind} {part.flat}" for part in function.passed)
    yield _among(params, new, is_last=function.is_kernel)
    for name in sorted(function.whole):
        made = "".join(f" {part.place} = {part.flat};" for part in symbols[name].parts)
        yield body.start_byte + 1, body.start_byte + 1, f" {symbols[name].kind} {name};{made}"


def _given(root: Node, takers: Mapping[str, _Function]) -> Iterator[Edit]:
    """What launches and calls pass."""
    for node in root.walk():
        called, arguments = node.child("function"), node.child("arguments")
        if node.type != "call_expression" or called is None or arguments is None:
            continue
        taker = takers.get(re.split(r"\.|->|::", called.text.partition("<")[0])[-1].strip())
        is_launch = any(child.type == "kernel_call_syntax" for child in node.children)
        if taker is None or is_launch != taker.is_kernel:
            continue
        names: Iterable[str] = (f"{FILLED}{part.place}" if is_launch else part.flat for part in taker.passed)
        yield _among(arguments, ", ".join(names), is_last=is_launch)


def _among(listed: Node, new: str, *, is_last: bool) -> Edit:
    """`new` as the last or first of what stands in parentheses."""
    comma = ", " if [n for n in listed.named_children if n.text != "void"] else ""
    if listed.text.strip("() \t\n") == "void":
        return listed.start_byte, listed.end_byte, f"({new})"
    place = listed.end_byte - 1 if is_last else listed.start_byte + 1
    return place, place, f"{comma}{new}" if is_last else f"{new}{comma}"
