"""How a record is shown: as one object of `log --json`, as table cells, and in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evo.cli.terminal import microseconds, out, out_table, paint, plain, verdict_colour
from evo.cli.views import case_us, coloured, gain_text
from evo.errors import EvoError, LedgerUnclean

if TYPE_CHECKING:
    from evo.records.trials import Record
    from evo.results import Json


def record_json(record: Record, commit: str | None) -> dict[str, Json]:
    """A record in the shape of `iterate --json`, with its run and date; what was not there is left out."""
    shape: dict[str, Json] = {
        "trial": record.trial,
        "task": record.task,
        "run": record.run,
        "variant": record.variant,
        "parent": record.parent,
        "operator": record.operator,
        "kind": record.kind,
        "summary": record.summary,
        "status": record.status.value,
        "reason": record.evaluation.get("reason"),
        "decision": record.evaluation.get("decision"),
        "kept": record.kept,
        "device": record.environment.get("device"),
        "timing": record.timing,
        "cases": {str(case["name"]): {k: v for k, v in case.items() if k != "name"} for case in record.bench} or None,
        "gain": record.gain,
        "commit": commit,
        "date": record.date,
        "elapsed_s": record.elapsed_s,
    }
    return {name: value for name, value in shape.items() if value is not None}


def commits_of(root: Path) -> dict[str, str]:
    """The commit that kept each trial; none where the records are not in a git repository."""
    from evo.records.ledger import History

    try:
        history = History.open(root)
    except LedgerUnclean:
        return {}
    try:
        return history.commits()
    finally:
        history.close()


def headline_of(root: Path, task: str) -> str | None:
    """The task's headline case; None for a task that is no longer there or cannot be read."""
    from evo.spec.task import load_task

    try:
        return load_task(root, task).headline
    except EvoError:
        return None


def verdict_word(record: Record) -> str:
    if record.verdict is not None:
        return record.verdict.value
    return "start" if record.kept else "revert"


def headline_text(bench: Sequence[Mapping[str, Json]], headline: str | None) -> str:
    """The headline case's time, without its unit; empty where nothing was timed."""
    for case in bench:
        if case.get("name") == headline and (us := case_us(case)) is not None:
            return microseconds(us)
    return ""


def bench_cells(evaluation: Mapping[str, Json]) -> list[str]:
    """The time of every case of an evaluation's JSON."""
    bench = cast("list[dict[str, Json]]", evaluation.get("bench") or [])
    return [microseconds(us) if (us := case_us(case)) is not None else "" for case in bench]


def padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows of one length, the short ones filled with empty cells."""
    return [list(row) for row in zip(*zip_longest(*rows, fillvalue=""), strict=True)]


def show_record(record: Record, commit: str | None) -> None:
    """A trial in full: the proposal as a hypothesis, then the evidence."""
    verdict = verdict_word(record)
    chip, arch, loaded = record.place
    out(f"{paint(record.variant, 'cyan')}  {coloured(record.status.value)}  {coloured(verdict)}")
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
            out(f"  {paint(f'{name:<9}', 'dim')} {plain(text)}")
    _show_outcome(record)


def _show_outcome(record: Record) -> None:
    reason = record.evaluation.get("reason")
    if isinstance(reason, str):
        out(f"  {paint(f'{record.status.value:<9}', verdict_colour(record.status.value))} {plain(reason)}")
    decision = record.evaluation.get("decision")
    if isinstance(decision, dict):
        gain = f"{gain_text(record.gain)}: " if record.gain else ""
        out(f"  {paint('decision ', 'dim')} {gain}{plain(str(decision['reason']))}")
    if record.bench:
        out()
        names = [str(case["name"]) for case in record.bench]
        rows = zip(names, bench_cells(record.evaluation), strict=True)
        out_table(["case", f">{record.timing} µs"], rows)
