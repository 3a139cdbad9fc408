"""The protocol between a pool and its workers, and the site that opens them: Ray actors, or child processes.

`LocalWorker` is a worker in this process. `RemoteWorker` is one elsewhere, behind a `Transport`: it does the same, with
a time limit for each call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from evo.device.remote_calls import Answer, Raised, RemoteCall
from evo.evaluate.pipeline import CheckedJob, Job
from evo.results import Control, Evaluation
from evo.search.cluster.task_archive import TaskArchive

Role = Literal["measure", "compile"]
P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDescription:
    """The identity of a worker. about: its device's description."""

    host: str
    pid: int
    harness: str
    chip: str
    about: dict[str, str]


class Worker(Protocol):
    """Evaluates jobs, one call at a time. `join` comes first; a task is learned before jobs of it."""

    def join(self, arch: str, about: dict[str, str] | None) -> WorkerDescription:
        """Open the device; or none, to compile for one that says `about` of itself."""
        ...

    def learn(self, archive: TaskArchive) -> None:
        """Unpack a task. Raises HarnessFault if it arrives as another one."""
        ...

    def control(self, task: str, text: str, seed: int, margin: float | None) -> Control:
        """The A/A control of this device for a task, by its hash. Raises HarnessFault or UsageError if it fails."""
        ...

    def start(self, job: Job) -> CheckedJob:
        """The first half of a job, and what it is compared with compiled, so that a GPU never waits for a compiler."""
        ...

    def finish(self, started: CheckedJob) -> Evaluation:
        """The second half: every measurement that one decision rests on is made here, on one device."""
        ...

    def gains(self, task: str, parent: str, texts: list[str], seed: int) -> list[float | None]:
        """Quick gains of some variants over their parent, on this device."""
        ...


class Transport(Protocol):
    """The way to a worker elsewhere. One thread at a time may call."""

    def call(self, call: RemoteCall, limit_s: float) -> Answer:
        """The worker's answer. Raises WorkerUnreachable if there is none within limit_s seconds."""
        ...

    def close(self) -> None:
        """End the worker. A call in flight in another thread ends with WorkerUnreachable."""
        ...


class RemoteWorker(Worker):
    """A worker elsewhere. Each method raises WorkerUnreachable, or the EvoError that the worker raised."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def join(self, arch: str, about: dict[str, str] | None, *, time_limit_s: float = 120.0) -> WorkerDescription:
        return self._ask(Worker.join, time_limit_s, arch, about)

    def learn(self, archive: TaskArchive, *, time_limit_s: float = 600.0) -> None:
        self._ask(Worker.learn, time_limit_s, archive)

    def control(self, task: str, text: str, seed: int, margin: float | None, *, time_limit_s: float = 600.0) -> Control:
        return self._ask(Worker.control, time_limit_s, task, text, seed, margin)

    def start(self, job: Job, *, time_limit_s: float = 1800.0) -> CheckedJob:
        return self._ask(Worker.start, time_limit_s, job)

    def finish(self, started: CheckedJob, *, time_limit_s: float = 1800.0) -> Evaluation:
        return self._ask(Worker.finish, time_limit_s, started)

    def gains(
        self, task: str, parent: str, texts: list[str], seed: int, *, time_limit_s: float = 1800.0
    ) -> list[float | None]:
        return self._ask(Worker.gains, time_limit_s, task, parent, texts, seed)

    def close(self) -> None:
        """End the worker, from any thread."""
        self._transport.close()

    def _ask(
        self, method: Callable[Concatenate[W, P], R], limit_s: float, /, *arguments: P.args, **named: P.kwargs
    ) -> R:
        answer = self._transport.call(RemoteCall(method.__name__, arguments, named or None), limit_s)
        if isinstance(answer, Raised):
            raise answer.error
        value: Any = answer.value
        found: R = value
        return found


class Site(Protocol):
    """Where workers are opened. measuring, compiling: how many of each there are to be."""

    @property
    def measuring(self) -> int: ...

    @property
    def compiling(self) -> int: ...

    def open(self, role: Role, index: int) -> RemoteWorker:
        """Open a worker to `measure` (with a device of its own) or to `compile`. Raises an EvoError."""
        ...

    def close(self) -> None: ...
