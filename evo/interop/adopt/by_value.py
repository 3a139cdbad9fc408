"""Kernels that take structs by value: each field becomes a parameter, since a task passes tensors and numbers.

`__global__ void f(Matrix A)` becomes `f(int A_width, float* A_elements)`. Uses such as `A.width` become `A_width`; if
the struct is used whole, or by a macro, it is put together again at the beginning of the kernel. Of an array inside,
pointers and few whole numbers are parameters each, and put into an array again where an index is none of the text's
numbers; other arrays become tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name
from evo.interop.adopt.host_expressions import VECTORS, bare_type
from evo.interop.adopt.host_records import HostRecords, RecordField, RecordType
from evo.interop.adopt.parameters import Parameter, parameters_of
from evo.interop.adopt.top_level_items import function_name

Edit = tuple[int, int, str]
_STEPS = ("assignment_expression", "update_expression")


@dataclass(frozen=True)
class _Part:
    """A field. place: `A.width`. apart: how many parameters the elements of an array are; 0 for all others.

    extents: `[5][5]` of an array that is a tensor.
    """

    kind: str
    flat: str
    place: str
    apart: int = 0
    extents: str = ""

    @property
    def declared(self) -> str:
        if self.apart:
            return ", ".join(f"{self.kind} {self.flat}_{at}" for at in range(self.apart))
        if self.extents.count("[") > 1:
            return f"const {self.kind} {self.flat}{self.extents}"
        return f"const {self.kind}* __restrict__ {self.flat}" if self.extents else f"{self.kind} {self.flat}"

    @property
    def array(self) -> str:
        """The array itself, of elements that are parameters."""
        given = ", ".join(f"{self.flat}_{at}" for at in range(self.apart))
        return f"{self.kind} {self.flat}[{self.apart}] = {{{given}}};"

    @property
    def copied(self) -> str:
        """Statements that set the field of a struct that is put together again."""
        if self.apart:
            return " ".join(f"{self.place}[{at}] = {self.flat}_{at};" for at in range(self.apart))
        if not self.extents:
            return f"{self.place} = {self.flat};"
        sizes = self.extents.strip("[]").split("][")
        places = "".join(f"[at_{at}]" for at in range(len(sizes)))
        loops = "".join(f"for (int at_{at} = 0; at_{at} < {size}; ++at_{at}) " for at, size in enumerate(sizes))
        return f"{loops}{self.place}{places} = {self.flat}{places};"


def flattened(text: str, host: HostRecords, macros: Sequence[str] = ()) -> str:
    """A kernel's text with the fields of structs as parameters, and without names for plain types there.

    host: knows the structs, and what `typedef` and `using` name. macros: the bodies of the file's macros, which may use
    a parameter's name.
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
        record, name = _taken(param, host)
        if record is None or name is None:
            kind = param.child("type")
            meant = host.types.get(kind.text) if kind is not None else None
            if kind is not None and meant is not None and (meant not in host.records or meant in VECTORS):
                edits.append((kind.start_byte, kind.end_byte, meant))
            continue
        parts = _parts(record, name, host)
        edits.append(_replaced(param, ", ".join(part.declared for part in parts)))
        if record.function is not None:
            edits += _calls(body, name, record.function, parts)
            continue
        is_whole, arrays = _replace_uses(body, name, parts, edits)
        made += [part.array for part in arrays]
        if is_whole or any(re.search(rf"\b{name}\s*\.", macro) for macro in macros):
            made += [f"{record.name} {name};", *(part.copied for part in parts)]
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


def _taken(param: Node, host: HostRecords) -> tuple[RecordType | None, str | None]:
    kind, declarator = param.child("type"), param.child("declarator")
    if kind is None or declarator is None or declarator.type != "identifier":
        return None, None
    return host.records.get(bare_type(kind.text)), declarator_name(declarator)


def _parts(record: RecordType, name: str, host: HostRecords, place: str = "") -> list[_Part]:
    found: list[_Part] = []
    for each in record.fields:
        flat, inside = f"{name}_{each.name}", f"{place or name}.{each.name}"
        inner = host.records.get(bare_type(each.kind)) if "*" not in each.kind and not each.extents else None
        if inner is not None:
            found += _parts(inner, flat, host, inside)
        elif apart := host.parts_apart(each):
            found.append(_Part(_plain(each, host), flat, inside, apart))
        else:
            extents = "".join(f"[{extent.text}]" for extent in each.extents)
            found.append(_Part(_plain(each, host), flat, inside, extents=extents))
    return found


