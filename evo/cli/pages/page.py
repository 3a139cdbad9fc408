"""The report as one self-contained HTML page: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from evo.cli.pages import sections, tables
from evo.cli.pages.case_study import CaseStudy
from evo.cli.pages.highlight import clean
from evo.cli.pages.html import Room
from evo.cli.pages.model import ReportModel
from evo.cli.pages.style import CSS, SCRIPT

_ROOM = 1_500_000  # characters of diffs and source; with 500 trials beside them the page stays under 3 MB
_SECTIONS: tuple[tuple[str, str, Callable[[ReportModel, Room], str]], ...] = (
    ("climb", "The climb", sections.climb_section),
    ("leaderboard", "Leaderboard by chip", tables.board_section),
    ("roofline", "Roofline", sections.roofline_section),
    ("descent", "Genealogy", sections.descent_section),
    ("operators", "Effects by kind of change", tables.insight_section),
    ("counters", "Counters by source line", tables.heat_section),
    ("trials", "Trials", tables.trial_section),
    ("cost", "Time and cost", tables.cost_section),
    ("environment", "Environments", tables.environment_section),
)


def page(report: ReportModel, study: CaseStudy | None = None) -> str:
    """The whole page. study: its chapters come first."""
    room = Room(_ROOM)
    title = study.title if study is not None else report.title
    entries: list[tuple[str, str, str]] = []
    if study is not None:
        for number, chapter in enumerate(study.chapters, start=1):
            entries.append((f"chapter{number}", chapter.heading, tables.chapter_html(chapter)))
    names = {f"s-{name}": (heading, render) for name, heading, render in _SECTIONS}
    entries += [(name, heading, render(report, room)) for name, (heading, render) in names.items()]
    links = "".join(f'<li><a href="#{name}">{clean(heading)}</a></li>' for name, heading, _ in entries)
    body = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{clean(heading)}</h2>{html}</section>'
        for name, heading, html in entries
    )
    made = f"Made {report.made[:16].replace('T', ' ')} UTC by evo {report.version} from the records alone."
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{clean(title)}</title><style>{CSS}</style></head><body>"
        '<a class="skip" href="#main">Skip to the content</a>'
        f"<header><h1>{clean(title)}</h1><p class='soft'>{clean(made)}</p>{sections.facts(report)}</header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav><main id="main" tabindex="-1">{body}</main>'
        f"<footer>{clean(made)} Measured and modelled times are never mixed.</footer>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _policy() -> str:
    """Nothing is fetched, and no script runs but the page's own, whatever a record holds."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
