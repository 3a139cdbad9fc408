"""What a fleet keeps of its stations and of the jobs on their way, and when it gives a station up."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from evo.errors import EvoError
from evo.evaluate.pipeline import Job, Started
from evo.results import Control
from evo.search.cluster.protocol import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a station counts as lost. Seconds, but for losses.

    slow_s: for one step of one job at most; less once some are done: slow_factor times the longest, at least patient_s.
    losses: how many stations one job may lose before the run ends. alone_s: how long a run goes on with no station.
    """

    open_s: float = 120.0
    lesson_s: float = 600.0
    slow_s: float = 1800.0
    patient_s: float = 300.0
    slow_factor: float = 10.0
    losses: int = 3
    alone_s: float = 240.0
    again_s: tuple[float, ...] = (0.5, 2.0, 10.0, 30.0, 60.0)


class KnownCode(Exception):
    """A job ended before it was measured: its machine code has been evaluated."""


@dataclass(slots=True)
class Order:
    """A job on its way, or a question to a device. `rank`: the smaller is served first.

    known: machine code that is not measured again. question: a station's method and its arguments, without a job.
    """

    rank: tuple[int, int]
    future: Future[Any]
    job: Job | None = None
    known: set[str] | None = None
    question: tuple[str, tuple[object, ...]] | None = None
    started: Started | None = None
    lost: int = 0

    def __lt__(self, other: Order) -> bool:
        return self.rank < other.rank

    @property
    def role(self) -> str:
        return "compile" if self.started is None and self.question is None else "measure"


@dataclass(slots=True)
class Seat:
    """One station's place: it outlives the stations that fill it."""

    role: str
    index: int
    link: Link | None = None
    opening: Link | None = None  # a station that has not joined yet
    name: str = ""
    taught: int = 0  # lessons that the present station has had
    failures: int = 0  # in a row
    retired: EvoError | None = None
    busy: bool = False  # a job of the fleet's is at the station now
    told: Control | None = None  # what its A/A control showed

    @property
    def words(self) -> str:
        return self.name or f"station {self.index + 1} to {self.role}"
