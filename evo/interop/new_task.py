"""`evo new`: a task folder from names, shapes and a formula in NumPy, or from a PyTorch module.

The folder is written elsewhere and moved into place after it has passed its self-test.
"""

from __future__ import annotations

import ast
import math
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evo.errors import TaskInvalid, UsageError
from evo.evaluate.gate import check_task
from evo.files import copy_folder
from evo.interop.count_formula import Uncounted, work_of
from evo.interop.formula_names import functions
from evo.interop.new_reference import NewTaskAnswers, call_of, completed, reference_text, sampled_outputs, scalar_value
from evo.interop.python_file import read_python
from evo.interop.task_folder import ScalarLine, TaskText, TensorLine, ToleranceLine, order_factor
from evo.spec.element_types import DTYPES, is_float
from evo.spec.expr import Expression, parse
from evo.spec.reference import load_reference
from evo.spec.task import load_task, read_task
from evo.spec.tensor_arrays import typical_size
from evo.spec.tolerance import COARSEST_TOLERANCE, DEFAULT_TOLERANCES

_TENSOR = re.compile(r"([A-Za-z_]\w*)\s*:\s*(\w+)\s*\[([^\]]*)\](?:\s*in\s+(.+?)\s*\.\.\s*(.+))?")
_SCALAR = re.compile(r"([A-Za-z_]\w*)\s*(?::\s*(\w+)\s*)?=\s*(.+)")
_AXIS = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\d+)")
_SMALL = ((64, 8), (37, 5), (129, 3), (17, 2))  # lengths of long and of short axes, by check case
_MANY = 1100
_CHECKS = ("even", "ragged", "long", "short")

_MOST_FLOP, _MOST_ELEMENTS, _SHORTEST = 5e7, 1 << 24, 32  # of a case that the simulator runs whole in seconds
_ROUNDING = 1e-3  # from this rtol on, rounding the result is most of its error


def read_axes(texts: Sequence[str]) -> dict[str, int]:
    """`ROWS=4096,COLS=1024` or several of them. Raises UsageError."""
    found: dict[str, int] = {}
    for text in filter(None, (part.strip() for given in texts for part in given.split(","))):
        match = _AXIS.fullmatch(text)
        if match is None or int(match[2]) < 1:
            wrong = "cannot be parsed" if match is None else "is no length"
            raise UsageError(f"axis {text!r} {wrong}", hint="write it like ROWS=4096: a name and a length from 1 up")
        if found.setdefault(match[1], int(match[2])) != int(match[2]):
            both = f"{match[1]}={found[match[1]]} and {match[1]}={match[2]}"
            raise UsageError(f"--axis {match[1]} is given twice: {both}", hint="give each axis one length")
    if not found:
        raise UsageError("a task needs an axis", hint="e.g. --axis ROWS=4096 --axis COLS=1024")
    return found


def read_tensor(text: str, role: str, axes: dict[str, int]) -> TensorLine:
    """`x:float32[ROWS,COLS]`, or `i:int32[N] in 0..V-1` with the least and the largest value. Raises UsageError."""
    match = _TENSOR.fullmatch(text.strip())
    if match is None:
        hint = "write it like x:float32[ROWS,COLS], or i:int32[ROWS] in 0..COLS-1"
        raise UsageError(f"tensor {text!r} cannot be parsed", hint=hint)
    if match[2] not in DTYPES:
        raise UsageError(f"tensor {match[1]}: unknown type {match[2]!r}", hint=f"one of {', '.join(DTYPES)}")
    shape = [dim.strip() for dim in match[3].split(",") if dim.strip()]
    ends = [end for end in match.groups()[3:] if end is not None]
    if ends and (role == "out" or is_float(match[2]) or match[2] == "bool"):
        raise UsageError(f"tensor {match[1]}: a range is for integer inputs", hint="leave `in LOW..HIGH` out")
    for dim in (*shape, *ends):
        unknown = parse(dim, path=f"tensor {match[1]}").names - set(axes)
        if unknown:
            raise UsageError(
                f"tensor {match[1]}: unknown axis {', '.join(sorted(unknown))}", hint=f"axes: {', '.join(axes)}"
            )
    if not shape:
        raise UsageError(f"tensor {match[1]} has no shape", hint="a single number is [1]")
    return TensorLine(match[1], role, match[2], shape, None, match[4], match[5])


