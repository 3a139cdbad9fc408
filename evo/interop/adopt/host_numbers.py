"""Numbers of host code: their value where it is known, and how they follow from the sizes that the program declares."""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

_PRECEDENCE = {"if": 1, "or": 2, "and": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4}
_PRECEDENCE |= {"|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "//": 10, "/": 10, "%": 10}


def size_word(name: str) -> str:
    """The name that a variable of the host code has as a size: `in` is none that a formula may use."""
    return f"{name}_" if keyword.iskeyword(name) else name


@dataclass(frozen=True, slots=True)
class HostNumber:
    """value: None if it is not known. how: a name, a number, or an operator and its operands; None likewise."""

    value: int | float | None
    how: object = None

    @staticmethod
    def number(value: int | float) -> HostNumber:
        return HostNumber(value, value)

    @staticmethod
    def named(name: str, value: int | float | None) -> HostNumber:
        return HostNumber(value, name)

    @property
    def names(self) -> frozenset[str]:
        return names_of(self.how)

    @property
    def text(self) -> str:
        """As an expression of task and launch lines."""
        return written(self.how) if self.how is not None else str(self.value)


UNKNOWN = HostNumber(None)


def names_of(how: object) -> frozenset[str]:
    if isinstance(how, str):
        return frozenset([how])
    if isinstance(how, tuple):
        return frozenset().union(*(names_of(part) for part in how[1:]))
    return frozenset()


def substituted(how: object, values: dict[str, int | float]) -> object:
    """Names replaced by numbers, and what follows from numbers alone worked out."""
    if isinstance(how, str):
        return values.get(how, how)
    if isinstance(how, tuple):
        parts = [HostNumber(_plain(p), p) for p in (substituted(part, values) for part in how[1:])]
        if how[0] == "*" and any(part.how == 0 for part in parts):  # in the first turn of a loop
            return 0
        return applied(how[0], *parts).how
    return how


def _plain(how: object) -> int | float | None:
    return how if isinstance(how, int | float) else None


def applied(name: str, *operands: HostNumber) -> HostNumber:
    """The result of a C operator on numbers; `/` is that of integers unless one of them is a float."""
    values = [operand.value for operand in operands]
    if name == "/" and not _is_real(operands):
        name = "//"
    value = _value(name, values)
    if any(operand.how is None for operand in operands):
        return HostNumber(value)
    hows = [operand.how for operand in operands]
    if all(isinstance(how, int | float) for how in hows):
        folded = _value(name, [how for how in hows if isinstance(how, int | float)])
        return HostNumber(folded, folded)
    return HostNumber(value, _simplified(name, hows))


def _is_real(operands: tuple[HostNumber, ...]) -> bool:
    return any(isinstance(o.value, float) or (isinstance(o.how, tuple) and o.how[0] in ("/", "real")) for o in operands)


def _value(name: str, values: list[int | float | None]) -> int | float | None:
    if any(value is None for value in values):
        if name == "if" and values[0] is not None:
            return values[1] if values[0] else values[2]
        return None
    known = [value for value in values if value is not None]
    try:
        return _OPERATIONS[name](*known)
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):
        return None


