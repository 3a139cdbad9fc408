"""Population management: who takes part in making the next proposal besides the champion.

`single_best` is the champion alone (EvoEngineer's Free and Insight). `elites` are the best distinct variants that the
gate has passed on this chip for this version of the task (its Full); the one to cross with is drawn by rank.

The champion stays the parent of every proposal: a record's one change is told against what it would replace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.errors import EvoError
from evo.population import Record, rebuild_text
from evo.result import Json
from evo.task import Task

SIZE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Elite:
    """A variant that passed. time_us: the score's weighted geometric mean over its cases."""

    variant: str
    text: str
    summary: str
    time_us: float
    timing: str


def row_us(row: Mapping[str, Json]) -> float | None:
    """The time of one case of a record: modelled, or the warm median."""
    warm = row.get("warm")
    value = row.get("modelled_us", warm.get("p50_us") if isinstance(warm, dict) else None)
    return float(value) if isinstance(value, int | float) else None


def score_us(bench: Sequence[Mapping[str, Json]], score: Mapping[str, float]) -> float | None:
    """The weighted geometric mean of the scored cases; None where one has no time."""
    times = {str(row["name"]): us for row in bench if (us := row_us(row)) is not None and us > 0}
    weights = {name: weight for name, weight in score.items() if weight > 0}
    if not weights or not weights.keys() <= times.keys():
        return None
    return math.exp(sum(w * math.log(times[name]) for name, w in weights.items()) / sum(weights.values()))


def single_best(records: Sequence[Record], task: Task, places: tuple[str, str], champion: str) -> list[Elite]:
    """Nobody besides the champion."""
    del records, task, places, champion
    return []


def elites(records: Sequence[Record], task: Task, places: tuple[str, str], champion: str) -> list[Elite]:
    """The best distinct variants besides the champion, at most SIZE - 1. One whose text is lost is left out."""
    best: dict[str, tuple[float, Record]] = {}
    for record in records:
        fits = record.place[:2] == places and record.environment.get("task_hash") == task.hash
        if record.task != task.name or not fits or not record.status.passed or record.variant == champion:
            continue
        time_us = score_us(record.bench, task.score)
        if time_us is not None and (record.variant not in best or time_us < best[record.variant][0]):
            best[record.variant] = (time_us, record)
    found: list[Elite] = []
    for time_us, record in sorted(best.values(), key=lambda pair: (pair[0], pair[1].variant)):
        try:
            text = rebuild_text(records, record.trial)
        except EvoError:
            continue
        found.append(
            Elite(variant=record.variant, text=text, summary=record.summary, time_us=time_us, timing=record.timing)
        )
        if len(found) == SIZE - 1:
            break
    return found


def draw(found: Sequence[Elite], rng: random.Random) -> Elite | None:
    """One of them, with weight 1 / (rank + number), rank from 1: EvoEngineer's rule."""
    if not found:
        return None
    weights = [1 / (rank + len(found)) for rank in range(1, len(found) + 1)]
    return rng.choices(list(found), weights)[0]
