"""`evo new`, `evo import` and `evo export`: tasks in, champions out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evo.cli.options import AsJson, session_of
from evo.cli.terminal import out, out_json_line, paint, say

FORMATS = ("kernelbench",)
TaskName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The task's name (default: from the file's).")
]


def import_(
    context: typer.Context,
    form: Annotated[str, typer.Argument(metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What to import.")],
    name: TaskName = None,
    limit: Annotated[float, typer.Option("--limit", metavar="S", min=1, help="Seconds for each file.")] = 120.0,
    compiled: Annotated[bool, typer.Option("--compiled", help="Also the torch.compile'd module as a rival.")] = False,
    only_small: Annotated[
        bool, typer.Option("--small", help="Leave out sizes that are too large for the simulator.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Turn a problem of another benchmark into a task. It is foreign code: it runs in a process of its own."""
    from evo.errors import UsageError

    root = _root(context)
    if form == "kernelbench":
        return _kernelbench(root, files, name, {"limit_s": limit, "compiled": compiled, "only_small": only_small}, json)
    raise UsageError(f"unknown format {form!r}", hint=f"one of {', '.join(FORMATS)}")


def _root(context: typer.Context) -> Path:
    """Where the new task goes: the repository at hand, or this folder, which becomes one."""
    from evo.errors import UsageError

    session = session_of(context)
    if session.given_root is not None:
        return session.given_root.resolve()
    try:
        return session.root()
    except UsageError:
        return Path.cwd().resolve()


def _kernelbench(root: Path, files: list[Path], name: str | None, options: dict[str, Any], json: bool) -> int:
    from evo.errors import TaskInvalid
    from evo.exchange.kernelbench import import_problems, requests_of

    requests = requests_of(root, files, name)
    limit_s = options["limit_s"]
    say(f"running foreign code: {len(requests)} file(s), each in a process of its own with {limit_s:g} s to end")
    refused = 0
    last = ""
    for answer in import_problems(root, requests, **options):
        refused += answer.folder is None
        last = answer.name if answer.folder is not None else last
        if json:
            out_json_line(answer.to_json())
            continue
        if answer.folder is None:
            out(f"{paint('refused', 'red')}   {answer.file.name}: {answer.refused}")
            out(f"          {paint('hint:', 'cyan')} {answer.hint}")
            continue
        cases = ", ".join(answer.cases or ())
        out(f"{paint('imported', 'green')}  {answer.file.name} -> kernels/{answer.name}: {cases}")
        for note in answer.notes:
            out(f"          {note}")
    if last and not json:
        next_steps(last)
    return TaskInvalid.exit_code if refused else 0


def next_steps(name: str) -> None:
    """A task without a rung needs a first kernel; say how it gets one."""
    out("next: the task has no kernel yet; fill in the skeleton, and start from it")
    out(f"  cp kernels/{name}/skeleton.cu {name}.cu    # then write its body")
    out(f"  evo check {name}.cu")
    out(f"  evo iterate {name} --from {name}.cu")
