"""The reference.py of `evo new`, and the same formulas run here to see what they make of their inputs."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evo.errors import UsageError
from evo.interop.formula_names import KNOWN, MASK, called, functions, source_lines, unknown
from evo.interop.new_ranges import Arrays, Sizes, bounds_at, sample, with_ranges
from evo.interop.task_folder import ScalarLine, TensorLine
from evo.spec.element_types import DTYPES, is_float
from evo.spec.expr import parse

_PRODUCTS = ("@", "einsum", "matmul", "dot(", "tensordot", "inner(")
_OWN = ("inputs", "expected", "trusted", "_compute", "_as", "np", "math")
_RAISED = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)
_SOURCE = "<the function's file>"
_HINT = f"the inputs are NumPy arrays by name, the axes integers; beside `np`, NumPy's functions by name and {KNOWN}"


@dataclass(frozen=True)
class NewTaskAnswers:
    """The answers: axes with their values at the bench case, tensors as `x:float32[N,M]`, one formula per output.

    source: Python that the formulas call, as the user's file has it. Raises UsageError for a name of two things, and
    one of nothing.
    """

    name: str
    axes: dict[str, int]
    inputs: tuple[TensorLine, ...]
    outputs: tuple[TensorLine, ...]
    formulas: dict[str, str]
    scalars: tuple[ScalarLine, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        names = [*self.axes, *(t.name for t in (*self.inputs, *self.outputs)), *(one.name for one in self.scalars)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            hint = "axes, tensors and scalars have names of their own"
            raise UsageError(f"{', '.join(twice)} names two things", hint=hint)
        for output, formula in self.formulas.items() if not self.source else ():
            if found := unknown(formula, [name for name in names if name not in self.formulas]):
                problem = f"formula of {output}: unknown name {found[0]!r}"
                raise UsageError(problem, hint=found[1], problem="unknown-name")

    @property
    def functions(self) -> list[str]:
        """The functions that the formulas call by bare names and that `source` does not define."""
        own = {node.name for node in ast.parse(self.source).body if isinstance(node, ast.FunctionDef)}
        names = {tensor.name for tensor in self.inputs} | set(self.axes) | {one.name for one in self.scalars}
        return called(self.formulas.values(), own | names | {"np"})


def run_formulas(form: NewTaskAnswers, arrays: Arrays, sizes: Sizes) -> Arrays:
    """The outputs, unsigned ones wrapped to their type. Raises what a formula raises, ValueError for a wrong shape."""
    space: dict[str, object] = {"np": np, **functions(form.functions)}
    if form.source:
        exec(compile(form.source, _SOURCE, "exec"), space)
    space |= {one.name: scalar_value(one, sizes) for one in form.scalars}
    found: Arrays = {}
    with np.errstate(all="ignore"):
        for tensor in form.outputs:
            value = np.asarray(eval(form.formulas[tensor.name], {**space, **arrays, **sizes}))
            shape = tuple(int(parse(dim, path=f"tensor {tensor.name}").value(sizes)) for dim in tensor.shape)
            value = value.reshape(1) if shape == (1,) and value.size == 1 else value
            if value.shape != shape:
                raise ValueError(f"{tensor.name} has shape {value.shape}, declared {shape}")
            found[tensor.name] = value.astype(tensor.dtype) if tensor.dtype.startswith("uint") else value
    return found


def completed(form: NewTaskAnswers, cases: Sequence[Sizes]) -> NewTaskAnswers:
    """With a range for each integer input. Raises UsageError if a formula does not run."""
    inputs = with_ranges(
        form.inputs, form.outputs, list(form.axes), cases, lambda arrays, sizes: run_formulas(form, arrays, sizes)
    )
    form = replace(form, inputs=inputs)
    sampled_outputs(form, cases[0])
    return form


def sampled_outputs(form: NewTaskAnswers, case: Sizes) -> Arrays:
    """The outputs on drawn inputs. Raises UsageError with what a formula raised."""
    rng = np.random.default_rng(0)
    arrays = {t.name: sample(t, case, rng, None) for t in form.inputs}
    try:
        return run_formulas(form, arrays, case)
    except _RAISED as error:
        what = "; ".join(f"{name} = {formula}" for name, formula in form.formulas.items())
        hint, where = _HINT, ""
        if form.source:
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _SOURCE]
            where = f", line {lines[-1]} of the function's file," if lines else ""
            hint = "the function gets NumPy arrays or tensors by name, axes as integers, and returns the outputs"
        raise UsageError(f"formula {what!r}{where} raised {type(error).__name__}: {error}", hint=hint) from None


def scalar_value(one: ScalarLine, sizes: Sizes) -> float | int:
    """What a kernel gets: rounded to the scalar's type."""
    value = parse(one.value, path=f"scalar {one.name}", real=True).value(sizes)
    return float(np.float32(value)) if one.dtype == "float32" else float(value) if is_float(one.dtype) else int(value)


