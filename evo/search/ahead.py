"""Candidates on the one device of this process: the next are compiled and checked while one is on the device.

As many are under way whatever the machine, and the device takes them in the order in which they were submitted. So what
is proposed and what becomes of it follow from the seed alone, however many cores there are and however busy they are,
and however many of those that are under way are prepared at once.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import NamedTuple

from evo.device.remote_device import RemoteSimulator
from evo.errors import WorkerLost
from evo.evaluate.pipeline import CheckedJob, EvaluationSession, Job, evaluate, finish, start
from evo.results import Evaluation
from evo.search.cluster import KnownCode


class Overtaken(NamedTuple):
    """In place of an evaluation: it was not held against the variant that another is to replace."""


OVERTAKEN = Overtaken()


IN_FLIGHT = 4
_AT_ONCE = 2  # prepared side by side: what that takes of this process is slowed by every further one
_THREADS = "evo-ahead"


class LookAhead:
    """Evaluates jobs on a session whose device is a GPU. Use it as a context manager, inside the session's own."""

    width = IN_FLIGHT // 2  # `InFlight` submits twice as many
    overtakes = True

    def __init__(self, bench: EvaluationSession, jobs: int | None = None) -> None:
        """jobs: how many are prepared at once (default: two)."""
        at_once = min(jobs or _AT_ONCE, IN_FLIGHT)
        self._bench = bench
        self._closed = threading.Event()
        self._free: SimpleQueue[RemoteSimulator] = SimpleQueue()
        for checker in bench.more_checkers(at_once + 2)[1:]:  # the first is that of the device's own half
            self._free.put(checker)
        self._starters = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix=_THREADS)
        self._device = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evo-device")
        self._replaced: set[str] = set()  # texts that one of these candidates is to replace
        self._said, bench.on_stage = bench.on_stage, self._on_stage

    def __enter__(self) -> LookAhead:
        return self

    def __exit__(self, *_: object) -> None:
        """What is under way ends without a result; the candidate on the device is not waited for."""
        self._closed.set()
        self._bench.on_stage = self._said
        for pool in (self._starters, self._device):
            pool.shutdown(wait=False, cancel_futures=True)

    def submit_new(self, job: Job, known: set[str]) -> Future[Evaluation | KnownCode | Overtaken]:
        """Have a job evaluated, unless its machine code is known; others add theirs, in the order of submission.

        What one before it replaces is not worth the device's time any more: then it is overtaken.
        """
        started = self._starters.submit(self._start, job)
        return self._device.submit(self._finish, started, known)

    def evaluate(self, job: Job) -> Evaluation:
        """One job, as soon as the device is free. Raises EvoError for harness failures only."""
        return evaluate(job, self._bench)

    def _start(self, job: Job) -> CheckedJob | Overtaken:
        if job.rival in self._replaced:
            return OVERTAKEN
        checkers = [self._free.get()]
        with contextlib.suppress(Empty):  # one more than candidates are prepared, and those of none
            checkers.append(self._free.get_nowait())
        try:
            return start(job, self._bench, *checkers)
        finally:
            for checker in checkers:
                self._free.put(checker)

    def _finish(self, starting: Future[CheckedJob | Overtaken], known: set[str]) -> Evaluation | KnownCode | Overtaken:
        started = starting.result()
        if self._closed.is_set():
            raise WorkerLost("closed before its turn", hint="run it again")
        if isinstance(started, Overtaken) or started.job.rival in self._replaced:
            return OVERTAKEN
        job = started.job
        code = started.prepared.code_hash if started.prepared is not None else None
        if code is not None and code in known:
            return KnownCode(code)
        if code is not None:
            known.add(code)
        found = finish(started, self._bench)
        if found.kept and job.rival is not None:
            self._replaced.add(job.rival)
        return found

    def _on_stage(self, stage: str) -> None:
        """Report the stage of the device, not the stages of candidates that are prepared ahead of it."""
        if not threading.current_thread().name.startswith(_THREADS):
            self._said(stage)
