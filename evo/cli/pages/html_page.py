"""The report as one HTML page: self-contained as a file, or followed by a server's events."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping

from evo.cli.pages import genealogy, sections, tables, trial_cards
from evo.cli.pages.case_study import CaseStudy
from evo.cli.pages.highlight import clean
from evo.cli.pages.html_parts import CSS, LIVE_SCRIPT, SCRIPT, TextBudget, section_html
from evo.cli.pages.report_model import ReportModel

_ROOM = 1_500_000  # characters of diffs and source; with 500 trials beside them the page stays under 3 MB


def _in_html(tell: Callable[[ReportModel], tables.ReportSection]) -> Callable[[ReportModel, TextBudget], str]:
    return lambda report, _: section_html(tell(report))


_SECTIONS: tuple[tuple[str, str, Callable[[ReportModel, TextBudget], str]], ...] = (
    ("climb", "The climb", sections.climb_section),
    ("trials", "Trials", trial_cards.trial_section),
    ("descent", "Genealogy", genealogy.genealogy_section),
    ("roofline", "Roofline", sections.roofline_section),
    ("counters", "Counters by source line", sections.heat_section),
    ("leaderboard", "Leaderboard by chip", _in_html(tables.board_section)),
    ("operators", "Effects by kind of change", _in_html(tables.insight_section)),
    ("cost", "Time and cost", _in_html(tables.cost_section)),
    ("environment", "Environments", _in_html(tables.environment_section)),
)


def page(report: ReportModel, study: CaseStudy | None = None) -> str:
    """The whole page as a file that needs no network. study: its chapters come first."""
    title = study.title if study is not None else report.title
    chapters: list[tuple[str, str, str]] = []
    if study is not None:
        for number, chapter in enumerate(study.chapters, start=1):
            chapters.append((f"chapter{number}", chapter.heading, section_html(chapter.section)))
    made = f"Made {report.made[:16].replace('T', ' ')} UTC by evo {report.version} from the records alone."
    content = _rendered(report)
    body = _body([*chapters, *((name, heading, content[name]) for name, heading, _ in _SECTIONS)])
    top = f"<header><h1>{clean(title)}</h1><p class='soft'>{clean(made)}</p>{sections.summary(report)}</header>"
    return _document(title, f"{top}{body}", SCRIPT, footer=made)


def _rendered(report: ReportModel) -> dict[str, str]:
    """Each section's content; the trials, of which there may be many, take the room that the others leave."""
    if not report.records:  # the style leaves out what is empty
        return {name: sections.climb_section(report, TextBudget(0)) * (name == "climb") for name, _, _ in _SECTIONS}
    room = TextBudget(_ROOM)
    found = {name: render(report, room) for name, _, render in sorted(_SECTIONS, key=lambda one: one[0] == "trials")}
    return {name: found[name] for name, _, _ in _SECTIONS}


def page_sections(report: ReportModel) -> dict[str, str]:
    """The content of each section of a page that a server keeps up to date; `summary` stands in its header."""
    return {"summary": sections.summary(report), **_rendered(report)}


def live_page(title: str, top: str, content: Mapping[str, str], *, data: Mapping[str, str]) -> str:
    """A page whose server tells it what is new. content: by section, with `summary` and `now`; data: of the body."""
    attributes = "".join(f' data-{name}="{clean(value)}"' for name, value in data.items())
    body = _body([(name, heading, content.get(name, "")) for name, heading, _ in _SECTIONS])
    header = (
        f'<p id="offline" role="status" hidden></p><header><h1>{clean(title)}</h1>{top}'
        f'<div id="s-now" aria-live="polite">{content.get("now", "")}</div>'
        f'<div id="s-summary">{content.get("summary", "")}</div></header>'
    )
    return _document(title, f"{header}{body}", LIVE_SCRIPT, footer="Served by evo.", attributes=attributes)


def _policy(script: str) -> str:
    """Nothing is fetched but from the page's own server, and no script runs but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = "; connect-src 'self'" if script == LIVE_SCRIPT else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'{own}"


def _body(entries: list[tuple[str, str, str]]) -> str:
    links = "".join(f'<li><a href="#{name}">{clean(heading)}</a></li>' for name, heading, _ in entries)
    content = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{clean(heading)}</h2><div id="s-{name}">{html}</div>'
        "</section>"
        for name, heading, html in entries
    )
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav><main id="main" tabindex="-1">{content}</main>'


def _document(title: str, body: str, script: str, *, footer: str, attributes: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{clean(title)}</title><style>{CSS}</style></head><body{attributes}>"
        f'<a class="skip" href="#main">Skip to the content</a>{body}'
        f"<footer>{clean(footer)} Measured and modelled times are never mixed.</footer>"
        f"<script>{script}</script></body></html>\n"
    )


LIVE_POLICY = _policy(LIVE_SCRIPT)  # for the server's header
