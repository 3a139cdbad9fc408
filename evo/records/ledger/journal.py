"""The journal of the next step, written before the step; the next start can then finish or undo it.

Two files in the git folder, each replaced atomically: `evo-run.json` says which run's records are being written, and
`evo-journal.json` holds the step in progress with all that is needed to repeat it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

from evo.errors import LedgerUnclean
from evo.files import remove, write_atomic

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """The run in progress. run_file is its path in git."""

    branch: str
    task: str
    run: str
    run_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStep:
    """A step in progress. Paths are paths in git; bytes are base64, so that any file is restored exactly.

    kind: `place` (a variant stands in the champion's file while it is tried), `keep`, `finish` (records are committed).
    before: the champion's file as it was, None if there was none. after: the kept text. run_size: bytes in the run's
    file before `lines` were added. head: the commit that it began at, empty on a branch without commits.
    """

    kind: str
    branch: str
    champion: str = ""
    before: str | None = None
    after: str = ""
    run_file: str = ""
    run_size: int = 0
    lines: str = ""
    trial: str = ""
    message: str = ""
    leaderboard_message: str = ""
    date: str = ""
    head: str = ""


def pack(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def unpack(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_Note = TypeVar("_Note", RunNote, JournalStep)


class Journal:
    """The two files. Reading gives None if nothing is in progress."""

    def __init__(self, folder: Path) -> None:
        self._run, self._step = folder / "evo-run.json", folder / "evo-journal.json"

    def read_run(self) -> RunNote | None:
        return _read(self._run, RunNote)

    def read_step(self) -> JournalStep | None:
        return _read(self._step, JournalStep)

    def write_run(self, note: RunNote) -> None:
        _write(self._run, note)

    def write_step(self, step: JournalStep) -> None:
        _write(self._step, step)

    def end_run(self) -> None:
        remove(self._run)

    def end_step(self) -> None:
        remove(self._step)

    def step_since(self) -> float:
        """When the step in progress was written, as the file system's clock has it."""
        return self._step.stat().st_mtime


def _write(path: Path, note: RunNote | JournalStep) -> None:
    write_atomic(path, json.dumps({"version": VERSION, **asdict(note)}, indent=1).encode("ascii"))


def _read(path: Path, kind: type[_Note]) -> _Note | None:
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _unreadable(path, str(error)) from None
    names = {field.name for field in fields(kind)}
    if not isinstance(data, dict) or data.pop("version", None) != VERSION or not data.keys() <= names:
        raise _unreadable(path, "another version of evo wrote it")
    try:
        return kind(**data)
    except TypeError as error:
        raise _unreadable(path, str(error)) from None


def _unreadable(path: Path, problem: str) -> LedgerUnclean:
    hint = f"if `git status` is clean, remove {path}; it holds the step that was in progress"
    return LedgerUnclean(f"{path}: cannot be read: {problem}", hint=hint, problem="unreadable")
