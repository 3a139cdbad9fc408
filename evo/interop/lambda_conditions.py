"""Conditions of a Kernel Tuner script that are Python functions, as expressions over the tuned parameters.

The expression is read from the function's text and compared with the function over sampled values.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import itertools
import linecache
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import Mock

_MOST_COMPARED = 4000

Parameters = Mapping[str, Sequence[Any]]


class UntranslatableLambda(Exception):
    """A function cannot be translated to an expression; the message says why."""


def text_of(given: Any, parameters: Parameters, *, several: bool = False) -> str:
    """A text unchanged; a function's result as an expression (a tuple's joined by ` ; `). Raises Unreadable."""
    if isinstance(given, str):
        return given
    if not callable(given) or not hasattr(given, "__code__"):
        made = (
            "an object of a package that is not installed" if isinstance(given, Mock) else f"a {type(given).__name__}"
        )
        raise UntranslatableLambda(f"{made} is neither a text nor a function")
    node = _function(given)
    body = _Named(given, node, parameters).visit(_result(node))
    apart = several and isinstance(body, ast.Tuple | ast.List)
    parts = body.elts if several and isinstance(body, ast.Tuple | ast.List) else [body]
    texts = [ast.unparse(ast.fix_missing_locations(part)) for part in parts]
    for number, text in enumerate(texts):
        _compare(given, node, text, number if apart else None, parameters)
    return " ; ".join(texts)


def _function(given: Callable[..., Any]) -> ast.Lambda | ast.FunctionDef:
    """The function's syntax tree: the one in the file with its line and its parameter names."""
    code = given.__code__
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError) as error:
        raise UntranslatableLambda(f"its source cannot be read: {error}") from None
    names = list(code.co_varnames[: code.co_argcount])
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda | ast.FunctionDef)
        and [argument.arg for argument in node.args.args] == names
        and (node.lineno == code.co_firstlineno)
    ]
    column = min((start for *_, start, _ in code.co_positions() if start), default=None)
    if len(found) > 1 and column is not None:
        found = [n for n in found if isinstance(n, ast.Lambda) and n.col_offset < column <= (n.end_col_offset or 0)]
    if len(found) != 1:
        raise UntranslatableLambda("its source is not found")
    return found[0]


def _result(node: ast.Lambda | ast.FunctionDef) -> ast.expr:
    """Its return value as one expression, from a return with assignments and `if ...: return` before it."""
    if isinstance(node, ast.Lambda):
        return node.body
    values: dict[str, ast.expr] = {}
    return _returned([n for n in node.body if not _is_docstring(n)], values)


def _returned(body: Sequence[ast.stmt], values: dict[str, ast.expr]) -> ast.expr:
    if not body:
        raise UntranslatableLambda("it may end without a return")
    first, rest = body[0], body[1:]
    match first:
        case ast.Return(value=ast.expr() as value):
            return _replaced(value, values)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return _returned(rest, {**values, name: _replaced(value, values)})
        case ast.If(test=test, body=then, orelse=other):
            chosen = _returned([*then, *rest], values), _returned([*other, *rest], values)
            return ast.IfExp(_replaced(test, values), *chosen)
    raise UntranslatableLambda(f"`{ast.unparse(first).splitlines()[0]}` is not an assignment, if or return")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _replaced(value: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    class Replaced(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return copy.deepcopy(values.get(node.id, node))

    found: ast.expr = Replaced().visit(ast.parse(ast.unparse(value), mode="eval").body)
    return found


class _Named(ast.NodeTransformer):
    """p["name"] and p.name become name; constants from around the function their values."""

    def __init__(self, given: Callable[..., Any], node: ast.Lambda | ast.FunctionDef, parameters: Parameters) -> None:
        self.around = {**given.__globals__, **inspect.getclosurevars(given).nonlocals}
        self.arguments = [argument.arg for argument in node.args.args]
        self.parameters = parameters

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)) if (
                name in self.arguments and key in self.parameters
            ):
                return ast.Name(key, ast.Load())
        raise UntranslatableLambda(f"`{ast.unparse(node)}` is not a tuned parameter")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.parameters and node.id in self.arguments:
            return node
        value: Any = self.around.get(node.id, getattr(builtins, node.id, None))
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, bool | int | float):
            return ast.Constant(value)
        raise UntranslatableLambda(f"`{node.id}` is neither a tuned parameter nor a number")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in self.arguments and node.attr in self.parameters:
            return ast.Name(node.attr, ast.Load())
        raise UntranslatableLambda(f"`{ast.unparse(node)}` is not a tuned parameter")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        word = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        arguments: list[ast.expr] = [self.visit(argument) for argument in node.args]
        first = arguments[0] if arguments else node
        match word, node.args:
            case "min" | "max", [_, _, *_]:
                return ast.Call(ast.Name(word, ast.Load()), arguments, [])
            case "int" | "bool", [_]:
                return first
            case "get", [ast.Constant(value=str() as key), *_] if key in self.parameters:
                return ast.Name(key, ast.Load())
            case "ceil", [ast.BinOp(op=ast.Div())] if isinstance(first, ast.BinOp):
                return ast.Call(ast.Name("ceil_div", ast.Load()), [first.left, first.right], [])
        raise UntranslatableLambda(f"`{ast.unparse(node)}` is not supported")


def _compare(
    given: Callable[..., Any], node: ast.Lambda | ast.FunctionDef, text: str, place: int | None, parameters: Parameters
) -> None:
    """Raises Unreadable if expression and function differ on one of many sampled combinations."""
    code = compile(text, "<expression>", "eval")
    names = [argument.arg for argument in node.args.args]
    apart = bool(names) and all(name in parameters for name in names)
    rng = random.Random(0)
    for values in _combinations(parameters, rng):
        wanted = given(*(values[name] for name in names)) if apart else given(values)
        wanted = wanted if place is None else wanted[place]
        found = eval(code, {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}, dict(values))
        if (bool(wanted) != bool(found)) if isinstance(wanted, bool) else wanted != found:
            raise UntranslatableLambda(f"`{text}` differs from the function")


def _combinations(parameters: Parameters, rng: random.Random) -> list[dict[str, Any]]:
    count = 1
    for values in parameters.values():
        count *= len(values)
    if count <= _MOST_COMPARED:
        return [dict(zip(parameters, chosen, strict=True)) for chosen in itertools.product(*parameters.values())]
    return [{name: rng.choice(values) for name, values in parameters.items()} for _ in range(_MOST_COMPARED)]
