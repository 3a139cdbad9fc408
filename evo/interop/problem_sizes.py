"""The hard-coded sizes of a problem file as axes: found on the syntax tree, and replaced there for other cases.

A problem is a Python file with `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`. An axis is one integer
that those two functions reach: a constant at the top of the file or in a class of settings, a default or a literal in
the functions. Knows no torch.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType

from evo.errors import SyntaxInvalid
from evo.spec.source_text import read_source

ENTRY = ("get_inputs", "get_init_inputs")
_HINT = "a problem file has `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`"
_DIMENSION = re.compile(r"(?:^|_)(?:DIM|AXIS)$")  # names of parameters that select a dimension and are no length
_DIMENSIONS = 5
_LEAST_LITERAL = 8  # a smaller one in get_inputs() is a dimension, a factor or a count of choices
_LARGEST = 2**31 - 1
_RESERVED = {"ON", "OFF", "NO", "YES", "TRUE", "FALSE", "NULL"}  # YAML reads these words as booleans or null
_LARGEST_FILE = 1_000_000

Place = tuple[int, int]


@dataclass(frozen=True)
class ProblemSizes:
    """A problem's text and its axes with the file's own values; places: the position of each.

    drawn: the axes that the module is not built with; one that changes no shape either is a part of the values.
    """

    path: Path
    text: str
    axes: dict[str, int]
    places: dict[str, Place]
    drawn: frozenset[str] = frozenset()

    def without(self, names: Iterable[str]) -> ProblemSizes:
        """The same with fewer axes; the other integers keep the file's values."""
        gone = set(names)
        return replace(
            self,
            axes={axis: value for axis, value in self.axes.items() if axis not in gone},
            places={axis: place for axis, place in self.places.items() if axis not in gone},
        )

    def code(self, values: Mapping[str, int]) -> CodeType:
        """The file compiled with other sizes."""
        wanted = {place: values.get(axis, self.axes[axis]) for axis, place in self.places.items()}
        tree = ast.parse(self.text)
        _Replaced(wanted).visit(tree)
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec", dont_inherit=True)


class _Replaced(ast.NodeTransformer):
    def __init__(self, wanted: Mapping[Place, int]) -> None:
        self.wanted = wanted

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset) in self.wanted and _integer(node) is not None:
            return ast.copy_location(ast.Constant(self.wanted[node.lineno, node.col_offset]), node)
        return super().generic_visit(node)


def read_sizes(path: Path) -> ProblemSizes:
    """Read a problem file. Raises SyntaxInvalid naming file and line if it is not one."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SyntaxInvalid(path, None, f"{path.stat().st_size:,} bytes", hint=_HINT)
        text = read_source(path, wanted="a problem file")
        tree = ast.parse(text)
    except FileNotFoundError:
        raise SyntaxInvalid(path, None, "no such file", hint="give the path of a problem file") from None
    except OSError as error:
        raise SyntaxInvalid(path, None, f"cannot be read: {error.strerror or error}", hint=_HINT) from None
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SyntaxInvalid(path, getattr(error, "lineno", None), f"not Python: {error}", hint=_HINT) from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing, model = [name for name in ENTRY if name not in functions], _model(tree)
    if missing or model is None:
        words = ", ".join([*([] if model else ["class Model"]), *(f"{name}()" for name in missing)])
        raise SyntaxInvalid(path, 1, f"no {words} at the top of the file", hint=_HINT)
    found: dict[str, tuple[int, Place]] = {}
    built = {(n.lineno, n.col_offset) for _, n in _integers_of(tree, functions, _reached(tree, ENTRY[1:]))}
    for wish, node in (
        *_integers_of(tree, functions, _reached(tree, ENTRY)),
        *_returned(functions["get_init_inputs"], _parameters(model)),
    ):
        value, place = _integer(node), (node.lineno, node.col_offset)
        if value is not None and value < _DIMENSIONS and _DIMENSION.search(axis_name(wish)):
            continue
        if value is not None and 0 <= value <= _LARGEST and place not in [known for _, known in found.values()]:
            found[_free(wish, found)] = (value, place)
    places = {axis: place for axis, (_, place) in found.items()}
    built |= {(n.lineno, n.col_offset) for _, n in _returned(functions["get_init_inputs"], [])}
    drawn = frozenset(axis for axis, place in places.items() if place not in built)
    return ProblemSizes(path, text, {axis: value for axis, (value, _) in found.items()}, places, drawn)


def _model(tree: ast.Module) -> ast.ClassDef | None:
    """The class named Model, or the class of which Model is an alias."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name, value in _assigned(tree.body):
        if name == "Model" and isinstance(value, ast.Name) and value.id in classes:
            return classes[value.id]
    return classes.get("Model")