def read_scalar(text: str, axes: dict[str, int]) -> ScalarLine:
    """`eps=1e-5`, `scale:float32=1 / sqrt(D)` or `k:int32=3`. Raises UsageError."""
    match = _SCALAR.fullmatch(text.strip())
    if match is None or (match[2] or "float32") not in DTYPES or match[1] in axes:
        raise UsageError(f"scalar {text!r} cannot be parsed", hint="write it like eps=1e-5 or scale:float32=1/sqrt(D)")
    one = ScalarLine(match[1], match[2] or "float32", match[3].strip())
    scalar_value(one, axes)
    return one


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


def named_in(file: Path, name: str) -> tuple[str, bool, bool]:
    """The text of a Python file, whether `name` is a class of it, whether it uses torch. Raises UsageError."""
    source, tree = read_python(file)
    body = tree.body
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    defined = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    if name not in (*classes, *defined):
        have = f"classes: {', '.join(classes) or 'none'}; functions: {', '.join(defined) or 'none'}"
        raise UsageError(f"{file} has no class {name} and no function of that name", problem="unknown-name", hint=have)
    words = {one.name.split(".")[0] for node in body if isinstance(node, ast.Import) for one in node.names}
    words |= {(node.module or "").split(".")[0] for node in body if isinstance(node, ast.ImportFrom)}
    return source, name in classes, "torch" in words


def problem_text(module: Path, name: str, axes: dict[str, int], inputs: Sequence[TensorLine], init: str) -> str:
    """A module or torch function of a file with example inputs, as a problem file. Raises UsageError."""
    source, is_class, _ = named_in(module, name)
    try:
        ast.parse(f"[{init}]", mode="eval")
    except SyntaxError as error:
        raise UsageError(f"--init {init}: {error.msg}", hint="--init 'ARGUMENT, ARGUMENT'") from None
    drawn = ", ".join(_torch_draw(tensor) for tensor in inputs)
    model = "" if name == "Model" else f"\n\nclass Model({name}):\n    pass\n"
    if not is_class:
        names = ", ".join(tensor.name for tensor in inputs)
        body = f"    def forward(self, {names}):\n        return {name}({names})\n"
        model = f"\n\nimport torch  # noqa: E402\n\n\nclass Model(torch.nn.Module):\n{body}"
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


def calls_of(
    source: str,
    function: str,
    axes: dict[str, int],
    inputs: Sequence[TensorLine],
    outputs: Sequence[TensorLine],
    scalars: Sequence[ScalarLine],
) -> dict[str, str]:
    """The formula of each output: what a file's function returns, or its place in a tuple. Raises UsageError."""
    given = [tensor.name for tensor in inputs]
    call = call_of(source, function, [*given, *axes, *(one.name for one in scalars)], given)
    many = len(outputs) > 1
    return {one.name: f"{call}[{place}]" if many else call for place, one in enumerate(outputs)}


def require_runs(form: NewTaskAnswers) -> None:
    """Raise UsageError if a formula does not run on drawn inputs, or has another shape than its output."""
    completed(form, list(_cases(form).values()))


def remarks(root: Path, name: str) -> list[str]:
    """What to know of a task that was written: ranges that were inferred, and a case that was added."""
    task = load_task(root, name)
    said = []
    for tensor in task.inputs:
        if (within := tensor.range) is not None:
            ends = " to ".join(one.text for one in (within.low, within.high) if one is not None)
            said.append(f"{tensor.name} holds every {tensor.dtype} from {ends} (`low` and `high` in task.yaml)")
    if len(task.bench) > 1:
        said.append(f"the simulator runs case {task.headline} whole, and a part of main, which has the given lengths")
    return said


def write_new(root: Path, form: NewTaskAnswers) -> str:
    """Write `kernels/<name>/` and say what became of its `work`.

    Raises UsageError if it exists, TaskInvalid if its gate would accept a degenerate kernel.
    """
    target = root / "kernels" / form.name
    if target.exists():
        raise UsageError(
            f"kernels/{form.name} exists already", problem="exists", hint="take another name, or move that folder away"
        )
    with tempfile.TemporaryDirectory(prefix="evo-new-") as scratch:
        folder = Path(scratch) / form.name
        checks = _cases(form)
        quick = [form.axes] if _cost(form, form.axes, None) <= 1 else []
        form = completed(form, [*checks.values(), *quick])
        work, said = _work(form)
        _text(form, work).write(folder, reference_text(form, checks[_CHECKS[0]]), {})
        try:
            task = read_task(folder)
            check_task(task, load_reference(task))
        except TaskInvalid as error:
            words = error.message.replace(f"{scratch}/", "")
            raise TaskInvalid(words, hint=error.hint, problem=error.problem) from None
        copy_folder(folder, target)
    return said


