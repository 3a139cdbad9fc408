"""The device code that the launches need: kernels in C linkage, their functions, constants, types and macros."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.host_values import Allocation, DevicePointer, problem
from evo.interop.adopt.kernel_instance import Instance, passed, with_symbols
from evo.interop.adopt.program import HostProgram
from evo.interop.adopt.top_level_items import Item, reached, words_of

# The runtime compiler has no <cstdint>.
_FIXED_WIDTH = {
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short",
    "uint16_t": "unsigned short",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long long",
    "uint64_t": "unsigned long long",
    "uint": "unsigned int",
    "uchar": "unsigned char",
}


# ... and no <cstddef>, <cmath> or <algorithm>, but their names without `std::`.
_STD = re.compile(
    r"\bstd::(?=(?:u?int(?:8|16|32|64)_t|size_t|ptrdiff_t|min|max|abs|fabs|sqrt|exp|log|pow|sin|cos|tanh|floor|ceil|fma|round)\b"
    r"(?!\s*<))"
)


def _uses(parts: Sequence[tuple[str, str]], name: str) -> bool:
    declared = any(kind == "type" and re.search(rf"\b{name}\s*(?:;|=)", text) for kind, text in parts)
    return not declared and any(name in words_of(text) for _, text in parts)


def filled_symbols(program: HostProgram, order: Sequence[Instance]) -> tuple[dict[str, Allocation], dict[Item, str]]:
    """The `__constant__` arrays that the kernels read and the host fills."""
    kernels = list(dict.fromkeys(instance.item for instance in order))
    near = reached(program.items, kernels)
    found: dict[str, Allocation] = {}
    for item in near:
        if item.kind != "symbol" or re.search(r"[={]", item.text):
            continue
        if "__constant__" not in item.text:
            hint = "pass it to the kernel as a pointer, allocated with cudaMalloc"
            raise problem(item.path, item.line, f"{item.names[0]} is a __device__ variable that kernels change", hint)
        for name in item.names:
            value = program.host.scopes[0][name].value
            if isinstance(value, DevicePointer):
                found[name] = value.memory
    params = {name: _symbol_parameter(program, name, memory) for name, memory in found.items()}
    return found, with_symbols(order, near, params)


def _symbol_parameter(program: HostProgram, name: str, memory: Allocation) -> str:
    """`const float* __restrict__ filter`; of several dimensions a pointer to rows."""
    item = next(item for item in program.items if name in item.names)
    match = re.search(rf"\b{name}\s*((?:\[[^\]]*\])*)", item.text)
    dims = re.findall(r"\[[^\]]*\]", match[1]) if match else []
    record = program.host.records.get(memory.element or "")
    if record is not None and any(not _is_const(method) for method in record.methods.values()):
        return f"{memory.element}* __restrict__ {name}"  # constant memory is no constant to the compiler
    if len(dims) > 1:
        return f"const {memory.element} {name}{''.join(dims)}"
    return f"const {memory.element}* __restrict__ {name}"


def _is_const(method: Node) -> bool:
    """Whether a method takes its object as constant."""
    head = next((n for n in method.walk() if n.type == "function_declarator"), None)
    return head is not None and head.text.rpartition(")")[2].split()[:1] == ["const"]


def device_code(
    program: HostProgram,
    order: Sequence[Instance],
    edited: Mapping[Item, str],
    compiled: Collection[str],
    symbols: Mapping[str, Allocation],
) -> str:
    """The device code that the launches need, in the order of the file."""
    words = {w for each in order for w in words_of(each.text) - {param.name for param in each.params}}
    near = reached(program.items, [instance.item for instance in order], sorted(words))
    macros = {name for item in program.items if item.kind == "macro" for name in item.names}
    parts: list[tuple[str, str]] = []
    for item in near:
        if item.kind == "include":
            parts.append(("include", item.text))
        elif item.kind == "kernel":
            for instance in dict.fromkeys(i for i in order if i.item is item):
                parts.append(("kernel", _with_symbol_params(instance, program, symbols, edited)))
        elif item.kind == "device":
            parts.append(("device", edited.get(item, item.text)))
        elif (item.kind in ("macro", "value") and any(name in compiled for name in item.names)) or (
            item.kind == "symbol" and any(name in symbols for name in item.names)
        ):
            continue
        elif item.kind == "value":
            parts.append(("value", _constant(item)))
        else:
            parts.append((item.kind, _for_device(item, macros)))
    lines = [f"typedef {plain} {name};" for name, plain in _FIXED_WIDTH.items() if _uses(parts, name)]
    last = ""
    for kind, whole in dict.fromkeys(parts):
        text = _STD.sub("", whole)
        blank = kind in ("kernel", "device", "type") or kind != last
        lines += [""] * bool(lines and blank) + [text]
        last = kind
    return "\n".join(lines) + "\n"


def _for_device(item: Item, macros: Collection[str]) -> str:
    """A type without what its constructors and methods do on the host alone."""
    data = item.text.encode()
    for node in reversed([*read(data).walk()]):
        body = node.child("body")
        around = node.parent.type if node.parent is not None else ""
        if node.type != "function_definition" or body is None or around != "field_declaration_list":
            continue
        head = words_of(data[node.start_byte : body.start_byte].decode())
        if not head & {"__device__", "constexpr", *macros}:
            data = data[: node.start_byte] + data[node.end_byte :]
    return data.decode()


_EFFECTS = {"assignment_expression", "update_expression", "call_expression"}


def without_warning(code: str, line: int, number: str, name: str) -> str:
    """The same without what the compiler warns of in a line, since no warning of a variant passes."""
    data = code.encode()
    for node in read(data).walk():
        last = node.row + 1 + node.text.count("\n")
        if node.row < line <= last and (new := _quiet(node, number, name, ends=line == last)) is not None:
            return (data[: node.start_byte] + new.encode() + data[node.end_byte :]).decode()
    return code


def _quiet(node: Node, number: str, name: str, *, ends: bool) -> str | None:
    """A part that a warning is about, without it; None for other parts. ends: whether the part ends in that line."""
    match number, node.type:
        case "177" | "550", "declaration" if name in map(declarator_name, node.children_of("declarator")):
            return None if node.text.startswith("[[maybe_unused]]") else f"[[maybe_unused]] {node.text}"
        case "174", "expression_statement" if not _EFFECTS & {inner.type for inner in node.walk()}:
            return f"(void)({node.text.rstrip(';')});"
        case "186", "binary_expression":  # an unsigned number beside 0
            sides = [text_of(node.child(side)) for side in ("left", "right")]
            always = {(">=", 1): "true", ("<=", 0): "true", ("<", 1): "false", (">", 0): "false"}
            other = sides[sides[0] == "0"]
            known = always.get((text_of(node.child("operator")), sides.index("0"))) if "0" in sides else None
            return known if re.fullmatch(r"[\w.]+", other) else None
        case "940", "function_definition" if ends:  # a way to its end without a return
            return f"{node.text[:-1].rstrip()} return {{}}; }}"
    return None


def _constant(item: Item) -> str:
    """A constant of the host's and the device's code, known when it is compiled."""
    text = re.sub(r"^\s*(?:static\s+)?const(?:expr)?\s+", "", item.text)
    return f"constexpr {text}"


def _with_symbol_params(
    instance: Instance, program: HostProgram, symbols: Mapping[str, Allocation], edited: Mapping[Item, str]
) -> str:
    if not instance.symbols:
        return instance.text
    params = {name: _symbol_parameter(program, name, symbols[name]) for name in instance.symbols}
    uses = {item: set() if text == item.text else _own(text, params) for item, text in edited.items()}
    text = passed(instance.text, (), params, uses)
    body = text.index("{")
    head = text[:body].rstrip()
    end = head.rindex(")")
    comma = "" if head[:end].rstrip().endswith("(") else ", "
    return f"{head[:end]}{comma}{', '.join(params.values())}) {text[body:]}"


def _own(text: str, params: Mapping[str, str]) -> set[str]:
    return {name for name in params if re.search(rf"\b{name}\b", text)}
