"""Wall time of the loop by what it waited for, and its end while a start is verified. The parts are the run's time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from evo.errors import UsageError
from evo.evaluate.counted_stage import CountedStage
from evo.search.events import Event, Observer, TrialBegun, TrialResult

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
