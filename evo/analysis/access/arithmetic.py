"""Operators on values: integers as terms, pointers as places, everything else as data."""

from __future__ import annotations

from collections.abc import Callable

from evo.analysis.access.c_types import (
    LONG,
    OTHER,
    CType,
    promoted,
    wider,
)
from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition, Unsure, all_of, any_of, at_least, compare
from evo.analysis.access.declarators import Declarators
from evo.analysis.access.form import Data
from evo.analysis.access.simplify import (
    as_unsigned,
    bit_and,
    bit_or,
    difference,
    divide,
    remainder,
    shift_left,
    shift_right,
)
from evo.analysis.access.terms import ONE, ZERO, Op, Symbol, Term
from evo.analysis.access.values import (
    Closure,
    Number,
    Pointer,
    Real,
    StructValue,
    Value,
    truth,
)
from evo.cuda.source.parser import Node

_ARITHMETIC: dict[str, Callable[[Arithmetic, Term, Term], Term]] = {
    "+": lambda _m, a, b: a + b,
    "-": lambda m, a, b: difference(m.bounds, a, b),
    "*": lambda _m, a, b: a * b,
    "/": lambda m, a, b: divide(m.bounds, a, b),
    "%": lambda m, a, b: remainder(m.bounds, a, b),
    "<<": lambda _m, a, b: shift_left(a, b),
    ">>": lambda m, a, b: shift_right(m.bounds, a, b),
    "&": lambda m, a, b: bit_and(m.bounds, a, b),
    "|": lambda m, a, b: bit_or(m.bounds, "or", a, b),
    "^": lambda m, a, b: bit_or(m.bounds, "xor", a, b),
}


_DATA = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


