"""Observers of the loop, each of which tells another one too: of the time it waits, the end of a budget, its status.

The parts of the waiting time add up to the run's. The status is for those who watch a run from another process.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from evo.errors import UsageError
from evo.evaluate.counted_stage import CountedStage
from evo.records.ledger import RunStatus, StatusFile, TrialStatus
from evo.results.codec import copied
from evo.search.events import Event, Observer, RunBegun, RunSummary, TrialBegun, TrialResult
from evo.search.progress import spent

_OPEN, _PROPOSE, _RECORD = "open", "propose", "record"
_MORE, _LEAST_MORE_S, _MOST_MORE_S = 0.25, 30.0, 60.0  # of the time, for what began within it
_NEXT = "the next proposal"
_EACH_S, _UNWIND_S = 0.25, 15.0  # how often an end is looked at; how long what ends by it is left alone


class Waits:
    """An observer that tells another one too. Each event ends what was waited for before it."""

    def __init__(self, watch: Observer, clock: Callable[[], float]) -> None:
        self._watch, self._clock = watch, clock
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        self._now, self._since_s = _OPEN, clock()

    def __call__(self, event: Event) -> None:
        name = _waited_for(event)
        if name:
            self._next(name)
        self._watch(event)

    def _next(self, name: str) -> None:
        with self._lock:
            now_s = self._clock()
            self._seconds[self._now] = self._seconds.get(self._now, 0.0) + now_s - self._since_s
            self._now, self._since_s = name, now_s

    def seconds(self) -> dict[str, float]:
        """By stage up to now, the longest first."""
        self._next(self._now)
        return dict(sorted(self._seconds.items(), key=lambda item: -item[1]))


def _more_than(budget_s: float) -> float:
    return min(budget_s, max(_LEAST_MORE_S, min(_MORE * budget_s, _MOST_MORE_S)))


class OutOfTime(Exception):
    """The time of a run is over, and that of what is under way: it is given up."""


class InTime:
    """An observer that ends what outlasts the time of a run; it tells another one all it sees.

    All until the start is verified ends with the time. A trial that began within it, or a look at proposals, has half a
    minute or a quarter more, a minute at most, and no more than the time itself: then it is given up as a whole.
    began_s: since when the time counts; now, if nothing is said.
    """

    def __init__(
        self, watch: Observer, budget_s: float | None, clock: Callable[[], float], began_s: float | None = None
    ) -> None:
        self._watch, self._clock, self._budget_s = watch, clock, budget_s
        self._began_s = clock() if began_s is None else began_s
        self._more_s = _more_than(budget_s or 0.0)
        self._is_start, self._is_bounded, self._holds = True, False, 0
        self._at, self._stage = _NEXT, _OPEN

    def __call__(self, event: Event) -> None:
        """Raises as `look` does."""
        self._watch(event)
        if isinstance(event.about, TrialBegun | TrialResult):
            self._is_start = isinstance(event.about, TrialBegun) and event.about.kind == "start"
            one = event.about
            self._at = f"trial {one.trial} ({one.summary})" if isinstance(one, TrialBegun) else _NEXT
        self._stage = event.stage or self._stage
        if event.stage:
            self.look()

    def look(self) -> None:
        """Raises UsageError or, of a trial, OutOfTime if the time is over: before each stage and call of a device."""
        spent_s = self._clock() - self._began_s
        if self._budget_s is None or spent_s <= self._budget_s:
            return
        if self._is_start:
            words = f"the start was not verified within the time budget ({spent_s:.0f} s, at {self._stage})"
            hint = "a longer --budget, or shorter bench cases; nothing was kept"
            raise UsageError(words, hint=hint, problem="budget-spent")
        if self._is_bounded and spent_s > self._budget_s + self._more_s:
            over = f"the time budget of {self._budget_s:g} s is spent, and {self._more_s:g} s more"
            raise OutOfTime(f"{over}: {self._at} is given up at {self._stage}, without a record; go on with --resume")

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Look again and again once the time is over, wherever the main thread is: in a self-test, or as it waits.

        In another thread of Python nothing can be interrupted: there stages and calls alone look at the time.
        """
        if self._budget_s is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        before, timer = signal.signal(signal.SIGALRM, self._interrupt), signal.getitimer(signal.ITIMER_REAL)
        _alarm(max(0.0, self._budget_s - (self._clock() - self._began_s)))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def _interrupt(self, *_: object) -> None:
        if not self._holds:
            _alarm(_UNWIND_S)  # if somebody has caught what it raises, it comes again
            self.look()
            _alarm(_EACH_S)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is done whole or not at all, as a keep: nothing interrupts it."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def spent(self, trials: int) -> str | None:
        """Why no further trial begins, if the time is over."""
        if self._budget_s is None or self._clock() - self._began_s <= self._budget_s:
            return None
        return spent(trials)

    def left_s(self) -> float | None:
        """How long what is under way may still take; None without an end."""
        if self._budget_s is None or not self._is_bounded:
            return None
        return max(0.0, self._budget_s + self._more_s - (self._clock() - self._began_s))

    def wait_for(self, coming: Future[Any]) -> None:
        """Wait for what is done elsewhere, where nobody looks at this time. Raises OutOfTime if it is not in time."""
        while not wait([coming], self.left_s()).done:
            self.look()

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """The trials of a run, and what is looked at between them. What is given up ends them, and is told."""
        self._is_start, self._is_bounded = False, True
        try:
            yield
        except OutOfTime as over:
            self._watch(Event(note=f"{over}"))
        finally:
            self._is_bounded = False


