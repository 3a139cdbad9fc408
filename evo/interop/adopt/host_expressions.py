"""Expressions of host code, worked out with the numbers that the program starts with."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping, Sequence

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import text_of
from evo.interop.adopt.fills import UNTOLD
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_values import (
    Address,
    Allocation,
    DevicePointer,
    Extent,
    HostArray,
    HostKernel,
    HostLambda,
    HostRandom,
    HostRecord,
    HostVariable,
)
from evo.spec.element_types import ELEMENT_TYPES, OF_C_TYPE

_FEW = 64  # elements of an array that are followed one by one
_BINARY = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=")
_REAL = re.compile(r"(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlL]?")
_WHOLE = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)[uUlLzZ]*")
_BASES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4, "double": 8, "longlong": 8}
VECTORS = {f"{base}{count}": (base, count) for base in _BASES for count in (1, 2, 3, 4)}
VECTOR_BASES = {"uchar": "unsigned char", "uint": "unsigned int", "ushort": "unsigned short", "char": "signed char"}
VECTOR_BASES |= {"longlong": "long long"}
COMPLEX = {"cuFloatComplex": "float2", "cuComplex": "float2", "cuDoubleComplex": "double2"}
OTHER_NAMES = {"uint": "unsigned int", "uchar": "unsigned char", "ushort": "unsigned short", "half": "__half"}
OTHER_NAMES |= {"uint8": "unsigned char", "int8": "signed char", "u32": "unsigned int"}


_ACCUMULATED = re.compile(
    r"(?:\btypename\s+)?(?:\b(?:at|c10)::)?\b(?:acc_type|opmath_type)<\s*+(__half|__nv_bfloat16|float|double)\b[\w\s,]*+>(?:::type\b)?"
)


def bare_type(text: str) -> str:
    """A C type without qualifiers, `std::` and marks of pointers."""
    words = re.sub(r"[*&]|\b(?:const|volatile|static|constexpr|struct|std::|__restrict__|__restrict)\b", " ", text)
    words = " ".join(re.sub(r"(?<!>)::", " ", words.replace("std::", " ")).split())  # `P<256>::N` is one name
    return OTHER_NAMES.get(words, words)


def with_words(text: str, by: Mapping[str, str]) -> str:
    """A type with its template's parameters replaced."""
    return re.sub(r"[A-Za-z_]\w*", lambda word: by.get(word[0], word[0]), text)


def without_torch_types(text: str) -> str:
    """A text in which `at::acc_type<float, true>` and `at::opmath_type<float>` are the types that they stand for."""
    return _ACCUMULATED.sub(lambda match: "double" if match[1] == "double" else "float", text)


def literal(text: str) -> HostNumber:
    """A number as it is written."""
    if text.startswith(("-", "+")):
        found = literal(text[1:].strip())
        return HostNumber.number(-found.value) if text[0] == "-" and found.value is not None else found
    if match := _WHOLE.fullmatch(text):
        digits = match[1].replace("'", "")
        octal = digits[0] == "0" and digits.isdigit()
        return HostNumber.number(int(digits, 8) if octal else int(digits, 0))
    if _REAL.fullmatch(text):
        return HostNumber.number(float(text.replace("'", "").rstrip("fFlL")))
    return UNKNOWN


_DEFINED = {"", "NULL", "nullptr", "argv", "RAND_MAX", "stderr", "stdout", "this", "cout", "cerr", "endl"}  # elsewhere


