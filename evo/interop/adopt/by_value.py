"""Kernels that take structs by value: each field becomes a parameter, since a task passes tensors and numbers.

`__global__ void f(Matrix A)` becomes `f(int A_width, float* A_elements)`. Uses such as `A.width` become `A_width`; if
the struct is used whole, or by a macro, it is put together again at the beginning of the kernel. Of an array inside,
pointers and few whole numbers are parameters each, and put into an array again where an index is none of the text's
numbers; other arrays become tensors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.host_expressions import VECTORS, bare_type
from evo.interop.adopt.host_records import HostRecords, RecordField, RecordType
from evo.interop.adopt.parameters import Parameter, parameters_of
from evo.interop.adopt.top_level_items import function_name

Edit = tuple[int, int, str]
_MOST_CALLS = 200
_PLAIN = ("identifier", "number_literal", "subscript_expression", "field_expression", "call_expression")
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
    text = with_accessors(text, host)
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
        written = text_of(param.child("type"))
        parts = _parts(written, name, host)
        edits.append(_replaced(param, ", ".join(part.declared for part in parts)))
        if record.function is not None:
            done, whole = _calls(body, name, record, parts)
            edits += done
            for each in record.fields:
                flat = f"{name}_{each.name}"
                if whole and host.is_record(each.kind):
                    made += [f"{each.kind} {flat};", *(p.copied for p in _parts(each.kind, flat, host))]
            continue
        is_whole, arrays = _replace_uses(body, name, parts, edits)
        made += [part.array for part in arrays]
        if is_whole or any(re.search(rf"\b{name}\s*\.", macro) for macro in macros):
            made += [f"{written} {name};", *(part.copied for part in parts)]
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
    return _record(kind.text, host), declarator_name(declarator)


def _record(kind: str, host: HostRecords) -> RecordType | None:
    is_template = "<" in host.types.get(kind, kind)
    return host.record_type(kind)[0] if is_template else host.records.get(bare_type(kind))


def _parts(kind: str, name: str, host: HostRecords, place: str = "") -> list[_Part]:
    found: list[_Part] = []
    for each in host.fields_of(kind):
        flat, inside = f"{name}_{each.name}", f"{place or name}.{each.name}"
        if "*" not in each.kind and not each.extents and _record(each.kind, host) is not None:
            found += _parts(each.kind, flat, host, inside)
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


def with_accessors(text: str, host: HostRecords) -> str:
    """A function's text in which methods of structs by value that only return an expression, as `view(i, j)`, are that
    expression over the struct's fields."""
    for _ in range(_MOST_CALLS):
        root = read(text.encode())
        params = [node for node in root.walk() if node.type == "parameter_declaration"]
        kinds = {
            name: text_of(p.child("type")) for p in params for record, name in [_taken(p, host)] if record and name
        }
        found = next((each for node in root.walk() if (each := _accessed(node, kinds, host)) is not None), None)
        if found is None:
            break
        start, end, new = found
        data = text.encode()
        text = (data[:start] + new.encode() + data[end:]).decode()
    return text


def _accessed(call: Node, kinds: Mapping[str, str], host: HostRecords) -> Edit | None:
    """One such call as its expression; None for anything else, and where an argument has an effect."""
    called, given = call.child("function"), call.child("arguments")
    if call.type != "call_expression" or called is None or given is None:
        return None
    held = called.child("argument") if called.type == "field_expression" else called
    name, method = text_of(held), text_of(called.child("field")) if held is not called else "operator()"
    record, arguments = host.record_type(kinds[name]) if name in kinds else (None, [])
    node = record.methods.get(method) if record is not None else None
    body = node.child("body") if node is not None else None
    lines = body.inside if body is not None else []
    if record is None or node is None or len(lines) != 1 or lines[0].type != "return_statement":
        return None
    own = {param.name: each for param, each in zip(parameters_of(node), given.inside, strict=False)}
    uses = [n.text for n in lines[0].walk() if n.type == "identifier"]
    twice = [each for word, each in own.items() if uses.count(word) != 1]  # a call there may have an effect
    if (
        len(own) != len(parameters_of(node))
        or any(n.type in _STEPS for n in given.walk())
        or any(n.type == "call_expression" for each in twice for n in each.walk())
    ):
        return None
    bracketed = {word: each.text if each.type in _PLAIN else f"({each.text})" for word, each in own.items()}
    by = dict(record.given(arguments)) | bracketed
    by |= {each.name: f"{name}.{each.name}" for each in record.fields}
    by |= {word: f"{name}.{word}" for word in record.methods if word.isidentifier()}
    words = [n for n in lines[0].walk() if n.type in ("identifier", "type_identifier") and n.text in by]
    data, first = lines[0].text.encode(), lines[0].start_byte
    for word in reversed(words):
        data = data[: word.start_byte - first] + by[word.text].encode() + data[word.end_byte - first :]
    text = re.sub(r"\bthis->", f"{name}.", data.decode().removeprefix("return").strip(" ;\n"))
    is_plain = lines[0].inside and lines[0].inside[0].type in _PLAIN
    return call.start_byte, call.end_byte, text if is_plain else f"({text})"


def _calls(body: Node, name: str, record: RecordType, parts: Sequence[_Part]) -> tuple[list[Edit], bool]:
    """`f(i)` of a lambda as what it does there, with what it captures; where it has a result, as a call. And whether
    structs that it captures are needed whole."""
    function, edits, whole = record.function, list[Edit](), False
    assert function is not None
    params = parameters_of(function)
    for node in body.walk():
        call = node.parent
        given = call.child("arguments") if call is not None and node.field == "function" else None
        if node.type != "identifier" or node.text != name or call is None or given is None:
            continue
        statement = call.parent
        if statement is not None and statement.type == "expression_statement":
            own = list(zip(params[len(record.fields) :], given.inside, strict=False))
            if (block := _in_place(function, parts, own, body)) is not None:
                edits.append((statement.start_byte, statement.end_byte, block))
                continue
        first = ", ".join(f"{name}_{each.name}" for each in record.fields) + ", " * bool(parts and given.inside)
        edits.append((node.start_byte, given.start_byte + 1, f"{function_name(function)}({first}"))
        whole = True
    return edits, whole


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
    captured = {part.place.partition(".")[2]: part.flat for part in parts}
    places = [_place_of(word, captured) for word in words]
    structs = {place.partition(".")[0] for place in captured if "." in place}
    if any(word.text in structs and place is None for word, place in zip(words, places, strict=True)):
        return None  # used as a whole
    declares = ("init_declarator", "declaration", "parameter_declaration")
    outer = {declarator_name(n) for n in (around.parent or around).walk() if n.type in declares}
    taken = captured.keys() | structs
    if inner & taken or any(w.text in outer - inner - names - taken for w in words):
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
    for place in reversed([place for place in places if place is not None]):
        start, end = place.start_byte - body.start_byte, place.end_byte - body.start_byte
        text = text[:start] + captured[re.sub(r"\s", "", place.text)].encode() + text[end:]
    return "{ " + " ".join([*lines, text.decode()[1:].lstrip(" ")])


def _place_of(word: Node, captured: Collection[str]) -> Node | None:
    """The field, `view.width`, or the variable that is captured, of which a word is the beginning."""
    top: Node | None = word
    while top is not None and re.sub(r"\s", "", top.text) not in captured:
        top = top.parent if top.parent is not None and top.parent.type == "field_expression" else None
    return top


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
