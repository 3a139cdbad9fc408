"""The loop: ask an operator, evaluate, decide, record, commit or revert. It only calls; every step lives in its own room.

What happens is told through events (`Event`), so that a terminal, a JSON stream and a test can all watch one loop.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evo.device import DeviceName
from evo.evaluate import Failed, Job, Workbench, evaluate, prepare
from evo.journal import Run, open_run
from evo.mutate import Proposal
from evo.result import Evaluation, Json, Verdict, drop_absent
from evo.search import Search
from evo.task import Task, load_task
from evo.variant import read_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one run of the loop is asked to do."""

    task: str
    device: DeviceName
    arch: str = "sm_89"
    iterations: int = 12
    budget_s: float | None = None
    operators: tuple[str, ...] = ("ladder", "rules")
    start: Path | None = None  # `--from FILE`: begin anew from this file
    branch: str | None = None
    seed: int = 0
    margin: float | None = None
    neutral: bool = False
    patch: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. kind: note, begin, trial, stage, result, done; `fields` is JSON-ready."""

    kind: str
    text: str = ""
    fields: dict[str, Json] = field(default_factory=dict)


Observer = Callable[[Event], None]


class Interrupted(Exception):
    """The user asked to stop; raised between steps only, so that nothing is left half done."""


def evolve(
    settings: Settings,
    root: Path,
    watch: Observer,
    *,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Json]:
    """Run the loop and return the last line of `iterate --json`. Raises EvoError for harness failures."""
    task = load_task(root, settings.task)
    started = clock()
    with Workbench(settings.device, arch=settings.arch) as bench, open_run(root, task, bench, settings.branch) as run:
        for sentence in run.recovered:
            watch(Event(kind="note", text=sentence))
        watch(Event(kind="begin", fields={"task": task.name, "device": str(settings.device), "arch": bench.arch,
                                          "chip": bench.chip_slug, "run": run.id, "iterations": settings.iterations}))
        loop = _Loop(task, settings, bench, run, watch, random.Random(settings.seed))
        loop.begin()
        while loop.trials < settings.iterations and not stop():
            if settings.budget_s is not None and clock() - started > settings.budget_s:
                watch(Event(kind="note", text="the time budget is spent"))
                break
            if not loop.step():
                watch(Event(kind="note", text="no operator has a proposal left"))
                break
        run.finish()
        summary = loop.summary(clock() - started)
        watch(Event(kind="done", fields=summary))
        return summary
