"""Restarts: if no change of the champion is kept any more, the search continues from other elites for a while.

A line begins at an elite of another niche, the fastest first, then at earlier champions, the latest first, all since
the champion's start and none much slower than the champion. Its proposals change the line's parent, one change each,
and are judged against the champion like all others, so what is kept has beaten the champion. What only beats its own
parent past the margin becomes the line's next parent, without a commit. A line that does not get on ends, and after
another look at the champion the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evo.errors import EvoError
from evo.records.trials import Record, rebuild_text
from evo.records.trials.elites import Elite, elites, niche_of
from evo.results.codec import copied
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant

AFTER = 8  # trials at the champion without a keep, before the first line
BETWEEN = 3  # and between two lines
LENGTH = 5  # trials of a line that do not get on, before it ends
_NEAR = 0.8  # of the champion's speed: few changes make more good than that


class Restarts:
    """Chooses the parent of the next proposal: the champion or, during a restart, the parent of its line.

    margin: what a gain has to pass. after: trials at the champion without a keep, before the first line. gain: of the
    line's parent over the champion, 1 at the champion.
    """

    def __init__(
        self, task: Task, places: tuple[str, str], margin: float, note: Callable[[str], None], *, after: int = AFTER
    ) -> None:
        self._task, self._places, self._note = task, places, note
        self._needed = 1 / (1 - margin)
        self._parent: Variant | None = None
        self._gain = 1.0
        self._idle = 0
        self._after = self._wait = after
        self._used: set[str] = set()

    @property
    def gain(self) -> float:
        return self._gain if self._parent is not None else 1.0

    @property
    def is_open(self) -> bool:
        return self._parent is not None

    def parent(self, champion: Variant) -> Variant:
        return self._parent or champion

    def is_due(self) -> bool:
        """Whether a line should begin."""
        return self._parent is None and self._idle >= self._wait

    def begin(self, champion: Variant, records: Sequence[Record]) -> bool:
        """Begin a line; False if there is nobody left to begin from, and the champion is all there is."""
        self._idle, self._wait = 0, self._after
        records = self._since_start(records)
        own = _best_us(records, self._task, self._places, champion.id)
        if own is None:
            return False
        found = next((e for e in self._candidates(champion, records) if self._is_open(e, own)), None)
        if found is None:
            return False
        self._used.add(found.variant)
        self._parent, self._gain = parse_variant(found.text, path=champion.path), own / found.time_us
        speed = f"{self._gain:.2f}x the champion's speed"
        self._note(f"nothing kept for a while: on from {found.variant} ({found.summary}), {speed}")
        return True

    def _is_open(self, elite: Elite, champion_us: float) -> bool:
        return elite.variant not in self._used and elite.time_us <= champion_us / _NEAR

    def end(self) -> None:
        """Back to the champion."""
        if self._parent is not None:
            self._parent, self._idle, self._wait = None, 0, BETWEEN

    def tell(self, variant: Variant, ratio: float | None, *, passed: bool, kept: bool) -> None:
        """What became of a trial: its gain ratio over the champion, where it was timed."""
        if kept:
            self._parent, self._idle, self._wait = None, 0, self._after
            self._used.clear()
        elif self._parent is not None and passed and ratio is not None and ratio > self._gain * self._needed:
            self._parent, self._gain, self._idle = variant, ratio, 0
        else:
            self._idle += 1
            if self._idle >= LENGTH:
                self.end()

    def _since_start(self, records: Sequence[Record]) -> Sequence[Record]:
        """The champion's own line of descent: a run that begins anew from a file leaves other lines alone."""
        here = (self._task.name, *self._places)
        starts = [i for i, record in enumerate(records) if record.begins and (record.task, *record.place[:2]) == here]
        return records[starts[-1] :] if starts else records

    def _candidates(self, champion: Variant, records: Sequence[Record]) -> list[Elite]:
        """Elites of other niches, the fastest first, then earlier champions, the latest first."""
        around = elites(records, self._task, self._places, champion.id)
        own = next((r for r in reversed(records) if r.variant == champion.id), None)
        niche = niche_of(own, champion.text) if own is not None else ()
        found = [elite for elite in around if elite.niche != niche]
        for record in reversed(records):
            if record.task != self._task.name or record.place[:2] != self._places or record.variant == champion.id:
                continue
            time_us = record.evaluation.score_us(self._task.score) if record.kept and record.proposed else None
            if time_us is None or record.environment.task_hash != self._task.hash:
                continue
            try:
                text = rebuild_text(records, record.trial)
            except EvoError:
                continue
            found.append(copied(Elite, record, text=text, time_us=time_us))
        return found


def _best_us(records: Sequence[Record], task: Task, places: tuple[str, str], variant: str) -> float | None:
    """The score of a variant's last record here."""
    rows = [r for r in records if r.variant == variant and r.task == task.name and r.place[:2] == places]
    return rows[-1].evaluation.score_us(task.score) if rows else None
