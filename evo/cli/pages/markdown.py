"""The report as Markdown, for a job summary or a terminal. Text from records is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from evo.cli.pages.case_study import CaseStudy, llm_words, time_words
from evo.cli.pages.climb_chart import climb_words
from evo.cli.pages.climb_speedup import climb_speedup
from evo.cli.pages.model import REWRITE_HEAD, Climb, ReportModel, rewrite_rows
from evo.records.insights import Insight
from evo.results.wording import clipped, duration, gain_words, markdown_table, microseconds, percent, plural, ratio

_SPECIAL = re.compile(r"([\\`*_\[\]|#!~$])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_MOST_INSIGHTS = 20


def markdown(report: ReportModel, study: CaseStudy | None = None) -> str:
    """The case study if there is one, then climbs, champions, limits, insights, cost and environments."""
    parts = [f"# {_text(study.title if study else report.title)}", ""]
    if study is not None:
        for chapter in study.chapters:
            parts += [f"## {_text(chapter.heading)}", "", *(f"{_text(line)}\n" for line in chapter.sentences)]
            if chapter.rows:
                parts += [*_table(chapter.head, chapter.rows), ""]
    for climb in report.climbs:
        since = climb_speedup(climb)
        headline = [f"**{since.ratio_words}** {since.since}, {_text(since.facts)}.", ""] if since is not None else []
        parts += [f"## {_text(climb.title)}", "", *headline, _text(climb_words(climb)), "", *_kept(climb), ""]
    parts += ["## Champions", "", *_champions(report), ""]
    for roof in report.rooflines:
        parts += [f"## Limits: {_text(roof.title)}", ""]
        if roof.problem:
            parts += [_text(roof.problem), ""]
            continue
        head = ["case", ">floor µs", "bound by", "what", f">{roof.timing} µs", ">floor / time"]
        rows = [
            [
                case.name,
                microseconds(case.floor_us),
                case.limiter,
                f"{one.role} {one.what}",
                microseconds(one.us),
                percent(case.floor_us / one.us) if case.floor_us else "",
            ]
            for case in roof.cases
            for one in roof.of_case(case.name)
        ]
        parts += [*_table(head, rows), ""]
    parts += ["## Effects by kind of change", "", *_insights(report.insights), ""]
    if report.rewrites:
        parts += ["## Rewrites", "", *_table(REWRITE_HEAD, rewrite_rows(report.rewrites)), ""]
    parts += ["## Time and cost", "", *_spent(report), ""]
    parts += [
        "## Environments",
        "",
        *(f"- {_text(words)}: {plural(n, 'trial')}" for words, _, n in report.environments),
    ]
    return "\n".join([*parts, ""])


def _text(text: str) -> str:
    line = _CONTROL.sub("\ufffd", " ".join(text.split()))
    return _SPECIAL.sub(r"\\\1", escape(line, quote=False))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return markdown_table(head, ([_text(cell) for cell in row] for row in rows))


def _kept(climb: Climb) -> list[str]:
    rows = [
        [str(p.index), p.variant, microseconds(p.us), p.verdict, clipped(p.summary, 80)] for p in climb.points if p.kept
    ]
    return _table([">trial", "variant", f">{climb.timing} µs", "verdict", "change"], rows) if rows else []


def _champions(report: ReportModel) -> list[str]:
    lines: list[str] = []
    for timing in ("measured", "modelled"):
        rows = []
        for entry in report.board:
            if entry.timing == timing:
                where = [entry.task, entry.chip, entry.arch, entry.loaded, entry.variant]
                rows += [
                    [*where, name, microseconds(case.time_us), gain_words(entry.gain)]
                    for name, case in entry.cases.items()
                ]
        if rows:
            head = ["task", "chip", "arch", "loaded", "variant", "case", f">{timing} µs", "last gain"]
            lines += [*_table(head, rows), ""]
    return lines or ["There is no champion yet."]


def _insights(insights: Sequence[Insight]) -> list[str]:
    if not insights:
        return ["Nothing but starts so far."]
    rows = [
        [row.operator, clipped(row.change, 80), row.chip, row.timing, ratio(row.median), f"{row.kept} of {row.count}"]
        for row in insights[:_MOST_INSIGHTS]
    ]
    lines = _table(["operator", "change", "chip", "timing", ">median gain", ">kept"], rows)
    left = len(insights) - _MOST_INSIGHTS
    return [*lines, *(["", f"and {left} more: `evo insights` lists them"] if left > 0 else [])]


def _spent(report: ReportModel) -> list[str]:
    total = report.spent
    rows = [[row.operator, str(row.trials), str(row.kept), duration(row.seconds)] for row in total.by_operator]
    return [
        _text(f"{time_words(total)} {llm_words(total)}"),
        "",
        *_table(["operator", ">trials", ">kept", ">time"], rows),
    ]
