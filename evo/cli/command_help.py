"""Help texts: the commands in groups, the options of language models apart, examples at the end."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import typer

# Command -> pairs of (command line, purpose).
_TEXTS = tomllib.loads(files(__package__).joinpath("examples.toml").read_text("utf-8"))
_MEANT = {word: line for line, words in _TEXTS.pop("other words").items() for word in words.split(", ")}
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {name: tuple(rows.items()) for name, rows in _TEXTS.items()}

GROUPS: dict[str, tuple[str, ...]] = {
    "Begin": ("init", "adopt", "new", "import", "doctor"),
    "Evolve": ("iterate", "nightly", "leaderboard", "apply"),
    "Judge one file": ("check", "bench", "try", "compile", "profile", "explain"),
    "Know the limits": ("limits", "derive", "baseline", "tune"),
    "Look back": ("log", "show", "diff", "replay", "insights", "report", "serve"),
    "Operators and models": ("operators", "prompt", "mcp"),
    "Take out, attack": ("export", "redteam"),
}
_FIRST = (
    ("evo init --task softmax", "a task of evo in your repository"),
    ("evo check kernels/softmax/ladder/00_scalar.cu", "is this file correct?"),
    ("evo iterate softmax --iterations 10", "ten trials; Ctrl-C stops after the present one"),
    ("evo leaderboard", "how much faster it is since the start"),
)
_MODEL = "--llm"
_ALIKE = 0.7  # --case and --task are not


class Command(typer.core.TyperCommand):
    """A command whose help has the options of language models apart, and examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Language model": []}
        for param in self.get_params(ctx):
            if (row := param.get_help_record(ctx)) is not None:
                is_argument = param.param_type_name == "argument"
                of_model = any(name.startswith(_MODEL) for name in param.opts)
                sections["Arguments" if is_argument else "Language model" if of_model else "Options"].append(row)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        del ctx
        _write_examples(formatter, EXAMPLES.get(self.name or "", ()))


class Commands(typer.core.TyperGroup):
    """`evo` itself: its commands in groups, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        grouped = {name for names in GROUPS.values() for name in names}
        rest = tuple(name for name in self.list_commands(ctx) if name not in grouped)
        for title, names in {**GROUPS, "Commands": rest}.items():
            rows = [(name, _sentence(found)) for name in names if (found := self.get_command(ctx, name)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        del ctx
        _write_examples(formatter, _FIRST)
        formatter.write("\n`evo COMMAND -h` has the options and examples of a command.\n")


def meant_command(word: str) -> str | None:
    """The command line that does what other programs call so."""
    return _MEANT.get(word.lower())


def suggestion(word: str, known: list[str]) -> str | None:
    """The known word that was meant; None if none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1, cutoff=_ALIKE)), None)


def _sentence(command: Any) -> str:
    return " ".join((command.help or "").split()).partition(". ")[0].rstrip(".") + "."


def _write_examples(formatter: Any, examples: tuple[tuple[str, str], ...]) -> None:
    """A command line beside what it is for, or below it if the line is long."""
    if not examples:
        return
    beside = max(len(line) for line, _ in examples) + 4 + max(len(why) for _, why in examples) <= formatter.width - 4
    wide = max(len(line) for line, _ in examples)
    with formatter.section("Examples"):
        for line, why in examples:
            formatter.write(f"  {line:<{wide}}  # {why}\n" if beside else f"  # {why}\n  {line}\n")
