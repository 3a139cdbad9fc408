"""One trial record as text: cells of a table, or in full; and what the commands on records share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from evo.cli.evaluation_view import coloured, gain_text
from evo.cli.terminal import microseconds, out, out_table, out_words, paint, plain, say, verdict_colour
from evo.errors import EvoError, LedgerUnclean, RecordCorrupt

if TYPE_CHECKING:
    from evo.records.trials import Record
    from evo.results import Evaluation


def commits_of(root: Path) -> dict[str, str]:
    """The commit that kept each trial; empty if the records are not in a git repository."""
    from evo.records.ledger import History

    try:
        history = History.open(root)
    except LedgerUnclean:
        return {}
    with closing(history):
        return history.commits()


def say_what_is_torn(root: Path, task: str | None, *, shown: bool) -> None:
    """Name each record that was cut short, but for that of a run that is still writing.

    shown: there are other trials. Raises RecordCorrupt if there are not, since then nothing else says that one is lost.
    """
    from evo.records.trials import torn_lines

    writing = _run_under_way(root)
    for path, line in torn_lines(root, task):
        if path.stem == writing:
            continue
        words = f"{path}:{line}: the record is cut short, so its trial is not shown"
        hint = "restore the file from git; after a run that was killed, the next `evo iterate` mends it"
        if not shown:
            raise RecordCorrupt(words, hint=hint)
        say(f"{paint('warning:', 'yellow', stream=sys.stderr)} {words}; {hint}")


def _run_under_way(root: Path) -> str | None:
    from evo.records.ledger import StatusFile

    try:
        status = StatusFile.of(root).read()
    except LedgerUnclean:
        return None
    return status.run if status is not None and status.alive else None


def headline_of(root: Path, task: str) -> str | None:
    """The task's headline case; None if the task no longer exists or cannot be read."""
    from evo.spec.task import load_task

    try:
        return load_task(root, task).headline
    except EvoError:
        return None


def headline_text(evaluation: Evaluation, headline: str | None) -> str:
    """The headline case's time, without its unit; empty if nothing was timed."""
    return microseconds(evaluation.case_us(headline or ""))


def padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows of one length; short ones are filled with empty cells."""
    return [list(row) for row in zip(*zip_longest(*rows, fillvalue=""), strict=True)]


def show_record(record: Record, commit: str | None) -> None:
    """A trial in full: the hypothesis, then the evidence."""
    chip, arch, loaded = record.place
    out(f"{paint(record.variant, 'cyan')}  {coloured(record.status.value)}  {coloured(record.outcome)}")
    facts = {
        "trial": f"{record.trial}  {record.date}",
        "place": f"{record.task} on {chip} {arch}, {loaded}, {record.timing} times",
        "commit": commit or "",
        "parent": record.parent or "none: a start",
        "operator": f"{record.operator} ({record.kind})",
        "change": record.summary,
        "because": record.reason,
        "expected": record.expected,
        "risk": record.risk,
        "next": record.next_if_kept if record.kept else record.next_if_reverted,
    }
    for name, text in facts.items():
        if text:
            out_words(f"  {paint(f'{name:<9}', 'dim')} {plain(text)}", hang=12)
    _show_outcome(record)


def _show_outcome(record: Record) -> None:
    if (reason := record.evaluation.reason) is not None:
        out_words(
            f"  {paint(f'{record.status.value:<9}', verdict_colour(record.status.value))} {plain(reason)}", hang=12
        )
    if record.decision is not None:
        gain = f"{gain_text(record.gain)}: " if record.gain is not None else ""
        out_words(f"  {paint('decision ', 'dim')} {gain}{plain(record.decision.reason)}", hang=12)
    if record.bench:
        out()
        rows = [[row.name, microseconds(row.time_us)] for row in record.bench]
        out_table(["case", f">{record.timing} µs"], rows)
