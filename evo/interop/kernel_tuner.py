"""Kernel Tuner problems as variants: parameters become knobs, conditions `require`s, the launch a `launch` line.

It reads a T1 file and its CUDA source, or a Python script that calls tune_kernel(). The computation of the task is in
neither; `evo new` writes that part.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evo.errors import ChildDied, ChildGarbled, EvoError, SyntaxInvalid
from evo.search.knobs.conditions import from_c
from evo.search.knobs.t1_t4_files import read_declaration
from evo.spec.child_process import ChildProcess
from evo.spec.comments import without_comments
from evo.spec.expr import parse
from evo.spec.source_text import at_commas, read_source
from evo.spec.variant import parse_variant

LIMIT_S = 120.0
_ENTRY = "evo.interop.kernel_tuner_process:serve"
_HINT = "a T1 file has KernelSpecification with KernelName, KernelFile, LocalSize and GlobalSize"
_SCRIPT_HINT = "a script calls tune_kernel(name, source, problem_size, arguments, tune_params, ...) when it is run"
_TEMPLATE_HINT = "give each of the template's parameters a value, as in name<float, 4>, or write it as a plain kernel"
_WORD = re.compile(r"-?\d{1,19}|[A-Za-z_]\w*")
_MOST_TRIED = 50_000
_OF_THE_GPU = "nvml_"
_LEAST_AXIS = 2  # an argument of 0 or 1 equals a length only by chance
_LONG = re.compile(r"\b\d{3,}\b")  # larger numbers in an expression are lengths
_GLOBAL = re.compile(r"__global__([^;{]*)")
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)")


@dataclass(kw_only=True)
class _Kernel:
    """One kernel as either kind of file describes it; sizes and conditions are texts."""

    name: str
    source: str
    where: Path
    knobs: Mapping[str, Sequence[object]]
    conditions: Sequence[str]
    grid: list[str]
    block: list[str]
    shared: str = "0"
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tuned:
    """One kernel as a variant, and notes on the remaining steps."""

    kernel: str
    text: str
    notes: list[str]


def variants_of(spec: Path, source: Path | None, task: str | None, *, limit_s: float = LIMIT_S) -> list[Tuned]:
    """A variant for each kernel of a T1 file or a script. Raises SyntaxInvalid naming the file."""
    kernels = _from_script(spec, source, limit_s) if spec.suffix == ".py" else [_from_t1(spec, source)]
    return [_tuned(kernel, spec, task) for kernel in kernels]


def _tuned(kernel: _Kernel, spec: Path, task: str | None) -> Tuned:
    kernel = _without_clocks(_instantiated(kernel))
    known = dict.fromkeys(name for _, name in _kernels(without_comments(kernel.source)))
    if kernel.name not in known:
        hint = f"kernels in it: {', '.join(known) or 'none'}"
        raise SyntaxInvalid(kernel.where, None, f"no kernel {kernel.name!r} in it", hint=hint)
    lines = [f"// {kernel.name}, from a Kernel Tuner specification: {spec.name}."]
    lines += [f"// evo: task   {task}"] if task else []
    lines += _knobs(kernel)
    requires = list(_requires(kernel, spec))
    lines += [f"// evo: require {text}" for text in requires]
    grid, block = (_trimmed([_expression(spec, text) for text in sizes]) for sizes in (kernel.grid, kernel.block))
    shape = f"grid ({', '.join(grid)}) block ({', '.join(block)})"
    lines.append(f"// evo: launch {kernel.name} {shape} shared {_expression(spec, kernel.shared)}")
    values = _legal(_defaults(kernel.source, kernel.knobs), kernel.knobs, requires)
    defines = [f"#define {name} {value}" for name, value in values.items()]
    cleaned, added = _with_c_linkage(_without_defaults(kernel.source, set(values)), kernel.name)
    if added:
        kernel.notes.append('`extern "C"` was added in front of the kernel')
    found = "\n".join([*lines, *defines, "", cleaned])
    parse_variant(found, path=kernel.where)
    kernel.notes.append("parameters must be the task's tensors in order, then its axes: compare with its skeleton.cu")
    return Tuned(kernel.name, found, kernel.notes)


def _without_clocks(kernel: _Kernel) -> _Kernel:
    """Without the parameters that are GPU settings, which Kernel Tuner recognises by name."""
    settings = [name for name in kernel.knobs if name.startswith(_OF_THE_GPU)]
    if not settings:
        return kernel
    kernel.notes.append(f"{', '.join(settings)}: a GPU setting, not a knob; evo does not change it")
    return replace(kernel, knobs={name: values for name, values in kernel.knobs.items() if name not in settings})


def _knobs(kernel: _Kernel) -> Iterator[str]:
    for name, domain in kernel.knobs.items():
        words = [str(_plain(value)) for value in domain]
        if all(_WORD.fullmatch(word) for word in words):
            yield f"// evo: knob   {name} in {', '.join(words)}"
        else:
            kernel.notes.append(f"{name} is not a knob: {', '.join(words[:4])} are not integers or words")


def _requires(kernel: _Kernel, spec: Path) -> Iterator[str]:
    for text in kernel.conditions:
        try:
            yield _expression(spec, text)
        except EvoError as error:
            kernel.notes.append(f"a condition was not translated, write it as `// evo: require`: {error.message}")


def _legal(
    wished: dict[str, object], knobs: Mapping[str, Sequence[object]], requires: Sequence[str]
) -> dict[str, object]:
    """The first values that the conditions allow, preferred ones first; the preferred ones if none is found.

    A condition on an axis or the chip is checked at launch.
    """
    binding = [expression for expression in map(parse, requires) if expression.names <= set(knobs)]
    ordered = [dict.fromkeys([wished[name], *map(_plain, values)]) for name, values in knobs.items()]
    for values in itertools.islice(itertools.product(*ordered), _MOST_TRIED):
        chosen = dict(zip(knobs, values, strict=True))
        try:
            if all(expression.value(chosen) for expression in binding):  # type: ignore[arg-type]
                return chosen
        except (EvoError, TypeError):  # a word in arithmetic
            return wished
    return wished


# --- T1


def _from_t1(spec: Path, source: Path | None) -> _Kernel:
    declared = read_declaration(spec)
    body = json.loads(spec.read_text(encoding="utf-8")).get("KernelSpecification")
    if not isinstance(body, dict):
        raise SyntaxInvalid(spec, None, "no KernelSpecification", hint=_HINT)
    path = source or spec.parent / str(body.get("KernelFile", f"{spec.stem}.cu"))
    block, grid = _sizes(spec, body, "LocalSize"), _sizes(spec, body, "GlobalSize")
    if str(body.get("GlobalSizeType", "CUDA")).upper() == "OPENCL":  # in threads, not in blocks
        grid = [_tiles(whole, part) for whole, part in zip(grid, block, strict=False)]
    return _Kernel(
        name=str(body.get("KernelName") or ""),
        source=_read(path),
        where=path,
        knobs={knob.name: knob.values for knob in declared.knobs},
        conditions=[condition.text for condition in declared.conditions],
        grid=grid,
        block=block,
        shared=str(body.get("SharedMemory") or 0),
    )


def _read(path: Path) -> str:
    return read_source(path, wanted="the kernel's file with --source FILE.cu", problem="unreadable")


def _sizes(spec: Path, body: dict[str, Any], key: str) -> list[str]:
    given = body.get(key)
    if not isinstance(given, dict) or "X" not in given:
        raise SyntaxInvalid(spec, None, f"KernelSpecification has no {key} with X, Y, Z", hint=_HINT)
    texts = [str(given[axis]) for axis in "XYZ" if given.get(axis) not in (None, "")]
    return [re.sub(r"(?<!/)/(?!/)", "//", text) for text in texts]  # of integers, as in C


# --- scripts


def _from_script(spec: Path, source: Path | None, limit_s: float) -> list[_Kernel]:
    """The arguments of the script's tune_kernel() calls, from a separate process. Raises SyntaxInvalid."""
    if not spec.is_file():
        raise SyntaxInvalid(spec, None, "no such file", hint=_SCRIPT_HINT)
    with contextlib.closing(ChildProcess(_ENTRY, str(spec.resolve()), plain=True)) as child:
        try:
            said = child.receive(time.monotonic() + limit_s)
        except TimeoutError:
            hint = "lower its sizes, or --limit"
            raise SyntaxInvalid(spec, None, f"not done within {limit_s:g} s", hint=hint) from None
        except (ChildDied, ChildGarbled) as failure:
            raise SyntaxInvalid(spec, None, f"its process ended early: {failure}", hint=_SCRIPT_HINT) from None
    assert isinstance(said, dict)
    if "refused" in said:
        raise SyntaxInvalid(spec, None, said["refused"], hint=_SCRIPT_HINT)
    return [_from_call(spec, call, source) for call in said["kernels"]]


