"""Going on with a run that stopped: what its records say of where it was.

A run whose proposals follow from its seed alone draws them again from its last keep on, without trying them again. So
the search is where it was, and what it draws next is what it would have drawn had it not stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evo.records.trials import Record


@dataclass(frozen=True, slots=True)
class LastRun:
    """The trials of a run, in order: up to its last keep, and since, all of them from the champion that stands now."""

    run: str
    settled: tuple[Record, ...]
    since: tuple[Record, ...]

    @property
    def trials(self) -> tuple[Record, ...]:
        return (*self.settled, *self.since)


def last_run(line: Sequence[Record]) -> LastRun:
    """The last run of a line of descent, whose records are given in order."""
    run = line[-1].run
    trials = [record for record in line if record.proposed and record.run == run]
    kept = max((place for place, record in enumerate(trials, start=1) if record.kept), default=0)
    return LastRun(run, tuple(trials[:kept]), tuple(trials[kept:]))


def gain_of(record: Record) -> float | None:
    """The gain ratio of a trial that was kept."""
    return record.gain.ratio if record.kept and record.gain is not None else None


def codes_of(records: Iterable[Record]) -> set[str]:
    """The machine code that variants had."""
    return {code for record in records if (code := record.evaluation.code_hash)}
