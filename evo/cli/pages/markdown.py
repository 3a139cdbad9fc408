"""The report as Markdown, for a job summary or a terminal. Text from records is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from evo.cli.pages.case_study import CaseStudy
from evo.cli.pages.climb_chart import climb_words
from evo.cli.pages.climb_speedup import climb_speedup
from evo.cli.pages.report_model import Climb, ReportModel
from evo.cli.pages.tables import (
    ReportSection,
    board_section,
    cost_section,
    environment_section,
    insight_section,
    limits_table,
)
from evo.results.wording import clipped, markdown_table, microseconds

_SPECIAL = re.compile(r"([\\`*_\[\]|#!~$])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def markdown(report: ReportModel, study: CaseStudy | None = None) -> str:
    """The case study if there is one, then climbs, champions, limits, insights, cost and environments."""
    parts = [f"# {_text(study.title if study else report.title)}", ""]
    for chapter in study.chapters if study is not None else ():
        parts += _section(chapter.heading, chapter.section)
    for climb in report.climbs:
        since = climb_speedup(climb)
        headline = [f"**{since.ratio_words}** {since.since}, {_text(since.facts)}.", ""] if since is not None else []
        parts += [f"## {_text(climb.title)}", "", *headline, _text(climb_words(climb)), "", *_kept(climb), ""]
    parts += _section("Champions", board_section(report))
    for roof in report.rooflines:
        found = ReportSection(sentences=[roof.problem]) if roof.problem else ReportSection(tables=[limits_table(roof)])
        parts += _section(f"Limits: {roof.title}", found)
    parts += _section("Effects by kind of change", insight_section(report))
    parts += _section("Time and cost", cost_section(report))
    parts += _section("Environments", environment_section(report))
    return "\n".join(parts)


def _section(heading: str, section: ReportSection) -> list[str]:
    parts = [f"## {_text(heading)}", ""]
    for sentence in section.sentences:
        parts += [_text(sentence), ""]
    for one in section.tables:
        parts += [f"### {_text(one.title)}", ""] if one.title else []
        parts += [f"{_text(one.caption)}:", "", *_table(one.head, one.rows), ""]
    return parts


def _text(text: str) -> str:
    line = _CONTROL.sub("\ufffd", " ".join(text.split()))
    return _SPECIAL.sub(r"\\\1", escape(line, quote=False))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return markdown_table([title.lstrip("*") for title in head], ([_text(cell) for cell in row] for row in rows))


def _kept(climb: Climb) -> list[str]:
    rows = [
        [str(p.index), p.variant, microseconds(p.us), p.verdict, clipped(p.summary, 80)] for p in climb.points if p.kept
    ]
    return _table([">trial", "variant", f">{climb.timing} µs", "verdict", "change"], rows) if rows else []
