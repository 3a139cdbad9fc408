"""Assignments of host code: what variables and fields hold from there on, and which numbers are sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from evo.cuda.source.parser import Node
from evo.cuda.source.types import text_of
from evo.interop.adopt.host_expressions import VECTORS, HostExpressions, bare_type
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_values import (
    Address,
    Allocation,
    DevicePointer,
    Extent,
    HostArray,
    HostRecord,
    HostVariable,
)
from evo.interop.adopt.parameters import parameters_of
from evo.spec.element_types import OF_C_TYPE, is_float

_EXTENT = re.compile(
    r"(?:get|num|n)?_?(?:rows|cols|columns|width|height|depth|size|length|count|channels|elements|nnz|vertices|edges"
    r"|points|particles|samples|pixels|nodes|total|w|h|n)",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(  # as a program is started: a number from its command line
    r"(?:\((?:int|unsigned|long|size_t)\)\s*+)?(?:std::)?(?:ato(?:i|l|ll)|sto(?:i|l|ul|ll|ull)|strto(?:l|ul|ll|ull))"
    r"\s*+\(\s*+argv\s*+\[\s*+\d++\s*+\][^()]*+\)"
)
_NO_SIZE = re.compile(r"iter|step|rep|block|thread|device|gpu|seed|trial|epoch|kernel|mode|verb", re.IGNORECASE)
_EXTENT_GUESS, _CHANNELS = 1 << 10, 3


class HostAssignments(HostExpressions):
    """Sets variables, fields and elements."""

    ticks: int  # how often a variable other than a loop's own was counted up or down
    counted: set[str]  # the names of these variables
    moved: Callable[[HostVariable, object, int], bool]  # whether an assignment copied between vectors of host and GPU
    element_assigned: Callable[[Node, str, object], None]  # `a[i] = b` of memory of the host
    size_name: Callable[[str, int | float | None], str]  # a variable's name, unless another size has it
    given: dict[str, int]
    method_of: Callable[[HostRecord, str, Sequence[object]], object]

    def place(self, node: Node | None) -> HostVariable | None:
        """The variable, field or element that an expression is; None for others."""
        cell = self.find(text_of(node))
        if cell is not None or node is None:
            return cell
        match node.type:
            case "pointer_expression":
                place = self.value(node.child("argument"))
                return place.cell if isinstance(place, Address) and not node.text.startswith("&") else None
            case "field_expression":
                return self.field_cell(node)
            case "subscript_expression":
                return self.element_cell(node)
        return None

    def untold_in(self, node: Node) -> frozenset[str]:
        """Variables of whole numbers that an expression asks for, and that nothing in the file sets."""
        cells = [self.place(each) for each in node.walk() if each.type in ("identifier", "field_expression")]
        asked = [c for c in cells if c is not None and c.value in (None, UNKNOWN) and self.is_integer(c.type)]
        return frozenset().union(*(cell.untold or {cell.name} for cell in asked))

    def exchange(self, first: Node | None, second: Node) -> object:
        """`std::swap(a, b)`, `a.swap(b)`."""
        one, other = self.place(first), self.place(second)
        if one is not None and other is not None:
            one.value, other.value = other.value, one.value
        return UNKNOWN

    def arguments_of(self, function: Node, given: Sequence[Node]) -> list[object]:
        """What a call passes: values, and the variables themselves for `float*& p`."""
        kinds = [param.kind for param in parameters_of(function)] + [""] * len(given)
        cells = [self.place(n) if "&" in k and "const" not in k else None for k, n in zip(kinds, given, strict=False)]
        passed = zip(kinds, cells, given, strict=False)
        return [self.value_of_kind(kind, node) if cell is None else Address(cell) for kind, cell, node in passed]

    def value_of_kind(self, kind: str, node: Node) -> object:
        """`run({nx, ny}, x)` makes what the function takes there."""
        is_list = node.type == "initializer_list" and ("vector" in kind or self.is_record(kind))
        return self.constructed(kind.replace("&", ""), node) if is_list else self.value(node)

    def step(self, node: Node) -> HostNumber:
        argument = node.child("argument")
        cell = self.place(argument)
        operator = "+" if "++" in node.text else "-"
        if argument is not None and argument.type == "subscript_expression":
            self.element_assigned(argument, "+=", UNKNOWN)
        if cell is None or not isinstance(cell.value, HostNumber):
            return UNKNOWN
        before = cell.value
        self._tick(cell, applied(operator, before, HostNumber.number(1)))
        return before if node.text.endswith(("++", "--")) else cell.value

    def _tick(self, cell: HostVariable, value: HostNumber) -> None:
        """A variable that goes on by one is a counter, and no size."""
        if value.value is not None and not cell.is_fixed:
            self.ticks += 1
            self.counted.add(cell.name)
        cell.value = value if self.is_open or value.value is None else HostNumber(value.value, value.value)

    def rounded(self, test: object, then: Node) -> bool:
        """`if (n % b) blocks++`, `if (blocks > most) blocks = most`: set for every size, not for this one alone."""
        lines = then.named_children if then.type == "compound_statement" else [then]
        inside = lines[0].named_children if len(lines) == 1 else []
        target = inside[0].child("left") or inside[0].child("argument") if len(inside) == 1 else None
        cell = self.find(text_of(target)) if target is not None and target.type == "identifier" else None
        old = cell.value if cell is not None else None
        if cell is None or not isinstance(test, HostNumber) or not isinstance(old, HostNumber):
            return False
        operator = inside[0].text.replace(cell.name, "", 1).strip()
        right = inside[0].child("right")
        new = self.size(right) if right is not None else HostNumber.number(1)
        if not operator.startswith("="):
            new = applied(operator[0], old, new) if operator[0] in "+-" else UNKNOWN
        found = applied("if", test, new, old)
        if self.is_open or not test.names or not isinstance(found.how, tuple) or found.how[0] == "if":
            return False
        cell.value = found
        return True

    def assign(self, node: Node) -> object:
        """`a = b`, `a += b`."""
        value, operator = self.value(node.child("right")), text_of(node.child("operator"))
        left = node.child("left")
        if left is not None and left.type == "subscript_expression":
            self.element_assigned(left, operator, value)
        cell = self.place(left)
        if cell is None:
            is_field = left is not None and left.type == "field_expression"
            return self._set_field(left, value) if is_field and left is not None else value
        old, right = cell.value, node.child("right")
        if isinstance(old, HostRecord) and not isinstance(value, HostRecord) and operator == "=":
            self.method_of(old, "operator=", [value])  # `buffer = host_vector`
            return old
        if operator == "=" and value == UNKNOWN and right is not None:
            if self.is_asked_for(cell.name, cell.type, right) and not self.is_open:
                is_set = isinstance(old, HostNumber) and bool(old.value)  # as without arguments; 0 is no size yet
                value = old if is_set else self.guessed(cell.name, right.text)
        elif operator != "=":
            if isinstance(old, DevicePointer) and isinstance(value, HostNumber):
                cell.value = DevicePointer(old.memory, applied(operator[:-1], old.offset, value))
                return cell.value
            if isinstance(old, HostNumber) and operator in ("+=", "-=") and text_of(node.child("right")) == "1":
                self._tick(cell, applied(operator[:-1], old, HostNumber.number(1)))
                return cell.value
            known = isinstance(old, HostNumber) and isinstance(value, HostNumber)
            value = applied(operator[:-1], old, value) if known else UNKNOWN  # type: ignore[arg-type]
        if value == UNKNOWN and right is not None and cell.name in self.given and self.is_integer(cell.type):
            value = self.guessed(cell.name, right.text)
        if not self.moved(cell, value, node.row + 1):
            self.store(cell, value)
            cell.untold = self.untold_in(right) if value == UNKNOWN and right is not None else frozenset()
        return cell.value

    def _set_field(self, left: Node, value: object) -> object:
        cell = self.find(text_of(left.child("argument")))
        name = text_of(left.child("field"))
        if cell is not None and isinstance(cell.value, Extent) and name in "xyz" and isinstance(value, HostNumber):
            parts = dict(zip("xyz", cell.value.parts, strict=True)) | {name: value}
            cell.value = Extent(parts["x"], parts["y"], parts["z"])
        else:
            self.scopes[0].setdefault(left.text, HostVariable(left.text, "")).value = value
        return value

    def store(self, cell: HostVariable, value: object) -> None:
        """A number of its own, kept in a variable, goes by the variable's name from here on."""
        if isinstance(value, HostArray) and not value.name:
            value.name = cell.name
        memory = getattr(value, "memory", None)
        if isinstance(memory, Allocation) and not memory.name:
            memory.name = cell.name
        if isinstance(value, HostRecord):
            for part in value.fields.values() if value.type in VECTORS else ():
                number = part.value.how if isinstance(part.value, HostNumber) else None
                if isinstance(number, int):  # of `int2 dims`
                    part.value = HostNumber.named(self.size_name(f"{cell.name}_{part.name}", number), number)
            for part in value.pointers:
                memory = part.value.memory  # type: ignore[attr-defined]
                if memory.name == part.name:  # a buffer that goes by its owner's name
                    memory.name = cell.name if len(value.pointers) == 1 else f"{cell.name}_{part.name}"
        cell.value = self._as_written(cell, value) if isinstance(value, HostNumber) else value

    def _as_written(self, cell: HostVariable, value: HostNumber) -> HostNumber:
        kind = OF_C_TYPE.get(self.types.get(bare_type(cell.type), bare_type(cell.type)), "")
        if kind.startswith(("int", "uint")) and isinstance(value.how, float):
            value = HostNumber.number(int(value.how))
        if kind in ("float32", "float64", "float16") and isinstance(value.value, int):
            value = applied("real", value)
        if cell.is_fixed:
            return HostNumber(value.value, value.value)
        names = kind.startswith(("int", "uint")) or bare_type(cell.type) == "auto"
        if names and isinstance(value.how, int) and "*" not in cell.type:
            return HostNumber.named(self.size_name(cell.name, value.value), value.value)
        return value

    def is_asked_for(self, name: str, kind: str, value: Node) -> bool:
        """Whether an integer is an extent of some library's object, `image.rows`, `mesh->numEdges()`, or a size that
        the program is started with: `atoi(argv[2])`, unless its name says that it counts something else.
        """
        if self.is_integer(kind) and _ARGUMENT.fullmatch(value.text):
            return _NO_SIZE.search(name) is None
        asked = value.child("function") if value.type == "call_expression" else value
        if not self.is_integer(kind) or asked is None or asked.type != "field_expression":
            return False
        return _EXTENT.fullmatch(text_of(asked.child("field"))) is not None

    def is_integer(self, kind: str) -> bool:
        name = bare_type(self.types.get(bare_type(kind), kind))
        return name in OF_C_TYPE and not is_float(OF_C_TYPE[name])

    def guessed(self, name: str, asked: str = "") -> HostNumber:
        """A size that nothing in the file tells. asked: what the program sets it to, `image.channels()`."""
        is_short = "channel" in name.lower() or "channel" in re.split(r"\.|->", asked)[-1].lower()
        value = self.given.get(name, _CHANNELS if is_short else _EXTENT_GUESS)
        if name not in self.given and name not in self.unknown_sizes:
            self.unknown_sizes.append(name)
        return HostNumber.named(self.size_name(name, value), value)
