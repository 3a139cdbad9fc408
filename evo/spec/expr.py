"""Arithmetic in task and kernel files: parsed to a tree of allowed nodes, never eval'ed.

Integers, `+ - * // %`, `^ & | << >>`, comparisons, `and or not`, `A if C else B`, `ceil_div`, `min`, `max` and names.
Formulas for scalars and work also take `/`, floats, `sqrt`, `log2` (`real=True`).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evo.errors import SyntaxInvalid
from evo.spec.python_syntax import expression_of
from evo.spec.source_text import at_commas

Number = int | float
Compute = Callable[[Mapping[str, Number]], Number]

_LONGEST = 500
_SHOWN = 60
_LARGEST = 2**128
BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: lambda a, b: operator.lshift(a, _shift(b)),
    ast.RShift: lambda a, b: operator.rshift(a, _shift(b)),
}
_COMPARE: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _shift(count: Number) -> Number:
    """The count, where it is one that a word of the hardware could be shifted by."""
    if not 0 <= count < 64:
        raise ValueError(f"shift by {count}")
    return count


def ceil_div(a: int, b: int) -> int:
    """The number of tiles of b that cover a."""
    return -(-a // b)


_FUNCTIONS: dict[str, Callable[..., Number]] = {"ceil_div": ceil_div, "min": min, "max": max}
_REAL_FUNCTIONS: dict[str, Callable[..., Number]] = {**_FUNCTIONS, "sqrt": math.sqrt, "log2": math.log2}


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. `names` are the axes, knobs and `chip.*` names that it reads."""

    text: str
    tree: ast.expr
    names: frozenset[str]
    path: str
    line: int | None
    compute: Compute = field(repr=False, compare=False)  # unchecked: `value` says what is wrong

    def value(self, names: Mapping[str, Number]) -> Number:
        """Evaluate with the given names. Raises SyntaxInvalid (division by zero, unknown name) at its place."""
        try:
            value = self.compute(names)
        except KeyError as error:
            raise self.problem(f"unknown name {error.args[0]!r}", names) from None
        except (ZeroDivisionError, ValueError, OverflowError, TypeError) as error:
            raise self.problem(str(error), names) from None
        if not -_LARGEST < value < _LARGEST:  # no size and no count; its digits would fill the screen
            raise self.problem("a value beyond all bounds", names)
        return value

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[object, ...]]:
        return _restored, (self.text, self.tree, self.names, self.path, self.line)

    def problem(self, what: str, known: Iterable[str]) -> SyntaxInvalid:
        listed = ", ".join(sorted(known)) or "none"
        return SyntaxInvalid(self.path, self.line, f"{what} in `{self.text}`", hint=f"names known here: {listed}")


def _restored(text: str, tree: ast.expr, names: frozenset[str], path: str, line: int | None) -> Expression:
    return Expression(text, tree, names, path, line, _compute(tree))


def parse(text: str, *, path: Path | str = "<expression>", line: int | None = None, real: bool = False) -> Expression:
    """Parse one expression. Raises SyntaxInvalid naming file, line and token."""
    text = text.strip()

    def invalid(token: str, why: str) -> SyntaxInvalid:
        allowed = "+ - * // % ^ & | << >> comparisons, and/or/not, ceil_div, min, max" + (
            ", /, sqrt, log2" if real else ""
        )
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        return SyntaxInvalid(
            path, line, f"{why} at `{token[:_SHOWN]}` in `{shown}`", hint=f"allowed: integers, names, {allowed}"
        )

    if len(text) > _LONGEST:
        raise invalid(text[:20], f"expression longer than {_LONGEST} characters")
    try:
        tree = expression_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = (getattr(error, "offset", None) or 1) - 1
        raise invalid(text[at : at + 12].split(" ")[0] or "end of line", "cannot parse") from None
    names: set[str] = set()
    _check(tree, names, real, lambda node, why: invalid(ast.get_source_segment(text, node) or text, why))
    return Expression(text, tree, frozenset(names), str(path), line, _compute(tree))