class Arithmetic(Declarators):
    """Operations on values that were evaluated."""

    def as_condition(self, value: Value, node: Node) -> Condition:
        if isinstance(value, Number):
            return value.condition if value.condition is not None else self.truth_of(value, node)
        if isinstance(value, Pointer):
            return ALWAYS if any(s.kind == "address" for s in value.term.symbols()) else compare(value.term, "!=")
        return self.data_condition(node, self.data_of(value))

    def truth_of(self, value: Number, node: Node) -> Condition:
        """Whether a number is not 0."""
        symbol = value.term.atom
        if isinstance(symbol, Symbol) and symbol.kind == "value" and value.type.kind == "bool":
            return Unsure(symbol, self.wording(node))
        if isinstance(symbol, Op) and symbol.name == "select":
            when, left, right = symbol.args
            if left == ONE and right == ZERO and isinstance(when, Condition):
                return when
        return self.bounds.decided(compare(value.term, "!="))

    def data_condition(self, node: Node, data: Data) -> Condition:
        term = self.unknown(node, "compares data", data)
        assert isinstance(term.atom, Symbol)
        return Unsure(term.atom, self.wording(node))

    def operate(self, word: str, left: Value, right: Value, node: Node) -> Value:
        """left word right, for values."""
        if isinstance(left, Number) and isinstance(right, Number):
            return self._integers(word, left, right, node)
        if isinstance(left, Pointer) or isinstance(right, Pointer):
            found = self._pointers(word, left, right)
            if found is not None:
                return found
        if isinstance(left, StructValue) or isinstance(right, StructValue):
            overload = self.functions.get(f"operator{word}")
            if overload:
                return self.invoke(Closure(overload[-1], name=f"operator{word}"), [left, right], node)
        operands = (self.data_of(left), self.data_of(right))
        if word in ("<", ">", "<=", ">=", "==", "!="):
            op = "equal" if word in ("==", "!=") else "less"
            data = Data(op, operands if word in ("<", "<=", "==", "!=") else operands[::-1], word)
            return truth(self.data_condition(node, data))
        kinds = [value.type for value in (left, right) if isinstance(value, Real | Number | StructValue)]
        kind = wider(*kinds) if len(kinds) == 2 and all(k.is_number for k in kinds) else kinds[0] if kinds else OTHER
        if kind.kind == "real" and kind.size == 8 and not self.dry:
            self.doubles.append(self.span(node))
        return Real(Data(_DATA.get(word, "call"), operands, word), kind)

    def _integers(self, word: str, left: Number, right: Number, node: Node) -> Value:
        kind = wider(left.type, right.type)
        a, b = left.term, right.term
        if word in ("<", ">", "<=", ">=", "==", "!="):
            return truth(self.bounds.decided(self._compared(word, a, b, kind)))
        if word in ("&", "|") and left.condition is not None and right.condition is not None:
            return truth((all_of if word == "&" else any_of)((left.condition, right.condition)))
        if word in ("/", "%", ">>") and not kind.is_signed and self._is_wrapped(a, b):
            a, b = (as_unsigned(self.bounds, term, 8 * kind.size) for term in (a, b))
        if (word == "/" and b.value == 0) or (word == "%" and b.value == 0):
            return Number(self.unknown(node, "division by zero"), kind)
        if word in ("<<", ">>"):
            kind = promoted(left.type)
        found = _ARITHMETIC[word](self, a, b)
        if word == "/" and found in self.derived:
            found = Term.of(self.derived[found])  # a tensor's `K // 64`, say, wherever it is worked out
        return Number(found, kind)

    def _is_wrapped(self, left: Term, right: Term) -> bool:
        """Whether an operand of an unsigned operation could be negative; what has no formula is taken as it is."""
        return not any(symbol.kind == "value" for symbol in left.symbols() | right.symbols())

    def _compared(self, word: str, left: Term, right: Term, kind: CType) -> Condition:
        if not kind.is_signed and word not in ("==", "!=") and self._is_wrapped(left, right):
            bits = 8 * kind.size
            inside = self._unsigned_test(word, left, right)
            if inside is not None:
                return inside
            left, right = (as_unsigned(self.bounds, term, bits) for term in (left, right))
        return {
            "<": compare(right - left - 1, ">="),
            ">": compare(left - right - 1, ">="),
            "<=": compare(right - left, ">="),
            ">=": compare(left - right, ">="),
            "==": compare(left - right, "=="),
            "!=": compare(left - right, "!="),
        }[word]

    def _unsigned_test(self, word: str, left: Term, right: Term) -> Condition | None:
        """`(unsigned)x < n` says 0 <= x < n in one comparison."""
        if word in (">", ">="):
            left, right, word = right, left, {">": "<", ">=": "<="}[word]
        slack = 1 if word == "<" else 0
        if self.bounds.nonnegative(left) or not self.bounds.nonnegative(right):
            if not self.bounds.nonnegative(right) and self.bounds.nonnegative(left):
                # n <= (unsigned)x holds for x < 0 too.
                return any_of((compare(-right - 1, ">="), compare(right - left - slack, ">=")))
            return None
        return all_of((at_least(left, ZERO), compare(right - left - slack, ">=")))

    def _pointers(self, word: str, left: Value, right: Value) -> Value | None:
        if isinstance(left, Pointer) and isinstance(right, Pointer):
            if word == "-":
                return Number(self._distance(left.term - right.term, max(left.of.size, 1)), LONG)
            if word in ("<", ">", "<=", ">=", "==", "!="):
                return truth(self.bounds.decided(self._compared(word, left.term, right.term, LONG)))
            return None
        if isinstance(right, Pointer):
            left, right = right, left
        assert isinstance(left, Pointer)
        if isinstance(right, Number) and word in ("+", "-"):
            step = right.term * (left.of.size or 1)
            return Pointer(left.term + (step if word == "+" else -step), left.of)
        if isinstance(right, Number) and word in ("==", "!="):
            return truth(NEVER if word == "==" else ALWAYS)
        return None

    def _distance(self, between: Term, size: int) -> Term:
        """Bytes between two pointers as elements; of two arrays, a symbol that stands for it."""
        arrays = {
            mono: n for mono, n in between.parts.items() if any(s.kind == "address" for a in mono for s in a.symbols())
        }
        if not arrays or size == 1:
            return divide(self.bounds, between, Term.number(size))
        apart = Term(arrays)
        symbol = Symbol(f"({apart.text}) / {size}", "address", self.fresh())
        self.differences[symbol] = apart, size
        return Term.of(symbol) + divide(self.bounds, between - apart, Term.number(size))

    def cast(self, kind: CType, value: Value, node: Node) -> Value:
        """A conversion that the text asks for."""
        if kind.kind == "bool":
            return truth(self.as_condition(value, node))
        if isinstance(value, Number) and kind.kind == "int" and kind.size < value.type.size:
            return Number(self._narrowed(value.term, kind), kind)
        if isinstance(value, Number) and kind.kind == "pointer":
            return Pointer(value.term, kind.of or OTHER)
        return self.converted(value, kind, node)

    def _narrowed(self, term: Term, kind: CType) -> Term:
        """A number in fewer bits; where it is an address or fits, itself."""
        if kind.size >= 4 or any(symbol.kind == "address" for symbol in term.symbols()):
            return term
        top = self.bounds.largest(term)
        if top is not None and top < 1 << (8 * kind.size - kind.is_signed) and self.bounds.nonnegative(term):
            return term
        return term if kind.is_signed else bit_and(self.bounds, term, Term.number((1 << 8 * kind.size) - 1))

    def invoke(self, closure: Closure, arguments: list[Value], node: Node) -> Value:
        """The value of a call with values; given by the classes above."""
        raise AssertionError(node.type, closure, arguments)
