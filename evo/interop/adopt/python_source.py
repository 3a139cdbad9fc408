"""Python that holds a kernel as a string (`load_inline`), or calls that of a `.cu` file: text, shapes and numbers."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evo.interop.adopt.fills import PLACE, UNTOLD
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied, factors, names_of
from evo.interop.adopt.host_values import problem
from evo.interop.adopt.python_launches import MADE, OPERATORS, SAME, called, launchers_of, numbers_of
from evo.spec.source_text import read_source

Dims = list[HostNumber]
_MADE = frozenset([*MADE, "rand_like", "randn_like"])
_MODULES = ("torch", "nn", "torch.nn", "cp", "np", "cupy", "numpy", "gpuarray", "cuda")
_SAME = re.compile(rf"{SAME}|cuda|contiguous|to|half|long|Parameter|requires_grad_|t")
_BOUND = re.compile(r"\bdef\s*\(\s*\"(\w+)\"\s*,\s*&?\s*(?:\w+::)*(\w+)")  # `m.def("name", &function)`
_DEFAULT = re.compile(
    r"\barg\(\"(\w+)\"\)(?:[ ]*=[ ]*([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))?"
)  # `py::arg("groups") = 32`


def cuda_text(path: Path, source: str) -> str:
    """The strings with CUDA code and what launches them, at their own lines. Raises SyntaxInvalid."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise problem(
            path, error.lineno, f"is not Python: {error.msg}", "adopt reads CUDA, or Python with CUDA in strings"
        ) from None
    filled = _filled_in(tree)
    codes = [
        (node.lineno, str(node.value)) for node in ast.walk(tree) if isinstance(node, ast.Constant) and _is_code(node)
    ]
    found = sorted((line, filled.get(code, code)) for line, code in codes)
    for first, last, launcher in launchers_of(tree, "\n".join(code for _, code in found)):
        is_apart = not any(first <= line <= last for line, _ in found)
        found.append((first if is_apart else len(source.splitlines()) + 1, launcher))
    found.sort()
    text = ""
    for line, code in found:
        text += "\n" * max(1 if text else 0, line - 1 - text.count("\n")) + code
    return text


def _filled_in(tree: ast.Module) -> dict[str, str]:
    """By text, what `text % {"BLOCK": BLOCK}` or `text % (BLOCK, 4)` makes of it, with constants of the file."""
    known: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            known |= {one.id: node.value.value for one in node.targets if isinstance(one, ast.Name)}

    def value(node: ast.expr | None) -> object:
        if isinstance(node, ast.Constant):
            return node.value
        return known[node.id] if isinstance(node, ast.Name) else None

    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
            continue
        right = node.right
        with contextlib.suppress(KeyError, TypeError, ValueError):  # what nothing in the file tells
            text = value(node.left)
            given: object = tuple(map(value, right.elts)) if isinstance(right, ast.Tuple) else value(right)
            if isinstance(right, ast.Dict):
                given = {value(key): value(one) for key, one in zip(right.keys, right.values, strict=True)}
            if isinstance(text, str):
                found[text] = text % given
    return found


def _is_code(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "{" not in node.value:
        return False
    return "__global__" in node.value or "<<<" in node.value or "__device__" in node.value


@dataclass(frozen=True)
class LauncherArgument:
    """What a call of the launcher passes: a tensor's dimensions, or a number.

    fill: what is in a tensor, as a tree of `fills`. sizes: the numbers that the names in both stand for.
    """

    dims: Dims | None = None
    number: float | None = None
    fill: object = None
    sizes: Mapping[str, int] = field(default_factory=dict)


def macros_in(source: str) -> dict[str, str]:
    """What a Python file has CUDA compiled with: `f"-DWINDOW={window}"`, `"-DN=256"`."""
    tree = ast.parse(source)
    told = {name: str(value) for name, value in numbers_of(tree).items()}
    found: dict[str, str] = {}
    for text in (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.Constant)):
        for name, value in re.findall(r"-D ?(\w++)=\{?(\w++)\}?", text):
            number = value if value.isdigit() else told.get(value)
            found |= {name: number} if number is not None else {}
    return found


