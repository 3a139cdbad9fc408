"""Launches that Python makes (CuPy's RawKernel, PyCUDA's get_function) as a launcher in C++, which adopt can run.

Only what sizes, grids and arguments depend on is put into C++: numbers, shapes, new arrays. The rest is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from evo.cuda.source import Param, kernel_signatures
from evo.spec.element_types import ELEMENT_TYPES, OF_C_TYPE

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Div: "/",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
MADE = {"zeros": "zeros", "empty": "empty", "ones": "ones", "rand": "empty", "randn": "empty"}
MADE |= dict.fromkeys(("random", "standard_normal", "normal", "uniform", "integers", "randint", "full"), "empty")
_LIKE = ("zeros_like", "empty_like", "ones_like")
SAME = r"astype|as(?:contiguous)?array|array|to_gpu|to_device|int|float"  # what they give is as long as what they get
_ITSELF = re.compile(rf"{SAME}|copy|ravel|reshape|get|In|Out|InOut|uint32|int32|u?int64|intp|float32|float64")
_GLOBAL = re.compile(r'(?:template\s*<[^<>]*>\s*|extern\s+"C"\s+)?__global__')
_NOTHING = ast.arguments([], [], None, [], [], None, [])
_PARTS = ("shape", "nbytes", "T", "dtype", "itemsize", "strides", "data", "ndim")  # of arrays
_FIELD = "1024"  # of a field that is a whole number, if nothing tells it
_COMPOUND = (ast.If, ast.With, ast.For, ast.While, ast.Try)


def launchers_of(tree: ast.Module, code: str) -> list[tuple[int, int, str]]:
    """For each function that launches, and for the file itself, first line, last line and the launcher's text.

    code: the CUDA of the file.
    """
    constants = _constants(tree)
    handles = _handles(tree, constants)
    if not handles:
        return []
    kernels = kernel_signatures(_GLOBAL.sub('extern "C" __global__', code))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    numbers = numbers_of(tree)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    modules = {(name.asname or name.name).partition(".")[0] for node in imports for name in node.names}
    found = [_Launcher(handles, kernels, each.args, numbers, modules).text(each.name, each.body) for each in functions]
    own = [statement for statement in tree.body if not isinstance(statement, ast.FunctionDef | ast.ClassDef)]
    found.append(_Launcher(handles, kernels, _NOTHING, _fields(tree), modules).text("file_launches", own))
    return [each for each in found if each is not None]


def _constants(tree: ast.Module) -> dict[str, object]:
    """What the file sets to a number or a string."""
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def numbers_of(tree: ast.Module) -> dict[str, int | float]:
    """Numbers by name: constants of the file, and what objects of its classes have."""
    return {n: v for n, v in _constants(tree).items() if isinstance(v, int | float)} | _fields(tree)


def _fields(tree: ast.Module) -> dict[str, int | float]:
    """Numbers that objects of the file's classes have: defaults of fields, `self.tile = 16`, `Config(tile=32)`."""
    told: dict[str, ast.expr] = {}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for node in (node for each in classes for node in ast.walk(each)):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                told[name] = value
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                told[name] = told.get(value.id, value) if isinstance(value, ast.Name) else value
            case ast.FunctionDef(name="__init__", args=given) if given.defaults:
                last = zip(reversed(given.args), reversed(given.defaults), strict=False)
                told |= {param.arg: value for param, value in last}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if called(call) in {each.name for each in classes}:
            told |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    numbers = {name: value.value for name, value in told.items() if isinstance(value, ast.Constant)}
    return {name: value for name, value in numbers.items() if type(value) in (int, float)}  # type: ignore[misc]


def _handles(tree: ast.Module, constants: Mapping[str, object]) -> dict[str, str]:
    """What Python calls the kernels: `k = cp.RawKernel(code, "name")`, `k = module.get_function(f"name<{WIDTH}>")`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        if call is None or not isinstance(node, ast.Assign):
            continue
        name = called(call)
        place = {"RawKernel": 1, "get_function": 0}.get(name)
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "name")]
        word = given[min(place, len(given) - 1)] if place is not None and given else None
        if word is not None and (text := _text(word, constants)):
            found[ast.unparse(node.targets[0])] = text
    return found


def _text(node: ast.expr, constants: Mapping[str, object]) -> str | None:
    """A string that the file tells, with its constants in it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return str(constants[name]) if name in constants else None
        case ast.FormattedValue(value=inner):
            return _text(inner, constants)
        case ast.JoinedStr(values=values):
            parts = [_text(part, constants) for part in values]
            return "".join(part for part in parts if part is not None) if None not in parts else None
    return None