def reference_text(form: NewTaskAnswers, case: Sizes) -> str:
    """reference.py: inputs, the float64 expectation, and the same in float32 where there are reals."""
    real = any(is_float(tensor.dtype) for tensor in (*form.inputs, *form.outputs))
    lines = [f'"""{form.name}: inputs and the float64 expectation' + (", and the same in float32." if real else ".")]
    lines[0] += '"""'
    names = form.functions
    lines += ["", *(["import math", ""] if "erf" in names else []), "import numpy as np", *source_lines(names)]
    lines += ["", "", *form.source.strip().splitlines()] if form.source else []
    lines += [
        "",
        "",
        "def inputs(case, rng):",
        '    """Normal values; integers over their whole range; masks from empty to full."""',
    ]
    lines += ["    return {", *(f'        "{t.name}": {_draw(t, form.axes)},' for t in form.inputs), "    }"]
    if any(tensor.dtype == "bool" for tensor in form.inputs):
        lines += ["", "", *MASK.splitlines()]
    lines += ["", "", "def _compute(inputs, case, dtype):"]
    lines += [f"    {t.name} = {_taken(form, t, case)}" for t in form.inputs]
    text = form.source + " ".join(form.formulas.values())
    used = set(re.findall(r"[A-Za-z_]\w*", text))
    lines += [f'    {axis} = case["{axis}"]' for axis in form.axes if axis in used]
    lines += [f"    {one.name} = {_scalar(one, form.axes)}" for one in form.scalars if one.name in used]
    lines += ["    return {", *(f'        "{t.name}": {_made(form, t)},' for t in form.outputs), "    }"]
    lines += ["", "", "def expected(inputs, case):", "    return _compute(inputs, case, np.float64)"]
    if real:
        lines += ["", "", "def trusted(inputs, case):"]
        lines += ['    """The same in float32: its error is what a good kernel may have."""']
        lines += ["    return _compute(inputs, case, np.float32)"]
    return "\n".join([*lines, ""])


def _taken(form: NewTaskAnswers, tensor: TensorLine, case: Sizes) -> str:
    """An input as the formula gets it: whole numbers wide enough for every sum, or as reals if it runs on those."""
    given = f'inputs["{tensor.name}"]'
    if tensor.dtype == "bool":
        return given
    if is_float(tensor.dtype):
        return f"{given}.astype(dtype)"
    products = any(word in formula for word in _PRODUCTS for formula in form.formulas.values())
    exact = products and DTYPES[tensor.dtype] <= 2  # below 2^53; NumPy's products of integers are slow
    if all(is_float(out.dtype) for out in form.outputs) and _runs_on_reals(form, tensor, case):
        return f"{given}.astype(dtype)"
    if exact and _runs_on_reals(form, tensor, case):
        return f"{given}.astype(np.float64)  # exact"
    return f"{given}.astype(np.int64)"


def _runs_on_reals(form: NewTaskAnswers, tensor: TensorLine, case: Sizes) -> bool:
    """Whether the formula gives the same if this input's whole numbers are kept as reals, so that it is no index."""
    rng = np.random.default_rng(0)
    arrays = {t.name: sample(t, case, rng, None) for t in form.inputs}
    try:
        whole = run_formulas(form, arrays, case)
        real = run_formulas(form, {**arrays, tensor.name: arrays[tensor.name].astype(np.float64)}, case)
    except _RAISED:
        return False
    return all(np.allclose(whole[name].astype(np.float64), real[name].astype(np.float64)) for name in whole)


def _made(form: NewTaskAnswers, tensor: TensorLine) -> str:
    formula = form.formulas[tensor.name]
    ready = formula if tensor.shape != ["1"] else f"np.reshape({formula}, 1)"
    if is_float(tensor.dtype):
        return f"np.asarray({ready})"
    kind = {"bool": "np.bool_"}.get(tensor.dtype, f"np.{tensor.dtype}" if tensor.dtype[0] == "u" else "np.int64")
    return f"np.asarray({ready}).astype({kind})"


def _draw(tensor: TensorLine, axes: Mapping[str, int]) -> str:
    dims = [_over_case(dim, axes) for dim in tensor.shape]
    size = f"({', '.join(dims)})" if len(dims) > 1 else f"({dims[0]},)"
    if tensor.dtype == "bool":
        return f"_mask({size}, rng)"
    if is_float(tensor.dtype):
        return f"rng.standard_normal({size})"
    own = bounds_at(TensorLine(tensor.name, "in", tensor.dtype, tensor.shape), {})
    low = _over_case(tensor.low if tensor.low is not None else str(own[0]), axes)
    high = _over_case(tensor.high if tensor.high is not None else str(own[1]), axes)
    return f"rng.integers({low}, {high}, {size}, dtype=np.{tensor.dtype}, endpoint=True)"


def _scalar(one: ScalarLine, axes: Mapping[str, int]) -> str:
    text = re.sub(r"\b(sqrt|log2)\b", r"np.\1", _over_case(one.value, axes))
    return f"float(np.float32({text}))" if one.dtype == "float32" else f"({text})"


def _over_case(dim: str, axes: Mapping[str, int]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda m: f'case["{m[0]}"]' if m[0] in axes else m[0], dim)


def call_of(source: str, function: str, form_names: Sequence[str], inputs: Sequence[str]) -> str:
    """How a file's function is called: by the names that its parameters share with the task, else the inputs in order.

    Raises UsageError if there is no such function, or the file defines what a reference.py does.
    """
    defined = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    if function not in defined:
        raise UsageError(f"no function {function} in the file", hint=f"functions: {', '.join(defined) or 'none'}")
    if clash := [name for name in _OWN if name in defined]:
        raise UsageError(f"the file defines {', '.join(clash)}, as reference.py does", hint="rename it in the file")
    arguments = defined[function].args
    required = arguments.args[: len(arguments.args) - len(arguments.defaults)]
    if all(one.arg in form_names for one in required):
        known = [one.arg for one in (*arguments.args, *arguments.kwonlyargs) if one.arg in form_names]
        return f"{function}({', '.join(f'{name}={name}' for name in known)})"
    return f"{function}({', '.join(inputs)})"
