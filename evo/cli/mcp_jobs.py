"""Work that takes longer than a client waits: each piece in a thread of its own, with a stage and a way to stop.

A cancelled job ends at its next stage: no verdict, no record.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from evo.errors import UsageError

_KEPT = 32  # jobs that are remembered

Shape = dict[str, Any]


class Cancelled(Exception):
    """Whoever asked does not want the answer any more."""


class McpJob:
    """One piece of work under way or done."""

    def __init__(self, name: str) -> None:
        self.name, self.stage = name, "begins"
        self._stop = threading.Event()
        self._future: Future[Shape] = Future()

    def begin(self, pool: ThreadPoolExecutor, work: Callable[[McpJob], Shape]) -> None:
        self._future = pool.submit(work, self)

    def see(self, stage: str) -> None:
        """A new stage begins. Raises Cancelled."""
        self.stage = stage or self.stage
        if self._stop.is_set():
            raise Cancelled

    def cancel(self) -> None:
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after so many seconds at most."""
        return bool(wait((self._future,), timeout=seconds).done)

    def answer(self) -> Shape:
        """The result of the job. Raises the job's own exception, or UsageError if it was cancelled."""
        try:
            return self._future.result()
        except Cancelled:
            raise UsageError(f"job {self.name} was cancelled", hint="nothing was recorded; try again") from None


class Jobs:
    """The latest jobs by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, McpJob] = {}
        self._numbers = itertools.count(1)
        self._pool = ThreadPoolExecutor(_KEPT, thread_name_prefix="evo-mcp")

    def start(self, work: Callable[[McpJob], Shape]) -> McpJob:
        job = McpJob(f"job-{next(self._numbers)}")
        job.begin(self._pool, work)
        self._jobs[job.name] = job
        while len(self._jobs) > _KEPT:
            del self._jobs[next(iter(self._jobs))]
        return job

    def find(self, name: str) -> McpJob:
        """Raises UsageError if there is no such job."""
        if name not in self._jobs:
            raise UsageError(f"there is no job {name[:40]!r}", hint="`try` gives the name of one that is still running")
        return self._jobs[name]

    def close(self) -> None:
        for job in self._jobs.values():
            job.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
