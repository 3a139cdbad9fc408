"""Storage of records: one append-only JSON Lines file per run, `population/<task>/runs/<run>.jsonl`.

The files are the truth; git, the leaderboard and the insights are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from evo.errors import LedgerUnclean, RecordCorrupt, UsageError
from evo.files import append, split_tail
from evo.records.trials.record import Record, moment_of, run_id, trial_id
from evo.records.trials.unified_diff import DiffMismatch, apply_diff, parent_hash, text_hash
from evo.spec.variant import variant_id

_WHOLE = "fetch the whole population with git, or restore the record from its history"


def run_file(root: Path, task: str, run: str) -> Path:
    """Where the records of one run are."""
    return root / "population" / task / "runs" / f"{run}.jsonl"


def next_run(root: Path, task: str, now: datetime, token: str) -> str:
    """The id of a new run: of the time now, or of a second after the latest run, which a clock may be behind.

    Runs are read in the order of their ids, so the latest champion must have the last one.
    """
    latest = now
    for path in (root / "population" / task / "runs").glob("*.jsonl"):
        with suppress(ValueError):
            latest = max(latest, moment_of(path.stem) + timedelta(seconds=1))
    return run_id(latest, token)


class RunFile:
    """The records of the run in progress: numbers contiguous from 1, each flushed to disk as it is added.

    size: bytes of the file with all of them.
    """

    def __init__(self, root: Path, task: str, run: str) -> None:
        self.path = run_file(root, task, run)
        self.task, self.run = task, run
        self.count = len(read_run(self.path)) if self.path.exists() else 0
        self.size = self._bytes()

    @property
    def next_number(self) -> int:
        return self.count + 1

    @property
    def next_trial(self) -> str:
        return trial_id(self.run, self.next_number)

    def line(self, record: Record) -> str:
        """The next record as a line, for the ledger to add with its commit; then call `added`."""
        if (record.task, record.trial) != (self.task, self.next_trial):
            raise ValueError(f"record {record.trial} of {record.task} is not the next one, {self.next_trial}")
        return record.to_line()

    def added(self) -> None:
        """The line of the next record is on disk."""
        self.count += 1
        self.size = self._bytes()

    def append(self, record: Record) -> None:
        """Add the next record. Raises HarnessFault, with the file as it was, if it cannot be written.

        Raises LedgerUnclean if records of this run were taken away: the next one would stand behind a gap.
        """
        if self._bytes() < self.size:
            raise records_taken_away(self.path)
        append(self.path, self.line(record).encode("utf-8"))
        self.added()

    def _bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0


def records_taken_away(path: Path) -> LedgerUnclean:
    hint = "`git stash pop` if they were stashed, or restore the file; then start again"
    return LedgerUnclean(f"{path}: its last records were removed while evo was running", hint=hint)


def read_run(path: Path, *, settled: bool = False) -> list[Record]:
    """The records of one run's file. Raises RecordCorrupt naming file and line.

    A torn last line is left out, as a run that is still writing may show one; it is mended when the next run starts.
    settled: nobody is writing, so it is corrupt like any other.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "check the permissions of the file"
        raise RecordCorrupt(f"{path}: cannot be read: {error.strerror}", hint=hint) from None
    whole, torn = split_tail(data)
    if settled or torn.endswith(b"\n"):
        whole += torn  # a complete line that is no JSON was not torn by an append
    lines = whole.removesuffix(b"\n").split(b"\n") if whole else []
    records = [Record.from_line(line, where=f"{path}:{number}") for number, line in enumerate(lines, start=1)]
    for number, record in enumerate(records, start=1):
        if (record.run, record.number) != (path.stem, number):
            hint = "trials of a run are numbered from 1 without gaps; restore the file from git"
            raise RecordCorrupt(
                f"{path}:{number}: trial {record.trial} is out of place", problem="out-of-place", hint=hint
            )
    return records


def torn_lines(root: Path, task: str | None = None) -> list[tuple[Path, int]]:
    """Files whose last line was cut short, with that line's number: its trial is in no list of records."""
    found = []
    for path in sorted((root / "population").glob(f"{task or '*'}/runs/*.jsonl")):
        with suppress(OSError):
            whole, torn = split_tail(path.read_bytes())
            if torn:
                found.append((path, whole.count(b"\n") + 1))
    return found


def iterate(root: Path, task: str | None = None, *, settled: bool = False) -> Iterator[Record]:
    """All records, of one task or of every task, in order of task, run and number."""
    folder = root / "population"
    names = [task] if task is not None else sorted(path.name for path in folder.glob("*") if path.is_dir())
    for name in names:
        for path in sorted((folder / name / "runs").glob("*.jsonl")):
            for record in read_run(path, settled=settled):
                if record.task != name:
                    where = f"{path}:{record.number}"
                    raise RecordCorrupt(f"{where}: a record of task {record.task}", hint="move it to its own task")
                yield record