def _from_call(spec: Path, call: dict[str, Any], source: Path | None) -> _Kernel:
    text = _read(source) if source is not None else call["source"]
    names = _axis_names(text, call["kernel"].partition("<")[0], call["integers"])
    sizes = [names.get(size) or _LONG.sub(lambda found: names.get(found[0], found[0]), size) for size in call["size"]]
    notes = list(call["notes"])
    if fixed := [number for size in sizes for number in re.findall(r"\b\d{2,}\b", size)]:
        notes.append(f"the grid is for the sizes {', '.join(fixed)}: put the task's axes in their place")
    grid = [_tiles(size, divisor) for size, divisor in zip(sizes, call["divisors"], strict=True)]
    return _Kernel(
        name=call["kernel"],
        source=text,
        where=source or spec,
        knobs=call["parameters"],
        conditions=call["conditions"],
        grid=grid,
        block=call["block"],
        shared=call["shared"],
        notes=notes,
    )


def _axis_names(source: str, kernel: str, integers: Sequence[int | None]) -> dict[str, str]:
    """Lengths by the name of the kernel's parameter whose argument equals them."""
    match = re.search(rf"\b{re.escape(kernel)}\s*\(([^)]*)\)", without_comments(source))
    parameters = (
        [part.strip().split()[-1].lstrip("*&") for part in match[1].split(",") if part.strip()] if match else []
    )
    pairs = zip(parameters, integers, strict=False)
    return {str(value): name for name, value in pairs if value is not None and value >= _LEAST_AXIS}