def _negated(node: ast.expr) -> ast.expr | None:
    """What `-n` and `-n * m` are the negative of."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return inner
        case ast.BinOp(op=ast.Mult(), left=left, right=right) if (first := _negated(left)) is not None:
            return ast.BinOp(first, ast.Mult(), right)
    return None


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


class _Launcher:
    """One function in C++. params: of the Python function."""

    def __init__(
        self,
        handles: dict[str, str],
        kernels: Mapping[str, Sequence[Param]],
        given: ast.arguments,
        constants: Mapping[str, int | float],
        modules: Collection[str],
    ) -> None:
        self.handles, self.kernels, self.modules = handles, kernels, modules
        self.params = [param.arg for param in given.args if param.arg != "self"]
        self.constants = {name: value for name, value in constants.items() if name not in self.params}
        self.used: set[str] = set()
        last = zip(reversed(self.params), reversed(given.defaults), strict=False)
        self.defaults = {name: value for name, node in last if (value := self._value(node)) is not None}
        self.known = set(self.params)
        self.shapes: dict[str, ast.expr] = {}
        self.lengths: dict[tuple[int, int], str] = {}  # numbers in shapes, by place from the end
        self.new_lengths: dict[tuple[int, int], str] = {}
        self.arrays: set[str] = set()
        self.reals: set[str] = set()
        self.wholes: set[str] = set()  # passed as whole numbers: sizes, also where a factor is made of them
        self.made_of: dict[str, set[str]] = {}
        self.launches = 0
        self.symbols: dict[str, str] = {}  # `taps, _ = module.get_global("taps")`
        self.raw: dict[str, int] = {}  # what PyCUDA allocates in bytes, and how many an element has

    def text(self, name: str, body: Sequence[ast.stmt]) -> tuple[int, int, str] | None:
        """First and last line, and a text of as many lines; None without a launch."""
        self._find_raw(body)
        lines = [(statement.lineno, text) for statement, text in self._statements(body)]
        if not self.launches or not body:
            return None
        kinds = {
            p: "torch::Tensor" if p in self.arrays else "float" if p in self.reals - self.wholes else "int"
            for p in self.params
        }
        first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
        told = {p: text for p, text in self.defaults.items() if kinds.get(p) != "torch::Tensor"}
        params = (f"{kinds[p]} {p}" + (f" = {told[p]}" if p in told else "") for p in self.params)
        made = f"torch::Tensor {name}({', '.join(params)}) {{ "
        made += "".join(f"auto {name} = {self.constants[name]}; " for name in sorted(self.used))
        for line, text in lines:
            made += "\n" * (line - first - made.count("\n")) + text
        return first, last, f"{made} }}"

    def _statements(self, body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
        for statement in body:
            if isinstance(statement, _COMPOUND):
                yield from self._statements(statement.body)
                yield from self._otherwise(getattr(statement, "orelse", []))
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                yield statement, self._assigned(statement.targets[0], statement.value)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                yield statement, self._launch(statement.value)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                yield statement, f"return {{{', '.join(self._names(statement.value))}}}; "

    def _otherwise(self, body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
        """What `else` sets that the branch before it sets to nothing known: an image from a file, numbers of argv."""
        for statement in body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(target, ast.Name) or target.id not in self.known:
                yield from self._statements([statement])

    def _find_raw(self, body: Sequence[ast.stmt]) -> None:
        """Which names are memory from `mem_alloc`: their elements are as wide as the kernels take them."""
        calls = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call)]
        for call in calls:
            params = self.kernels.get(self.handles.get(ast.unparse(call.func), "").partition("<")[0], ())
            for given, param in zip(call.args, params, strict=False):
                kind = OF_C_TYPE.get(re.sub(r"\bconst\b|__restrict__|\*", "", param.type).strip())
                if isinstance(given, ast.Name) and param.is_pointer and kind is not None:
                    self.raw[given.id] = ELEMENT_TYPES[kind].size_bytes

    def _copied(self, call: ast.Call) -> str:
        """`memcpy_htod(d, h)` and `memcpy_dtoh(h, d)`: from there on one is the other."""
        target, source = call.args[:2]
        if not isinstance(target, ast.Name):
            return ""
        if target.id in self.symbols:
            return f"cudaMemcpyToSymbol({self.symbols[target.id]}, nullptr, 0); "
        text = self._value(source)
        if text is None or text not in self.known or target.id not in self.known:
            return ""
        self.arrays.add(text)
        return f"{target.id} = {text}; "

    def _names(self, node: ast.expr) -> list[str]:
        return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.known]

    def _assigned(self, target: ast.expr, value: ast.expr) -> str:
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        if isinstance(first, ast.Name) and isinstance(value, ast.Call) and called(value) == "get_global":
            if value.args and isinstance(value.args[0], ast.Constant):
                self.symbols[first.id] = str(value.args[0].value)
            return ""
        if isinstance(value, ast.Call) and called(value) == "mem_alloc" and isinstance(target, ast.Name) and value.args:
            return self._allocated(target.id, value.args[0])
        if isinstance(target, ast.Tuple):
            places = enumerate(target.elts)
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                return "".join(self._assigned(each, value.elts[at]) for at, each in places)
            if isinstance(value, ast.Attribute) and value.attr == "shape":
                return "".join(self._assigned(each, ast.Subscript(value, ast.Constant(at))) for at, each in places)
            return ""
        if isinstance(target, ast.Name) and isinstance(value, ast.Attribute) and value.attr == "shape":
            self.shapes[target.id] = value
        if not isinstance(target, ast.Name) or (text := self._value(value)) is None:
            return ""
        declared = "" if target.id in self.known else "auto "
        names = self._names(value)
        self.made_of[target.id] = {*names, *(part for name in names for part in self.made_of.get(name, ()))}
        self.known.add(target.id)
        sizes = "".join(f"auto {name} = {length}; " for (length, _), name in self.new_lengths.items())
        self.lengths |= self.new_lengths
        self.new_lengths = {}
        return f"{sizes}{declared}{target.id} = {text}; "

    def _allocated(self, name: str, size: ast.expr) -> str:
        """Elements of memory from `mem_alloc(a.nbytes)` or `mem_alloc(4 * n)`."""
        if isinstance(size, ast.Attribute) and size.attr == "nbytes":
            count = self._of_array("numel", size.value, "")
        else:
            count = self._joined(f"({{}} / {self.raw.get(name, 4)})", size)
        if count is None:
            return ""
        self.known.add(name)
        return f"auto {name} = torch::empty({{{count}}}); "

    def _launch(self, call: ast.Call) -> str:
        """`k((grid,), (block,), (x, y))`, or `k(x, y, grid=(...), block=(...))`."""
        if called(call) in ("memcpy_htod", "memcpy_dtoh") and len(call.args) > 1:
            return self._copied(call)
        kernel = self.handles.get(ast.unparse(call.func))
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        given = list(call.args)
        if kernel is None or not ({"grid", "block"} <= set(named) or len(given) >= 2):
            return ""
        grid, block = named.get("grid") or given.pop(0), named.get("block") or given.pop(0)
        passed = named.get("args") or (given[0] if given and isinstance(given[0], ast.Tuple | ast.List) else None)
        arguments = passed.elts if isinstance(passed, ast.Tuple | ast.List) else given
        shared = self._value(named.get("shared_mem") or named.get("shared") or ast.Constant(0))
        texts = [self._value(each) or "unknown_" for each in arguments]
        self.launches += 1
        for at, (text, param) in enumerate(zip(texts, self.kernels.get(kernel.partition("<")[0], ()), strict=False)):
            if param.is_pointer:
                self.arrays.add(text)
                texts[at] = f"{text}.data_ptr()"
            elif "float" in param.type or "double" in param.type:
                self.reals |= (
                    {text, *self.made_of.get(text, ())} if text.isidentifier() else set(self._names(arguments[at]))
                )
            else:
                self.wholes.add(text)
        launch = f"{kernel}<<<{self._extent(grid)}, {self._extent(block)}, {shared or 0}>>>"
        return f"{launch}({', '.join(texts)}); "

    def _extent(self, node: ast.expr) -> str:
        parts = node.elts if isinstance(node, ast.Tuple | ast.List) else None
        if parts is None:
            return self._value(node) or "unknown_"
        return f"dim3({', '.join(self._value(part) or 'unknown_' for part in parts)})"

    def _value(self, node: ast.expr) -> str | None:
        """An expression in C++; None for what is neither a number nor an array that the launch depends on."""
        match node:
            case ast.Constant(value=int() | float()):
                return str(node.value).lower()
            case ast.Name(id=name):
                self.used |= {name} & set(self.constants)
                return name
            case ast.Tuple():
                return self._extent(node)
            case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(op=ast.FloorDiv(), left=left, right=by)):
                positive = _negated(left)
                return self._rounded_up(positive, by) if positive is not None else None
            case ast.UnaryOp(op=ast.USub()):
                return self._joined("-({})", node.operand)
            case ast.BinOp() if type(node.op) in OPERATORS:
                return self._joined(f"({{}} {OPERATORS[type(node.op)]} {{}})", node.left, node.right)
            case ast.Subscript(value=ast.Name(id=name)) if name in self.shapes:
                return self._value(ast.Subscript(self.shapes[name], node.slice))
            case ast.Subscript(value=ast.Attribute(attr="shape", value=array), slice=ast.Constant() | ast.UnaryOp()):
                return self._of_array("size", array, ast.unparse(node.slice))
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(at))) if 0 <= at < 3:
                return f"{name}.{'xyz'[at]}"
            case ast.Attribute(attr="size"):
                return self._of_array("numel", node.value, "")
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name not in self.modules and attr not in _PARTS:
                return self._field(attr)
            case ast.IfExp(body=then, orelse=otherwise):
                return self._value(then) or self._value(otherwise)
            case ast.Call():
                return self._call(node)
        return None

    def _field(self, name: str) -> str:
        """`self.rows`: a number that its class tells, else what the launcher is given."""
        if name in self.constants:
            self.used.add(name)
        elif name not in self.known:
            self.params.append(name)
            self.known.add(name)
            self.defaults[name] = _FIELD
        return name

    def _of_array(self, method: str, node: ast.expr, argument: str) -> str | None:
        text = self._value(node)
        if text is not None and text in self.known:
            self.arrays.add(text)
            return f"{text}.{method}({argument})"
        return None

    def _joined(self, text: str, *parts: ast.expr) -> str | None:
        found = [self._value(part) for part in parts]
        return text.format(*found) if None not in found else None

    def _rounded_up(self, count: ast.expr, by: ast.expr) -> str | None:
        return self._joined("(({0} + {1} - 1) / {1})", count, by)

    def _call(self, node: ast.Call) -> str | None:
        name, given = called(node), node.args
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if name == "ceil" and given and isinstance(given[0], ast.BinOp) and isinstance(given[0].op, ast.Div):
            return self._rounded_up(given[0].left, given[0].right)
        if name == "cdiv" and len(given) == 2:
            return self._rounded_up(*given)
        if name in ("min", "max") and len(given) == 2:
            return self._joined(f"std::{name}({{}}, {{}})", *given)
        if name == "len" and given:
            return self._of_array("size", given[0], "0")
        if name in _LIKE and given:
            return self._joined(f"torch::{name}({{}})", given[0])
        if name in MADE:
            return self._made(name, named.get("size") or named.get("shape"), given)
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_module = isinstance(inner, ast.Name) and inner.id not in self.known
        if _ITSELF.fullmatch(name) and (given if is_module or inner is None else inner):
            return self._value(given[0] if is_module or inner is None else inner)
        return None

    def _made(self, name: str, shape: ast.expr | None, given: Sequence[ast.expr]) -> str | None:
        if shape is None and name in ("normal", "uniform", "integers", "randint"):
            shape = given[-1] if len(given) > 2 else None
        parts = [shape] if shape is not None else list(given if name in ("rand", "randn") else given[:1])
        if len(parts) == 1 and isinstance(parts[0], ast.Tuple | ast.List):
            parts = list(parts[0].elts)
        texts = [self._length(part, at - len(parts)) for at, part in enumerate(parts)]
        found = [text for text in texts if text is not None]
        return f"torch::{MADE[name]}({{{', '.join(found)}}})" if found and len(found) == len(texts) else None

    def _length(self, node: ast.expr, place: int) -> str | None:
        """An extent of a new array: a number gets a name, that of an array before it which is as long."""
        if not isinstance(node, ast.Constant) or type(node.value) is not int:
            return self._value(node)
        key = (node.value, place)
        alike = (name for (length, _), name in self.lengths.items() if length == node.value)
        name = self.lengths.get(key) or next(alike, None)
        return name or self.new_lengths.setdefault(key, f"size_{len(self.lengths) + len(self.new_lengths)}")
