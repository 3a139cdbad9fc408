"""`evo new`: a task folder from names, shapes and a formula in NumPy, or from a PyTorch module.

The folder is written elsewhere and moved into place after it has passed its self-test.
"""

from __future__ import annotations

import ast
import math
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.errors import TaskInvalid, UsageError
from evo.evaluate.gate import check_task
from evo.interop.count_formula import Uncounted, work_of
from evo.interop.task_folder import TaskText, TensorLine, ToleranceLine, order_factor
from evo.spec.element_types import DTYPES
from evo.spec.expr import parse
from evo.spec.reference import load_reference
from evo.spec.task import read_task

_TENSOR = re.compile(r"([A-Za-z_]\w*)\s*:\s*(\w+)\s*\[(.*)\]")
_AXIS = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\d+)")
_SMALL = ((64, 8), (37, 5), (129, 3), (17, 2))  # lengths of long and of short axes, by check case
_CHECKS = ("even", "ragged", "long", "short")
_TOLERANCES = {"float64": (1e-9, 1e-11), "float32": (1e-5, 1e-6), "float16": (1e-2, 1e-3), "bfloat16": (2e-2, 1e-2)}

_ROUNDING = 1e-3  # from this rtol on, rounding the result is most of its error


@dataclass(frozen=True)
class NewTaskAnswers:
    """The answers: axes with their values at the bench case, tensors as `x:float32[N,M]`, one formula per output."""

    name: str
    axes: dict[str, int]
    inputs: tuple[TensorLine, ...]
    outputs: tuple[TensorLine, ...]
    formulas: dict[str, str]


def read_axes(texts: Sequence[str]) -> dict[str, int]:
    """`ROWS=4096,COLS=1024` or several of them. Raises UsageError."""
    found: dict[str, int] = {}
    for text in filter(None, (part.strip() for given in texts for part in given.split(","))):
        match = _AXIS.fullmatch(text)
        if match is None or int(match[2]) < 1:
            raise UsageError(f"axis {text!r} cannot be parsed", hint="write it like ROWS=4096: a name and a length")
        found[match[1]] = int(match[2])
    if not found:
        raise UsageError("a task needs an axis", hint="e.g. --axis ROWS=4096 --axis COLS=1024")
    return found


def read_tensor(text: str, role: str, axes: dict[str, int]) -> TensorLine:
    """`x:float32[ROWS,COLS]`. Raises UsageError."""
    match = _TENSOR.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"tensor {text!r} cannot be parsed", hint="write it like x:float32[ROWS,COLS]")
    if match[2] not in DTYPES:
        raise UsageError(f"tensor {match[1]}: unknown type {match[2]!r}", hint=f"one of {', '.join(DTYPES)}")
    shape = [dim.strip() for dim in match[3].split(",") if dim.strip()]
    for dim in shape:
        unknown = parse(dim, path=f"tensor {match[1]}").names - set(axes)
        if unknown:
            raise UsageError(
                f"tensor {match[1]}: unknown axis {', '.join(sorted(unknown))}", hint=f"axes: {', '.join(axes)}"
            )
    if not shape:
        raise UsageError(f"tensor {match[1]} has no shape", hint="a single number is [1]")
    return TensorLine(match[1], role, match[2], shape)