# --- texts


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _defaults(text: str, knobs: Mapping[str, Sequence[object]]) -> dict[str, object]:
    """The values in the source if they are in the domain, else the first of each domain."""
    found: dict[str, object] = {}
    for name, values in knobs.items():
        match = re.search(rf"(?m)^\s*#\s*define\s+{re.escape(name)}\s+(\S+)\s*$", text)
        domain = {str(_plain(value)): _plain(value) for value in values}
        found[name] = domain.get(match[1] if match else "", next(iter(domain.values())))
    return found


def _without_defaults(text: str, names: set[str]) -> str:
    """The source without its own definitions of the knobs, guarded or not."""
    for name in names:
        word = re.escape(name)
        guarded = rf"(?m)^\s*#\s*ifndef\s+{word}\s*\n\s*#\s*define\s+{word}\b.*\n\s*#\s*endif.*\n?"
        text = re.sub(rf"(?m)^\s*#\s*define\s+{word}\b.*\n?", "", re.sub(guarded, "", text))
    return text


def _kernels(text: str) -> Iterator[tuple[int, str]]:
    """The offset of each `__global__`, and the name of its kernel."""
    for match in _GLOBAL.finditer(text):
        if named := re.search(r"(\w+)\s*\(", _BOUNDS.sub(" ", match[1])):
            yield match.start(), named[1]


