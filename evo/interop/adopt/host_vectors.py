"""Vectors of Thrust in host code, memory on the GPU that is copied by `=`; declarations that look like functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evo.cuda.source.parser import Node, read
from evo.interop.adopt.host_expressions import bare_type
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber
from evo.interop.adopt.host_tensors import HostTensors
from evo.interop.adopt.host_values import Allocation, DevicePointer, HostArray, HostEvent, HostRecord, HostVariable

FUNCTION_POINTER = re.compile(r"\(\s*+\*\s*+(?:const\s++)?(\w++)\s*+(?:\[[^\]]*+\])?\s*+\)\s*+\(")


class HostVectors(HostTensors):
    """`thrust::device_vector<float> d(n)`, `d = h`, `h = d`."""

    def is_device_vector(self, kind: str) -> bool:
        return "device_vector" in kind

    def device_vector(self, cell: HostVariable, given: Sequence[Node], line: int) -> None:
        """Declare one. given: a length, or another vector."""
        values = [self.value(node) for node in given]
        element = re.search(r"<\s*([^<>]+?)\s*>", cell.type)
        memory = Allocation(cell.name, UNKNOWN, line, element=bare_type(element[1]) if element else None)
        cell.value = DevicePointer(memory)
        first = values[0] if values else None
        length = first if isinstance(first, HostNumber) else getattr(first, "length", None)
        if isinstance(first, DevicePointer):
            memory.shape = first.memory.shape
        elif isinstance(length, HostNumber) and length.how is not None:
            memory.shape = (length,)
        if isinstance(first, HostNumber):  # its elements are set to zero, or to the second number
            self.events.append(HostEvent("zero" if len(values) == 1 else "fill", line, memory))
        else:
            self.moved(cell, first, line)

    def moved(self, cell: HostVariable, value: object, line: int) -> bool:
        """Whether `cell = value` copied between host and GPU, or on the GPU. Pointers only point elsewhere."""
        if "*" in cell.type and isinstance(value, DevicePointer):
            return False
        target = cell.value.memory if isinstance(cell.value, DevicePointer) else None
        source = value.memory if isinstance(value, DevicePointer) else None
        if target is not None and source is not None and target is not source:
            self.events.append(HostEvent("copy", line, target, source=source))
        elif target is not None and isinstance(value, HostArray):
            target.fill = value.filled
            self.events.append(HostEvent("in", line, target))
        elif source is not None and (isinstance(cell.value, HostArray) or "host_vector" in cell.type):
            self.events.append(HostEvent("out", line, source))
            cell.value = cell.value if isinstance(cell.value, HostArray) else HostArray(cell.name)
        else:
            return False
        return True

    def vector_method(self, held: DevicePointer, word: str, given: Sequence[Node]) -> object:
        if word == "resize" and given and (length := self.size(given[0])).how is not None:
            held.memory.shape = (length,)
        if word == "size" and held.memory.shape is not None:
            return held.memory.shape[0]
        return held if word in ("data", "begin", "end", "get") else UNKNOWN

    def vector_function(self, name: str, given: Sequence[Node], line: int) -> object:
        """`thrust::raw_pointer_cast(d.data())`, `thrust::copy(d.begin(), d.end(), h.begin())`."""
        values = [self.value(node) for node in given]
        if name == "raw_pointer_cast" and values:
            return values[0]
        if name == "copy" and len(values) == 3:
            self.moved(HostVariable("", "", values[2]), values[0], line)
        return UNKNOWN

    def declared_pointer(self, name: str, value: Node | None) -> None:
        """`void (*kernel)(float*, int) = tiled`, or a list of such."""
        cell = self.scopes[-1][name] = HostVariable(name, "auto")
        if value is not None and value.type == "initializer_list":
            items = tuple(self.value(each) for each in value.inside)
            cell.value = HostArray(name, HostNumber.number(len(items)), items=items)
        elif value is not None:
            cell.value = self.value(value)

    def declared_parts(self, declarator: Node) -> None:
        """`auto const& [n, dt] = options`: the fields of a struct, in order."""
        names = next((node.inside for node in declarator.walk() if node.type.startswith("structured_binding")), [])
        held = self.value(declarator.child("value")) if names else None
        fields = list(held.fields.values()) if isinstance(held, HostRecord) else []
        self.scopes[-1] |= {name.text: cell for name, cell in zip(names, fields, strict=False)}

    def declared_by_call(self, declarator: Node, kind: str) -> None:
        """`dim3 grid(a, b)`, `vector<int> h(n * m)`: of names alone, it reads like the declaration of a function."""
        name, inside = declarator.child("declarator"), declarator.child("parameters")
        if (
            name is None
            or inside is None
            or not (self.is_record(kind) or "vector" in kind or "_distribution" in kind or bare_type(kind) == "dim3")
        ):
            return
        given = next(n for n in read(f"int x_ = f_{inside.text};".encode()).walk() if n.type == "argument_list")
        cell = self.scopes[-1][name.text] = HostVariable(name.text, kind)
        if self.is_device_vector(kind):
            self.device_vector(cell, given.named_children, declarator.row + 1)
        else:
            self.store(cell, self.constructed(kind, given))


def misread_vectors(statement: Node) -> list[Node]:
    """`std::vector<T> a(n * m), b(n);` is an expression too, of comparisons and calls: its declarations, one by one."""
    parts, first = list[Node](), statement.named_children[0] if statement.named_children else statement
    while first.type == "comma_expression":
        left, right = first.child("left"), first.child("right")
        parts, first = [*([right] if right is not None else []), *parts], left or statement
    compared, call = first.child("left"), first.child("right")
    if first.type != "binary_expression" or compared is None or call is None or call.type != "call_expression":
        return []
    kind = first.text[: call.start_byte - first.start_byte].rstrip()
    if compared.type != "binary_expression" or not kind.endswith(">") or "vector" not in kind.partition("<")[0]:
        return []
    texts = (f"{kind} {part.text};" for part in (call, *parts))
    lines = "\n" * statement.row
    whole = read("".join(f"{lines}void f() {{ {text} }}" for text in texts).encode())
    return [node for node in whole.walk() if node.type == "declaration"]
