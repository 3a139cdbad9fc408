"""Structs and classes of host code: their fields, constructors and methods, as far as launches depend on them."""

from __future__ import annotations

import abc
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.host_assignments import HostAssignments
from evo.interop.adopt.host_expressions import VECTOR_BASES, VECTORS, bare_type, with_words
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_values import Address, Allocation, DevicePointer, HostArray, HostRecord, HostVariable
from evo.interop.adopt.parameters import takes
from evo.spec.element_types import OF_C_TYPE, is_float
from evo.spec.source_text import at_commas

_LONGEST, _DEEPEST_SCOPE, _DEEPEST_CALL = 16, 40, 24
_APART = 16
_PASSED = (DevicePointer, HostNumber)


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field. extents: of an array; none if it is none."""

    kind: str
    name: str
    default: Node | None
    extents: tuple[Node, ...] = ()


@dataclass(slots=True)
class RecordType:
    """A struct or class as the file defines it."""

    name: str
    params: tuple[str, ...] = ()  # of its template
    defaults: tuple[str, ...] = ()  # what they are where nothing is given, "" if they have to be
    bases: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)  # `using Policy = PolicyT`
    constants: dict[str, Node | str] = field(default_factory=dict)  # `static constexpr` members; of enums, texts too
    fields: list[RecordField] = field(default_factory=list)
    constructors: list[Node] = field(default_factory=list)
    methods: dict[str, Node] = field(default_factory=dict)
    node: Node | None = None
    function: Node | None = None  # of what a lambda captures: what it does, as a device function

    def given(self, arguments: Sequence[str]) -> list[tuple[str, str]]:
        """The template's parameters with what they are; those that have no argument and no default are left out."""
        values = [*arguments, *self.defaults[len(arguments) :]]
        return [(param, value) for param, value in zip(self.params, values, strict=False) if value]


def vector_type(name: str) -> RecordType:
    """`int2` and its like, which have fields as structs have."""
    base, count = VECTORS[name]
    return RecordType(name, fields=[RecordField(VECTOR_BASES.get(base, base), part, None) for part in "xyzw"[:count]])


def record_of(node: Node) -> RecordType | None:
    """The struct or class that a declaration of the file's top level defines."""
    params: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    alias = None
    while node.parent is not None and node.parent.type == "template_declaration":
        node = node.parent
    while node.type in ("template_declaration", "type_definition"):
        if node.type == "template_declaration":
            inside = node.child("parameters")
            texts = [c.text.partition("=") for c in (inside.named_children if inside else [])]
            words = [(re.findall(r"[A-Za-z_]\w*", text), given.strip()) for text, _, given in texts]
            params = tuple(found[-1] for found, _ in words if found)
            defaults = tuple(given for found, given in words if found)
            node = node.named_children[-1]
        else:
            alias = node.child("declarator")
            kind = node.child("type")
            if kind is None:
                return None
            node = kind
    body, name = node.child("body"), node.child("name")
    if node.type not in ("struct_specifier", "class_specifier") or body is None:
        return None
    word = alias.text if alias is not None else name.text if name is not None else ""
    bases = next((c.named_children for c in node.children if c.type == "base_class_clause"), [])
    record = RecordType(word, params, defaults, tuple(c.text for c in bases if "type" in c.type), node=node)
    for child in body.named_children:
        _take_member(record, child)
    return record if word else None


def _take_member(record: RecordType, child: Node) -> None:
    kind = child.child("type")
    if kind is not None and kind.type == "enum_specifier":
        record.constants |= enumerators(kind)
    elif child.type in ("alias_declaration", "type_definition"):
        alias = child.child("name") or child.child("declarator")
        if kind is not None and alias is not None:
            record.aliases[alias.text] = kind.text
    elif child.type == "field_declaration" and any(c.text == "static" for c in child.named_children):
        # One of several may have no value, and these have no place of their own in the tree.
        names, values = child.children_of("declarator"), child.children_of("default_value")
        record.constants |= {
            n.text: value for n, value in zip(names, values, strict=False) if len(names) == len(values)
        }
    elif child.type == "field_declaration":
        for declarator in child.children_of("declarator"):
            name = declarator_name(declarator)
            if name is None or kind is None or any(n.type == "function_declarator" for n in declarator.walk()):
                continue
            mark = "*" if any(n.type == "pointer_declarator" for n in declarator.walk()) else ""
            arrays = [n.child("size") for n in declarator.walk() if n.type == "array_declarator"]
            extents = tuple(size for size in reversed(arrays) if size is not None)
            record.fields.append(RecordField(kind.text + mark, name, child.child("default_value"), extents))
    elif child.type == "function_definition":
        head = next((n for n in child.walk() if n.type == "function_declarator"), None)
        word = text_of(head.child("declarator")) if head is not None else ""
        if word == record.name:
            record.constructors.append(child)
        elif word:
            record.methods[word] = child