def _alarm(first_s: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, first_s or _EACH_S, _EACH_S)


def _waited_for(event: Event) -> str:
    match event.about:
        case TrialBegun():
            return _RECORD
        case TrialResult():
            return _PROPOSE
    stage = event.stage
    if isinstance(stage, CountedStage):
        return stage.stage
    return stage.lstrip("0123456789 ").partition(":")[0]  # `3 under way`


class StatusWriter:
    """An observer that tells another one too. As a context manager it writes from when on the run holds the ledger."""

    def __init__(self, root: Path, task: str, watch: Observer) -> None:
        now = time.time()
        self._root, self._watch = root, watch
        self._file: StatusFile | None = None
        self._status = RunStatus(pid=os.getpid(), host=socket.gethostname(), task=task, stage_s=now, began_s=now)

    def __enter__(self) -> StatusWriter:
        self._file = StatusFile.of(self._root)
        self._change()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        words = f"{problem}" or kind.__name__ if kind is not None else ""
        self._change(trial=None, stage="", left_s=None, ended_s=time.time(), problem=words)

    def __call__(self, event: Event) -> None:
        self._watch(event)
        now = time.time()
        if event.note:
            self._change(note=event.note)
        if event.stage:
            self._step(event.stage, now)
        match event.about:
            case RunBegun() as run:
                self._change(run=run.run, device=run.device, arch=run.arch, iterations=run.iterations)
            case TrialBegun() as begun:
                trial = copied(TrialStatus, begun, number=begun.trial, trial=begun.id, began_s=now)
                self._change(trial=trial, stage="", stage_s=now, left_s=None)
            case TrialResult() as result:
                tried = result.kind != "start"
                kept = tried and result.decision is not None and result.decision.kept
                trials, keeps = self._status.trials + tried, self._status.kept + kept
                self._change(trial=None, stage="", stage_s=now, left_s=None, trials=trials, kept=keeps)
            case RunSummary():
                self._change(trial=None, stage="", left_s=None)

    def _step(self, stage: str, now: float) -> None:
        """The next stage, or the next step of one, which keeps the stage's clock."""
        before = self._status
        same = stage.partition(":")[0] == before.stage.partition(":")[0]
        began_s = before.stage_s if same else now
        left_s = stage.left_s(now - began_s) if isinstance(stage, CountedStage) else None
        self._change(stage=str(stage), stage_s=began_s, left_s=left_s)

    def _change(self, **fields: object) -> None:
        self._status = replace(self._status, **fields)  # type: ignore[arg-type]
        if self._file is not None:
            self._file.write(self._status)
