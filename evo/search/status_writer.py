"""The loop's events as the status of its run, for those who watch it from another process."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from evo.evaluate.counted_stage import CountedStage
from evo.records.ledger import RunStatus, StatusFile, TrialStatus
from evo.search.events import Event, Observer, RunBegun, RunSummary, TrialBegun, TrialResult


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
                trial = TrialStatus(
                    number=begun.trial,
                    trial=begun.id,
                    operator=begun.operator,
                    kind=begun.kind,
                    summary=begun.summary,
                    began_s=now,
                )
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
