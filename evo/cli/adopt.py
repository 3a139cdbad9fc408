"""`evo adopt`: a task and a first variant from a `.cu` file as people have it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Context, Option

from evo.cli.command_context import new_task_root
from evo.cli.options import AsJson
from evo.cli.terminal import out, out_json, out_table, out_words, paint, say

if TYPE_CHECKING:
    from evo.interop.adopt import Adopted, Options

_QUESTIONS = 2

_LONGEST = 2**40  # elements along a size


def adopt(
    context: Context,
    file: Annotated[
        Path, Argument(metavar="FILE.cu", help="CUDA C++ with host code that launches a kernel, or Python with it.")
    ],
    name: Annotated[
        str | None,
        Option(
            "--name",
            metavar="NAME",
            help="The task's name: lower case letters, digits and _ (default: from the file's).",
        ),
    ] = None,
    kernel: Annotated[
        str | None, Option("--kernel", metavar="KERNEL", help="Adopt the launches that belong to this kernel.")
    ] = None,
    axis: Annotated[list[str], Option("--axis", metavar="N=1048576", help="A size of the host code; repeatable.")] = [],  # noqa: B006
    tensor: Annotated[
        list[str],
        Option(
            "--tensor",
            metavar="y:inout:float32[N]",
            help="What a tensor is; each part but the name may be left out; repeatable.",
        ),
    ] = [],  # noqa: B006
    outputs: Annotated[
        list[str], Option("--out", metavar="NAME", help="A tensor that the kernel writes; repeatable.")
    ] = [],  # noqa: B006
    scalar: Annotated[
        list[str], Option("--scalar", metavar="eps=1e-5", help="A number that the kernel takes; repeatable.")
    ] = [],  # noqa: B006
    reference: Annotated[
        str | None,
        Option(
            "--reference",
            metavar="FORMULA",
            help="'y = a * x + y' in NumPy, or FILE.py:FUNCTION (default: the kernel itself).",
        ),
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask; use the assumed answers.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a task of that name.")] = False,
    json: AsJson = False,
) -> int:
    """Make a task and a first variant from a .cu file with host code. It shows what it assumed."""
    from evo.interop.adopt import Options

    options = Options(
        name=name,
        kernel=kernel,
        tensors=(*tensor, *(f"{word}:out" for word in outputs)),
        axes=_whole("--axis", axis),
        scalars=_numbers("--scalar", scalar),
        reference=reference,
        overwrite=overwrite,
    )
    return _adopted(new_task_root(context), file, options, asks=not yes, json=json)


def _adopted(root: Path, file: Path, options: Options, *, asks: bool, json: bool) -> int:

    from evo.interop.adopt import adopt as adopt_file

    found = adopt_file(root, file, options, say)
    if json:
        from evo.cli.analysis_outputs import AdoptOutput

        out_json(AdoptOutput.of(found, root).to_json())
        return 0
    _show(found)
    left = _QUESTIONS if asks and sys.stdin.isatty() else 0
    while left and (answer := _asked()):
        options = _changed(options, answer)
        found = adopt_file(root, file, options, say)
        _show(found)
        left -= 1
    _next(found)
    return 0


def _asked() -> str:
    question = "a correction, as the option in the last column, or an empty line"
    return str(typer.prompt(question, default="", show_default=False, err=True)).strip()


def _changed(options: Options, answer: str) -> Options:
    """The options with those of an answer: `--axis N=4096 --tensor y:inout`. Raises UsageError."""
    from evo.errors import UsageError

    axes, scalars, tensors = dict(options.axes), dict(options.scalars), list(options.tensors)
    kernel, reference = options.kernel, options.reference
    words = shlex.split(answer)
    for option, value in zip(words[::2], words[1::2], strict=False):
        match option:
            case "--axis":
                axes |= _whole(option, [value])
            case "--scalar":
                scalars |= _numbers(option, [value])
            case "--tensor":
                tensors.append(value)
            case "--out":
                tensors.append(f"{value}:out")
            case "--kernel":
                kernel = value
            case "--reference":
                reference = value
            case _:
                raise UsageError(f"{option} is no correction", hint="--axis, --tensor, --out, --scalar, --kernel")
    return dataclasses.replace(
        options, axes=axes, scalars=scalars, tensors=tuple(tensors), kernel=kernel, reference=reference, overwrite=True
    )


def _pairs(option: str, texts: list[str]) -> list[tuple[str, str]]:
    from evo.errors import UsageError

    found = []
    for text in (part for given in texts for part in given.split(",") if part.strip()):
        name, sign, value = text.partition("=")
        if not sign or not name.strip().isidentifier():
            raise UsageError(f"{option} {text!r} cannot be parsed", hint=f"write it like {option} N=4096")
        found.append((name.strip(), value.strip()))
    return found


def _whole(option: str, texts: list[str]) -> dict[str, int]:
    """`N=1048576` or `N=1<<20`. Raises UsageError."""
    from evo.errors import SyntaxInvalid, UsageError
    from evo.spec.expr import parse

    found: dict[str, int] = {}
    for name, value in _pairs(option, texts):
        number: float = 0
        with contextlib.suppress(ValueError):  # `1e6`
            number = float(value)
        with contextlib.suppress(SyntaxInvalid):  # `1M`, `1<<20`
            expression = parse(value, path=option)
            number = expression.value({}) if not expression.names else 0
        if not 1 <= number <= _LONGEST or number != int(number) or "^" in value:
            example = f"'{name}=1<<20': `^` is no power" if "^" in value else f"{name}=4096"
            raise UsageError(f"{option} {name}={value}: not a length", hint=f"write it like {option} {example}")
        if found.setdefault(name, int(number)) != int(number):
            both = f"{found[name]} and {int(number)}"
            raise UsageError(f"{option} {name} is given twice: {both}", hint="give each size one length")
    return found


def _numbers(option: str, texts: list[str]) -> dict[str, float]:
    from evo.errors import UsageError

    found = {}
    for name, value in _pairs(option, texts):
        try:
            found[name] = float(value.rstrip("fF"))
            if not math.isfinite(found[name]):
                raise ValueError
        except ValueError:
            raise UsageError(
                f"{option} {name}={value}: not a number", hint=f"write it like {option} eps=1e-5"
            ) from None
    return found


def _show(found: Adopted) -> None:
    rows = [(row.what, row.value, row.why, row.option) for row in found.rows]
    out_table(["", "assumed", "from", "to change it"], rows)
    for note in found.notes:
        out_words(f"{paint('note:', 'cyan')} {note}")
    written = f"wrote {os.path.relpath(found.folder)} and {os.path.relpath(found.variant)}"
    out_words(f"{written}; it loads and passes its self-test")
    out_words(f"{paint('reference:', 'cyan')} {found.reference}; {found.unproven}")


def _next(found: Adopted) -> None:
    file = os.path.relpath(found.variant)  # the folder may be one below the repository's
    out("next:")
    out(f"  evo check {file}")
    out(f"  evo iterate {found.name} --from {file}")
