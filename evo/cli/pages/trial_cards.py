"""The trials as a list that unfolds: each with why it was judged so and its change beside the parent."""

from __future__ import annotations

from collections.abc import Iterable

from evo.cli.pages.highlight import clean
from evo.cli.pages.html_parts import TextBudget
from evo.cli.pages.report_model import ReportModel
from evo.cli.pages.verdict_reasons import change, reason_of, verdict_reasons, verdict_words
from evo.records.trials import Record, arm_of
from evo.results.wording import clipped, microseconds, plural, ratio

_MOST_TRIALS = 2000
_MOST_REFUSED = 8  # trials that found no room, before no further one is rendered


def trial_section(report: ReportModel, room: TextBudget) -> str:
    """Runs, the latest first, and in each the latest trial first."""
    shown = report.records[-_MOST_TRIALS:]
    left = len(report.records) - len(shown)
    runs: dict[tuple[str, str], list[Record]] = {}
    for record in reversed(shown):
        runs.setdefault((record.task, record.run), []).append(record)
    bodies = _bodies(shown, report, room)
    newest = max((run for _, run in runs), default="")
    lists = "".join(_run(trials, report, bodies, unfolded=run == newest) for (_, run), trials in runs.items())
    note = f"<p>{left} older trials are left out; <code>evo log</code> lists them.</p>" if left else ""
    form = (
        '<form id="filter" role="search" aria-label="Trials" hidden><label for="filter-text">Filter trials '
        '<input type="search" id="filter-text" aria-controls="trial-list"></label><label for="filter-kept">'
        '<input type="checkbox" id="filter-kept" aria-controls="trial-list"> kept only</label>'
        '<output id="filter-count" for="filter-text filter-kept" aria-live="polite"></output></form>'
    )
    return f'{form}<div id="trial-list">{lists}</div>{note}'


def _bodies(shown: Iterable[Record], report: ReportModel, room: TextBudget) -> dict[str, str]:
    """What each trial unfolds to. Kept and then late trials come first if the page's room is short."""
    found: dict[str, str] = {}
    refused = 0
    for record in sorted(shown, key=lambda one: (one.kept, one.run, one.number), reverse=True):
        if report.lazy:
            found[record.trial] = f'<p class="soft" data-load="trial/{clean(record.trial)}">Loading…</p>'
            continue
        fits = refused < _MOST_REFUSED and len(record.diff) < room.left
        html = trial_body(record, report.commits.get(record.trial)) if fits else ""
        if fits and room.take(html):
            found[record.trial] = html
            continue
        refused += 1
        how = f"evo show {clean(record.trial)}"
        found[record.trial] = f"<p>Left out to keep the page small: <code>{how}</code> shows it.</p>"
    return found


def trial_body(record: Record, commit: str | None, *, counts: bool = False) -> str:
    """Why a trial was judged so, then what it changed. counts: a server can count its lines."""
    asked = (
        f'<div><button type="button" data-count="counts/{clean(record.trial)}">Count its lines on the simulator'
        "</button></div>"
    )
    return f"{verdict_reasons(record, commit)}{change(record)}{asked if counts else ''}"


def _run(trials: list[Record], report: ReportModel, bodies: dict[str, str], *, unfolded: bool) -> str:
    first = trials[0]
    tried = [record for record in trials if not record.begins]
    kept = sum(record.kept for record in tried)
    words = f"{plural(len(tried), 'trial')}, {kept} kept, {first.timing} on {first.environment.chip}"
    rows = "".join(_card(record, report, bodies[record.trial]) for record in trials)
    key = clean(f"{first.task}-{first.run}")
    return (
        f'<details class="run" data-key="run-{key}"{" open" if unfolded else ""}><summary><b>{clean(first.task)}</b> '
        f"run {clean(first.run)} <span class='soft'>{clean(words)}</span></summary>{rows}</details>"
    )


def _card(record: Record, report: ReportModel, body: str) -> str:
    headline = report.headlines.get(record.task)
    times = record.evaluation.times_us
    case = headline if headline in times else next(iter(times), "")
    us = times.get(case or "")
    time = f"{microseconds(us)} µs" if us is not None else ""
    gain = ratio(record.gain.ratio) if record.gain is not None else ""
    kind = "good" if record.kept else "bad"
    words = verdict_words(record)
    told = "" if record.kept else f'<span class="told">{clean(clipped(reason_of(record), 160))}</span>'
    timed = f'<span class="us" title="{record.timing}, case {clean(case or "")}">{time}</span>'
    summary = (
        f'<span class="no">{record.number}</span><span class="badge {kind}">{clean(words)}</span>'
        f'<span class="what">{clean(clipped(record.summary, 120))}'
        f'<span class="soft"> {clean(arm_of(record.operator, record.kind))}</span>{told}</span>'
        f'{timed}<span class="x">{gain}</span>'
    )
    mark = (' data-kept="1"' if record.kept else "") + (' data-start="1"' if record.begins else "")
    name = clean(record.trial)
    return (
        f'<details class="trial" id="t-{name}" data-key="t-{name}"{mark}><summary>{summary}</summary>'
        f'<div class="body">{body}</div></details>'
    )
