"""`evo new`: write a task from names, shapes and a formula, a function or a module. On a terminal it asks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from typer import Argument, Context, Option

from evo.cli.command_context import new_task_root
from evo.cli.import_export import import_kernelbench, next_steps
from evo.cli.terminal import out, say

if TYPE_CHECKING:
    from evo.interop.new_reference import NewTaskAnswers
    from evo.interop.task_folder import ScalarLine, TensorLine

T = TypeVar("T")
_IN_FILE = re.compile(r"(.+\.py):(\w+)")

_LENGTHS = "axes and their lengths, e.g. ROWS=4096,COLS=1024"
_WHERE = "FILE.py:NAME of a PyTorch module or a function; an empty line if you have a formula"


def new(
    context: Context,
    name: Annotated[str | None, Argument(metavar="NAME", help="Its name: lower case, digits, _.")] = None,
    axis: Annotated[list[str], Option("--axis", metavar="N=4096", help="An axis with its length; repeatable.")] = [],  # noqa: B006
    in_: Annotated[
        list[str], Option("--in", metavar="x:float32[N]", help="An input; integers may end in `in 0..V-1`; repeatable.")
    ] = [],  # noqa: B006
    out_: Annotated[list[str], Option("--out", metavar="y:float32[N]", help="An output; repeatable.")] = [],  # noqa: B006
    scalar: Annotated[
        list[str], Option("--scalar", metavar="eps=1e-5", help="A number that kernels get; repeatable.")
    ] = [],  # noqa: B006
    compute: Annotated[
        list[str], Option("--compute", metavar="FORMULA", help="The formula of an output in NumPy: 'y = np.tanh(x)'.")
    ] = [],  # noqa: B006
    function: Annotated[
        str | None,
        Option("--function", metavar="FILE.py:NAME", help="A NumPy or PyTorch function instead of formulas."),
    ] = None,
    module: Annotated[
        str | None, Option("--module", metavar="FILE.py:CLASS", help="A PyTorch module instead of formulas.")
    ] = None,
    init: Annotated[str, Option("--init", metavar="ARGS", help="Arguments of the module's constructor.")] = "",
) -> int:
    """Write a task from names, shapes and a formula, a function or a PyTorch module. It asks for missing options."""
    from evo.interop import new_task
    from evo.interop.new_reference import NewTaskAnswers

    name = _read_name(name) if name else _asked("name of the task", "NAME", _read_name)
    axes = new_task.read_axes(axis or _asked(_LENGTHS, "--axis", _read_axes))
    inputs = _tensors(in_, "an input, e.g. x:float32[ROWS,COLS]", "--in", axes)
    scalars = tuple(new_task.read_scalar(text, axes) for text in scalar)
    root, from_file = new_task_root(context), module or function
    if from_file is None and not compute and not out_ and sys.stdin.isatty():
        from_file = _asked(_WHERE, "--function", _read_reference, default="")
    if from_file is not None:
        file, target = _read_in_file(from_file)
        source, is_class, uses_torch = new_task.named_in(file, target)
        if is_class or uses_torch:
            return _from_module(root, name, file, target, axes, inputs, init)
    outputs = _tensors(out_, "an output, e.g. y:float32[ROWS,COLS]", "--out", axes)

    def answers(formulas: dict[str, str], source: str = "") -> NewTaskAnswers:
        return NewTaskAnswers(name, axes, inputs, outputs, formulas, scalars, source)

    if from_file is not None:
        form = answers(new_task.calls_of(source, target, axes, inputs, outputs, scalars), source)
    elif compute:
        form = answers(new_task.read_formulas(compute, outputs))
    else:
        form = answers(_formulas(outputs, axes, inputs, scalars))
    counted = new_task.write_new(root, form)
    out(f"wrote kernels/{name}: task.yaml, reference.py, skeleton.cu; it loads and passes its self-test")
    for line in (counted, *new_task.remarks(root, name)):
        out(line)
    next_steps(root, name)
    return 0


def _formulas(
    outputs: tuple[TensorLine, ...],
    axes: dict[str, int],
    inputs: tuple[TensorLine, ...],
    scalars: tuple[ScalarLine, ...],
) -> dict[str, str]:
    """A formula for each output, which runs."""
    from evo.interop import new_task
    from evo.interop.new_reference import NewTaskAnswers

    found: dict[str, str] = {}
    for tensor in outputs:

        def read(text: str, tensor: TensorLine = tensor) -> dict[str, str]:
            formula = new_task.read_formulas([text], [tensor])
            new_task.require_runs(NewTaskAnswers("new", axes, inputs, (tensor,), formula, scalars, ""))
            return formula

        found |= _asked(f"{tensor.name} in NumPy", "--compute", read)
    return found


def _read_name(text: str) -> str:
    from evo.errors import UsageError

    if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
        raise UsageError(f"{text!r} is not a task name", hint="lower case letters, digits and _")
    return text


def _read_axes(text: str) -> list[str]:
    from evo.interop.new_task import read_axes

    read_axes([text])
    return [text]


def _read_reference(text: str) -> str | None:
    """FILE.py:NAME that is there; None for an empty line."""
    from evo.interop import new_task

    if not text:
        return None
    new_task.named_in(*_read_in_file(text))
    return text


def _read_in_file(text: str) -> tuple[Path, str]:
    from evo.errors import UsageError

    match = _IN_FILE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} names nothing in a file", hint="write it like model.py:Attention")
    return Path(match[1]), match[2]


def _tensors(given: list[str], what: str, option: str, axes: dict[str, int]) -> tuple[TensorLine, ...]:
    from evo.interop.new_task import read_tensor

    def read(text: str) -> TensorLine:
        return read_tensor(text, option.removeprefix("--"), axes)

    return tuple(map(read, given)) if given else tuple(_several(what, option, read))


def _asked(what: str, option: str, read: Callable[[str], T], *, default: str | None = None) -> T:
    """An answer from the terminal, asked for until it can be read. Raises UsageError if there is no terminal."""
    from evo.errors import SyntaxInvalid, UsageError

    if not sys.stdin.isatty():
        raise UsageError(f"{option} is missing", hint=f"{option}: {what}; `evo new --help` lists all of them")
    while True:
        try:
            return read(str(typer.prompt(what, default=default, show_default=False, err=True)).strip())
        except (UsageError, SyntaxInvalid) as error:
            say(f"{error.message}: {error.hint}" if error.hint else error.message)


def _several(what: str, option: str, read: Callable[[str], T]) -> list[T]:
    """Answers until an empty line."""

    def read_or_end(text: str) -> T | None:
        return read(text) if text else None

    answers = [_asked(what, option, read)]
    while (answer := _asked("another one, or an empty line", option, read_or_end, default="")) is not None:
        answers.append(answer)
    return answers


def _from_module(
    root: Path, name: str, file: Path, target: str, axes: dict[str, int], inputs: tuple[TensorLine, ...], init: str
) -> int:
    import tempfile

    from evo.errors import TaskInvalid
    from evo.interop.new_task import problem_text

    with tempfile.TemporaryDirectory(prefix="evo-new-") as scratch:
        path = Path(scratch) / f"{name}.py"
        path.write_text(problem_text(file, target, axes, inputs, init), encoding="utf-8")
        code = import_kernelbench(root, [path], name, {}, False)
    return TaskInvalid.exit_code if code else 0
