"""Where tasks are: the repository's root, and the folders below its `kernels/`."""

from __future__ import annotations

from pathlib import Path

from evo.errors import UsageError
from evo.task.fields import read_task
from evo.task.model import Task


    return tuple(sorted(path.parent.name for path in (root / "kernels").glob("*/task.yaml")))


def load_task(root: Path, name: str) -> Task:
    """Read `kernels/<name>/`. Raises UsageError for an unknown task, SyntaxInvalid for a bad file."""
    folder = root / "kernels" / name
    if not (folder / "task.yaml").is_file():
        known = ", ".join(task_names(root)) or "none"
        raise UsageError(f"no task {name!r} in {root / 'kernels'}", hint=f"known tasks: {known}")
    return read_task(folder)