def _plain(each: RecordField, host: HostRecords) -> str:
    name = each.kind.replace("struct ", "").rstrip("*")
    return host.types.get(name, name) + ("*" if "*" in each.kind else "")


def _replace_uses(body: Node, name: str, parts: Sequence[_Part], edits: list[Edit]) -> tuple[bool, list[_Part]]:
    """`A.width` as `A_width`. Returns whether the struct is also used as a whole, and the arrays that are needed."""
    is_whole, arrays = False, dict[str, _Part]()
    by_place = {part.place: part for part in parts}
    for node in body.walk():
        if node.type != "identifier" or node.text != name:
            continue
        top = node
        while top.parent is not None and top.parent.type == "field_expression" and top.parent.child("argument") is top:
            top = top.parent
            if re.sub(r"\s", "", top.text) in by_place:
                break
        part = by_place.get(re.sub(r"\s", "", top.text))
        if top.type == "field_expression" and part is not None:
            element = _element(top, part)
            if part.apart and element is None:
                arrays[part.flat] = part
            end = top.parent.end_byte if element is not None and top.parent is not None else top.end_byte
            edits.append((top.start_byte, end, part.flat if element is None else f"{part.flat}_{element}"))
        elif node.field != "field":
            is_whole = True
    return is_whole, list(arrays.values())


def _calls(body: Node, name: str, function: Node, parts: Sequence[_Part]) -> Iterator[Edit]:
    """`f(i)` of a lambda as what it does there, with what it captures; where it has a result, as a call."""
    params = parameters_of(function)
    for node in body.walk():
        call = node.parent
        given = call.child("arguments") if call is not None and node.field == "function" else None
        if node.type != "identifier" or node.text != name or call is None or given is None:
            continue
        statement = call.parent
        if statement is not None and statement.type == "expression_statement":
            own = list(zip(params[len(parts) :], given.inside, strict=False))
            if (block := _in_place(function, parts, own, body)) is not None:
                yield statement.start_byte, statement.end_byte, block
                continue
        first = ", ".join(part.flat for part in parts) + ", " * bool(parts and given.inside)
        yield node.start_byte, given.start_byte + 1, f"{function_name(function)}({first}"


def _in_place(
    function: Node, parts: Sequence[_Part], own: Sequence[tuple[Parameter, Node]], around: Node
) -> str | None:
    """The body of a function for one call, with its parameters as variables; None where names would meet."""
    body = function.child("body")
    if body is None or any(node.type == "return_statement" for node in body.walk()):
        return None
    words = [node for node in body.walk() if node.type == "identifier"]
    inner = {declarator_name(n) for n in body.walk() if n.type in ("init_declarator", "declaration")}
    names = {param.name for param, _ in own}
    captured = {part.place.rpartition(".")[2]: part.flat for part in parts}
    declares = ("init_declarator", "declaration", "parameter_declaration")
    outer = {declarator_name(n) for n in (around.parent or around).walk() if n.type in declares}
    if inner & captured.keys() or any(w.text in outer - inner - names - captured.keys() for w in words):
        return None
    lines = []
    for param, argument in own:
        if argument.text != param.name:
            if any(node.text in names for node in argument.walk()):
                return None
            lines.append(f"{param.kind.strip()} {param.name} = {argument.text};")
        elif any(n.text.startswith(param.name) or n.text.endswith(param.name) for n in body.walk() if n.type in _STEPS):
            return None  # a copy that it counts up
    text = body.text.encode()
    for node in reversed([node for node in words if node.text in captured]):
        start, end = node.start_byte - body.start_byte, node.end_byte - body.start_byte
        text = text[:start] + captured[node.text].encode() + text[end:]
    return "{ " + " ".join([*lines, text.decode()[1:].lstrip(" ")])


def _element(used: Node, part: _Part) -> int | None:
    """Which one `A.size[1]` is, if it is a parameter of its own."""
    around = used.parent
    if (
        not part.apart
        or around is None
        or around.type != "subscript_expression"
        or around.child("argument") is not used
    ):
        return None
    index = around.text[used.end_byte - around.start_byte :].strip("[] \t\n")
    return int(index) if index.isdigit() and int(index) < part.apart else None
