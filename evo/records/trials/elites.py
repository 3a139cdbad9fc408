"""Population management: who takes part in making the next proposal besides the champion.

`single_best` is the champion alone (EvoEngineer's Free and Insight). `elites` are distinct variants that the gate has
passed on this chip for this version of the task (its Full): the best of each niche, so that a kernel with another
structure has a voice before the second best of its kind, then the best of the rest. The one to cross with is drawn by
rank.

The champion stays the parent of every proposal: a record's one change is told against what it would replace.
"""

from __future__ import annotations

import random
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from evo.errors import EvoError
from evo.records.trials.record import Record
from evo.records.trials.store import rebuild_text
from evo.results.codec import copied
from evo.spec.task import Task
from evo.spec.variant import parse_variant

SIZE = 5
_LOOKED_AT = 40  # variants, the fastest, among which niches are told apart
_TILE = re.compile(r"BLOCK|TILE|ROWS|COLUMNS|REPEAT|PATCH|CHUNK|LANES|GROUP")
_TENSOR = "MMA"  # in the names of their machine instructions: HMMA, IMMA, HGMMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Elite:
    """A variant that passed. time_us: the score's weighted geometric mean over its cases."""

    variant: str
    text: str
    summary: str
    time_us: float
    timing: str
    niche: tuple[Hashable, ...] = ()


def niche_of(record: Record, text: str) -> tuple[Hashable, ...]:
    """What kind of kernel a variant is: whether it uses shared memory, tensor cores, and which tiles it has."""
    report = record.evaluation.compile
    kernels = report.kernels if report is not None else ()
    variant = parse_variant(text)
    shares = any(kernel.shared_bytes for kernel in kernels) or any(
        line.shared.text.strip() != "0" for line in variant.launches
    )
    tensor = any(_TENSOR in name for kernel in kernels for name in kernel.sass)
    return (shares, tensor, tuple(sorted(knob.name for knob in variant.knobs if _TILE.search(knob.name))))


def single_best(records: Sequence[Record], task: Task, places: tuple[str, str], champion: str) -> list[Elite]:
    """Nobody besides the champion."""
    del records, task, places, champion
    return []


def elites(records: Sequence[Record], task: Task, places: tuple[str, str], champion: str) -> list[Elite]:
    """Distinct variants besides the champion, at most SIZE - 1: the best of each niche, then the best of the rest.

    One whose text is lost is left out.
    """
    best: dict[str, tuple[float, Record]] = {}
    for record in records:
        fits = record.place[:2] == places and record.environment.task_hash == task.hash
        if record.task != task.name or not fits or not record.status.passed or record.variant == champion:
            continue
        time_us = record.evaluation.score_us(task.score)
        if time_us is not None and (record.variant not in best or time_us < best[record.variant][0]):
            best[record.variant] = (time_us, record)
    found: list[Elite] = []
    for time_us, record in sorted(best.values(), key=lambda pair: (pair[0], pair[1].variant))[:_LOOKED_AT]:
        try:
            text = rebuild_text(records, record.trial)
            niche = niche_of(record, text)
        except EvoError:
            continue
        found.append(copied(Elite, record, text=text, time_us=time_us, niche=niche))
    first = {elite.niche: elite for elite in reversed(found)}  # the best of each niche
    chosen = [elite for elite in found if first[elite.niche] is elite]
    chosen += [elite for elite in found if first[elite.niche] is not elite]
    return sorted(chosen[: SIZE - 1], key=lambda elite: (elite.time_us, elite.variant))


def draw(found: Sequence[Elite], rng: random.Random) -> Elite | None:
    """One of them, with weight 1 / (rank + number), rank from 1: EvoEngineer's rule."""
    if not found:
        return None
    weights = [1 / (rank + len(found)) for rank in range(1, len(found) + 1)]
    return rng.choices(list(found), weights)[0]