def _with_c_linkage(text: str, kernel: str) -> tuple[str, bool]:
    """Add `extern "C"` in front of this kernel, if the source has none."""
    if 'extern "C"' in text:
        return text, False
    for at, name in _kernels(text):
        if name == kernel:
            return f'{text[:at]}extern "C" {text[at:]}', True
    return text, False


def _instantiated(kernel: _Kernel) -> _Kernel:
    """`name<float, N>` as a plain kernel: its template's parameters become a type and constants in front of it.

    Raises SyntaxInvalid if there is no such template.
    """
    named = re.fullmatch(r"(\w+)\s*<(.*)>\s*", kernel.name, flags=re.DOTALL)
    if named is None:
        return kernel
    name, given = named[1], at_commas(named[2])
    template = re.compile(rf"template\s*<([^<>]*)>(?=[^;{{}}]*__global__[^;{{}}]*\b{name}\s*\()")
    match = template.search(kernel.source)
    if match is None:
        raise SyntaxInvalid(kernel.where, None, f"no template of a kernel {name!r} in it", hint=_TEMPLATE_HINT)
    lines = []
    for number, parameter in enumerate(at_commas(match[1])):
        declared, _, default = (part.strip() for part in parameter.partition("="))
        kind, _, word = declared.rpartition(" ")
        value = given[number] if number < len(given) else default
        if not kind or not word.isidentifier() or not value:
            raise SyntaxInvalid(
                kernel.where,
                None,
                f"no value for `{parameter}` in {kernel.name!r}",
                problem="no-value",
                hint=_TEMPLATE_HINT,
            )
        if value != word:
            lines.append(
                f"using {word} = {value};" if kind in ("typename", "class") else f"constexpr {declared} = {value};"
            )
    text = kernel.source[: match.start()] + "\n".join(lines) + "\n" + kernel.source[match.end() :].lstrip()
    note = f"{kernel.name} is a plain kernel now; its template's parameters are declared in front of it"
    return replace(kernel, name=name, source=text, notes=[*kernel.notes, note])


def _tiles(whole: str, part: str) -> str:
    return whole if "1" in (whole, part) else f"ceil_div({whole}, {part})"


def _trimmed(sizes: list[str]) -> list[str]:
    while len(sizes) > 1 and sizes[-1] == "1":
        sizes = sizes[:-1]
    return sizes


def _expression(spec: Path, text: str) -> str:
    """A text of Python or C as an expression of evo's. Raises SyntaxInvalid."""
    text = " ".join(from_c(text, str(spec)).split())
    try:
        plainer = _Plainer()
        tree = plainer.visit(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return parse(text, path=spec).text  # raises with the position of the error
    return parse(ast.unparse(tree) if plainer.changed else text, path=spec).text


class _Plainer(ast.NodeTransformer):
    """`x in (1, 2)` as comparisons, powers of numbers as numbers, C's `!`: operators that evo's expressions lack."""

    changed = False

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, bool):
            self.changed = True
            return ast.Constant(int(node.value))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Invert):  # the replacement of C's `!`
            self.changed = True
            return ast.UnaryOp(ast.Not(), node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Compare(
                left=left, ops=[ast.In() | ast.NotIn() as sign], comparators=[ast.List() | ast.Tuple() as among]
            ):
                self.changed = True
                equal: list[ast.expr] = [ast.Compare(left, [ast.Eq()], [choice]) for choice in among.elts]
                chosen: ast.expr = ast.BoolOp(ast.Or(), equal) if len(equal) > 1 else equal[0]
                return ast.UnaryOp(ast.Not(), chosen) if isinstance(sign, ast.NotIn) else chosen
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=ast.Constant(value=int(a)), op=ast.Pow(), right=ast.Constant(value=int(b))) if (
                0 <= b < 64
            ):
                self.changed = True
                return ast.Constant(a**b)
        return node
