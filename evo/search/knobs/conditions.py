"""Conditions of knob spaces: Python-like expressions over knob names, read as a tree of allowed nodes, never eval'ed.

A condition is evaluated over whole columns of values at once. Numbers, words, True and False; `+ - * / // % **`,
comparisons, `in` lists, `and or not`, `A if C else B`, `min`, `max`, `abs`, `ceil`, `floor`, `log2`, `sqrt`. Value
lists also take `range`, list comprehensions over one name, and `+` and `*` of lists. `&&`, `||` and `!`, as C has them,
are read as `and`, `or` and `not`. What is divided by zero is no number: it compares with nothing.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.errors import SyntaxInvalid
from evo.search.knobs.space import KnobValue
from evo.spec.expr import BINARY

Column = NDArray[Any]

_LONGEST = 2000
_LONGEST_LIST = 1_000_000
_DEEPEST = 60
_MOST_LISTED = 100_000
_LARGEST_POWER = 64
_HINT = "allowed: numbers, names, + - * / // % **, comparisons, in, and/or/not, min, max, abs, ceil, floor, log2, sqrt"

_AS_IN_C = re.compile(r"""'[^']*'|"[^"]*"|&&|\|\||!(?!=)|~""")  # words in quotes stay as they are
_IN_PYTHON = {"&&": " and ", "||": " or ", "!": "~"}  # which binds as tightly as C's, and is no operator here otherwise


def _divided(by: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """NaN where the divisor is 0; numpy has 0 for integers there, and 4 % 0 == 0 would hold."""

    def apply(left: Any, right: Any) -> Any:
        zero = np.asarray(right == 0)
        return np.where(zero, np.nan, by(left, np.where(zero, 1, right))) if zero.any() else by(left, right)

    return apply


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided(np.true_divide),
    ast.FloorDiv: _divided(np.floor_divide),
    ast.Mod: _divided(np.mod),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}
_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {  # least number of arguments
    "min": (2, lambda *parts: reduce(np.minimum, parts)),
    "max": (2, lambda *parts: reduce(np.maximum, parts)),
    "abs": (1, np.abs),
    "ceil": (1, lambda value: np.ceil(np.asarray(value, float))),
    "floor": (1, lambda value: np.floor(np.asarray(value, float))),
    "log2": (1, lambda value: np.log2(np.asarray(value, float))),
    "sqrt": (1, lambda value: np.sqrt(np.asarray(value, float))),
    "int": (1, lambda value: np.asarray(value).astype(np.int64)),
}


@dataclass(frozen=True)
class Condition:
    """A checked expression and the knob names that it reads."""

    text: str
    names: frozenset[str]
    where: str
    tree: ast.expr

    def holds(self, columns: Mapping[str, Column]) -> NDArray[np.bool_]:
        """For each row of the columns. Raises SyntaxInvalid if the values do not fit the operators."""
        rows = len(next(iter(columns.values()))) if columns else 1
        try:
            with np.errstate(all="ignore"):
                found = _value(self.tree, columns)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise SyntaxInvalid(self.where, None, f"{error} in `{self.text}`", hint=_HINT) from None
        return np.broadcast_to(np.asarray(found).astype(bool), (rows,))


def condition(text: str, *, where: str = "<condition>") -> Condition:
    """Parse a condition. Raises SyntaxInvalid naming the file and the part that is not allowed."""
    python = from_c(text, where)
    tree = _parsed(python, where)
    names: set[str] = set()
    _check(tree, names, python, where)
    return Condition(text.strip(), frozenset(names), where, tree)


def from_c(text: str, where: str) -> str:
    """With `and`, `or` and `~` for C's `&&`, `||` and `!`; a `~` of the text's own raises SyntaxInvalid."""
    if any(match[0] == "~" for match in _AS_IN_C.finditer(text)):
        raise SyntaxInvalid(
            where, None, f"`~` is not allowed in `{text.strip()[:80]}`", problem="not-allowed", hint=_HINT
        )
    return _AS_IN_C.sub(lambda match: _IN_PYTHON.get(match[0], match[0]), text)


def listed(text: str, *, where: str = "<values>") -> tuple[KnobValue, ...]:
    """Values written as a Python list: `[1, 2, 4]`, `list(range(1, 9))`, `[2**i for i in range(5)] + [48]`."""
    tree = _parsed(text, where, _LONGEST_LIST)
    try:
        found = _list_of(tree, {})
    except (TypeError, ValueError, ArithmeticError, KeyError) as error:
        raise SyntaxInvalid(where, None, f"not a list of values: {error} in `{text[:80]}`", hint=_LIST_HINT) from None
    return tuple(found)


_LIST_HINT = "write values like [1, 2, 4] or [32 * i for i in range(1, 9)]"


