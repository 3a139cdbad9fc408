"""Observers of the loop, each of which tells another one too: of the time it waits, the end of a budget, its status.

The parts of the waiting time add up to the run's. The status is for those who watch a run from another process.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from evo.errors import UsageError
from evo.evaluate.counted_stage import CountedStage
from evo.records.ledger import RunStatus, StatusFile, TrialStatus
from evo.results.codec import copied
from evo.search.events import Event, Observer, RunBegun, RunSummary, TrialBegun, TrialResult

_OPEN, _PROPOSE, _RECORD = "open", "propose", "record"


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


class InTime:
    """An observer that ends a run whose time is over while its start is verified; it tells another one all it sees.

    Between trials the loop itself looks at the time. A start has no trial before it and may take longer than a run.
    """

    def __init__(self, watch: Observer, budget_s: float | None, clock: Callable[[], float]) -> None:
        self._watch, self._clock, self._budget_s, self._began_s = watch, clock, budget_s, clock()
        self._is_start, self._stage = False, ""

    def __call__(self, event: Event) -> None:
        """Raises UsageError if the time is over."""
        self._watch(event)
        if isinstance(event.about, TrialBegun | TrialResult):
            self._is_start = isinstance(event.about, TrialBegun) and event.about.kind == "start"
        self._stage = event.stage or self._stage
        if event.stage:
            self.look()

    def look(self) -> None:
        """Raises UsageError if the time is over: between stages, before each call of a device."""
        spent_s = self._clock() - self._began_s
        if self._is_start and self._budget_s is not None and spent_s > self._budget_s:
            words = f"the start was not verified within the time budget ({spent_s:.0f} s, at {self._stage})"
            hint = "a longer --budget, or shorter bench cases; nothing was kept"
            raise UsageError(words, hint=hint, problem="budget-spent")


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