def _work(form: NewTaskAnswers) -> tuple[dict[str, str], str]:
    try:
        names = {name: np.tanh if name == "erf" else found for name, found in functions(form.functions).items()}
        if form.source:
            raise Uncounted("a function of a file")
        names |= {one.name: scalar_value(one, form.axes) for one in form.scalars}
        work = work_of(form.formulas.values(), form.inputs, list(form.axes), names)
    except Uncounted as error:
        hint = "add it to task.yaml, a formula over the axes, for `evo limits`"
        return {}, f"its operations were not counted ({error}), so `work` has no flop: {hint}"
    if work["flop"] == "0" and not all(is_float(tensor.dtype) for tensor in form.inputs):
        return {}, "operations of whole numbers are not counted, so `work` has no flop"
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
    if len(form.axes) == 1:  # more than a byte counts, and more than a block
        found["many"] = {axis: min(length, _MANY) for axis, length in form.axes.items()}
    return found


def _atol(form: NewTaskAnswers, timed: dict[str, int]) -> float:
    """Of the size of the real outputs of the formula; 0 if there are none, since whole numbers are exact.

    Long sums have larger outputs than short ones, and their terms' roundings with them: the timed case counts too.
    """
    real = [tensor for tensor in form.outputs if is_float(tensor.dtype)]
    share = min((DEFAULT_TOLERANCES.get(t.dtype, COARSEST_TOLERANCE)[1] for t in real), default=0.0)
    some = [sampled_outputs(form, sizes) for sizes in (next(iter(_cases(form).values())), timed)] if real else []
    sizes = [max(typical_size(found[tensor.name]) for found in some) for tensor in real]
    return float(f"{share * (min(sizes, default=1.0) or 1.0):.1e}")


def _cost(form: NewTaskAnswers, sizes: dict[str, int], flop: Expression | None) -> float:
    """Of running a case whole on the simulator, over what takes seconds."""
    elements = sum(math.prod(int(parse(d).value(sizes)) for d in t.shape) for t in (*form.inputs, *form.outputs))
    operations = math.prod(sizes.values()) if flop is None else float(flop.value(sizes))
    return max(operations / _MOST_FLOP, elements / _MOST_ELEMENTS)


def _bench(form: NewTaskAnswers, work: dict[str, str]) -> dict[str, dict[str, int]]:
    """The given sizes, and smaller ones of the same kind if the simulator would take long for them."""
    formula = parse(work["flop"], path="<work>") if "flop" in work else None

    small = dict(form.axes)
    while _cost(form, small, formula) > 1 and max(small.values()) >= 2 * _SHORTEST:
        longest = max(small, key=lambda axis: small[axis])
        half = small[longest] // 2
        small[longest] = half - half % 32 if small[longest] % 32 == 0 and half >= 64 else half
    return {"main": form.axes} if small == form.axes else {"main": form.axes, "small": small}


def _text(form: NewTaskAnswers, work: dict[str, str]) -> TaskText:
    kinds = [tensor.dtype for tensor in form.outputs]
    rtol = max(
        DEFAULT_TOLERANCES.get(kind, COARSEST_TOLERANCE)[0] if kind.startswith(("float", "bfloat")) else 0.0
        for kind in kinds
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
    because = because if any(map(is_float, kinds)) else "whole numbers are exact"
    bench = _bench(form, work)
    small = "small" in bench
    atol = _atol(form, bench["small" if small else "main"])
    domains = {t.name: "any" for t in form.inputs if t.dtype == "bool"}
    return TaskText(
        name=form.name,
        description="; ".join(f"{name} = {formula}" for name, formula in form.formulas.items()),
        axes=list(form.axes),
        tensors=[replace(t, domain=domains.get(t.name)) for t in tensors],
        scalars=form.scalars,
        tolerance=ToleranceLine(rtol, float(f"{atol * factor / 2:.2g}"), because, factor),
        check=_cases(form),
        bench=bench,
        headline="small" if small else "main",
        score={"main": 1, "small": 0.25} if small else None,
        work={**work, "bytes": " + ".join(parts)},
    )
