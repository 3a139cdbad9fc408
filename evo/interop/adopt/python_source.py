"""A Python file that holds its kernel as a string (`load_inline`): the CUDA text, and the shapes that the file uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evo.interop.adopt.host_values import problem
from evo.spec.source_text import read_source

Dims = list[tuple[str | None, int]]  # of each dimension its name in the file, if it has one, and its length
_MADE = ("rand", "randn", "zeros", "ones", "empty", "randint", "full", "rand_like", "randn_like")
_SAME = ("cuda", "contiguous", "to", "half", "float", "Parameter", "requires_grad_", "t")


def cuda_text(path: Path, source: str) -> str:
    """The strings with CUDA code, each at its own lines. Raises SyntaxInvalid if the file is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise problem(
            path, error.lineno, f"is not Python: {error.msg}", "adopt reads CUDA, or Python with CUDA in strings"
        ) from None
    found = sorted((node.lineno, node.value) for node in ast.walk(tree) if _is_code(node))  # type: ignore[attr-defined]
    text = ""
    for line, code in found:
        text += "\n" * max(1 if text else 0, line - 1 - text.count("\n")) + code
    return text


def _is_code(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "{" not in node.value:
        return False
    return "__global__" in node.value or "<<<" in node.value or "__device__" in node.value


@dataclass(frozen=True)
class LauncherArgument:
    """What a call of the launcher passes: a tensor's dimensions, or a number."""

    dims: Dims | None = None
    number: float | None = None


def arguments_of(path: Path) -> dict[str, list[LauncherArgument]]:
    """By function of the extension, what the Python code calls it with; an empty one for what cannot be told."""
    if path.suffix != ".py":
        return {}
    reader = _Reader(ast.parse(read_source(path)))
    found: dict[str, list[LauncherArgument]] = {}
    for scope, call in reader.calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        passed = [reader.argument(node, scope) for node in call.args]
        if _told(passed) >= _told(found.get(name, [])):
            found[name] = passed
    return found


def _told(passed: list[LauncherArgument]) -> int:
    return sum(argument != LauncherArgument() for argument in passed)


class _Reader:
    """The file's own names and what they were set to, followed without running anything."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.module = _assigned(tree)
        self.functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self.depth = 0

    def calls(self) -> Iterator[tuple[dict[str, ast.expr], ast.Call]]:
        for call in _calls(self.tree.body):
            yield self.module, call
        for made in (n for n in self.tree.body if isinstance(n, ast.ClassDef)):
            methods = {n.name: n for n in made.body if isinstance(n, ast.FunctionDef)}
            scope = dict(self.module)
            if (begin := methods.get("__init__")) is not None:
                scope |= self._bound(begin, "get_init_inputs")
                scope |= _assigned(begin)
            if (forward := methods.get("forward")) is not None:
                scope |= self._bound(forward, "get_inputs")
                for call in _calls(forward.body):
                    yield scope, call

    def _bound(self, method: ast.FunctionDef, source: str) -> dict[str, ast.expr]:
        """Parameters, and the values that the function of that name returns for them."""
        function = self.functions.get(source)
        if function is None:
            return {}
        local = _assigned(function)
        returned = next((n.value for n in function.body if isinstance(n, ast.Return)), None)
        values = returned.elts if isinstance(returned, ast.List | ast.Tuple) else []
        known = self.module | local
        values = [known.get(v.id, v) if isinstance(v, ast.Name) else v for v in values]
        return dict(zip([a.arg for a in method.args.args[1:]], values, strict=False))

    def argument(self, node: ast.expr, scope: dict[str, ast.expr]) -> LauncherArgument:
        self.depth += 1
        try:
            return self._argument(node, scope) if self.depth < 20 else LauncherArgument()
        finally:
            self.depth -= 1

    def _argument(self, node: ast.expr, scope: dict[str, ast.expr]) -> LauncherArgument:
        key = _key(node)
        if key is not None:
            return self.argument(scope[key], scope) if key in scope and scope[key] is not node else LauncherArgument()
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return LauncherArgument(number=float(node.value))
        if not isinstance(node, ast.Call):
            return LauncherArgument()
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _MADE:
            return LauncherArgument(dims=self._dims(node.args, scope))
        if name in _SAME:
            is_torch = isinstance(node.func, ast.Attribute) and _key(node.func.value) not in ("torch", "nn", "torch.nn")
            inner = node.func.value if is_torch and isinstance(node.func, ast.Attribute) else node.args[0]
            return self.argument(inner, scope) if node.args or is_torch else LauncherArgument()
        return LauncherArgument()

    def _dims(self, nodes: list[ast.expr], scope: dict[str, ast.expr]) -> Dims | None:
        if nodes and isinstance(nodes[-1], ast.List | ast.Tuple):
            nodes = nodes[-1].elts
        found: Dims = []
        for node in nodes:
            name, value = self._number(node, scope)
            if value is None:
                return None
            found.append((name, value))
        return found or None

    def _number(self, node: ast.expr, scope: dict[str, ast.expr]) -> tuple[str | None, int | None]:
        name = None
        for _ in range(8):
            key = _key(node)
            if key is None or key not in scope:
                break
            name, node = key.rpartition(".")[2], scope[key]
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return name, node.value
        return (name, _folded(node, {n: v for n in scope if (v := self._plain(n, scope)) is not None}))

    def _plain(self, name: str, scope: dict[str, ast.expr]) -> int | None:
        node = scope[name]
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _folded(node: ast.expr, values: dict[str, int]) -> int | None:
    """A product, sum or power of whole numbers."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if isinstance(node, ast.BinOp):
        left, right = _folded(node.left, values), _folded(node.right, values)
        if left is None or right is None:
            return None
        match node.op:
            case ast.Mult():
                return left * right
            case ast.Add():
                return left + right
            case ast.Pow() if 0 <= right < 40:
                return int(left**right)
            case ast.LShift() if 0 <= right < 40:
                return left << right
    return None


def _key(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (inner := _key(node.value)) is not None:
        return f"{inner}.{node.attr}"
    return None


def _assigned(tree: ast.Module | ast.FunctionDef) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = zip(target.elts, value.elts, strict=False) if is_pair else [(target, value)]  # type: ignore[attr-defined]
        found |= {key: each for place, each in pairs if (key := _key(place)) is not None}
    return found


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))
