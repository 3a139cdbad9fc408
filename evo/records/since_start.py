"""Speed-up of a champion over the start of its line of descent: the one figure that every view leads with.

Times of one environment are divided. If the environment changed between two champions (another driver, another evo),
their times do not compare. But the later one was timed beside the earlier one before it was kept, so the gain of that
trial at the case takes the place of the quotient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from evo.records.trials import Record
from evo.results.codec import ALWAYS, Serializable, Us, copied
from evo.results.decision import CaseEvidence, Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceStart(Serializable):
    """The start of a champion's line of descent, and the champion's speed-up over it."""

    trial: str  # the start's trial
    variant: str  # the start
    date: str  # when the start's trial ended, ISO 8601 in UTC
    start_us: Annotated[Mapping[str, Us], ALWAYS]  # the start's times by case
    # start time / champion time by case; a case is left out if a step did not time it
    speedup: Annotated[Mapping[str, Ratio], ALWAYS]
    # how many environments the steps were timed in, if more than one: then `speedup` multiplies the gains across them
    environments: int | None = None

    def words(self, case: str) -> str | None:
        """`14.2x since the start`; None if the case's speed-up is not known, or if the champion is the start."""
        ratio = self.speedup.get(case)
        return f"{speedup_text(ratio)} since the start" if ratio is not None and ratio != 1 else None


def speedup_text(ratio: float) -> str:
    """A speed-up with about three digits: 1.07x, 14.2x, 314x."""
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.1f}x" if ratio < 100 else f"{ratio:,.0f}x"


def line_since_start(records: Iterable[Record]) -> list[Record]:
    """The champions of one place from its last start on, the latest last. The records are given in order."""
    line: list[Record] = []
    for record in records:
        if record.kept:
            line = [record] if record.begins else [*line, record]
    return line


def since_start(champions: Sequence[Record]) -> SinceStart | None:
    """The speed-up of the last of these champions over the first; None if the first is no start."""
    if not champions or not champions[0].begins:
        return None
    first = champions[0]
    speedup: Mapping[str, float] = dict.fromkeys(first.evaluation.times_us, 1.0)
    reached = {first.variant: speedup}  # a review may put an earlier variant back, or time one again
    timed_here = {first.environment.key(): (first, speedup)}  # the first champion of each environment
    for before, after in pairwise(champions):
        if (known := timed_here.get(after.environment.key())) is not None:
            speedup = _divided(*known, after)
        else:
            speedup = reached.get(after.variant) or _multiplied(speedup, before, after)
            timed_here[after.environment.key()] = after, speedup
        reached[after.variant] = speedup
    environments = len(timed_here) if len(timed_here) > 1 else None
    start_us = first.evaluation.times_us
    return copied(SinceStart, first, start_us=start_us, speedup=speedup, environments=environments)


def _divided(earlier: Record, speedup: Mapping[str, float], later: Record) -> dict[str, float]:
    """The speed-ups of a champion from the times of an earlier one of its environment, whose speed-ups are given."""
    old, new = earlier.evaluation.times_us, later.evaluation.times_us
    return {case: ratio * old[case] / new[case] for case, ratio in speedup.items() if old.get(case) and new.get(case)}


def _multiplied(speedup: Mapping[str, float], before: Record, after: Record) -> dict[str, float]:
    """The speed-ups of a champion from those of the one before it, beside which its trial was timed."""
    evidence = after.evidence
    if evidence is None or before.variant != after.arguments.get("rival", after.parent):
        return {}
    gains = {case: _gain(found) for case, found in evidence.cases.items()}
    return {case: ratio * gain for case, ratio in speedup.items() if (gain := gains.get(case)) is not None}


def _gain(case: CaseEvidence) -> float | None:
    if case.parent_us and case.child_us:
        return case.parent_us / case.child_us
    return case.ratio
