"""The command line: the commands, the global options, and the way of the arguments to them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from typer import Context, Option

from evo.cli import completion
from evo.cli.command_context import GlobalOptions
from evo.cli.command_help import Command, Commands, meant_command, suggestion
from evo.cli.failures import INTERRUPTED, guarded
from evo.cli.terminal import complain, out, prepare_streams
from evo.errors import UsageError

# The parser's usage errors have no public name of their own in typer.
_ParserComplaint: type[Exception] = typer.BadParameter.__bases__[0]

# The function of each, by its module here, which is imported where the command is named.
_COMMANDS = {
    "init": "shipped_tasks.init",
    "iterate": "iterate.iterate",
    "leaderboard": "overview_commands.leaderboard",
    "check": "variant_commands.check",
    "bench": "variant_commands.bench",
    "try": "variant_commands.try_file",
    "compile": "variant_commands.compile_file",
    "limits": "limits.limits",
    "derive": "derive.derive",
    "baseline": "baseline.baseline",
    "explain": "explain.explain",
    "profile": "profile.profile",
    "tune": "tune.tune",
    "apply": "apply.apply",
    "operators": "overview_commands.operators",
    "insights": "overview_commands.insights",
    "log": "record_commands.log",
    "show": "record_commands.show",
    "diff": "record_commands.diff",
    "replay": "record_commands.replay",
    "report": "report.report",
    "serve": "serve.serve",
    "adopt": "adopt.adopt",
    "new": "new.new",
    "import": "import_export.import_",
    "export": "import_export.export",
    "prompt": "prompt.prompt",
    "mcp": "mcp.mcp",
    "redteam": "redteam.redteam",
    "nightly": "nightly.nightly",
    "doctor": "doctor.doctor",
}


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        out(f"evo {version('evo-kernels')}")
        raise typer.Exit


def evo(
    context: Context,
    root: Annotated[
        Path | None,
        Option("--root", metavar="DIR", help="The folder with kernels/ (default: the nearest parent that has it)."),
    ] = None,
    version: Annotated[bool, Option("--version", is_eager=True, callback=_version, help="Print the version.")] = False,
) -> None:
    """Evolve CUDA kernels: one change at a time, correctness before speed, every step timed and kept in git."""
    del version  # its callback has answered
    context.obj = GlobalOptions(root)
    if context.invoked_subcommand is None:
        out(context.get_help())


def _function(command: str) -> Callable[..., int]:
    module, name = _COMMANDS[command].split(".")
    function: Callable[..., int] = getattr(import_module(f"evo.cli.{module}"), name)
    return function


@functools.cache
def parser(command: str = "") -> typer.core.TyperGroup:
    """The reader of command lines that name this command; of all, unless there is one of that name.

    To make that of all takes longer than most of what `evo` does by itself.
    """
    app = typer.Typer(
        cls=Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback(invoke_without_command=True)(evo)
    for name in [command] if command in _COMMANDS else _COMMANDS:
        app.command(name, cls=Command)(_function(name))
    made = typer.main.get_command(app)
    assert isinstance(made, typer.core.TyperGroup)
    return made


def run(arguments: list[str]) -> int:
    """Run one command line and return the exit code."""
    prepare_streams()
    if completion.asked():
        return completion.answered(lambda: _parsed([], []))
    return guarded(lambda: _parsed(*_hoisted(arguments)))


def _parsed(front: list[str], rest: list[str]) -> int:
    """Run the command, the first word of `rest`; `front` has the options of `evo` itself."""
    try:
        named = [] if front[-1:] == ["--root"] else rest[:1]  # a folder that is missing would be the next word
        code = parser(*named)(args=[*front, *rest], prog_name="evo", standalone_mode=False)
    except _ParserComplaint as problem:
        context = getattr(problem, "ctx", None)
        known = [word for word in rest[:1] if word in _COMMANDS]  # a complaint about a missing value does not name it
        command = context.command_path if context is not None else " ".join(["evo", *known])
        message = getattr(problem, "format_message", problem.__str__)()
        hint = _hint(problem, command)
        said = str(message).partition(" Did you")[0] if "did you" in hint else str(message)  # what it is, or is like
        complain(_with_suggestion(problem) or said.rstrip("."), hint)
        return UsageError.exit_code
    except typer.Abort:
        return 1
    if code == INTERRUPTED:  # what typer makes of Ctrl-C, without a word
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _hint(problem: Exception, command: str) -> str:
    """How to go on: a word too many may be the task, where that is an option."""
    context = getattr(problem, "ctx", None)
    options = [name for param in context.command.params for name in param.opts] if context is not None else []
    extra = re.search(r"extra argument[^ ]* \((\w+)\)", str(problem))
    if extra is not None and "--task" in options:
        return f"`{command} --task {extra[1]}`"
    if extra is None and (more := re.search(r"extra arguments?[^ ]* \((.+)\)", str(problem))) is not None:
        if more[1].startswith("= "):
            return "no spaces around `=`: NAME=VALUE is one word"
        if more[1].endswith((".cu", ".py")):
            return f"one file at a time: `{command} {more[1].split()[-1]}`"
    if (file := re.search(r"No such command '([^']+\.(?:cu|py))'", str(problem))) is not None:
        return f"`evo adopt {file[1]}` makes a task from a file, `evo check {file[1]}` judges one of a task"
    unknown = re.search(r"No such command '([^']+)'", str(problem))
    if unknown is not None and (line := meant_command(unknown[1])) is not None:
        return f"did you mean `{line}`? `evo --help` lists all commands"
    words = [param.name for param in context.command.params if not param.opts[0].startswith("-")] if context else []
    if (option := getattr(problem, "option_name", None)) is not None and option.lstrip("-") in words:
        return f"its value stands by itself: `{command} {option.lstrip('-').upper()}`"
    return f"`{command} --help` lists its {'commands' if command == 'evo' else 'options'}"


def _with_suggestion(problem: Exception) -> str | None:
    """What an unknown option was meant to be; None for other complaints."""
    option, known = getattr(problem, "option_name", None), getattr(problem, "possibilities", None)
    context = getattr(problem, "ctx", None)
    if not isinstance(option, str) or known is None:
        return None
    params = context.command.params if context is not None else []
    every = [name for param in params for name in param.opts if name.startswith("-")] or list(known)
    meant = suggestion(option, every)
    return f"no such option: {option}" + (f". Did you mean {meant}?" if meant else "")


def _hoisted(arguments: list[str]) -> tuple[list[str], list[str]]:
    """--root, and the other words: this global option may be anywhere on the command line."""
    front: list[str] = []
    rest: list[str] = []
    given = iter(arguments)
    for word in given:
        if word == "--":
            return front, [*rest, word, *given]
        if word == "--root":
            front += [word, *[value for value in [next(given, None)] if value is not None]]
        elif word.startswith("--root="):
            front.append(word)
        else:
            rest.append(word)
    return front, rest
