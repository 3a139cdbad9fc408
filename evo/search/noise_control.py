"""The A/A control of a run on a GPU: the champion against itself, before anything is held against it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from evo.errors import EvoError
from evo.evaluate.pipeline import EvaluationSession
from evo.results import CaseBench, Control
from evo.search.cluster import WorkerPool
from evo.search.events import Event, Observer
from evo.search.progress import control_words
from evo.search.settings import Settings
from evo.spec.task import Task


class AaControl:
    """Taken once, by the device of this process or by every worker of a pool. seed: the run's, of the inputs."""

    def __init__(
        self,
        task: Task,
        settings: Settings,
        bench: EvaluationSession,
        seed: int,
        watch: Observer,
        pool: WorkerPool | None = None,
    ) -> None:
        self._task, self._settings, self._bench, self._seed = task, settings, bench, seed
        self._watch, self._pool = watch, pool
        self._fault: EvoError | None = None
        self.shown: Control | None = None  # by the noisiest device
        self._begun: threading.Event | None = None  # beside looks; set once it has ended
        self._is_wanted = not bench.modelled and settings.iterations > 0

    def take_beside_looks(self, text: str) -> None:
        """Have it taken while simulators look at a start, which leave the GPU idle.

        Its fault ends the run before anything is decided; it is not asked a second time.
        """
        if self._is_wanted and self._pool is None:
            self._begun = threading.Event()
            self._bench.beside.control = functools.partial(self._early, text)

    def take(self, text: str, known: Sequence[CaseBench] = (), *, waits: bool = True) -> None:
        """Take it, unless it is there; on a simulator none is. Raises HarnessFault or UsageError.

        waits: for one that is under way beside looks, as verdicts do.
        """
        is_under_way = self._begun is not None and self._bench.beside.control is None
        if self.shown is not None or not self._is_wanted or (is_under_way and not waits):
            return
        self._bench.beside.control = None
        is_known = self._begun is not None and self._begun.is_set()
        if not is_known:
            self._watch(Event(stage="A/A control"))
        if self._begun is not None and is_under_way:
            self._begun.wait()
        if self._fault is not None:
            raise self._fault
        if self._pool is not None:
            found = self._pool.control(self._task, text, self._seed, margin=self._settings.margin)
        else:
            if self._task.hash not in self._bench.controls:
                self._here(text, known)
            found = {"": self._bench.controls[self._task.hash]}
        for place, noise in found.items():
            is_raised = self._settings.margin is None and noise.smallest_margin > self._bench.default_margin
            self._watch(Event(note=control_words(place, noise, is_raised=is_raised)))
        self.shown = max(found.values(), key=lambda noise: noise.smallest_margin)

    def _early(self, text: str, known: Sequence[CaseBench]) -> None:
        try:
            with self._bench.turn:
                self._here(text, known)
        except EvoError as fault:
            if fault.problem != "budget-spent":  # that is the start's end, unless its verdict is there by now
                self._fault = fault
        finally:
            assert self._begun is not None
            self._begun.set()

    def _here(self, text: str, known: Sequence[CaseBench]) -> None:
        self._bench.control(self._task, text, self._seed, margin=self._settings.margin, reuse=True, known=known)
