"""Lambdas that kernels are given: a device function each, and a struct of what they capture, which a kernel takes."""

from __future__ import annotations

import re

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.by_value import with_accessors
from evo.interop.adopt.host_calls import HostCalls
from evo.interop.adopt.host_expressions import bare_type
from evo.interop.adopt.host_numbers import HostNumber
from evo.interop.adopt.host_records import RecordField, RecordType
from evo.interop.adopt.host_values import DevicePointer, HostLambda, HostRecord, HostVariable
from evo.interop.adopt.top_level_items import Item


class HostLambdas(HostCalls):
    """Makes structs of lambdas. functors: their functions, by where the lambda stands."""

    functors: dict[int, Item]

    def as_functor(self, value: object) -> object:
        """A struct for a lambda; anything else as it is."""
        if not isinstance(value, HostLambda):
            return value
        cells = _captured(value)
        node, name = value.node, f"lambda_{value.node.row + 1}"
        while any(name == item.names[0] for start, item in self.functors.items() if start != node.start_byte):
            name += "_"
        kinds = {word: _kind(cell) for word, cell in cells.items()}
        text = with_accessors(_function(name, node, kinds), self)
        inside = read(text.encode()).named_children[0]
        self.functors[node.start_byte] = Item("device", text, (name,), node.row + 1, inside, self.path)
        fields = [RecordField(kind, word, None) for word, kind in kinds.items()]
        self.records[name] = RecordType(name, fields=fields, function=inside)
        return HostRecord(name, {word: HostVariable(word, kinds[word], cell.value) for word, cell in cells.items()})


def _captured(held: HostLambda) -> dict[str, HostVariable]:
    """The variables around a lambda that it uses, other than those of the file."""
    body = held.node.child("body")
    words = {n.text: None for n in body.walk() if n.type == "identifier"} if body is not None else {}
    inner = [n for n in held.node.walk() if n.type in ("parameter_declaration", "init_declarator", "declaration")]
    own = {declarator_name(each) for n in inner for each in (n, *n.children_of("declarator"))}
    found = {word: next((s[word] for s in reversed(held.scopes[1:]) if word in s), None) for word in words}
    return {word: cell for word, cell in found.items() if cell is not None and word not in own}


def _kind(cell: HostVariable) -> str:
    """A variable's type as a field has it."""
    value, kind = cell.value, bare_type(cell.type)
    if isinstance(value, DevicePointer):
        return f"{value.memory.element if kind == 'auto' else kind}*"
    if isinstance(value, HostNumber) and kind in ("auto", ""):
        return "int" if isinstance(value.value, int) else "float"
    return kind


def _function(name: str, node: Node, kinds: dict[str, str]) -> str:
    """The lambda as a function that takes what it captures first."""
    declarator = node.child("declarator")
    listed = (
        next((n for n in declarator.walk() if n.type == "parameter_list"), None) if declarator is not None else None
    )
    params = [f"{kind} {word}" for word, kind in kinds.items()] + [n.text for n in (listed.inside if listed else ())]
    result = re.search(r"->\s*+([^{]++)", text_of(declarator).rpartition(")")[2])
    kind = result[1].strip() if result is not None else "auto"
    return f"__device__ inline {kind} {name}({', '.join(params)}) {text_of(node.child('body'))}"
