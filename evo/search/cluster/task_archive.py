"""A task folder on its way to a worker that shares no file system with the driver."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evo.files import cache_folder
from evo.spec.task import Task, load_task

# Champions stay with the driver.
_LEFT_BEHIND = {"champions", "wrong", "__pycache__"}


@dataclass(frozen=True, slots=True)
class TaskArchive:
    """The files of a task by their path in its folder, and the hash that they must have on arrival."""

    name: str
    hash: str
    files: dict[str, bytes]

    def unpack(self) -> Task:
        """Lay the task down in this machine's cache, in a folder named after all its bytes, and read it from there."""
        digest = hashlib.sha256(repr((self.name, sorted(self.files.items()))).encode()).hexdigest()[:16]
        root = (cache_folder("tasks") or Path(tempfile.mkdtemp(prefix="evo-tasks-"))) / digest
        if not root.is_dir():
            self._write(root)
        return load_task(root, self.name)

    def _write(self, root: Path) -> None:
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=root.parent, ignore_cleanup_errors=True) as temporary:
            for path, data in self.files.items():
                target = Path(temporary) / "task" / "kernels" / self.name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            try:
                (Path(temporary) / "task").rename(root)
            except OSError:  # another worker of this machine was first: its bytes are the same
                if not root.is_dir():
                    raise


def pack(task: Task) -> TaskArchive:
    found = sorted(path for path in task.folder.rglob("*") if path.is_file())
    inside = {path.relative_to(task.folder): path for path in found}
    files = {at.as_posix(): path.read_bytes() for at, path in inside.items() if at.parts[0] not in _LEFT_BEHIND}
    return TaskArchive(task.name, task.hash, files)