def _parsed(text: str, where: str, longest: int = _LONGEST) -> ast.expr:
    if len(text) > longest:
        raise SyntaxInvalid(where, None, f"longer than {longest} characters: `{text[:60]}`", hint=_HINT)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SyntaxInvalid(where, None, f"cannot parse `{text[:80]}`", hint=_HINT) from None


def _check(node: ast.expr, names: set[str], text: str, where: str, depth: int = 0) -> None:
    def invalid(why: str) -> SyntaxInvalid:
        part = ast.get_source_segment(text.strip(), node) or text
        return SyntaxInvalid(where, None, f"{why} at `{part[:60]}` in `{text.strip()[:80]}`", hint=_HINT)

    if depth > _DEEPEST:
        raise invalid("nested too deeply")
    children: list[ast.expr] = []
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            pass
        case ast.Name(id=name):
            names.add(name)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            children = elements
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            children = [left, right]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            children = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() | ast.Invert(), operand=operand):
            children = [operand]
        case ast.BoolOp(values=values):
            children = values
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for op_, right in zip(ops, comparators, strict=True):
                if isinstance(op_, ast.In | ast.NotIn) and not isinstance(right, ast.List | ast.Tuple):
                    raise invalid("`in` takes a list")
            children = [left, *comparators]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            children = [test, body, orelse]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            if len(args) < _FUNCTIONS[name][0] or (_FUNCTIONS[name][0] == 1 and len(args) > 1):
                raise invalid(f"wrong number of arguments for {name}")
            children = args
        case _:
            raise invalid(f"{type(node).__name__} is not allowed")
    for child in children:
        _check(child, names, text, where, depth + 1)


def _value(node: ast.expr, columns: Mapping[str, Column]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return columns[name]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element, columns) for element in elements]
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _value(left, columns), _value(right, columns)
            if np.any(np.abs(np.asarray(power, float)) > _LARGEST_POWER):
                raise ValueError(f"a power above {_LARGEST_POWER}")
            return np.asarray(base, float) ** power
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_arithmetic(_value(left, columns)), _arithmetic(_value(right, columns)))
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, columns)
            if isinstance(op, ast.Not | ast.Invert):
                return ~np.asarray(value).astype(bool)
            return -_arithmetic(value) if isinstance(op, ast.USub) else value
        case ast.BoolOp(op=op, values=values):
            parts = [np.asarray(_value(value, columns)).astype(bool) for value in values]
            return reduce(np.logical_and if isinstance(op, ast.And) else np.logical_or, parts)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _compared(_value(left, columns), ops, [_value(right, columns) for right in comparators])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            test_ = np.asarray(_value(test, columns)).astype(bool)
            return np.where(test_, _value(body, columns), _value(orelse, columns))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name][1](*(_arithmetic(_value(arg, columns)) for arg in args))
    raise ValueError(f"unchecked node {type(node).__name__}")


def _arithmetic(value: Any) -> Any:
    """Truth values count as 0 and 1, as they do in Python."""
    array = np.asarray(value)
    return array.astype(np.int64) if array.dtype == bool else value


def _compared(left: Any, ops: list[ast.cmpop], rights: list[Any]) -> Any:
    result: Any = True
    for op, right in zip(ops, rights, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            one: Any = reduce(np.logical_or, (np.asarray(left == choice) for choice in right), np.asarray(False))
            one = ~one if isinstance(op, ast.NotIn) else one
        else:
            one = _COMPARE[type(op)](left, right)
        result = np.logical_and(result, one)
        left = right
    return result


# --- lists of values


def _list_of(node: ast.expr, names: Mapping[str, KnobValue]) -> list[KnobValue]:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_scalar(element, names) for element in elements]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _bounded(_list_of(left, names) + _list_of(right, names))
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted"), args=[inner], keywords=[]):
            return _list_of(inner, names)
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if 1 <= len(args) <= 3:
            bounds = [int(_scalar(arg, names)) for arg in args]
            span = range(*bounds)
            if len(span) > _MOST_LISTED:
                raise ValueError("too many values")
            return list(span)
        case ast.ListComp(elt=element, generators=[one]) if isinstance(one.target, ast.Name) and not one.ifs:
            return [_scalar(element, {**names, one.target.id: value}) for value in _list_of(one.iter, names)]
    raise ValueError(f"{type(node).__name__} is not allowed")


def _bounded(values: list[KnobValue]) -> list[KnobValue]:
    if len(values) > _MOST_LISTED:
        raise ValueError("too many values")
    return values


def _scalar(node: ast.expr, names: Mapping[str, KnobValue]) -> KnobValue:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_scalar(operand, names))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _number(_scalar(left, names)), _number(_scalar(right, names))
            if isinstance(op, ast.Pow) and abs(b) <= _LARGEST_POWER and abs(a) <= 2**20:
                found: int | float = a**b
                return found
            if type(op) in BINARY:
                return BINARY[type(op)](a, b)
    raise ValueError(f"{type(node).__name__} is not allowed")


def _number(value: KnobValue) -> int | float:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a number")
    return value
