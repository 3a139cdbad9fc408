"""Kernels that take structs by value: each field becomes a parameter, since a task passes tensors and numbers.

`__global__ void f(Matrix A)` becomes `f(int A_width, float* A_elements)`. Uses such as `A.width` become `A_width`; if
the struct is used whole, or by a macro, it is put together again at the beginning of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name
from evo.interop.adopt.host_expressions import bare_type
from evo.interop.adopt.host_records import RecordField, RecordType

Edit = tuple[int, int, str]


def flattened(
    text: str, records: Mapping[str, RecordType], types: Mapping[str, str], macros: Sequence[str] = ()
) -> str:
    """A kernel's text with the fields of structs as parameters, and without names for plain types there.

    types: what `typedef` and `using` name. macros: the bodies of the file's macros, which may use a parameter's name.
    """
    data = text.encode()
    function = next((n for n in read(data).walk() if n.type == "function_definition"), None)
    body = function.child("body") if function is not None else None
    params = next((n for n in function.walk() if n.type == "parameter_list"), None) if function is not None else None
    if body is None or params is None:
        return text
    edits: list[Edit] = []
    made: list[str] = []
    for param in params.named_children:
        record, name = _taken(param, records)
        if record is None or name is None:
            kind = param.child("type")
            if kind is not None and kind.text in types and not isinstance(records.get(types[kind.text]), RecordType):
                edits.append((kind.start_byte, kind.end_byte, types[kind.text]))
            continue
        fields = _fields(record, name, records, types)
        if fields is None:
            continue
        edits.append(_replaced(param, ", ".join(f"{kind} {flat}" for kind, flat, _ in fields)))
        is_whole = _replace_uses(body, name, {place: flat for _, flat, place in fields}, edits)
        if is_whole or any(re.search(rf"\b{name}\s*\.", macro) for macro in macros):
            made += [f"{record.name} {name};", *(f"{place} = {flat};" for _, flat, place in fields)]
    if made:
        edits.append((body.start_byte + 1, body.start_byte + 1, f"\n    {' '.join(made)}"))
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


def _replaced(param: Node, new: str) -> Edit:
    """A parameter as others; with its comma if there are none, as of a functor without fields."""
    start, end = param.start_byte, param.end_byte
    around = param.parent.named_children if param.parent is not None else [param]
    place = next(at for at, each in enumerate(around) if each.start_byte == start)
    if not new and place:
        start = around[place - 1].end_byte
    elif not new and len(around) > 1:
        end = around[1].start_byte
    return start, end, new


def _taken(param: Node, records: Mapping[str, RecordType]) -> tuple[RecordType | None, str | None]:
    kind, declarator = param.child("type"), param.child("declarator")
    if kind is None or declarator is None or declarator.type != "identifier":
        return None, None
    return records.get(bare_type(kind.text)), declarator_name(declarator)


def _fields(
    record: RecordType, name: str, records: Mapping[str, RecordType], types: Mapping[str, str], place: str = ""
) -> list[tuple[str, str, str]] | None:
    """Type, name of the parameter and place in the struct, for each field; None if one has no plain type."""
    found: list[tuple[str, str, str]] = []
    for each in record.fields:
        flat, inside = f"{name}_{each.name}", f"{place or name}.{each.name}"
        if each.count is not None:
            return None
        inner = records.get(bare_type(each.kind)) if "*" not in each.kind else None
        if inner is not None:
            parts = _fields(inner, flat, records, types, inside)
            if parts is None:
                return None
            found += parts
        else:
            found.append((_plain(each, types), flat, inside))
    return found


def _plain(each: RecordField, types: Mapping[str, str]) -> str:
    name = each.kind.replace("struct ", "").rstrip("*")
    return types.get(name, name) + ("*" if "*" in each.kind else "")


def _replace_uses(body: Node, name: str, flat: Mapping[str, str], edits: list[Edit]) -> bool:
    """`A.width` as `A_width`. Returns whether the struct is also used as a whole."""
    is_whole = False
    for node in body.walk():
        if node.type != "identifier" or node.text != name:
            continue
        top = node
        while top.parent is not None and top.parent.type == "field_expression" and top.parent.child("argument") is top:
            top = top.parent
            if re.sub(r"\s", "", top.text) in flat:
                break
        key = re.sub(r"\s", "", top.text)
        if top.type == "field_expression" and key in flat:
            edits.append((top.start_byte, top.end_byte, flat[key]))
        elif node.field != "field":
            is_whole = True
    return is_whole
