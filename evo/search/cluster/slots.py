"""A pool's book of workers and of jobs in flight, and the rule by which it gives a worker up."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from evo.errors import EvoError
from evo.evaluate.pipeline import CheckedJob, Job
from evo.results import Control, Evaluation
from evo.search.cluster.protocol import RemoteWorker, Role
from evo.search.cluster.task_archive import TaskArchive

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a worker counts as lost. Seconds, but for losses.

    slow_s: for one step of one job at most; less once some are done: slow_factor times the longest, at least patient_s.
    losses: how many workers one job may lose before the run ends. alone_s: how long a run goes on with no worker.
    """

    open_s: float = 120.0
    lesson_s: float = 600.0
    slow_s: float = 1800.0
    patient_s: float = 300.0
    slow_factor: float = 10.0
    losses: int = 3
    alone_s: float = 240.0
    again_s: tuple[float, ...] = (0.5, 2.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class KnownCode:
    """What came of a job that was not measured, since its machine code had been evaluated."""

    code_hash: str


@dataclass(slots=True, kw_only=True, eq=False)
class WorkItem(Generic[R]):
    """Something that workers are to find. `rank`: the smaller is served first. lost: workers it has cost in a row."""

    rank: tuple[int, int]
    future: Future[R] = field(default_factory=Future)
    found: R | None = None
    lost: int = 0

    def __lt__(self, other: AnyOrder) -> bool:
        return self.rank < other.rank

    def settle(self) -> None:
        """Deliver the result."""
        if self.found is not None:
            self.answer(self.found)

    def answer(self, result: R) -> None:
        """Deliver a result, unless it is not wanted any more."""
        with suppress(InvalidStateError):
            self.future.set_result(result)

    def fail(self, error: EvoError) -> None:
        """Hand out why there is nothing to be found."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(slots=True, kw_only=True, eq=False)
class JobItem(WorkItem[Evaluation | KnownCode]):
    """A job: compiled by one worker, measured by another.

    known: hashes of machine code that is not measured again; None: any is.
    """

    job: Job
    known: set[str] | None = None
    compiled: CheckedJob | None = None  # as it came back
    started: CheckedJob | None = None  # ... once the pool has taken note

    @property
    def role(self) -> Role:
        """The role of the worker that it needs next."""
        return "compile" if self.started is None else "measure"

    def perform(self, worker: RemoteWorker, limit_s: float) -> None:
        """The next step. Raises WorkerUnreachable, or the EvoError of the worker."""
        if self.started is None:
            self.compiled = worker.start(self.job, time_limit_s=limit_s)
        else:
            self.found = worker.finish(self.started, time_limit_s=limit_s)


@dataclass(slots=True, kw_only=True, eq=False)
class ScreenItem(WorkItem[list[float | None]]):
    """A first look: quick gains of some texts over their parent. task: its hash."""

    task: str
    parent: str
    texts: list[str]
    seed: int

    @property
    def role(self) -> Role:
        return "measure"

    def perform(self, worker: RemoteWorker, limit_s: float) -> None:
        """Raises WorkerUnreachable, or the EvoError of the worker."""
        self.found = worker.gains(self.task, self.parent, self.texts, self.seed, time_limit_s=limit_s)


AnyOrder = JobItem | ScreenItem


@dataclass(frozen=True, slots=True)
class LearnTask:
    """A lesson for every worker: a task."""

    archive: TaskArchive


@dataclass(frozen=True, slots=True)
class RunControl:
    """A lesson for every worker that measures: its A/A control of a task, by its hash."""

    task: str
    text: str
    seed: int
    margin: float | None


Lesson = LearnTask | RunControl


@dataclass(slots=True)
class Slot:
    """One worker's place: it outlives the workers that fill it."""

    role: Role
    index: int
    worker: RemoteWorker | None = None
    opening: RemoteWorker | None = None  # a worker that has not joined yet
    name: str = ""
    taught: int = 0  # lessons that the present worker has had
    failures: int = 0  # in a row
    retired: EvoError | None = None
    busy: bool = False  # the worker is at one of the pool's orders now
    told: Control | None = None  # the result of its A/A control

    @property
    def words(self) -> str:
        return self.name or f"worker {self.index + 1} to {self.role}"
