"""The types of device code: sizes in bytes, vector types, structs with their layout, typedefs and templates."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from evo.analysis.access.terms import Term
from evo.spec.element_types import ELEMENT_TYPES


@dataclass(frozen=True, slots=True)
class CType:
    """One type.

    kind: `int`, `bool`, `real`, `void`, `vector`, `struct`, `pointer`, `array`, `auto` or `other`. size: bytes, 0 if
    not known. of: what a pointer points to, the element of an array or vector. count: elements of an array; None if
    the launch sizes it. fields: of a struct, (name, type, offset in bytes).
    """

    name: str
    kind: str
    size: int = 0
    is_signed: bool = True
    of: CType | None = None
    count: int | None = None
    fields: tuple[tuple[str, CType, int], ...] = ()
    is_const: bool = False

    @property
    def is_number(self) -> bool:
        return self.kind in ("int", "bool", "real")

    @property
    def leaf(self) -> CType:
        """The element type of an array of arrays; of anything else the type itself."""
        return self.of.leaf if self.kind == "array" and self.of is not None else self

    @property
    def dims(self) -> tuple[int | None, ...]:
        """Sizes of an array of arrays, the outer one first."""
        return (self.count, *self.of.dims) if self.kind == "array" and self.of is not None else ()

    def field(self, name: str) -> tuple[CType, int] | None:
        return next(((kind, offset) for found, kind, offset in self.fields if found == name), None)


VOID = CType("void", "void")
AUTO = CType("auto", "auto")
OTHER = CType("?", "other")
INT = CType("int", "int", 4)
UINT = CType("unsigned", "int", 4, is_signed=False)
LONG = CType("long long", "int", 8)
BOOL = CType("bool", "bool", 1, is_signed=False)
FLOAT = CType("float", "real", 4)
DOUBLE = CType("double", "real", 8)
HALF = CType("half", "real", 2)
BFLOAT = CType("bfloat16", "real", 2)


def pointer_to(kind: CType) -> CType:
    return CType(f"{kind.name}*", "pointer", 8, is_signed=False, of=kind)


def array_of(kind: CType, count: int | None) -> CType:
    return CType(f"{kind.name}[]", "array", kind.size * count if count is not None else 0, of=kind, count=count)


def struct_of(name: str, fields: list[tuple[str, CType]]) -> CType:
    """A struct with the layout that C++ gives it."""
    at, widest = 0, 1
    placed = []
    for field, kind in fields:
        leaf = kind.leaf
        align = min(max(_alignment(leaf), 1), 16)
        widest = max(widest, align)
        at = -(-at // align) * align
        placed.append((field, kind, at))
        at += kind.size
    return CType(name, "struct", -(-at // widest) * widest, fields=tuple(placed))


def _alignment(kind: CType) -> int:
    if kind.kind == "struct":
        return max((_alignment(inner.leaf) for _, inner, _ in kind.fields), default=1)
    return kind.size


_SCALARS: dict[str, CType] = {
    "char": CType("char", "int", 1),
    "signed char": CType("signed char", "int", 1),
    "unsigned char": CType("unsigned char", "int", 1, is_signed=False),
    "short": CType("short", "int", 2),
    "unsigned short": CType("unsigned short", "int", 2, is_signed=False),
    "int": INT,
    "unsigned": UINT,
    "long": CType("long", "int", 8),
    "unsigned long": CType("unsigned long", "int", 8, is_signed=False),
    "long long": LONG,
    "unsigned long long": CType("unsigned long long", "int", 8, is_signed=False),
    "bool": BOOL,
    "float": FLOAT,
    "double": DOUBLE,
    "half": HALF,
    "bfloat16": BFLOAT,
    "fp8": CType("fp8", "real", 1),
    "void": VOID,
    "auto": AUTO,
}
_ALIASES = {
    "__half": "half", "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "__nv_fp8_e4m3": "fp8",
    "__nv_fp8_e5m2": "fp8", "size_t": "unsigned long", "ptrdiff_t": "long", "ssize_t": "long", "int8_t": "signed char",
    "uint8_t": "unsigned char", "int16_t": "short", "uint16_t": "unsigned short", "int32_t": "int",
    "uint32_t": "unsigned", "int64_t": "long long", "uint64_t": "unsigned long long", "uint": "unsigned",
    "uchar": "unsigned char", "ushort": "unsigned short", "ulong": "unsigned long", "intptr_t": "long",
    "uintptr_t": "unsigned long", "cudaTextureObject_t": "unsigned long long", "u_int": "unsigned",
}  # fmt: skip
_BASES = {
    "float": "float", "double": "double", "int": "int", "uint": "unsigned", "char": "char", "uchar": "unsigned char",
    "short": "short", "ushort": "unsigned short", "long": "long", "ulong": "unsigned long", "longlong": "long long",
    "ulonglong": "unsigned long long",
}  # fmt: skip
_PAIRS = {
    "half2": "half", "__half2": "half", "__nv_bfloat162": "bfloat16", "nv_bfloat162": "bfloat16",
}  # fmt: skip
_VECTOR = re.compile(rf"({'|'.join(_BASES)})([1-4])$")
_WORDS = frozenset(("unsigned", "signed", "int", "long", "short", "char", "double"))
_QUALIFIERS = re.compile(
    r"\b(const|volatile|constexpr|static|extern|register|typename|mutable|__shared__|__constant__|__device__|struct"
    r"|__restrict__|__restrict|restrict|inline|std|class)\b|::"
)


def vector_of(name: str, base: CType, count: int) -> CType:
    fields = tuple((letter, base, base.size * at) for at, letter in enumerate("xyzw"[:count]))
    return CType(name, "vector", base.size * count, of=base, count=count, fields=fields)


def named_type(text: str) -> CType:
    """The type of a specifier such as `const unsigned int` or `float4`; kind `other` if it is not known."""
    is_const = re.search(r"\bconst(expr)?\b", text) is not None
    bare = " ".join(_QUALIFIERS.sub(" ", text).split())
    found = _plain(bare)
    return replace(found, is_const=True) if is_const and found.kind != "auto" else found


def _plain(bare: str) -> CType:
    if bare in _SCALARS or bare in _ALIASES:
        return _SCALARS[_ALIASES.get(bare, bare)]
    if bare in _PAIRS:
        return vector_of(bare.lstrip("_"), _SCALARS[_PAIRS[bare]], 2)
    if bare == "dim3":
        return vector_of("dim3", UINT, 3)
    if match := _VECTOR.match(bare):
        return vector_of(bare, _SCALARS[_BASES[match[1]]], int(match[2]))
    words = bare.split()
    if words and all(word in _WORDS for word in words):
        return _integer_words(words)
    return CType(bare or "?", "other")


def _integer_words(words: list[str]) -> CType:
    if "double" in words:
        return DOUBLE
    prefix = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return _SCALARS["signed char" if "signed" in words else f"{prefix}char"]
    if "short" in words:
        return _SCALARS[f"{prefix}short"]
    longs = words.count("long")
    base = "int" if longs == 0 else "long" if longs == 1 else "long long"
    return UINT if prefix and not longs else _SCALARS[f"{prefix}{base}".strip()]


DTYPE_TYPES = {name: named_type(element.c_types[0]) for name, element in ELEMENT_TYPES.items()}


def wider(left: CType, right: CType) -> CType:
    """The type of a sum of two numbers."""
    if "real" in (left.kind, right.kind):
        if left.kind != right.kind:
            return left if left.kind == "real" else right
        return left if left.size >= right.size else right
    left, right = promoted(left), promoted(right)
    if left.size != right.size:
        return left if left.size > right.size else right
    return left if not left.is_signed else right


def promoted(kind: CType) -> CType:
    """Narrow integers and booleans count as int."""
    return INT if kind.kind == "bool" or (kind.kind == "int" and kind.size < 4) else kind


def literal(text: str) -> tuple[Term | None, CType]:
    """The value (None for a floating-point number) and type of a number as it is written."""
    bare = text.replace("'", "")
    if bare[:1] in ("-", "+"):  # the grammar takes the sign of a lone number with it
        term, kind = literal(bare[1:])
        return (-term if term is not None and bare[0] == "-" else term), kind
    is_hex = bare[:2].lower() == "0x"
    if not is_hex and re.search(r"[.eEfF]", bare):
        return None, FLOAT if bare[-1] in "fF" else DOUBLE
    match = re.fullmatch(r"(0[xX][\da-fA-F]+|0[bB][01]+|\d+)([uUlL]*)", bare)
    if match is None:
        return None, OTHER
    digits, suffix = match[1], match[2].lower()
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    value = int(digits, 8) if is_octal else int(digits, 0)
    is_long = "l" in suffix or value >= 2**32 or (value >= 2**31 and not is_hex and "u" not in suffix)
    is_unsigned = "u" in suffix or (is_hex and value >= 2**31)
    name = ("unsigned " if is_unsigned else "") + ("long long" if is_long else "" if is_unsigned else "int")
    return Term.number(value), _SCALARS[name.strip()]