def enumerators(kind: Node) -> dict[str, Node | str]:
    """The constants of an enum; without a value of its own, one is the text `LAST + 1`."""
    found: dict[str, Node | str] = {}
    last = "-1"
    for each in (n for n in kind.walk() if n.type == "enumerator"):
        name = text_of(each.child("name"))
        found[name] = each.child("value") or f"{last} + 1"
        last = name
    return found


class HostRecords(HostAssignments):
    """Makes values of the program's own types, and calls their methods."""

    records: dict[str, RecordType]
    depth: int
    is_device_vector: Callable[[str], bool]
    device_vector: Callable[[HostVariable, Sequence[Node], int], None]  # declare one: with a length, or another vector

    @abc.abstractmethod
    def run_function(
        self,
        node: Node,
        arguments: Sequence[object],
        fields: dict[str, HostVariable] | None = None,
        begin: Callable[[], None] | None = None,
    ) -> object:
        """Run one of the program's own functions. fields: of the object whose method it is. begin: what comes first."""

    def record_type(self, kind: str) -> tuple[RecordType | None, list[str]]:
        """What a type's name stands for, and its template's arguments."""
        for _ in range(_LONGEST):  # of names for names
            owner, last = parted(kind)
            head, _, rest = (last if owner else kind).partition("<")
            name = bare_type(head).split(" ")[-1]
            arguments = at_commas(rest.rpartition(">")[0]) if rest else []
            if owner and (member := self._member_type(owner, name)) is not None:
                kind = member
            elif name in self.types and name not in self.records and self.types[name] != kind:
                kind = self.types[name]
            else:
                return self.records.get(name), arguments
        return None, []

    def _member_type(self, owner: str, name: str) -> str | None:
        """What `Agent<P>::Policy` is, with the template's arguments in place."""
        record, arguments = self.record_type(owner)
        while record is not None and name not in record.aliases:
            record, arguments = self.record_type(record.bases[0]) if record.bases else (None, [])
        if record is None:
            return None
        return with_words(record.aliases[name], dict(zip(record.params, arguments, strict=False)))

    def class_constant(self, text: str) -> HostNumber:
        """`Policy<128, 4>::TILE`: a constant of a class, worked out with its template's arguments."""
        owner, name = parted(text)
        record, arguments = self.record_type(owner) if owner else (None, [])
        if record is None or len(self.scopes) > _DEEPEST_SCOPE:
            return UNKNOWN
        cell = self._constants_of(record, arguments).get(name)
        return cell.value if cell is not None and isinstance(cell.value, HostNumber) else UNKNOWN

    def _constants_of(self, record: RecordType, arguments: Sequence[str]) -> dict[str, HostVariable]:
        """All constants of a class, those of what it is made from included."""
        found: dict[str, HostVariable] = {}
        for param, argument in record.given(arguments):
            if isinstance(value := self.in_text(argument, {}), HostNumber):
                found[param] = HostVariable(param, "", value)
        self.scopes.append(found)
        try:
            with self._bound(record, arguments):
                for base in record.bases:
                    inherited, given = self.record_type(base)
                    if inherited is not None and len(self.scopes) < _DEEPEST_SCOPE:
                        found |= self._constants_of(inherited, given)
                for name, node in record.constants.items():
                    value = self.in_text(node, {}) if isinstance(node, str) else self.value(node)
                    found[name] = HostVariable(name, "", value)
        finally:
            self.scopes.pop()
        return found

    @contextlib.contextmanager
    def _bound(self, record: RecordType, arguments: Sequence[str]) -> Iterator[None]:
        """While the parameters and the aliases of a class stand for what they are."""
        before = dict(self.types)
        by = {param: self.types.get(a, a) for param, a in record.given(arguments)}
        self.types |= {param: a for param, a in by.items() if not isinstance(self.in_text(a, {}), HostNumber)}
        self.types |= {name: with_words(text, by) for name, text in record.aliases.items()}
        try:
            yield
        finally:
            self.types.clear()
            self.types.update(before)

    def static_method(self, text: str, given: Callable[[], Sequence[object]]) -> object | None:
        """`Dispatch<float>::run(...)`; None if that is no method of a class of the program."""
        owner, name = parted(text)
        record, arguments = self.record_type(owner) if owner else (None, [])
        node = record.methods.get(name) if record is not None else None
        if record is None or node is None or self.depth > _DEEPEST_CALL:
            return None
        values = given()
        with self._bound(record, arguments):
            return self.run_function(node, values, self._constants_of(record, arguments))

    def fields_of(self, kind: str, arguments: Sequence[str] = ()) -> list[RecordField]:
        """The fields of one of the program's types, with the template's arguments in place."""
        record, given = self.record_type(kind)
        by = dict(record.given(arguments or given)) if record is not None else {}
        return [replace(each, kind=with_words(each.kind, by)) for each in (record.fields if record is not None else ())]

    def is_record(self, kind: str) -> bool:
        return "*" not in kind and self.record_type(kind)[0] is not None

    def made(self, kind: str, given: Sequence[Node]) -> HostRecord:
        """A value of one of the program's types: `Params{4, 2.f}`, `Buffer<float>(n)`."""
        record, arguments = self.record_type(kind)
        assert record is not None
        values = [self.value(node.child("value") if node.type == "initializer_pair" else node) for node in given]
        if len(values) == 1 and isinstance(values[0], HostRecord) and values[0].type == record.name:
            return values[0].copied()
        with self._bound(record, arguments):
            found = self.empty(record)
            found.arguments = tuple(arguments)
            makers = [node for node in record.constructors if takes(node, len(values))]
            if makers:
                self.construct(found, makers[0], values)
            else:
                self._fill(found, given, values)
            return found

    def empty(self, record: RecordType) -> HostRecord:
        """A value of a type before its constructor has run."""
        found = HostRecord(record.name)
        for each in record.fields:
            kind = self.types.get(bare_type(each.kind), each.kind) + ("*" if "*" in each.kind else "")
            cell = HostVariable(each.name, kind, is_fixed=record.name in VECTORS)
            found.fields[each.name] = cell
            if each.extents:
                pointers = "*" in kind
                cell.value = HostArray(each.name, self.length_of(each), bare_type(kind), of_pointers=pointers)
            elif each.default is not None:
                self.store(cell, self.value(each.default))
            elif self.is_record(kind):
                cell.value = self.made(kind, [])
            elif self.is_device_vector(kind):
                self.device_vector(cell, [], record.node.row + 1 if record.node is not None else 0)
            elif "vector" in kind:
                cell.value = self.constructed(kind, None)
        return found

    def construct(self, found: HostRecord, maker: Node, values: Sequence[object]) -> None:
        """Run a constructor."""
        fields = self.inside_of(found)
        setting = next((n for n in maker.children if n.type == "field_initializer_list"), None)

        def begin() -> None:
            for each in setting.named_children if setting is not None else []:
                name = each.named_children[0].text if each.named_children else ""
                if name == found.type:  # `Matrix(n, host) : Matrix(n) {...}`
                    self._delegated(found, each.named_children[-1].inside)
                cell = found.fields.get(name)
                if cell is not None and self.is_device_vector(cell.type):
                    self.device_vector(cell, each.named_children[-1].inside, each.row + 1)
                elif cell is not None:
                    self.store(cell, self.constructed(cell.type, each.named_children[-1]))

        self.run_function(maker, values, fields, begin)

    def _delegated(self, found: HostRecord, given: Sequence[Node]) -> None:
        makers = self.records[found.type].constructors if found.type in self.records else []
        maker = next((node for node in makers if takes(node, len(given))), None)
        if maker is not None and self.depth < _DEEPEST_CALL:
            self.construct(found, maker, [self.value(each) for each in given])

    def _fill(self, found: HostRecord, given: Sequence[Node], values: Sequence[object]) -> None:
        """`{4, 2.f}` and `{.n = 4}`."""
        for node, name, value in zip(given, found.fields, values, strict=False):
            mark = node.child("designator") if node.type == "initializer_pair" else None
            inner = (node.child("value") if mark is not None else None) or node
            cell = found.fields.get(mark.text.lstrip(".") if mark is not None else name)
            if cell is None:
                continue
            if inner.type == "initializer_list" and isinstance(cell.value, HostArray):
                cell.value.items = tuple(self.value(each) for each in inner.inside)
            elif inner.type == "initializer_list" and self.is_record(cell.type):
                cell.value = self.made(cell.type, inner.inside)
            else:
                self.store(cell, value)

    # Their parts.

    def field_cell(self, node: Node) -> HostVariable | None:
        """The variable that `a.b` or `a->b` is."""
        held = self.value(node.child("argument"))
        if isinstance(held, Address):
            held = held.cell.value
        name = node.child("field")
        return self.inside_of(held).get(name.text) if isinstance(held, HostRecord) and name is not None else None

    def method_of(self, held: HostRecord, name: str, given: Sequence[object]) -> object:
        record = self.records.get(held.type)
        node = record.methods.get(name) if record is not None else None
        if record is None or node is None or self.depth > _DEEPEST_CALL:
            return UNKNOWN
        with self._bound(record, held.arguments):
            return self.run_function(node, given, self.inside_of(held))

    def inside_of(self, held: HostRecord) -> dict[str, HostVariable]:
        """What a method sees: constants of the class, fields, the object."""
        record = self.records.get(held.type)
        constants = self._constants_of(record, held.arguments) if record is not None else {}
        return {**constants, **held.fields, "this": HostVariable("this", held.type, held)}

    def bytes_of_record(self, kind: str) -> int | None:
        """Bytes of a struct of plain fields, each at a multiple of its size."""
        record, _ = self.record_type(kind)
        if record is None:
            return None
        total, widest = 0, 1
        for each in record.fields:
            size = 8 if "*" in each.kind else self.bytes_of(each.kind)
            if size is None:
                return None
            count = self.length_of(each).value
            if count is None:
                return None
            total = -(-total // size) * size + size * int(count)
            widest = max(widest, size)
        return -(-total // widest) * widest

    def length_of(self, each: RecordField) -> HostNumber:
        """How many elements a field has: 1 if it is no array."""
        total = HostNumber.number(1)
        for extent in each.extents:
            total = applied("*", total, self.size(extent))
        return total

    def parts_apart(self, each: RecordField) -> int:
        """How many elements of a field go to a kernel one by one: pointers, and few whole numbers such as extents."""
        length = self.length_of(each).value if len(each.extents) == 1 else None
        kind = self.types.get(bare_type(each.kind), bare_type(each.kind))
        is_whole = kind in OF_C_TYPE and not is_float(OF_C_TYPE[kind])
        return int(length) if length is not None and length <= _APART and ("*" in each.kind or is_whole) else 0

    def plain_parts(self, value: HostRecord) -> list[object]:
        """What a kernel gets for a struct by value, in order: see `by_value`."""
        found: list[object] = []
        for each in self.fields_of(value.type, value.arguments):
            cell = value.fields[each.name]
            if isinstance(cell.value, HostRecord):
                found += self.plain_parts(cell.value)
            elif isinstance(cell.value, HostArray) and (count := self.parts_apart(each)):
                parts = [cell.value.cell(index) for index in range(count)]
                found += [part.value if isinstance(part.value, _PASSED) else part.name for part in parts]
            elif isinstance(cell.value, HostArray) and each.extents:
                found.append(DevicePointer(self._memory_of_part(cell.value)))
            else:
                found.append(cell.value if isinstance(cell.value, _PASSED) else cell.name)
        return found

    def _memory_of_part(self, held: HostArray) -> Allocation:
        """An array of numbers in a struct by value, as a tensor."""
        if held.memory is None:
            size = applied("*", held.length, HostNumber.number(self.bytes_of(held.element or "float") or 4))
            held.memory = Allocation("", size, element=held.element, fill=held.filled)
        return held.memory

    def element_of_record(self, kind: str) -> tuple[str, int] | None:
        """The type that all fields of a struct have, and how many there are; None if they differ."""
        record, _ = self.record_type(kind)
        if record is None or not record.fields:
            return None
        kinds, total = set(), 0
        for each in record.fields:
            if "*" in each.kind:
                return None
            kinds.add(bare_type(self.types.get(bare_type(each.kind), each.kind)))
            total += int(self.length_of(each).value or 0)
        return (kinds.pop(), total) if len(kinds) == 1 and total else None


def parted(text: str) -> tuple[str, str]:
    """`A<B::C>::D` as `A<B::C>` and `D`: at the last `::` outside of brackets; without one, the first is empty."""
    depth = 0
    for place in range(len(text) - 1, 0, -1):
        depth += (text[place] in ">)") - (text[place] in "<(")
        if depth == 0 and text[place - 1 : place + 1] == "::":
            return text[: place - 1].strip(), text[place + 1 :].strip()
    return "", text.strip()
