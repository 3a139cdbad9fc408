"""The shipped tasks: their folder, and `evo init`, which copies them into a repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Context, Option

import evo
from evo.cli.command_context import session_of
from evo.cli.terminal import out
from evo.errors import EvoError, HarnessFault, UsageError, known_words
from evo.files import write_atomic

_EMPTY_LEADERBOARD = '{"version": 1, "entries": []}\n'
_LEFT_OUT = {"champions", "__pycache__"}
_SHOWN = 5


def _suggested() -> list[str]:
    try:
        return shipped_tasks()
    except EvoError:
        return []


def init(
    context: Context,
    task: Annotated[
        list[str] | None,
        Option("--task", metavar="NAME", help="Only this task; repeatable.", autocompletion=_suggested),
    ] = None,
) -> int:
    """Copy shipped tasks into a git repository, with an empty population and leaderboard. Overwrites nothing."""
    from evo.records.ledger import History
    from evo.spec.task import task_names

    root = (session_of(context).given_root or Path.cwd()).resolve()
    History.open(root).close()  # raises if there is no repository that evo can commit to
    written = lay_down(root, task or None)
    names = task or [name for name in task_names(root) if name in shipped_tasks()]
    if not written:
        out(f"nothing to do: {', '.join(names)} {'is' if len(names) == 1 else 'are'} already here")
        return 0
    out(f"wrote {len(written)} files: kernels/ with {', '.join(names)}; population/; leaderboard.json")
    out("next:")
    out("  git add kernels population leaderboard.json && git commit -m 'Add evo tasks'")
    out(f"  evo iterate {'attention' if 'attention' in names else names[0]}")
    return 0


def shipped_folder() -> Path:
    """The shipped task folders: in the installed package, or in the checkout."""
    package = Path(evo.__file__).parent
    for folder in (package / "shipped", package.parent / "kernels"):
        if any(folder.glob("*/task.yaml")):
            return folder
    raise HarnessFault("this installation of evo has no shipped tasks", hint="reinstall evo-kernels")


def attacked_folder(root: Path | None) -> Path:
    """The tasks that a night attacks: a named repository's own copies if it has them all, else the shipped ones."""
    if root is None or any(not (root / "kernels" / name / "task.yaml").is_file() for name in shipped_tasks()):
        return shipped_folder()
    return root / "kernels"


def shipped_tasks() -> list[str]:
    """The names of the shipped tasks."""
    return sorted(path.parent.name for path in shipped_folder().glob("*/task.yaml"))


def shipped_files(tasks: Sequence[str] | None = None) -> dict[str, bytes]:
    """The files of `init`, of these tasks alone if some are named: contents by path below the root."""
    folder = shipped_folder()
    if tasks is not None and (unknown := [name for name in tasks if name not in shipped_tasks()]):
        raise UsageError(
            f"no shipped task {', '.join(unknown)}", hint=known_words("tasks", unknown[0], shipped_tasks())
        )
    files = {"leaderboard.json": _EMPTY_LEADERBOARD.encode(), "population/.gitkeep": b""}
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        wanted = tasks is None or below.parts[0] in tasks
        if wanted and path.is_file() and not _LEFT_OUT & set(below.parts):
            files[f"kernels/{below.as_posix()}"] = path.read_bytes()
    return files


def lay_down(root: Path, tasks: Sequence[str] | None = None) -> tuple[str, ...]:
    """Write the shipped files below root; return the new ones. Raises UsageError, writing nothing, if one differs."""
    files = shipped_files(tasks)
    differing = [name for name, content in files.items() if _differs(root / name, content)]
    if differing:
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        message = f"will not overwrite {', '.join(differing[:_SHOWN])}{more}"
        raise UsageError(
            message, hint="move those files away, or run `evo init` in another folder; nothing was written"
        )
    written = []
    for name, content in files.items():
        path = root / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, content)
            written.append(name)
    return tuple(written)


def _differs(path: Path, content: bytes) -> bool:
    if path.is_dir() or any(parent.is_file() for parent in path.parents):
        return True
    # A leaderboard grows with use, so its content is not compared.
    return path.is_file() and path.name != "leaderboard.json" and path.read_bytes() != content
