"""One run's book-keeping: records in the population, keeps and reverts in the ledger, under one set of calls.

Order matters for `kill -9`: a rejected trial's record is on disk before the champion's file is put back, and a kept one
is one journalled step of the ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evo.operators import Proposal
from evo.records import leaderboard
from evo.records.ledger import KeptTrial, Ledger
from evo.records.since_start import line_since_start, since_start
from evo.records.trials import (
    FirstLook,
    Record,
    RunFile,
    add_looks,
    kept_message,
    load_records,
    looks_file,
    make_diff,
    next_run,
    rebuild_text,
)
from evo.results import CaseBench, Environment, Evaluation
from evo.results.codec import as_written, copied
from evo.search.resume import codes_of
from evo.spec.task import Task
from evo.spec.variant import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial in progress: its variant stands in the champion's file."""

    id: str
    number: int
    path: Path
    proposal: Proposal
    parent: Variant | None

    @property
    def variant(self) -> Variant:
        return self.proposal.variant


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRuns:
    """What earlier runs say about a champion: variants and rungs tried since its start, and its last figures.

    codes: the machine code that those variants had. environment: where the last figures come from.

    known: a kept record has exactly its text; ids leave comments out, and diffs do not. records: the line itself.
    """

    known: bool = False
    tried: frozenset[str] = frozenset()
    rung: str | None = None
    rungs_tried: frozenset[str] = frozenset()
    bench: tuple[CaseBench, ...] = ()
    codes: frozenset[str] = frozenset()
    environment: Environment | None = None
    records: tuple[Record, ...] = ()


class TrialLog:
    """The records of one run, and the only caller of the ledger."""

    def __init__(self, root: Path, task: Task, ledger: Ledger) -> None:
        self.root, self.task = root, task
        self._ledger = ledger
        self.run = next_run(root, task.name, datetime.now(UTC), secrets.token_hex(2))
        self.seed = secrets.randbelow(2**31)  # hidden from variants: nothing in the repository predicts the inputs
        self._file = RunFile(root, task.name, self.run)
        self.recovered: list[str] = []
        self._champions: list[Record] = []  # from the start of the champion's line of descent on

    def go_on(self, run: str) -> None:
        """Let the next records be further ones of an earlier run."""
        self.run, self._file = run, RunFile(self.root, self.task.name, run)
        self._ledger.begin(task=self.task.name, run=run, run_file=self._file.path)

    def begin(self, path: Path, proposal: Proposal, parent: Variant | None) -> Trial:
        """Let its variant stand in the champion's file for the time of its trial."""
        trial = Trial(
            id=self._file.next_trial, number=self._file.next_number, path=path, proposal=proposal, parent=parent
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        self._ledger.place(path, proposal.text)
        return trial

    def keep(self, trial: Trial, evaluation: Evaluation) -> str:
        """Commit the champion, its record and the leaderboard; the commit's hash."""
        record = self._record(trial, evaluation)
        commit = self._ledger.keep(
            KeptTrial(
                task=self.task.name,
                chip=evaluation.environment.chip,
                trial=trial.id,
                champion=trial.path,
                text=trial.variant.text,
                lines=self._file.line(record),
                run_size=self._file.size,
                message=kept_message(record),
                date=record.date,
            )
        )
        self._file.added()
        self._champions = line_since_start([*self._champions, record])
        return commit

    def revert(self, trial: Trial, evaluation: Evaluation) -> None:
        """Record a rejected trial, then put the champion's file back byte for byte."""
        self._file.append(self._record(trial, evaluation))
        self._ledger.revert()

    def looked(self, looks: Iterable[FirstLook]) -> None:
        """Write down first looks at edits."""
        add_looks(looks_file(self.root, self.task.name, self.run), looks)

    def abandon(self) -> None:
        """Put the champion's file back after a harness failure; such a trial leaves no record."""
        self._ledger.revert()

    def finish(self) -> None:
        """Commit the records that no keep has committed. Raises LedgerUnclean if some were taken away."""
        self._ledger.finish(date=utc_now(), run_size=self._file.size)

    def past(self) -> list[Record]:
        """All records of the task so far."""
        return load_records(self.root, self.task.name)

    def descent(self, path: Path, variant: Variant) -> EarlierRuns:
        """The line of descent of the champion that stands in `path`, back to its start."""
        place = path.stem
        records = [r for r in load_records(self.root, self.task.name) if f"{r.place[0]}-{r.place[1]}" == place]
        starts = [index for index, record in enumerate(records) if record.begins]
        line = records[starts[-1] :] if starts else records
        rungs = [str(record.arguments["rung"]) for record in line if "rung" in record.arguments]
        kept_rungs = [str(r.arguments["rung"]) for r in line if r.kept and "rung" in r.arguments]
        own = [record for record in line if record.kept and record.variant == variant.id]
        self._champions = line_since_start(line)
        return EarlierRuns(
            known=any(rebuild_text(records, record.trial) == variant.text for record in own),
            tried=frozenset(record.variant for record in line),
            rung=kept_rungs[-1] if kept_rungs else None,
            rungs_tried=frozenset(rungs),
            bench=own[-1].bench if own else (),
            codes=frozenset(codes_of(line)),
            environment=own[-1].environment if own else None,
            records=tuple(line),
        )

    def speedup(self) -> dict[str, float]:
        """How much faster the champion is than the start of its line of descent, by case; {} if that is not known."""
        found = since_start(self._champions)
        return dict(found.speedup) if found is not None else {}

    def _record(self, trial: Trial, evaluation: Evaluation) -> Record:
        proposal, parent = trial.proposal, trial.parent
        return copied(
            Record,
            proposal,
            trial=trial.id,
            run=self.run,
            number=trial.number,
            task=self.task.name,
            variant=trial.variant.id,
            parent=parent.id if parent else None,
            evaluation=as_written(evaluation),  # as it will be read back
            diff=make_diff(parent.text, trial.variant.text) if parent else trial.variant.text,
            date=utc_now(),
            elapsed_s=round(evaluation.elapsed_s, 3) if evaluation.elapsed_s is not None else None,
        )


@contextmanager
def open_notebook(root: Path, task: Task, *, branch: str | None = None) -> Iterator[TrialLog]:
    """Lock the ledger, mend what a killed evo left, refuse foreign changes, and begin a run.

    Raises LedgerUnclean; RecordCorrupt for records or a leaderboard that cannot be read.
    """

    def render(commits: Mapping[str, str]) -> str:
        return leaderboard.render(load_records(root), commits)

    with Ledger.open(root, render) as ledger:
        recovered = ledger.recover(date=utc_now())
        ledger.prepare(branch)
        leaderboard.load(root)  # a corrupt one is the user's to look at before it is replaced
        trial_log = TrialLog(root, task, ledger)
        trial_log.recovered = recovered
        load_records(root, settled=True)
        ledger.begin(task=task.name, run=trial_log.run, run_file=trial_log._file.path)
        yield trial_log


def utc_now() -> str:
    """The time as records have it, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
