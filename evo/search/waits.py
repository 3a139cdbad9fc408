"""Wall time of the loop by what it waited for; the parts add up to the run's time."""

from __future__ import annotations

import threading
from collections.abc import Callable

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
