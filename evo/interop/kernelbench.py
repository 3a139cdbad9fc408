"""KernelBench problems as task folders: a child process examines each file; a valid task is moved into place."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from evo.errors import ChildDied, HarnessFault, UsageError
from evo.files import copy_folder
from evo.results.codec import Serializable
from evo.spec.child_entries import REFERENCE
from evo.spec.child_process import ChildProcess, begin_forks

LIMIT_S = 120.0
_ENTRY = "evo.interop.import_process:serve"
_MODULES = ("evo.interop.torch_reference",)
_START_S = 180.0  # torch from a cold disk


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """One file to import, under this name."""

    file: Path
    name: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class ImportAnswer(Serializable):
    """The result for one file."""

    COMPUTED: ClassVar = ("status",)
    RENAMED: ClassVar = {"refused": "reason"}

    file: Path  # the file
    name: str  # the task's name
    folder: Path | None = None  # the task's folder; absent if there is none
    cases: dict[str, dict[str, int]] | None = None  # axes by case
    notes: tuple[str, ...] | None = None  # parts that were not imported
    refused: str | None = None  # why it did not become a task
    hint: str | None = None  # next step

    @property
    def status(self) -> Literal["imported", "refused"]:
        """Whether it became a task."""
        return "imported" if self.folder is not None else "refused"


def task_name(stem: str) -> str:
    """A file's name as a task's: `23_Softmax.py` is `softmax`, `94_MSELoss.py` is `mse_loss`."""
    words = re.sub(r"(?<=[A-Za-z0-9])(?=[A-Z][a-z])", "_", re.sub(r"^\d+[_-]*", "", stem) or f"problem_{stem}")
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_") or "problem"
    return name if name[0].isalpha() else f"p_{name}"


def requests_of(
    root: Path, files: Sequence[Path], name: str | None, said: Mapping[Path, str] = MappingProxyType({})
) -> list[ImportRequest]:
    """A name for each file; if another task has it, it becomes `p23_softmax`, with the file's number.

    said: descriptions by file.
    Raises UsageError if a file was imported before, or the requested name is taken.
    """
    if name is not None and len(files) != 1:
        raise UsageError("--name is for one file", hint="leave it out: names come from the files")
    if name is not None and not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UsageError(f"{name!r} is not a task name", hint="lower case letters, digits and _", problem="task-name")
    found: list[ImportRequest] = []
    for file in files:
        wishes = [name] if name is not None else [task_name(file.stem), "p" + re.sub(r"\W+", "_", file.stem.lower())]
        named = [request.name for request in found]
        free = [wish for wish in wishes if wish not in named and not (root / "kernels" / wish).exists()]
        before = [wish for wish in wishes if _is_of(root / "kernels" / wish, file)]
        if before or not free:
            taken = (before or wishes)[0]
            raise UsageError(
                f"kernels/{taken} exists already", problem="exists", hint="pass --name NAME, or move that folder away"
            )
        found.append(ImportRequest(file=file, name=free[0], description=said.get(file, "")))
    return found


def _is_of(folder: Path, file: Path) -> bool:
    """Whether a task was imported from this problem."""
    try:
        return (folder / "problem.py").read_bytes() == file.read_bytes()
    except OSError:
        return False


def import_problems(
    root: Path,
    requests: Sequence[ImportRequest],
    *,
    compiled: bool = False,
    most_bytes: int | None = None,
    limit_s: float = LIMIT_S,
) -> Iterator[ImportAnswer]:
    """Write `kernels/<name>/` for each file that can be a task, one after the other. Raises HarnessFault.

    most_bytes: file's own sizes whose tensors are larger together are left out, where smaller ones can be timed.
    """
    (root / "kernels").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evo-import-") as scratch:
        jobs = [
            {
                "file": str(request.file.resolve()),
                "name": request.name,
                "into": scratch,
                "description": request.description,
                "compiled": compiled,
                "most_bytes": most_bytes,
                "limit_s": limit_s,
            }
            for request in requests
        ]
        for request, said in zip(requests, _said(jobs, limit_s), strict=True):
            yield _settled(root, request, said, Path(scratch) / request.name)


def _said(jobs: list[dict[str, Any]], limit_s: float) -> Iterator[dict[str, Any]]:
    """The import process's answers, one job after the other."""
    begin_forks((), (_ENTRY, REFERENCE))  # torch takes seconds to import, and the new tasks' references want it too
    with contextlib.closing(ChildProcess(_ENTRY, str(len(jobs)), plain=True, modules=_MODULES)) as child:
        for job in jobs:
            try:
                said = child.ask(job, _START_S + limit_s + 1)
            except TimeoutError:
                raise HarnessFault("the import process does not answer", hint="import fewer files at once") from None
            except ChildDied as death:
                hint = "is torch installed? see `evo doctor`"
                raise HarnessFault(f"the import process ended early: {death.words}", hint=hint) from None
            assert isinstance(said, dict)
            yield said


def _settled(root: Path, request: ImportRequest, said: dict[str, Any], written: Path) -> ImportAnswer:
    if "refused" in said:
        return ImportAnswer(file=request.file, name=request.name, refused=said["refused"], hint=said["hint"])
    folder = root / "kernels" / request.name
    copy_folder(written, folder)
    shutil.rmtree(written)
    return ImportAnswer(
        file=request.file, name=request.name, folder=folder, cases=said["cases"], notes=tuple(said["notes"])
    )
