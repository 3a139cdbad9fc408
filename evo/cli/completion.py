"""Tab completion of tasks, cases, chips, devices and operators. An invalid file or folder gives no suggestions."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from evo.cli.command_context import GlobalOptions, choose_task, read_subject, session_of
from evo.errors import EvoError

_MOST = 50
_SHELL = "_EVO_COMPLETE"  # set by the script of --show-completion, as in complete_bash


def asked() -> bool:
    """Whether a shell requests completions instead of a command."""
    return _SHELL in os.environ


def answered(answer: Callable[[], int]) -> int:
    """Let typer answer the shell; for bash, words such as sim:l4 are not split at the colon."""
    shell = os.environ[_SHELL].partition("_")[2]
    before = _joined_at_colons(os.environ) if shell == "bash" else ""
    told = io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(told):
        try:
            code = answer()
        except SystemExit as end:
            code = end.code
    text = told.getvalue()
    if shell == "bash":
        text = "".join(line.removeprefix(before) for line in text.splitlines(keepends=True))
    sys.stdout.write(text)
    return code if isinstance(code, int) else 0


def _joined_at_colons(environ: os._Environ[str]) -> str:
    """Undo bash's splitting of words at colons; return what bash keeps of the last word, up to its last colon."""
    words = environ.get("COMP_WORDS", "").split("\n")[: int(environ.get("COMP_CWORD", "0") or 0) + 1]
    joined: list[str] = []
    for index, word in enumerate(words):
        if joined and ":" in (word, words[index - 1]):
            joined[-1] += word
        else:
            joined.append(word)
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    last = joined[-1]
    return last[: last.rfind(":") + 1] if last != words[-1] else ""


def _root(context: typer.Context) -> Path:
    return GlobalOptions(context.find_root().params.get("root")).root()


def tasks(context: typer.Context) -> list[str]:
    """Names of the tasks in the repository."""
    from evo.spec.task import task_names

    try:
        return list(task_names(_root(context)))
    except EvoError:
        return []


def cases(context: typer.Context) -> list[str]:
    """Names of the cases of the task or `.cu` file on the command line, or of the only task there is."""
    from evo.spec.task import task_names

    # If the last option lacks its value, the parser loses the arguments before it, so the words are searched here.
    words = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    try:
        root = _root(context)
        file = next((word for word in words if word.endswith(".cu")), None)
        name = next((word for word in words if word in task_names(root)), None)
        task = read_subject(session_of(context), Path(file), name).task if file else choose_task(root, name)
    except EvoError:
        return []
    return [case.name for case in (*task.bench, *task.check)]


def variants(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of recorded variants, the latest first, each with its change."""
    from evo.records.trials import load_records

    try:
        records = load_records(_root(context))
    except EvoError:
        return []
    latest = {record.variant: record.summary for record in reversed(records) if record.variant.startswith(incomplete)}
    return list(latest.items())[:_MOST]


def chips() -> list[str]:
    """Chips of the table."""
    from evo.spec.chips import CHIPS

    return sorted(CHIPS)


def devices() -> list[str]:
    """`auto`, the first GPU, and the simulated chips with a timing model."""
    from evo.spec.chips import CHIPS

    return ["auto", "gpu:0", *(f"sim:{slug}" for slug in sorted(CHIPS) if not CHIPS[slug].missing_for_model)]


def archs() -> list[str]:
    """`native`, and the architectures of the chips of the table."""
    from evo.spec.chips import CHIPS

    return ["native", *sorted({chip.arch for chip in CHIPS.values()})]


def operators(incomplete: str) -> list[str]:
    """Operators, appended to the ones already in a list."""
    from evo.operators import operator_docs

    docs = operator_docs()
    rules = {f"rules.{doc.family}" for doc in docs if doc.name.startswith("rules.")}
    known = ["rules", *sorted(rules), *(doc.name for doc in docs if not doc.name.startswith("rules."))]
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in known if name not in before.split(",")]


def export_formats() -> list[str]:
    """The formats of `evo export`."""
    from evo.interop.export import FORMATS

    return list(FORMATS)


def strategies() -> list[str]:
    """The values of `--strategy`."""
    from evo.operators.llm import STRATEGIES

    return list(STRATEGIES)
