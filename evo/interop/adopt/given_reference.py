"""A reference that the user gives: formulas in NumPy, or a Python or PyTorch function of the inputs."""

from __future__ import annotations

import ast
from pathlib import Path

from evo.errors import UsageError
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.task_texts import ReferenceText
from evo.interop.formula_names import called, source_lines, unknown
from evo.interop.python_file import read_python
from evo.spec.element_types import is_float

_HINT = "--reference 'y = a * x + y', or --reference FILE.py:FUNCTION with the inputs in order"

_FORMULA = """

def _compute(inputs, case, dtype):
{lines}
    return {{
{outputs}
    }}


def _as(array, dtype):
    return array if array.dtype.kind in "iub" else array.astype(dtype)
"""
_FUNCTION = """
from pathlib import Path  # noqa: E402

from evo.spec.reference_child import load_file  # noqa: E402

_function = getattr(load_file(Path(__file__).parent / "given.py"), {function!r})


def _compute(inputs, case, dtype):
    given = [_as(inputs[name], dtype) for name in {names!r}]
    found = _function(*given{scalars})
    found = found if isinstance(found, (tuple, list)) else [found]
    found = [np.asarray(each.detach().cpu().numpy() if hasattr(each, "detach") else each) for each in found]
    shapes = _shapes(case)
    return {{name: each.reshape(shapes[name]) for name, each in zip({outputs!r}, found, strict=True)}}


def _shapes(case):
{axes}
    return {{{shapes}}}


def _as(array, dtype):
    array = array if array.dtype.kind in "iub" else array.astype(dtype)
    return {wrap}
"""
_ENDS = """

def expected(inputs, case):
    return _compute(inputs, case, np.float64)


def trusted(inputs, case):
    \"\"\"The same in float32: its error is what a good kernel may have.\"\"\"
    return _compute(inputs, case, np.float32)
"""


def given_reference(text: str, draft: Draft, folder: Path) -> ReferenceText:
    """From `y = formula` or `FILE.py:FUNCTION`. Raises UsageError."""
    file, colon, function = text.rpartition(":")
    if colon and file.endswith(".py"):
        return _function(Path(file), function.strip(), draft, folder)
    return _formula(text, draft)


def require_readable(text: str, draft: Draft) -> None:
    """What is known before the original was run: files, functions, syntax and names. Raises UsageError."""
    file, colon, function = text.rpartition(":")
    if colon and file.endswith(".py"):
        _defined(Path(file), function.strip())
        return
    if text.endswith(".py"):
        raise UsageError(f"--reference {text}: which function of it?", hint=f"--reference {text}:NAME")
    known = [*(tensor.name for tensor in draft.given), *draft.axes, *(scalar.name for scalar in draft.scalars)]
    for target, formula in _parts(text):
        try:
            ast.parse(formula, mode="eval")
        except SyntaxError as error:
            words = f"--reference {formula!r}: not Python: {error.msg}"
            raise UsageError(words, hint=_HINT) from None
        if target and target not in known:
            raise UsageError(f"--reference: no tensor {target}", hint=f"names here: {', '.join(known)}")
        if found := unknown(formula, known):
            raise UsageError(f"--reference {formula!r}: unknown name {found[0]!r}", hint=found[1])


def _parts(text: str) -> list[tuple[str, str]]:
    """The output and its formula; an empty name where there is a right side alone."""
    found = []
    for part in text.split(";"):
        name, sign, right = part.partition("=")
        named = bool(sign) and name.strip().isidentifier() and not right.startswith("=")
        found.append((name.strip(), right.strip()) if named else ("", part.strip()))
    return found


def _formula(text: str, draft: Draft) -> ReferenceText:
    outputs = [tensor for tensor in draft.given if tensor.role != "in"]
    found = {target or outputs[0].name: formula for target, formula in _parts(text)}
    if missing := [tensor.name for tensor in outputs if tensor.name not in found]:
        raise UsageError(f"--reference: no formula for {', '.join(missing)}", hint=f"{_HINT}; several with `;`")
    if more := [name for name in found if name not in [tensor.name for tensor in outputs]]:
        hint = f"outputs: {', '.join(tensor.name for tensor in outputs)}; --out NAME makes a tensor one"
        raise UsageError(f"--reference: {', '.join(more)} is no output", hint=hint)
    taken = [*(t.name for t in draft.given), *draft.axes, *(s.name for s in draft.scalars), "np"]
    functions = called(found.values(), taken)
    lines = [f'    {t.name} = _as(inputs["{t.name}"], dtype)' for t in draft.given if t.role != "out"]
    lines += [f'    {axis} = case["{axis}"]' for axis in draft.axes]
    lines += [f"    {scalar.name} = dtype({scalar.value!r})" for scalar in draft.scalars]
    rows = []
    for tensor in outputs:
        shape = ", ".join(tensor.shape)
        cast = "" if is_float(tensor.dtype) else f".astype(np.{tensor.dtype})"
        rows.append(f'        "{tensor.name}": np.asarray({found[tensor.name]}).reshape(({shape},)){cast},')
    needed = ["import math  # noqa: E402"] if "erf" in functions else []
    defined = "\n".join([*needed, *source_lines(functions), ""]) if functions else ""
    body = defined + _FORMULA.format(lines="\n".join(lines), outputs="\n".join(rows)) + _ENDS
    return ReferenceText(body, "; ".join(f"{name} = {formula}" for name, formula in found.items()))


def _defined(path: Path, name: str) -> tuple[str, ast.Module, ast.FunctionDef]:
    """The text and tree of a Python file, and its function of that name. Raises UsageError."""
    source, tree = read_python(path, _HINT)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        known = ", ".join(functions) or "none"
        raise UsageError(f"--reference {path}: no function {name}", hint=f"functions: {known}")
    return source, tree, functions[name]


def _function(path: Path, name: str, draft: Draft, folder: Path) -> ReferenceText:
    source, tree, function = _defined(path, name)
    (folder / "given.py").write_text(source, encoding="utf-8")
    inputs = [tensor.name for tensor in draft.given if tensor.role != "out"]
    taken = [argument.arg for argument in function.args.args]
    wanted = {axis: f'case["{axis}"]' for axis in draft.axes} | {s.name: repr(s.value) for s in draft.scalars}
    if len(taken) < len(inputs):
        raise UsageError(
            f"--reference {path}: {name} takes {len(taken)} arguments, the task has the inputs {', '.join(inputs)}",
            hint="a function of the inputs in this order; sizes and scalars follow, by name",
        )
    further = [argument for argument in taken[len(inputs) :] if argument in wanted]
    scalars = "".join(f", {argument}={wanted[argument]}" for argument in further)
    outputs = [tensor for tensor in draft.given if tensor.role != "in"]
    torch = any(
        "torch" in (alias.name for alias in node.names) or getattr(node, "module", "") == "torch"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    body = _FUNCTION.format(
        function=name,
        names=inputs,
        outputs=[tensor.name for tensor in outputs],
        scalars=scalars,
        axes="\n".join(f'    {axis} = case["{axis}"]' for axis in draft.axes),
        shapes=", ".join(f'"{t.name}": ({", ".join(t.shape)},)' for t in outputs),
        wrap='__import__("torch").from_numpy(np.array(array))' if torch else "array",
    )
    return ReferenceText(body + _ENDS, f"{name} of {path.name}")
