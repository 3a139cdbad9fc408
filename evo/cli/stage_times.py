"""Where the time of a run went: its trials by what became of them, and the stages that took longest."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from evo.records.trials import Record

_SHOWN = 5
_ORDER = ("start", "kept", "rejected", "review", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Trials of one outcome. stages_s: seconds by stage over all of them, the longest first."""

    outcome: str
    count: int
    median_s: float
    total_s: float
    stages_s: dict[str, float]

    def cells(self) -> list[str]:
        """A row of a table."""
        parts = [f"{name} {seconds / self.total_s:.0%}" for name, seconds in list(self.stages_s.items())[:_SHOWN]]
        return [self.outcome, str(self.count), f"{self.median_s:.2f}", f"{self.total_s:.1f}", ", ".join(parts)]


def stage_times(records: Sequence[Record]) -> list[StageTimes]:
    """By outcome, then all together; trials without a time are left out."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.elapsed_s:
            outcome = record.kind if not record.proposed else "kept" if record.kept else "rejected"
            groups.setdefault(outcome, []).append(record)
            groups.setdefault("all", []).append(record)
    return [_of(outcome, groups[outcome]) for outcome in _ORDER if outcome in groups]


def _of(outcome: str, records: Sequence[Record]) -> StageTimes:
    seconds = [record.elapsed_s or 0.0 for record in records]
    stages: dict[str, float] = {}
    for record in records:
        for name, taken in record.evaluation.stages_s.items():
            stages[name] = stages.get(name, 0.0) + taken
    longest = dict(sorted(stages.items(), key=lambda item: -item[1]))
    return StageTimes(
        outcome=outcome,
        count=len(records),
        median_s=statistics.median(seconds),
        total_s=sum(seconds),
        stages_s=longest,
    )
