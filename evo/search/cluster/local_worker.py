"""A worker in its own process: an evaluation session on one device that it measures on, or on none to compile.

It decides nothing beyond one evaluation and writes to no repository: tasks are sent to it, evaluations go back.
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace

from evo.device import DeviceName
from evo.errors import HarnessFault
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import CheckedJob, Job, finish, start
from evo.evaluate.screening import screened_gains
from evo.evaluate.session import EvaluationSession
from evo.results import Control, Evaluation
from evo.search.cluster.protocol import Worker, WorkerDescription
from evo.search.cluster.task_archive import TaskArchive
from evo.spec.task import Task


def open_worker(name: DeviceName) -> LocalWorker:
    """For a child process, which opens objects by the name of a device."""
    return LocalWorker(name)


class LocalWorker(Worker):
    """A worker in this process, with an evaluation session of its own."""

    def __init__(self, device: DeviceName) -> None:
        self.device = device
        self._bench: EvaluationSession | None = None
        self._tasks: dict[str, Task] = {}  # by hash, as they lie on this machine

    def join(self, arch: str, about: dict[str, str] | None) -> WorkerDescription:
        self._bench = EvaluationSession(self.device, arch=arch, about=about)
        return WorkerDescription(
            host=platform.node(),
            pid=os.getpid(),
            harness=harness_version(),
            chip=self._bench.chip_slug,
            about=self._bench.about,
        )

    def learn(self, archive: TaskArchive) -> None:
        task = archive.unpack()
        if task.hash != archive.hash:
            raise HarnessFault(
                f"the task {archive.name} arrived changed", hint="run it again; report it if it stays so"
            )
        self._tasks[task.hash] = task

    def control(self, task: str, text: str, seed: int, margin: float | None) -> Control:
        self.bench.control(self._tasks[task], text, seed, margin=margin)
        return self.bench.controls[task]

    def start(self, job: Job) -> CheckedJob:
        bench, job = self.bench, self._here(job)
        started = start(job, bench, bench.checker)
        if job.rival is not None and not started.ended and job.upto != "check":
            started.rival = bench.parent(job.task, job.rival)
        return started

    def finish(self, started: CheckedJob) -> Evaluation:
        started.job = self._here(started.job)
        return finish(started, self.bench)

    def gains(self, task: str, parent: str, texts: list[str], seed: int) -> list[float | None]:
        return screened_gains(self.bench, self._tasks[task], parent, texts, seed)

    def _here(self, job: Job) -> Job:
        """The job with its task's folder on this machine; the rest of the task as the driver has it."""
        return replace(job, task=replace(job.task, folder=self._tasks[job.task.hash].folder))

    def close(self) -> None:
        if self._bench is not None:
            self._bench.close()

    @property
    def bench(self) -> EvaluationSession:
        if self._bench is None:
            raise HarnessFault("the worker was asked before it joined", hint="report this: it is a defect of evo")
        return self._bench