def load_records(root: Path, task: str | None = None, *, settled: bool = False) -> list[Record]:
    """All records, of one task or of every task, in order. Raises RecordCorrupt naming file and line.

    settled: no run is writing, so a torn last line is a loss to be told, not a line in the making.
    """
    return list(iterate(root, task, settled=settled))


def find(root: Path, prefix: str, task: str | None = None) -> Record:
    """The record of a trial id, or the latest of a variant id, by unique prefix. Raises UsageError otherwise."""
    return find_among(load_records(root, task), prefix)


def find_among(records: Sequence[Record], prefix: str) -> Record:
    """The record of a trial id, or the latest (kept before reverted) of a variant id, by unique prefix."""
    hint = "`evo log` lists the trials"
    if not prefix:
        raise UsageError("an empty id", hint=hint)
    for record in records:
        if record.trial == prefix:
            return record
    found: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: (record.kept, record.moment)):
        if record.trial.startswith(prefix):
            found[f"trial {record.trial}"] = record
        elif record.variant.startswith(prefix):
            found[f"variant {record.variant}"] = record
    if not found:
        raise UsageError(f"no trial or variant begins with {prefix!r}", hint=hint)
    if len(found) > 1:
        names = sorted(found)
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        raise UsageError(f"{prefix!r} is the beginning of {shown}", hint="give more of the id", problem="ambiguous")
    return next(iter(found.values()))


def rebuild_text(records: Sequence[Record], trial: str) -> str:
    """The exact text that was tried in a trial, from the chain of diffs that leads to it.

    Raises UsageError for an unknown trial, RecordCorrupt if the chain is broken.
    """
    return _rebuild(records, trial)[0]


def rebuild_parent_text(records: Sequence[Record], trial: str) -> str | None:
    """The exact text that a trial's change was made to; None for a start. Raises as `rebuild_text` does."""
    return _rebuild(records, trial)[1]


def rebuild_rival_text(records: Sequence[Record], trial: str) -> str | None:
    """The exact text that a trial was compared with: its parent's, or the champion's where it was made on another line.

    None for a start. Raises as `rebuild_text` does.
    """
    ordered = sorted(records, key=lambda record: record.moment)
    at = next((index for index, record in enumerate(ordered) if record.trial == trial), None)
    rival = ordered[at].arguments.get("rival") if at is not None else None
    if rival is None:
        return rebuild_parent_text(records, trial)
    task = ordered[at or 0].task
    held = next((r for r in reversed(ordered[:at]) if (r.variant, r.task) == (rival, task)), None)
    if held is None:
        raise RecordCorrupt(
            f"trial {trial}: no record of {rival}, which it was compared with", problem="rival-unknown", hint=_WHOLE
        )
    return rebuild_text(records, held.trial)


def _rebuild(records: Sequence[Record], trial: str) -> tuple[str, str | None]:
    ordered = sorted(records, key=lambda record: record.moment)
    at = next((index for index, record in enumerate(ordered) if record.trial == trial), None)
    if at is None:
        raise UsageError(f"no trial {trial!r}", hint="`evo log` lists the trials")
    parents: dict[int, list[int]] = {}
    waiting = [at]
    while waiting:
        index = waiting.pop()
        if index not in parents:
            parents[index] = _possible_parents(ordered, index)
            waiting += parents[index]
    texts: dict[int, str] = {}
    parent_text: str | None = None
    problem = ""
    for index in sorted(parents):  # a parent is earlier than its child
        record = ordered[index]
        try:
            parent_text = _parent_text(record, [texts[parent] for parent in parents[index] if parent in texts])
            texts[index] = _text(record, parent_text)
        except DiffMismatch as error:
            problem = f"trial {record.trial}: cannot be rebuilt: {error}"
    if at not in texts:
        raise RecordCorrupt(problem, hint=_WHOLE, problem="chain-broken")
    return texts[at], parent_text  # the trial itself comes last


def _possible_parents(ordered: Sequence[Record], index: int) -> list[int]:
    """Earlier trials of the parent's id, latest first: several, as texts that differ in comments share an id."""
    record = ordered[index]
    if record.parent is None:
        return []
    return [
        earlier
        for earlier in range(index - 1, -1, -1)
        if ordered[earlier].variant == record.parent and ordered[earlier].task == record.task
    ]


def _parent_text(record: Record, candidates: Sequence[str]) -> str | None:
    if record.parent is None:
        return None
    wanted = parent_hash(record.diff)
    for text in candidates:
        if text_hash(text) == wanted:
            return text
    raise DiffMismatch(f"its parent {record.parent} is in no record with the text that its diff was made for")


def _text(record: Record, parent_text: str | None) -> str:
    text = record.diff if parent_text is None else apply_diff(parent_text, record.diff)
    if record.variant and variant_id(text) != record.variant:
        raise DiffMismatch(f"the text is variant {variant_id(text)}, not {record.variant}")
    return text
