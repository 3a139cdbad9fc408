"""Present state of a run: one small file in the git folder, replaced as the run goes on, for those who watch it.

It is no record. A run that was killed leaves its last state, which `RunStatus.alive` tells apart.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evo.errors import HarnessFault
from evo.files import write_atomic
from evo.records.ledger.git import Git
from evo.records.ledger.lock import process_lives
from evo.results.codec import Seconds, Serializable, parse

_NAME = "evo-status.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus(Serializable):
    """The trial under way."""

    number: int  # in the run
    trial: str  # its id
    operator: str  # what proposed it
    kind: str  # of the change
    summary: str  # what is changed, in a line
    began_s: Seconds  # Unix time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus(Serializable):
    """One run of the loop. Times are Unix times."""

    version: Literal[1] = 1  # of this format
    pid: int  # of the process
    host: str  # the machine
    task: str  # the task
    run: str = ""  # the run's id, once it has begun
    device: str = ""  # `gpu:0` or `sim:l4`
    arch: str = ""  # what is compiled for
    iterations: int = 0  # how many trials it may make
    trials: int = 0  # how many are judged, the start left out
    kept: int = 0  # how many of them were kept
    trial: TrialStatus | None = None  # the trial under way
    stage: str = ""  # what is done for it now
    stage_s: Seconds  # since when
    left_s: Seconds | None = None  # how long it will take from `stage` on, if its steps can be counted
    note: str = ""  # what the run said last
    began_s: Seconds  # when the run began
    ended_s: Seconds | None = None  # when it ended
    problem: str = ""  # why it ended before its end

    @property
    def alive(self) -> bool:
        """Whether it is still under way, as far as this machine can tell."""
        return self.ended_s is None and process_lives(self.pid, self.host)


class StatusFile:
    """Where the runs of a working tree say what they do. Losing it costs a watcher its view and a run nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, root: Path) -> StatusFile:
        """Raises LedgerUnclean if there is no git repository around the root."""
        with closing(Git.find(root)) as git:
            return cls(git.folder / _NAME)

    def write(self, status: RunStatus) -> None:
        try:
            write_atomic(self.path, json.dumps(status.to_json()).encode(), durable=False)
        except HarnessFault:  # a full disk is the ledger's to tell
            return

    def read(self) -> RunStatus | None:
        """The last state that was written; None if there is none that this version of evo can read."""
        try:
            return RunStatus.from_json(parse(self.path.read_bytes()))
        except (OSError, ValueError):
            return None