def read_formulas(texts: Sequence[str], outputs: Sequence[TensorLine]) -> dict[str, str]:
    """`y = np.maximum(x, 0)`, or the right side alone if there is one output. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, right = text.partition("=")
        named = bool(sign) and name.strip().isidentifier() and not right.startswith("=")
        target = name.strip() if named else outputs[0].name
        try:
            ast.parse(right.strip() if named else text.strip(), mode="eval")
        except SyntaxError as error:
            hint = "a NumPy expression over the inputs, e.g. 'y = np.maximum(x, 0)'"
            raise UsageError(f"formula {text!r} is not Python: {error.msg}", hint=hint) from None
        found[target] = right.strip() if named else text.strip()
    missing = [tensor.name for tensor in outputs if tensor.name not in found]
    extra = set(found) - {tensor.name for tensor in outputs}
    if missing or extra:
        what = f"no formula for {', '.join(missing)}" if missing else f"{', '.join(sorted(extra))} is not an output"
        raise UsageError(what, hint="give each output one: --compute 'y = np.maximum(x, 0)'")
    return found


def problem_text(module: Path, name: str, axes: dict[str, int], inputs: Sequence[TensorLine], init: str) -> str:
    """A module of a file with example inputs, as a problem file. Raises UsageError if there is no such class."""
    try:
        source = module.read_text(encoding="utf-8")
        classes = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
        ast.parse(f"[{init}]", mode="eval")
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise UsageError(f"{module}: {error}", hint="--module FILE.py:CLASS, --init 'ARGUMENT, ARGUMENT'") from None
    if name not in classes:
        raise UsageError(f"{module} has no class {name}", hint=f"classes: {', '.join(classes) or 'none'}")
    drawn = ", ".join(_torch_draw(tensor) for tensor in inputs)
    model = "" if name == "Model" else f"\n\nclass Model({name}):\n    pass\n"
    constants = "".join(f"{axis} = {value}\n" for axis, value in axes.items())
    return (
        f"{source.rstrip()}\n{model}\n\nimport torch  # noqa: E402\n\n{constants}\n\n"
        f"def get_inputs():\n    return [{drawn}]\n\n\ndef get_init_inputs():\n    return [{init}]\n"
    )


def _torch_draw(tensor: TensorLine) -> str:
    shape = f"({', '.join(tensor.shape)},)"
    if tensor.dtype == "bool":
        return f"torch.rand({shape}) < 0.5"
    if not tensor.dtype.startswith(("float", "bfloat")):
        return f"torch.randint(0, 8, {shape}, dtype=torch.{tensor.dtype})"
    return f"torch.randn({shape}).to(torch.{tensor.dtype})"


def write_new(root: Path, form: NewTaskAnswers) -> str:
    """Write `kernels/<name>/` and say what became of its `work`.

    Raises UsageError if it exists, TaskInvalid where its gate would be none.
    """
    target = root / "kernels" / form.name
    if target.exists():
        raise UsageError(f"kernels/{form.name} exists already", hint="take another name, or move that folder away")
    with tempfile.TemporaryDirectory(prefix="evo-new-") as scratch:
        folder = Path(scratch) / form.name
        work, said = _work(form)
        _text(form, _atol(form), work).write(folder, _reference(form), {})
        try:
            task = read_task(folder)
            check_task(task, load_reference(task))
        except TaskInvalid as error:
            raise TaskInvalid(error.message.replace(f"{scratch}/", ""), hint=error.hint) from None
        shutil.copytree(folder, target)
    return said


def _work(form: NewTaskAnswers) -> tuple[dict[str, str], str]:
    try:
        work = work_of(form.formulas.values(), form.inputs, list(form.axes))
    except Uncounted as error:
        hint = "add it to task.yaml, a formula over the axes, for `evo limits`"
        return {}, f"its operations were not counted ({error}), so `work` has no flop: {hint}"
    counted = ", ".join(f"{name} {text}" for name, text in work.items())
    return work, f"operations of the formula: {counted} (`work` in task.yaml)"


def _cases(form: NewTaskAnswers) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, (long, short) in zip(_CHECKS, _SMALL, strict=True):
        many = len(form.axes) > 2
        apart = 0 if name == "even" else 4  # all lengths differ, which identifies the axes
        sizes = {
            axis: min(length, short if many and i == 0 else long + i * apart)
            for i, (axis, length) in enumerate(form.axes.items())
        }
        if sizes not in found.values():
            found[name] = sizes
    return found


def _atol(form: NewTaskAnswers) -> float:
    """Of the size of the outputs of the formula; worked out once the folder says something wrong about it otherwise."""
    share = min((_TOLERANCES.get(t.dtype, (0.05, 1e-2))[1] for t in form.outputs), default=0.0)
    rng = np.random.default_rng(0)
    case = next(iter(_cases(form).values()))
    arrays = {t.name: rng.standard_normal([int(parse(d).value(case)) for d in t.shape]) for t in form.inputs}
    sizes = []
    for formula in form.formulas.values():
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(eval(formula, {"np": np, **arrays, **case}), np.float64)
        except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
            hint = "the inputs are NumPy arrays by name, the axes integers, and `np` is NumPy"
            raise UsageError(f"formula {formula!r} raised {type(error).__name__}: {error}", hint=hint) from None
        finite = value[np.isfinite(value)]
        sizes.append(float(np.sqrt((finite**2).mean())) if finite.size else 1.0)
    return float(f"{share * (min(sizes, default=1.0) or 1.0):.1e}")


def _text(form: NewTaskAnswers, atol: float, work: dict[str, str]) -> TaskText:
    kinds = [tensor.dtype for tensor in form.outputs]
    rtol = max(
        _TOLERANCES.get(kind, (0.05, 0.01))[0] if kind.startswith(("float", "bfloat")) else 0.0 for kind in kinds
    )
    tensors = [*form.inputs, *form.outputs]
    parts = [
        " * ".join([str(DTYPES[t.dtype]), *(f"({d})" if not d.isalnum() else d for d in t.shape)]) for t in tensors
    ]
    elements = sum(math.prod(int(parse(d).value(form.axes)) for d in t.shape) for t in form.outputs)
    terms = parse(work["flop"]).value(form.axes) / elements if "flop" in work and rtol < _ROUNDING else 1
    factor = order_factor(float(terms))
    because = f"{', '.join(kinds)} outputs; {'twice' if factor == 2 else f'{factor} times'} the error of the formula in"
    because += " float32." if factor == 2 else " float32, which adds in blocks what a kernel adds one after the other."
    return TaskText(
        name=form.name,
        description="; ".join(f"{name} = {formula}" for name, formula in form.formulas.items()),
        axes=list(form.axes),
        tensors=tensors,
        tolerance=ToleranceLine(rtol, float(f"{atol * factor / 2:.2g}"), because, factor),
        check=_cases(form),
        bench={"main": form.axes},
        work={**work, "bytes": " + ".join(parts)},
    )


def _reference(form: NewTaskAnswers) -> str:
    names = [tensor.name for tensor in form.inputs]
    lines = [f'"""{form.name}: inputs, the float64 expectation, and the same in float32 for the error budget."""', ""]
    lines += ["import numpy as np"]
    lines += [
        "",
        "",
        "def inputs(case, rng):",
        '    """Normal values; integers from 0 to 7, masks of halves."""',
        "    return {",
    ]
    for tensor in form.inputs:
        shape = ", ".join(_over_case(dim, form.axes) for dim in tensor.shape)
        lines.append(f'        "{tensor.name}": {_draw(tensor.dtype, shape)},')
    lines += ["    }", "", "", "def _compute(inputs, case, dtype):"]
    lines += [f'    {name} = _as(inputs["{name}"], dtype)' for name in names]
    used = {node.id for f in form.formulas.values() for node in ast.walk(ast.parse(f)) if isinstance(node, ast.Name)}
    lines += [f'    {axis} = case["{axis}"]' for axis in form.axes if axis in used]
    lines += ["    return {"]
    for tensor in form.outputs:
        formula = form.formulas[tensor.name]
        ready = formula if tensor.shape != ["1"] else f"np.reshape({formula}, 1)"
        cast = "" if tensor.dtype.startswith(("float", "bfloat")) else f".astype(np.{_numpy(tensor.dtype)})"
        lines.append(f'        "{tensor.name}": np.asarray({ready}){cast},')
    lines += ["    }", "", "", "def _as(array, dtype):"]
    lines += ["    return array if array.dtype.kind in 'iub' else array.astype(dtype)", "", ""]
    lines += ["def expected(inputs, case):", "    return _compute(inputs, case, np.float64)", "", ""]
    lines += [
        "def trusted(inputs, case):",
        '    """The formula in float32: its error is what a good kernel may have."""',
    ]
    lines += ["    return _compute(inputs, case, np.float32)", ""]
    return "\n".join(lines)


def _over_case(dim: str, axes: dict[str, int]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda m: f'case["{m[0]}"]' if m[0] in axes else m[0], dim)


def _numpy(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _draw(dtype: str, shape: str) -> str:
    size = f"({shape},)"
    if dtype == "bool":
        return f"rng.random({size}) < 0.5"
    if not dtype.startswith(("float", "bfloat")):
        return f"rng.integers(0, 8, {size}, dtype=np.{dtype})"
    return f"rng.standard_normal({size})"