def arguments_of(path: Path) -> dict[str, list[LauncherArgument]]:
    """By function of the extension, what Python calls it with; an empty one for what cannot be told.

    The Python is the file itself, or stands beside it and names it.
    """
    source = read_source(path)
    found: dict[str, list[LauncherArgument]] = {}
    for text in [source] if path.suffix == ".py" else _beside(path):
        try:
            reader = _Reader(ast.parse(text))
        except SyntaxError:
            continue  # a file beside that is no Python of this version
        for scope, call in reader.calls():
            name = called(call)
            passed = [reader.argument(node, scope) for node in call.args]
            if _told(passed) >= _told(found.get(name, [])):
                found[name] = passed
    for bound in _BOUND.finditer(source):
        name, function = bound.groups()
        defaults = _DEFAULT.findall(source[bound.end() :].partition(";")[0])
        if name in found:
            found.setdefault(function, found[name])
        elif any(number for _, number in defaults):
            found[function] = [LauncherArgument(number=float(number) if number else None) for _, number in defaults]
    return found


def _beside(path: Path) -> Iterator[str]:
    """Python files of the same folder that name a CUDA file."""
    for other in sorted(path.parent.glob("*.py")):
        text = other.read_text(encoding="utf-8", errors="replace")
        if path.name in text:
            yield text


def _told(passed: list[LauncherArgument]) -> int:
    return sum(argument != LauncherArgument() for argument in passed)