def parse_list(text: str, *, path: Path | str, line: int | None, real: bool = False) -> tuple[Expression, ...]:
    """Parse `a, b, c` (brackets already removed) into one Expression per top-level comma."""
    if not text.strip():
        return ()
    return tuple(parse(part, path=path, line=line, real=real) for part in at_commas(text, ("([", ")]")))


def _check(
    node: ast.expr, names: set[str], real: bool, invalid: Callable[[ast.expr, str], SyntaxInvalid], depth: int = 0
) -> None:
    children: list[ast.expr] = []
    if depth > 50:
        raise invalid(node, "nested too deeply")
    match node:
        case ast.Constant(value=bool()):
            raise invalid(node, "write 0 or 1")
        case ast.Constant(value=int()):
            pass
        case ast.Constant(value=float()) if real:
            pass
        case ast.Name(id=name):
            names.add(name)
        case ast.Attribute(value=ast.Name(id="chip"), attr=attr):
            names.add(f"chip.{attr}")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY and (real or not isinstance(op, ast.Div)):
            children = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
            children = [operand]
        case ast.BoolOp(values=values):
            children = values
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in _COMPARE for op in ops):
            children = [left, *comparators]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            children = [test, body, orelse]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            known = _REAL_FUNCTIONS if real else _FUNCTIONS
            if name not in known:
                raise invalid(node, f"unknown function {name}")
            if (name == "ceil_div" and len(args) != 2) or (name in ("sqrt", "log2") and len(args) != 1) or not args:
                raise invalid(node, f"wrong number of arguments for {name}")
            if len(args) < 2 and name in ("min", "max"):
                raise invalid(node, f"{name} takes two or more arguments")
            children = args
        case ast.BinOp(op=ast.Div()):
            raise invalid(node, "`/` is not an integer operation, write `//` or ceil_div")
        case _:
            raise invalid(node, f"{type(node).__name__} is not allowed")
    for child in children:
        _check(child, names, real, invalid, depth + 1)


def _compute(node: ast.expr) -> Compute:
    """What a checked node says, as functions of the names: to walk the tree for every size takes far longer."""
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float):
            return lambda _: value
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Attribute(attr=attr):
            return operator.itemgetter(f"chip.{attr}")
        case ast.BinOp(left=left, op=op, right=right):
            binary, first, second = BINARY[type(op)], _compute(left), _compute(right)
            return lambda names: binary(first(names), second(names))
        case ast.UnaryOp(op=op, operand=operand):
            inner = _compute(operand)
            if isinstance(op, ast.Not):
                return lambda names: int(not inner(names))
            return (lambda names: -inner(names)) if isinstance(op, ast.USub) else inner
        case ast.BoolOp(op=op, values=values):
            meet, parts = (all if isinstance(op, ast.And) else any), [_compute(value) for value in values]
            return lambda names: int(meet(part(names) for part in parts))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _compared(
                _compute(left), [(_COMPARE[type(op)], _compute(c)) for op, c in zip(ops, comparators, strict=True)]
            )
        case ast.IfExp(test=test, body=body, orelse=orelse):
            decided, then, other = _compute(test), _compute(body), _compute(orelse)
            return lambda names: then(names) if decided(names) else other(names)
        case ast.Call(func=ast.Name(id=name), args=args):
            function, given = _REAL_FUNCTIONS[name], [_compute(arg) for arg in args]
            return lambda names: function(*(argument(names) for argument in given))
    raise ValueError(f"unchecked node {type(node).__name__}")


def _compared(first: Compute, others: list[tuple[Callable[[Number, Number], bool], Compute]]) -> Compute:
    """A chain of comparisons, which ends with the first that does not hold."""

    def holds(names: Mapping[str, Number]) -> int:
        last = first(names)
        for compare, other in others:
            value = other(names)
            if not compare(last, value):
                return 0
            last = value
        return 1

    return holds