class HostExpressions(abc.ABC):
    """Works out expressions in the scopes of a program that runs."""

    scopes: list[dict[str, HostVariable]]
    macros: dict[str, tuple[tuple[str, ...] | None, str]]
    types: dict[str, str]
    named: dict[str, int | float | None]  # sizes, by the names that they have got
    unknown_sizes: list[str]  # parameters of a launcher, which no caller gives
    kernels: dict[str, Node]
    execute: Callable[[Node], None]
    undefined: set[str]  # names that were asked for, and that nothing in the file defines
    # What the classes made from this one do: calls, assignments, values of the program's own types, loops that fill.
    call: Callable[[Node], object]
    assign: Callable[[Node], object]  # `a = b`, `a += b`; what a is then
    step: Callable[[Node], HostNumber]  # `a++`, `++a`; what the expression is
    store: Callable[[HostVariable, object], None]
    extracted: Callable[[Node], None]  # `file >> n`
    is_record: Callable[[str], bool]  # whether a type is a struct or class of the program
    made: Callable[[str, Sequence[Node]], HostRecord]  # a value of such a type
    field_cell: Callable[[Node], HostVariable | None]  # the variable that `a.b` is, if a is such a value
    class_constant: Callable[[str], HostNumber]  # `Policy<128, 4>::TILE`, if it is a constant of a class of the program
    item: Callable[[HostArray, HostNumber, str], HostNumber]  # an element at an open place; the array as it is written
    random_of: Callable[[str, Sequence[Node]], HostRandom | None]  # a distribution of whole numbers
    bytes_of_record: Callable[[str], int | None]  # if all its fields have a size

    @property
    @abc.abstractmethod
    def is_open(self) -> bool:
        """Whether a loop is read that fills arrays, with its counter left open."""

    def find(self, name: str) -> HostVariable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def size(self, node: Node | None) -> HostNumber:
        value = self.value(node)
        return value if isinstance(value, HostNumber) else UNKNOWN

    def value(self, node: Node | None) -> object:
        """A HostNumber, DevicePointer, HostArray, Extent or Address; None for anything else."""
        if node is None:
            return None
        match node.type:
            case "number_literal":
                return literal(node.text)
            case "true" | "false":
                return HostNumber.number(int(node.type == "true"))
            case "identifier" | "this":
                return self.named_value(node.text)
            case "qualified_identifier":
                constant = self.class_constant(node.text)
                return constant if constant.value is not None else self.named_value(node.text.rpartition("::")[2])
            case "lambda_expression":
                return HostLambda(node, tuple(self.scopes))
            case "parenthesized_expression" | "initializer_list" | "condition_clause" | "argument_list":
                if (first := node.child("initializer")) is not None:  # `if (auto e = f(); e != 0)`
                    self.execute(first.named_children[0])
                inner = node.child("value") or next(iter(node.inside), None)
                return self.value(inner)
            case "binary_expression":
                return self._binary(node)
            case "unary_expression":
                return self._unary(node)
            case "conditional_expression":
                return self._choice(node)
            case "cast_expression":
                value = self.value(node.child("value"))
                return self._struct_at(text_of(node.child("type")), value) or self.converted(node.child("type"), value)
            case "sizeof_expression":
                return self._sizeof(node)
            case "pointer_expression":
                return self._pointed(node)
            case "subscript_expression":
                return self._element(node)
            case "field_expression":
                return self._field(node)
            case "assignment_expression":
                return self.assign(node)
            case "update_expression":
                return self.step(node)
            case "new_expression":
                kind, given = text_of(node.child("type")), node.child("arguments")
                if self.is_record(kind):
                    return self.made(kind, given.inside if given is not None else [])
                length = self.size(next((n for n in node.walk() if n.field == "length"), None))
                return HostArray("", length, bare_type(kind))
            case "compound_literal_expression":
                return self.constructed(text_of(node.child("type")), node.child("value"))
            case "call_expression" | "template_function":
                return self.call(node)
            case "comma_expression":
                return [self.value(child) for child in node.named_children][-1]
        return None

    def named_value(self, name: str) -> object:
        cell = self.find(name)
        if cell is not None:
            return cell.value
        if name in self.macros and self.macros[name][0] is None:
            return self.macro_value(name)
        if name in self.kernels:
            return HostKernel(name)
        self.undefined |= {name} - _DEFINED if not name.startswith("cuda") else set()
        return {"NULL": None, "nullptr": None}.get(name)

    def macro_value(self, name: str) -> object:
        """A macro without parameters: a number of its own keeps the macro's name."""
        value = self.in_text(self.macros[name][1], {})
        if isinstance(value, HostNumber) and isinstance(value.how, int) and not isinstance(value.how, bool):
            return HostNumber.named(name, value.value)
        return value

    def in_text(self, text: str, given: dict[str, object]) -> object:
        """An expression that stands in a macro, with its parameters."""
        node = read(f"int x_ = ({text});".encode())
        found = next((n for n in node.walk() if n.type == "init_declarator"), None)
        if found is None or any(n.is_error for n in node.walk()) or len(self.scopes) > 60:
            return None
        self.scopes.append({name: HostVariable(name, "", value) for name, value in given.items()})
        try:
            return self.value(found.child("value"))
        finally:
            self.scopes.pop()

    def _binary(self, node: Node) -> object:
        operator = text_of(node.child("operator"))
        left, right = self.value(node.child("left")), self.value(node.child("right"))
        if isinstance(left, DevicePointer) and isinstance(right, HostNumber) and operator in "+-":
            return DevicePointer(left.memory, applied(operator, left.offset, right))
        if isinstance(left, HostArray):
            return left
        if operator == ">>" and (not isinstance(left, HostNumber) or left == UNKNOWN):
            self.extracted(node)
        if self.is_open:
            left, right = (_opened(side) for side in (left, right))
        if not isinstance(left, HostNumber) or not isinstance(right, HostNumber):
            return UNKNOWN
        if operator in ("&&", "||"):
            known = [side.value for side in (left, right) if side.value is not None]
            if operator == "&&" and any(not value for value in known):
                return HostNumber.number(0)
            if operator == "||" and any(known):
                return HostNumber.number(1)
            return applied("and" if operator == "&&" else "or", left, right)
        return applied(operator, left, right) if operator in _BINARY else UNKNOWN

    def _unary(self, node: Node) -> HostNumber:
        operator, value = text_of(node.child("operator")), self.size(node.child("argument"))
        if operator == "-":
            return (
                applied("-", HostNumber.number(0), value) if not isinstance(value.how, float | int) else _minus(value)
            )
        if operator == "!":
            return applied("not", value)
        return value if operator == "+" else UNKNOWN

    def _choice(self, node: Node) -> object:
        test = self.size(node.child("condition"))
        then, otherwise = self.value(node.child("consequence")), self.value(node.child("alternative"))
        if not test.names and test.value is not None:
            return then if test.value else otherwise
        is_known = test.value is not None or self.is_open
        if isinstance(then, HostNumber) and isinstance(otherwise, HostNumber) and is_known:
            return applied("if", test, then, otherwise)
        return then if test.value else otherwise

    def _struct_at(self, kind: str, value: object) -> HostRecord | None:
        """A struct for `(Image*)malloc(sizeof(Image))`."""
        name = kind.removesuffix("*").strip()
        if not isinstance(value, HostArray) or name == kind or not self.is_record(name):
            return None
        return self.made(name, []) if value.length.value == self.bytes_of(name) and not value.name else None

    def converted(self, kind: Node | None, value: object) -> object:
        """A cast: numbers to whole ones or reals."""
        text = text_of(kind)
        if not isinstance(value, HostNumber) or "*" in text:
            return self.address(value, text) if isinstance(value, HostNumber) else value
        name = self.types.get(bare_type(text), bare_type(text))
        if name in ("float", "double"):
            return applied("real", value)
        if name in OF_C_TYPE and OF_C_TYPE[name] in ELEMENT_TYPES:
            return applied("int", value)
        return value

    def address(self, value: HostNumber, kind: str) -> object:
        """`reinterpret_cast<float*>(x)` of a number that a launcher is given, as it comes from Python: memory."""
        cell = self.find(value.how) if isinstance(value.how, str) and value.how in self.unknown_sizes else None
        if cell is None:
            return value
        self.unknown_sizes.remove(cell.name)
        self.named.pop(cell.name, None)
        cell.value = DevicePointer(Allocation(cell.name, is_parameter=True, element=bare_type(kind)))
        return cell.value

    def _sizeof(self, node: Node) -> HostNumber:
        kind = node.child("type")
        text = text_of(kind) if kind is not None else ""
        if kind is None:
            inner = node.child("value")
            inner = inner.named_children[0] if inner is not None and inner.type.startswith("paren") else inner
            cell = self.find(text_of(inner))
            text = cell.type if cell is not None else text_of(inner)
            if inner is not None and inner.type == "pointer_expression":
                pointed = self.find(text_of(inner.child("argument")))
                text = pointed.type.replace("*", "", 1) if pointed is not None else text
            if cell is not None and isinstance(cell.value, HostArray) and cell.value.length.value is not None:
                return applied(
                    "*", cell.value.length, HostNumber.number(self.bytes_of(cell.value.element or "float") or 4)
                )
        size = 8 if "*" in text else self.bytes_of(text)
        return HostNumber.number(size) if size else UNKNOWN

    def bytes_of(self, text: str) -> int | None:
        """Bytes of a C type."""
        name = bare_type(text)
        name = bare_type(self.types.get(name, name))
        if name in VECTORS:
            base, count = VECTORS[name]
            return _BASES[base] * (4 if count == 4 else count)
        if name in OF_C_TYPE:
            return ELEMENT_TYPES[OF_C_TYPE[name]].size_bytes
        return {"__half2": 4, "half2": 4, "__nv_bfloat162": 4}.get(name) or self.bytes_of_record(name)

    def _pointed(self, node: Node) -> object:
        argument = node.child("argument")
        if node.text.startswith("&"):
            if argument is not None and argument.type == "identifier" and (cell := self.find(argument.text)):
                return cell.value if isinstance(cell.value, HostArray) else Address(cell)
            if argument is not None and argument.type == "field_expression" and (cell := self.field_cell(argument)):
                return cell.value if isinstance(cell.value, HostArray) else Address(cell)
            if argument is not None and argument.type == "subscript_expression":
                if (cell := self.element_cell(argument)) is not None and "*" in cell.type:
                    return Address(cell)  # of numbers, it is where a copy begins
                held = self.value(argument.child("argument"))
                return held if isinstance(held, HostArray) else self.value(argument)
            return self.value(argument)
        value = self.value(argument)
        held = value if isinstance(value, HostRecord) else UNKNOWN  # `*options` of an owner or an optional
        return value.cell.value if isinstance(value, Address) else held

    def element_cell(self, node: Node) -> HostVariable | None:
        """The variable that `a[2]` is, of an array of pointers or of few whole numbers."""
        argument = node.child("argument")
        if self.is_open or argument is None or argument.type == "subscript_expression":
            return None
        held, index = self.value(argument), self._index(node).value
        if not isinstance(held, HostArray) or not held.has_cells or not isinstance(index, int):
            return None
        return held.cell(index) if 0 <= index < _FEW else None

    def _index(self, node: Node) -> HostNumber:
        inside = node.child("indices")
        return self.size(inside.named_children[0] if inside is not None and inside.named_children else None)

    def _element(self, node: Node) -> object:
        held = self.value(node.child("argument"))
        index = self._index(node)
        if isinstance(held, DevicePointer):
            return DevicePointer(held.memory, applied("+", held.offset, index))
        if isinstance(held, HostArray) and not self.is_open and index.value in held.cells:
            return held.cells[int(index.value)].value
        if isinstance(held, HostArray) and isinstance(index.value, int) and 0 <= index.value < len(held.items):
            return held.items[index.value]
        if isinstance(held, HostArray) and self.is_open and index.how is not None:
            return self.item(held, index, text_of(node.child("argument")))
        return held if isinstance(held, HostArray | HostRecord) else UNKNOWN  # the first of those from calloc

    def _field(self, node: Node) -> object:
        held = self.value(node.child("argument"))
        name = text_of(node.child("field"))
        if isinstance(held, Extent) and name in "xyz":
            return getattr(held, name)
        cell = self.field_cell(node) or self.find(node.text)
        return cell.value if cell is not None else UNKNOWN

    def constructed(self, kind: str, given: Node | None) -> object:
        """`dim3(a, b)`, `float4{...}`, a vector of the host."""
        inner = [c for c in (given.named_children if given is not None else []) if c.type != "comment"]
        name = bare_type(kind)
        if name == "dim3":
            parts = [self.value(node) for node in inner]
            if len(parts) == 1 and isinstance(parts[0], Extent):
                return parts[0]
            return extent_of(parts)
        if self.is_record(kind):
            return self.made(kind, inner)
        if (random := self.random_of(kind, inner)) is not None:
            return random
        if (array := re.search(r"\barray\s*+<(.*),([^,]*)>", kind)) is not None:
            length = self.in_text(array[2], {})
            items = tuple(self.value(each) for each in inner)
            return HostArray("", length if isinstance(length, HostNumber) else UNKNOWN, bare_type(array[1]), items)
        if "vector" in kind or "unique_ptr" in kind:
            return self._vector(kind, inner, is_list=given is not None and given.type == "initializer_list")
        return self.value(inner[0]) if len(inner) == 1 else UNKNOWN

    def _vector(self, kind: str, inner: Sequence[Node], *, is_list: bool) -> HostArray | HostRecord:
        """`std::vector<int> a(n, 7)`, `a{3, 1, 2}`."""
        found = re.search(r"<\s*([^>]+?)\s*>", kind)
        element = bare_type(found[1]) if found else None
        values = [self.value(node) for node in inner]
        if len(values) == 1 and isinstance(values[0], HostRecord):
            return values[0]  # `std::unique_ptr<Solver> s(new Solver(n))`
        if is_list and (len(values) > 1 or ("vector" in kind and values and isinstance(values[0], HostNumber))):
            return HostArray("", HostNumber.number(len(values)), element, tuple(values))
        numbers = [value if isinstance(value, HostNumber) else UNKNOWN for value in values] or [UNKNOWN]
        fill = numbers[1].how if len(numbers) == 2 else None
        return HostArray("", numbers[0], element, fill=fill, is_new=not values)


def _opened(value: object) -> HostNumber:
    """A number for a loop that is read: what is not known is a leaf."""
    if not isinstance(value, HostNumber) or (value.how is None and value.value is None):
        return HostNumber(None, UNTOLD)
    return value if value.how is not None else HostNumber(value.value, value.value)


def extent_of(parts: Sequence[object]) -> Extent:
    """Up to three numbers; what is left out is 1."""
    if len(parts) == 1 and isinstance(parts[0], Extent):
        return parts[0]
    sizes = [part if isinstance(part, HostNumber) else UNKNOWN for part in parts] + [HostNumber.number(1)] * 3
    sizes = [HostNumber(None if s.value is None else int(s.value), s.how) for s in sizes]
    return Extent(sizes[0], sizes[1], sizes[2])


def _minus(value: HostNumber) -> HostNumber:
    assert value.value is not None
    return HostNumber.number(-value.value)


def memory_of(value: object) -> Allocation | None:
    """The allocation that a value points to."""
    if isinstance(value, Address):
        value = value.cell.value
    return value.memory if isinstance(value, DevicePointer) else None