_MOST_VALUES = 64


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
        for function in self.functions.values():
            for call in _calls(function.body):
                yield self.module | _assigned(function), call
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
        match returned:  # `[torch.randn(n) for _ in range(3)]`
            case ast.ListComp(elt=each, generators=[ast.comprehension(iter=ast.Call(args=[ast.Constant(int(n))]))]):
                values = [each] * min(n, _MOST_VALUES)
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
        number = self._number(node, scope)
        if number is not None or not isinstance(node, ast.Call):
            return LauncherArgument(number=number)
        name = called(node)
        if name in _MADE:
            shape = [word.value for word in node.keywords if word.arg in ("size", "shape")]
            return self._made(name, shape or node.args, scope)
        if name in ("arange", "randperm") and node.args:
            return self._counted(name, node.args, scope)
        if name in ("cat", "pad", "cumsum") and node.args:
            return self._summed(name, node, scope)
        if _SAME.fullmatch(name):
            is_torch = isinstance(node.func, ast.Attribute) and _key(node.func.value) not in _MODULES
            inner = node.func.value if is_torch and isinstance(node.func, ast.Attribute) else node.args[0]
            return self.argument(inner, scope) if node.args or is_torch else LauncherArgument()
        return LauncherArgument()

    def _number(self, node: ast.expr, scope: dict[str, ast.expr]) -> float | None:
        """`1.0 / math.sqrt(D)`, `D ** -0.5`."""
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name() | ast.Attribute():
                return self.argument(node, scope).number
            case ast.UnaryOp(op=ast.USub(), operand=inner) if (found := self._number(inner, scope)) is not None:
                return -found
            case ast.Call(args=[inner]) if called(node) == "sqrt":
                return _power(self._number(inner, scope), 0.5)
            case ast.BinOp(op=ast.Pow()):
                return _power(self._number(node.left, scope), self._number(node.right, scope))
            case ast.BinOp() if type(node.op) in OPERATORS:
                sides = [self._number(side, scope) for side in (node.left, node.right)]
                if None not in sides:
                    operator = "//" if isinstance(node.op, ast.FloorDiv) else OPERATORS[type(node.op)]
                    return applied(operator, *(HostNumber.number(s) for s in sides if s is not None)).value
        return None

    def _made(self, name: str, nodes: list[ast.expr], scope: dict[str, ast.expr]) -> LauncherArgument:
        shape = nodes[:1] if name == "full" else nodes
        fill: object = {"zeros": 0, "ones": 1}.get(name)
        numbers = [self._size(node, scope).how for node in nodes[:-1]] if name == "randint" else []
        if numbers and None not in numbers:
            fill = ("random", numbers[0] if len(numbers) > 1 else 0, numbers[-1])
        if name == "full" and len(nodes) > 1:
            fill = self._size(nodes[1], scope).how
        return self._argued(self._dims(shape, scope), fill, scope)

    def _counted(self, name: str, nodes: list[ast.expr], scope: dict[str, ast.expr]) -> LauncherArgument:
        """`torch.arange(0, n * k + 1, k)`, `torch.randperm(n)`."""
        sizes = [self._size(node, scope) for node in nodes[:3]]
        if any(size.how is None for size in sizes):
            return LauncherArgument()
        first = sizes[0] if len(sizes) > 1 else HostNumber.number(0)
        step = sizes[2] if len(sizes) > 2 else HostNumber.number(1)
        length = applied("-", sizes[min(1, len(sizes) - 1)], first)
        rows = length.how[1] if isinstance(length.how, tuple) and length.how[0] == "+" and length.how[2] == 1 else None
        if rows is not None and step.how in factors(rows):  # and the end of the last one
            whole = applied("//", HostNumber(None if length.value is None else length.value - 1, rows), step)
            length = applied("+", whole, HostNumber.number(1))
        else:
            length = applied("ceil_div", length, step) if step.how != 1 else length
        row = ("*", PLACE, step.how) if step.how != 1 else PLACE
        fill = ("shuffled", PLACE) if name == "randperm" else ("+", row, first.how) if first.how != 0 else row
        return self._argued([length], fill, scope)

    def _summed(self, name: str, node: ast.Call, scope: dict[str, ast.expr]) -> LauncherArgument:
        """`lengths.cumsum(0)`, and with a zero before it: `torch.cat([torch.zeros(1), ...])`, `F.pad(..., (1, 0))`."""
        if name == "cumsum":
            is_method = isinstance(node.func, ast.Attribute) and _key(node.func.value) != "torch"
            inner = node.func.value if is_method and isinstance(node.func, ast.Attribute) else node.args[0]
            found = self.argument(inner, scope)
            fill = UNTOLD if found.fill is None else ("sum", found.fill, 0, ("+", PLACE, 1))
            return replace(found, fill=fill)
        parts = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else [node.args[0]]
        found = self.argument(parts[-1], scope)
        is_sum = isinstance(found.fill, tuple) and found.fill[0] == "sum" and found.fill[3] != PLACE
        if not found.dims or not is_sum or len(parts) > 2:
            return LauncherArgument()
        assert isinstance(found.fill, tuple)
        return replace(found, dims=[applied("+", found.dims[0], HostNumber.number(1))], fill=(*found.fill[:3], PLACE))

    def _argued(self, dims: Dims | None, fill: object, scope: dict[str, ast.expr]) -> LauncherArgument:
        names = {n for dim in dims or [] for n in dim.names} | names_of(fill)
        values = {key.rpartition(".")[2]: self._size(node, scope).value for key, node in scope.items()}
        sizes = {name: int(value) for name in names if (value := values.get(name)) is not None}
        return LauncherArgument(dims=dims, fill=fill, sizes=sizes)

    def _dims(self, nodes: list[ast.expr], scope: dict[str, ast.expr]) -> Dims | None:
        if nodes and isinstance(nodes[-1], ast.List | ast.Tuple):
            nodes = nodes[-1].elts
        found = [self._size(node, scope) for node in nodes]
        return found if found and all(size.value is not None for size in found) else None

    def _size(self, node: ast.expr, scope: dict[str, ast.expr], depth: int = 8) -> HostNumber:
        """A number, in terms of the names that the file gives to numbers."""
        if isinstance(node, ast.Constant):
            return HostNumber.number(node.value) if type(node.value) is int else UNKNOWN
        if depth and (key := _key(node)) is not None and key in scope:
            found = self._size(scope[key], scope, depth - 1)
            return HostNumber.named(key.rpartition(".")[2], found.value) if isinstance(found.how, int) else found
        if not isinstance(node, ast.BinOp):
            return UNKNOWN
        left, right = self._size(node.left, scope, depth), self._size(node.right, scope, depth)
        if isinstance(node.op, ast.Pow) and isinstance(left.how, int) and isinstance(right.how, int) and right.how < 40:
            return HostNumber.number(left.how**right.how)
        operator = OPERATORS.get(type(node.op)) if not isinstance(node.op, ast.Div) else None
        is_large = operator == "<<" and not (isinstance(right.value, int) and 0 <= right.value < 40)
        return UNKNOWN if operator is None or is_large else applied("//" if operator == "/" else operator, left, right)


def _power(base: float | None, exponent: float | None) -> float | None:
    with contextlib.suppress(OverflowError, ZeroDivisionError):
        return base**exponent if base is not None and exponent is not None and base >= 0 else None
    return None


def _key(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (inner := _key(node.value)) is not None:
        return f"{inner}.{node.attr}"
    return None


def _assigned(tree: ast.Module | ast.FunctionDef) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in _statements(tree.body):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = zip(target.elts, value.elts, strict=False) if is_pair else [(target, value)]  # type: ignore[attr-defined]
        found |= {key: each for place, each in pairs if (key := _key(place)) is not None}
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of blocks included, `if __name__ == "__main__":`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.With | ast.For | ast.Try):
            yield from _statements(statement.body)


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))
