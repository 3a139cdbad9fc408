"""`evo init`: the shipped tasks in the user's own repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evo.cli import completion
from evo.cli.command_context import session_of
from evo.cli.terminal import out


def init(
    context: typer.Context,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", metavar="NAME", help="Only this task; repeatable.", autocompletion=completion.shipped_tasks
        ),
    ] = None,
) -> int:
    """Copy shipped tasks into a git repository, with an empty population and leaderboard. Overwrites nothing."""
    from evo.cli.shipped import lay_down
    from evo.records.ledger import History
    from evo.spec.task import task_names

    root = (session_of(context).given_root or Path.cwd()).resolve()
    History.open(root).close()  # raises if there is no repository that evo can commit to
    written = lay_down(root, task or None)
    names = task or task_names(root)
    if not written:
        out(f"nothing to do: {', '.join(names)} {'is' if len(names) == 1 else 'are'} already here")
        return 0
    out(f"wrote {len(written)} files: kernels/ with {', '.join(names)}; population/; leaderboard.json")
    out("next:")
    out("  git add kernels population leaderboard.json && git commit -m 'Add evo tasks'")
    out(f"  evo iterate {'attention' if 'attention' in names else names[0]}")
    return 0