def axis_name(text: str) -> str:
    """A word as the name of an axis: upper case, and not reserved in YAML or C."""
    name = re.sub(r"\W", "_", text).upper()
    if not name or name[0].isdigit() or name in _RESERVED or keyword.iskeyword(name.lower()):
        name = f"N_{name}".rstrip("_")
    return name


def _free(wish: str, taken: Mapping[str, object]) -> str:
    name = axis_name(wish)
    while name in taken:
        name += "_2"
    return name


def _integer(node: ast.AST) -> int | None:
    """The value of a literal integer, or of arithmetic on literal integers such as 2 ** 14."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.BinOp):
        left, right = _integer(node.left), _integer(node.right)
        if left is None or right is None or not (0 <= left <= _LARGEST and 0 <= right <= _LARGEST):
            return None
        if isinstance(node.op, ast.Pow):
            return left**right if right <= 64 and left <= 1024 else None
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.LShift):
            return left << right if right < 64 else None
        if isinstance(node.op, ast.FloorDiv):
            return left // right if right else None
    return None


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names and values of assignments, `a, b = 1, 2` taken apart; of `a, b = sizes` each name has the whole value."""
    for node in body:
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                parts = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else []
                values = parts if target not in names and len(parts) == len(names) else [node.value] * len(names)
                pairs = zip(names, values, strict=True)
                yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


def _reached(tree: ast.Module, entries: Iterable[str]) -> set[str]:
    """The names that these functions use, by themselves or through others of the file."""
    values: dict[str, list[ast.AST]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            values[node.name] = [node]
    for name, constant in _assigned(tree.body):
        values.setdefault(name, []).append(constant)
    found: set[str] = set()
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for value in values.get(name, []):
            waiting += [inner.id for inner in ast.walk(value) if isinstance(inner, ast.Name)]
    return found


def _integers_of(
    tree: ast.Module, functions: Mapping[str, ast.FunctionDef], reached: set[str]
) -> Iterator[tuple[str, ast.expr]]:
    """Constants, settings in classes, defaults of parameters, and literals that are long enough to be lengths."""
    yield from _constants(tree.body, reached)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in reached and node is not _model(tree):
            fields = {name for name, _ in _assigned(node.body)}
            yield from ((f"{node.name}_{name}", value) for name, value in _constants(node.body, fields))
    helpers = [function for name, function in functions.items() if name in reached and name != "get_init_inputs"]
    for function in helpers:
        given = function.args
        pairs = [*zip(given.args[::-1], given.defaults[::-1], strict=False)][::-1]
        pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
        for parameter, default in pairs:
            yield from _integers_in(parameter.arg, default)
    literals = [literal for function in helpers for line in function.body for literal in _outermost(line)]
    for number, literal in enumerate(i for i in literals if (_integer(i) or 0) >= _LEAST_LITERAL):
        yield f"size_{number}", literal


def _constants(body: Sequence[ast.stmt], reached: set[str]) -> Iterator[tuple[str, ast.expr]]:
    names = [name for name, _ in _assigned(body)]
    for name, value in _assigned(body):
        if name in reached and names.count(name) == 1:  # with several assignments the effective one is unknown
            yield from _integers_in(name, value)


def _integers_in(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The integers of a constant: itself, or those of a tuple, a list, a dict or a call by their place."""
    if _integer(value) is not None:
        yield name, value
    elif isinstance(value, ast.Tuple | ast.List):
        several = [element for element in value.elts if _integer(element) is not None]
        for number, element in enumerate(several):
            yield (f"{name}_{number}" if len(several) > 1 else name), element
    elif isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from _integers_in(f"{name}_{key.value}".lstrip("_"), inner)
    elif isinstance(value, ast.Call):
        yield from _integers_in(name, value.args[0] if len(value.args) == 1 else ast.Tuple(value.args))
        for keyword_ in value.keywords:
            yield from _integers_in(f"{name}_{keyword_.arg}", keyword_.value)


def _returned(function: ast.FunctionDef, parameters: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    """The integers that get_init_inputs() returns, by the module's parameters; also as `[arguments], {named}`."""
    for node in ast.walk(function):
        given = node.value if isinstance(node, ast.Return) else None
        match given:
            case ast.List(elts=[first, ast.Dict() as named]) | ast.Tuple(elts=[first, ast.Dict() as named]):
                given = first
                yield from _integers_in("", named)
        if isinstance(given, ast.Tuple | ast.List):
            for index, element in enumerate(given.elts):
                yield from _integers_in(parameters[index] if index < len(parameters) else f"init_{index}", element)
        elif isinstance(given, ast.Dict):
            yield from _integers_in("", given)


def _outermost(node: ast.AST) -> Iterator[ast.expr]:
    """The largest expressions that are integers, in the order of the text."""
    if isinstance(node, ast.expr) and _integer(node) is not None:
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _outermost(child)


def _parameters(model: ast.ClassDef) -> list[str]:
    """The names of Model.__init__'s parameters, without self."""
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)][1:]
    return []
