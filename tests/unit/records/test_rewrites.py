"""Rewrites have statistics of their own: in insights, in the report, and in the time by operator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ledger_samples import record, text_of
from tiny import evo

from evo.cli.pages.csv_json import report_output
from evo.cli.pages.html_page import page
from evo.cli.pages.markdown import markdown
from evo.cli.pages.report_model import report_model
from evo.records.insights import rewrite_statistics, summarise
from evo.records.trials import Record
from evo.results import Verdict


def population() -> list[Record]:
    """A start, a rewrite that is kept, two changes of it, one that is reverted, and a rewrite that is wrong."""
    rewrite = {"operator": "llm", "kind": "rewrite"}
    return [
        record(1, parent=None),
        record(2, parent=text_of(1), ratio=3.0, **rewrite),
        record(3, parent=text_of(2), operator="llm"),
        record(4, parent=text_of(3), operator="rules.unroll"),
        record(5, parent=text_of(4), operator="llm", verdict=Verdict.REVERT),
        record(6, parent=text_of(4), ratio=1.1, verdict=Verdict.REVERT, **rewrite),
        record(7, parent=text_of(4), verdict=None, **rewrite),
        record(8, parent=None, task="alpha"),
        record(9, parent=text_of(8), task="alpha", loaded="cubin", ratio=2.0, operator="patch", kind="rewrite"),
    ]


def test_rewrites_are_counted_apart_from_single_changes() -> None:
    measured, modelled = rewrite_statistics(population())
    assert (measured.task, measured.operator, measured.timing, measured.best) == ("alpha", "patch", "measured", 2.0)
    assert (modelled.operator, modelled.tried, modelled.correct, modelled.kept) == ("llm", 3, 2, 1)
    assert modelled.best == 3.0
    assert modelled.median == pytest.approx((3.0 + 1.1) / 2)
    assert modelled.changes_after == 2
    assert rewrite_statistics([each for each in population() if each.kind != "rewrite"]) == []
    single = [row for row in summarise(population()) if row.operator == "llm" and row.change != "rewrite"]
    assert sum(row.count for row in single) == 2


def test_a_start_ends_what_counts_as_after_a_rewrite() -> None:
    records = [*population()[:3], record(4, parent=None), record(5, parent=text_of(4))]
    (row,) = rewrite_statistics(records)
    assert row.changes_after == 1


def test_the_report_shows_them_in_every_form() -> None:
    report = report_model(population(), commits={}, headlines={}, title="t", made="2026-11-23", version="0")
    assert {row.operator: row.trials for row in report.spent.by_operator}["llm (rewrite)"] == 3
    shown = report_output(report).to_json()["rewrites"]
    assert [(row["task"], row["tried"], row["kept"]) for row in shown] == [("alpha", 1, 1), ("attention", 3, 1)]  # type: ignore[index, union-attr, call-overload]
    assert "## Rewrites" in markdown(report)
    assert "apart from single changes" in page(report)
    without = report_model(population()[:1], commits={}, headlines={}, title="t", made="2026-11-23", version="0")
    assert "## Rewrites" not in markdown(without)


def test_the_command_lists_them(tmp_path: Path) -> None:
    folder = tmp_path / "population" / "attention" / "runs"
    folder.mkdir(parents=True)
    (tmp_path / "kernels").mkdir()
    written = [each for each in population() if each.task == "attention"]
    (folder / f"{written[0].run}.jsonl").write_text("".join(each.to_line() for each in written))
    ran = evo("insights", "--rewrites", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    (row,) = json.loads(ran.out)
    assert (row["operator"], row["tried"], row["kept"], row["best"]) == ("llm", 3, 1, 3.0)
    assert "exclude" in evo("insights", "--rewrites", "--failed", cwd=tmp_path).err