_OPERATIONS: dict[str, Callable[..., int | float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "min": lambda *v: min(v), "max": lambda *v: max(v),
    "//": lambda a, b: int(a / b) if a * b < 0 else a // b,
    "%": lambda a, b: int(math.fmod(a, b)) if isinstance(a, int) and isinstance(b, int) else math.fmod(a, b),
    "ceil_div": lambda a, b: -(-a // b), "if": lambda test, then, other: then if test else other,
    "real": float, "int": int, "sqrt": math.sqrt, "log2": math.log2,
    "ceil": lambda a: float(math.ceil(a)), "floor": lambda a: float(math.floor(a)),
    "and": lambda a, b: int(bool(a) and bool(b)), "or": lambda a, b: int(bool(a) or bool(b)),
    "not": lambda a: int(not a),
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: int(a) << int(b), ">>": lambda a, b: int(a) >> int(b), "&": lambda a, b: int(a) & int(b),
    "|": lambda a, b: int(a) | int(b), "^": lambda a, b: int(a) ^ int(b),
}  # fmt: skip


def _simplified(name: str, hows: list[object]) -> object:
    a = hows[0]
    b = hows[1] if len(hows) > 1 else None
    if name == "//":
        if (up := _rounded_up(a, b)) is not None:
            return up
        if b == 1:
            return a
        if isinstance(b, str) and b in (parts := factors(a)) and len(parts) > 1:
            parts.remove(b)
            return reduce(lambda one, other: ("*", one, other), parts)
    if name == "if":
        return _chosen(*hows)
    if name in ("int", "floor", "ceil") and isinstance(a, tuple) and a[0] == "/":
        top, bottom = (_whole(part) for part in a[1:])
        return ("ceil_div", top, bottom) if name == "ceil" else ("//", top, bottom)
    if name in ("int", "real", "floor", "ceil"):
        inner = _whole(a)
        return inner if name != "real" else ("real", inner)
    if name == "*" and 1 in (a, b):
        return b if a == 1 else a
    if name == "*" and isinstance(a, int) and isinstance(b, tuple) and b[0] == "*" and isinstance(b[1], int):
        return ("*", a * b[1], b[2])
    if name == "*" and isinstance(a, tuple) and a[0] == "*" and isinstance(a[1], int) and not isinstance(b, int):
        return ("*", a[1], ("*", a[2], b))
    if name == "*" and isinstance(b, int):
        return _simplified("*", [b, a])
    if name == "+" and isinstance(a, tuple) and a[0] == "//" and isinstance(b, tuple):
        remains = b if b[0] in ("!=", ">") else b[1] if b[0] == "if" and b[2:] == (1, 0) else None
        if (up := _next_whole(remains, ("+", a, 1), a)) is not None:
            return up
    if name in ("+", "-") and b == 0:
        return a
    if isinstance(a, tuple) and a[0] == {"-": "+", "+": "-"}.get(name) and a[2] == b:
        return a[1]
    if name == "+" and a == 0:
        return b
    if name == "//" and isinstance(b, int) and isinstance(a, tuple) and a[0] == "*" and _divides(a[1], b):
        return _simplified("*", [a[1] // b, a[2]])
    if name == "<<" and isinstance(b, int):
        return _simplified("*", [2**b, a])
    if name == ">>" and isinstance(b, int):
        return _simplified("//", [a, 2**b])
    return (name, *hows)


def _chosen(condition: object, one: object, other: object) -> object:
    """`a < b ? a : b` and its like as min and max, `a % b != 0 ? a / b + 1 : a / b` as ceil_div."""
    if (up := _next_whole(condition, one, other)) is not None:
        return up
    if isinstance(condition, tuple) and condition[0] in ("<", "<=", ">", ">=") and [one, other] != [other, one]:
        sides, one, other = [_whole(part) for part in condition[1:]], _whole(one), _whole(other)
        if sides in ([one, other], [other, one]):
            takes_smaller = (condition[0] in ("<", "<=")) == (sides == [one, other])
            return ("min" if takes_smaller else "max", one, other)
    return ("if", condition, one, other)


def _next_whole(condition: object, one: object, other: object) -> object | None:
    """A quotient, or a multiple, that is rounded up if something remains."""
    if isinstance(condition, tuple) and condition[0] in ("==", "!=", ">") and condition[2] == 0:
        if condition[0] == "==":
            one, other = other, one
        condition = condition[1]
    if not isinstance(condition, tuple) or condition[0] != "%":
        return None
    _, a, b = condition
    if other in (("//", a, b), 0) and one in (("+", ("//", a, b), 1), 1) and (other == 0) == (one == 1):
        return ("ceil_div", a, b) if other != 0 else None
    if other == a and one in (("+", ("-", a, condition), b), ("-", ("+", a, b), condition)):
        return ("*", b, ("ceil_div", a, b))
    return None


def _divides(number: object, by: int) -> bool:
    return isinstance(number, int) and by != 0 and number % by == 0


def _whole(how: object) -> object:
    return how[1] if isinstance(how, tuple) and how[0] in ("real", "int") else _as_int(how)


def _as_int(how: object) -> object:
    return int(how) if isinstance(how, float) and how == int(how) else how


def _rounded_up(top: object, bottom: object) -> object | None:
    """`(n + b - 1) / b` and its like, where `b - 1` is written so, or nothing else is added to n."""
    terms = _terms(top)
    constants = [sign * term for sign, term in terms if isinstance(term, int)]
    if isinstance(bottom, int):
        rest = [(sign, term) for sign, term in terms if not isinstance(term, int)]
        more = sum(constants) - (bottom - 1)
        is_meant = more == 0 or bottom - 1 in constants or {bottom, -1} <= set(constants)
    else:
        if (1, bottom) not in terms or -1 not in constants:
            return None
        terms.remove((1, bottom))
        rest = [(sign, term) for sign, term in terms if not isinstance(term, int)]
        more, is_meant = sum(constants) + 1, True
    if bottom in (0, 1) or not is_meant or more < 0 or not rest or all(sign < 0 for sign, _ in rest):
        return None
    return ("ceil_div", _sum([*sorted(rest, key=lambda each: -each[0]), *([(1, more)] if more else [])]), bottom)


def _terms(how: object) -> list[tuple[int, object]]:
    if isinstance(how, tuple) and how[0] in ("+", "-"):
        sign = 1 if how[0] == "+" else -1
        return _terms(how[1]) + [(sign * s, term) for s, term in _terms(how[2])]
    return [(1, how)]


def _sum(terms: Sequence[tuple[int, object]]) -> object:
    """Of terms with signs, the first of them plus."""
    (_, total), *others = terms
    for sign, term in others:
        total = ("+" if sign > 0 else "-", total, term)
    return total


def factors(how: object) -> list[object]:
    """The factors of a product; anything else is its own."""
    if isinstance(how, tuple) and how[0] == "*":
        return [*factors(how[1]), *factors(how[2])]
    return [how]


def written(how: object, outer: int = 0) -> str:
    """Python's spelling, with brackets where they are needed."""
    if isinstance(how, tuple):
        name, *parts = how
        if name in ("ceil_div", "min", "max", "sqrt", "log2"):
            return f"{name}({', '.join(written(part) for part in parts)})"
        if name in ("real", "int"):
            return written(parts[0], outer)
        if name == "not":
            return f"not {written(parts[0], 11)}"
        level = _PRECEDENCE.get(name, 0)
        if name == "if":
            text = f"{written(parts[1], 2)} if {written(parts[0], 2)} else {written(parts[2], 1)}"
        else:
            text = f"{written(parts[0], level)} {name} {written(parts[1], level + 1)}"
        return f"({text})" if level < outer else text
    return repr(how) if isinstance(how, float) else str(how)


def is_next(one: int | float | None, other: int | float | None) -> bool:
    """Whether a number follows from a count of turns, and the other from the next one."""
    return isinstance(one, float) or isinstance(other, float) or None in (one, other) or abs(one - other) == 1  # type: ignore[operator]
