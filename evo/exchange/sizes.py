"""The sizes that a problem file hard-codes, as axes: found on the syntax tree, and replaced there for other cases.

A problem is a Python file with `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`. An axis is one integer
that those two functions reach: a constant at the top of the file, or a literal in the functions. Knows no torch.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from evo.errors import SyntaxInvalid

ENTRY = ("get_inputs", "get_init_inputs")
_HINT = "a problem file has `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`"
_DIMENSION = re.compile(r"(?:^|_)(?:DIM|AXIS)$")  # of a small value: which dimension, no length
_DIMENSIONS = 5
_LEAST_LITERAL = 8  # a smaller one in get_inputs() is a dimension, a factor or a count of choices
_LARGEST = 2**31 - 1
_RESERVED = {"ON", "OFF", "NO", "YES", "TRUE", "FALSE", "NULL"}  # words that YAML reads as something else
_LARGEST_FILE = 1_000_000

Place = tuple[int, int]


@dataclass(frozen=True)
class Sizes:
    """A problem's text and its axes with the file's own values; places say where each stands."""

    path: Path
    text: str
    axes: dict[str, int]
    places: dict[str, Place]

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


def read_sizes(path: Path) -> Sizes:
    """Read a problem file. Raises SyntaxInvalid naming file and line where it is not one."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SyntaxInvalid(path, None, f"{path.stat().st_size:,} bytes", hint=_HINT)
        text = path.read_text(encoding="utf-8-sig")
        tree = ast.parse(text)
    except FileNotFoundError:
        raise SyntaxInvalid(path, None, "no such file", hint="give the path of a problem file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SyntaxInvalid(path, None, f"cannot be read: {error}", hint=_HINT) from None
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SyntaxInvalid(path, getattr(error, "lineno", None), f"not Python: {error}", hint=_HINT) from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    missing = [name for name in ENTRY if name not in functions]
    if missing or not models:
        words = ", ".join([*([] if models else ["class Model"]), *(f"{name}()" for name in missing)])
        raise SyntaxInvalid(path, 1, f"no {words} at the top of the file", hint=_HINT)
    found: dict[str, tuple[int, Place]] = {}
    reached = _reached(tree, functions)
    for wish, node in (*_constants(tree, reached), *_literals(functions, _parameters(models[-1]))):
        value = _integer(node)
        if value is not None and value < _DIMENSIONS and _DIMENSION.search(axis_name(wish)):
            continue
        if value is not None and 0 <= value <= _LARGEST:
            found[_free(wish, found)] = (value, (node.lineno, node.col_offset))
    return Sizes(path, text, {a: v for a, (v, _) in found.items()}, {a: p for a, (_, p) in found.items()})


def axis_name(text: str) -> str:
    """A word as the name of an axis: upper case, no word that YAML or C takes for itself."""
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


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names and values of the assignments at the top of the file, `a, b = 1, 2` taken apart."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif (
                    isinstance(target, ast.Tuple)
                    and isinstance(node.value, ast.Tuple)
                    and len(target.elts) == len(node.value.elts)
                ):
                    pairs = zip(target.elts, node.value.elts, strict=True)
                    yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


def _reached(tree: ast.Module, functions: Mapping[str, ast.FunctionDef]) -> set[str]:
    """The names that get_inputs() and get_init_inputs() use, by themselves or through others of the file."""
    values: dict[str, list[ast.AST]] = {name: [node] for name, node in functions.items()}
    for name, value in _assigned(tree):
        values.setdefault(name, []).append(value)
    found: set[str] = set()
    waiting = list(ENTRY)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for node in values.get(name, []):
            waiting += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    return found


def _constants(tree: ast.Module, reached: set[str]) -> Iterator[tuple[str, ast.expr]]:
    names = [name for name, _ in _assigned(tree)]
    for name, value in _assigned(tree):
        if name not in reached or names.count(name) > 1:  # which one counts is not seen from here
            continue
        yield from _integers_in(name, value)


def _integers_in(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The integers of a constant: itself, or those of a tuple, a list or a dict by their place."""
    if _integer(value) is not None:
        yield name, value
    elif isinstance(value, ast.Tuple | ast.List):
        several = [element for element in value.elts if _integer(element) is not None]
        for number, element in enumerate(several):
            yield (f"{name}_{number}" if len(several) > 1 else name), element
    elif isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from _integers_in(f"{name}_{key.value}", inner)


def _literals(functions: Mapping[str, ast.FunctionDef], parameters: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """Literals in the functions: sizes in calls of get_inputs(), and what get_init_inputs() returns."""
    number = 0
    for node in _outermost(functions["get_inputs"]):
        if (_integer(node) or 0) >= _LEAST_LITERAL:
            yield f"size_{number}", node
            number += 1
    for returned in ast.walk(functions["get_init_inputs"]):
        if not isinstance(returned, ast.Return) or not isinstance(returned.value, ast.List | ast.Tuple):
            continue
        for index, element in enumerate(returned.value.elts):
            name = parameters[index] if index < len(parameters) else f"init_{index}"
            if _integer(element) is not None:
                yield name, element
            elif isinstance(element, ast.Tuple | ast.List):
                for inner, part in enumerate(element.elts):
                    if _integer(part) is not None:
                        yield f"{name}_{inner}", part


def _outermost(node: ast.AST) -> Iterator[ast.expr]:
    """The largest expressions that are integers, in the order of the text."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and _integer(child) is not None:
            yield child
        else:
            yield from _outermost(child)


def _parameters(model: ast.ClassDef) -> list[str]:
    """The names of Model.__init__'s parameters, without self."""
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)][1:]
    return []
