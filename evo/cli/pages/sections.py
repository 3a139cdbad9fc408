"""The page's drawn sections: the headline, climbs, rooflines, counters. Text from a record goes through `clean`."""

from __future__ import annotations

from collections.abc import Callable

from evo.cli.pages.climb_chart import climb_svg, climb_words
from evo.cli.pages.climb_speedup import ClimbSpeedup, climb_speedup
from evo.cli.pages.figures import SIZES, Size
from evo.cli.pages.heat_map import heat_html
from evo.cli.pages.highlight import clean
from evo.cli.pages.html_parts import TextBudget, section_html
from evo.cli.pages.report_model import Climb, ReportModel
from evo.cli.pages.roofline_chart import drawable, roofline_svg
from evo.cli.pages.roofline_plot import Roofline
from evo.cli.pages.tables import ReportSection, limits_table
from evo.results.wording import duration

# --- summary and climbs ---------------------------------------------------------------------------------------------


def summary(report: ReportModel) -> str:
    """The speed-up of the latest climb that kept anything, then counts; nothing before the first trial."""
    if not report.records:
        return ""
    latest = [(climb.task, climb_speedup(climb)) for climb in latest_first(report.climbs)]
    timed = [(task, since) for task, since in latest if since is not None]
    task, since = next((one for one in timed if one[1].kept), timed[0] if timed else ("", None))
    several = len({climb.task for climb in report.climbs}) > 1
    told = _headline(since, f"{task}, " if several else "") if since is not None else ""
    tried = [record for record in report.records if not record.begins]
    kept = sum(record.kept for record in tried)
    runs = len({record.run for record in report.records})
    pairs = [("trials", f"{len(tried):,}"), ("kept", f"{kept:,}"), ("runs", f"{runs:,}")]
    pairs.append(("champions", f"{len(report.board):,}"))
    if report.spent.seconds is not None:
        pairs.append(("time in trials", duration(report.spent.seconds)))
    if report.spent.lasted_s is not None:
        pairs.append(("from start to last trial", duration(report.spent.lasted_s)))
    cells = "".join(f"<div><dt>{name}</dt><dd>{clean(value)}</dd></div>" for name, value in pairs)
    return f'{told}<dl class="facts">{cells}</dl>'


def latest_first(climbs: tuple[Climb, ...]) -> list[Climb]:
    return sorted(climbs, key=lambda climb: climb.points[-1].trial, reverse=True)


def _headline(since: ClimbSpeedup, what: str = "") -> str:
    words = f"{what}{since.since}"
    return (
        f'<p class="headline"><b>{since.ratio_words}</b><span>{clean(words)}</span></p>'
        f'<p class="figures">{clean(since.facts)}</p>'
    )


def figure(draw: Callable[[Size], str], caption: str) -> str:
    """A drawing for wide and for narrow screens; the page shows the one that fits."""
    return f"<figure>{''.join(draw(size) for size in SIZES)}<figcaption>{caption}</figcaption></figure>"


def climb_section(report: ReportModel, room: TextBudget) -> str:
    if not report.climbs:
        return "<p>No trial is recorded yet.</p>"
    ordered = latest_first(report.climbs)
    titles = [climb.title for climb in report.climbs]
    parts: list[str] = []
    for climb in ordered:
        place = next(at for at, one in enumerate(report.climbs) if one is climb)
        title = climb.title
        if (of := titles.count(title)) > 1:  # the caption names each environment
            title += f", environment {titles[: place + 1].count(title)} of {of}"
        shown = _climb(climb, room.new_id("climb"))
        since = climb_speedup(climb)
        if climb is ordered[0] or climb.task not in {one.task for one in ordered[: ordered.index(climb)]}:
            told = _headline(since) if since is not None and since.trials and parts else ""
            parts.append(f"<h3>{clean(title)}</h3>{told}{shown}")
        else:
            words = f"{since.ratio_words} {since.since}, {since.facts}" if since is not None else climb_words(climb)
            folded = f"<summary>{clean(title)} <span class='soft'>{clean(words)}</span></summary>"
            parts.append(f'<details data-key="{clean(f"climb-{place}-{title}")}">{folded}{shown}</details>')
    drawn = [climb for climb in report.climbs if _is_drawn(climb)]
    if drawn:
        whiskers = any(point.low is not None for climb in drawn for point in climb.points)
        whisker = "A whisker is the 95 % interval of the gain over the parent at this case, as a time. "
        parts.append(
            "<p class='soft'>The score over all cases decides, so a trial may be faster at this case and still not be "
            f"kept. The line is the champion's time as its own trial had it. {whisker if whiskers else ''}"
            "Measured and modelled times never share an axis, nor do times of unlike environments.</p>"
        )
    return "".join(parts)


def _is_drawn(climb: Climb) -> bool:
    """A point alone is no climb."""
    return any(point.kind != "start" for point in climb.points)


def _climb(climb: Climb, name: str) -> str:
    model = f", model version {climb.model}" if climb.model else ""
    caption = f"{clean(climb_words(climb))} {clean(climb.environment + model)}."
    if not _is_drawn(climb):
        return f"<p class='soft'>{caption}</p>"
    return figure(lambda size: climb_svg(climb, name, size), caption)


# --- rooflines ------------------------------------------------------------------------------------------------------


def roofline_section(report: ReportModel, room: TextBudget) -> str:
    words = "<p>Throughput over arithmetic intensity, both logarithmic, against what the chip can do.</p>"
    parts = [words] if any(not roof.problem and drawable(roof) for roof in report.rooflines) else []
    for roof in report.rooflines:
        parts.append(f"<h3>{clean(roof.title)}</h3>")
        if roof.problem:
            parts.append(f"<p>{clean(roof.problem)}</p>")
            continue
        if drawable(roof):
            parts.append(_roofline(roof, room.new_id("roofline")))
        else:
            parts.append("<p class='soft'>The task states no arithmetic to draw; its floors are of memory.</p>")
        parts.append(_limits_table(roof))
    alone = [r for r in report.rooflines if not r.problem and not any(one.role == "rival" for one in r.taken)]
    parts += [f"<p class='soft'>{words}</p>" for words in dict.fromkeys(map(_no_rivals, alone))]
    if not report.rooflines:
        parts.append(
            "<p>There is no champion whose chip has a row in the table of chips.</p>"
            if report.board
            else "<p>There is no champion yet.</p>"
        )
    return "".join(parts)


def _roofline(roof: Roofline, name: str) -> str:
    beside = "Cases of one intensity stand side by side. " if len(roof.cases) > 1 else ""
    return figure(lambda size: roofline_svg(roof, name, size), f"{beside}Times are {roof.timing}.")


def _no_rivals(roof: Roofline) -> str:
    if roof.timing == "modelled":
        return "Rivals are library calls, which are measured on a GPU only: they have no place beside modelled times."
    return f"No rival was measured yet: <code>evo baseline {clean(roof.task)}</code> on the GPU does."


def _limits_table(roof: Roofline) -> str:
    key = clean(f"limits-{roof.task}-{roof.chip}-{roof.timing}")
    shown = section_html(ReportSection(tables=[limits_table(roof)]))
    return f'<details class="more" data-key="{key}"><summary>Limits and times as a table</summary>{shown}</details>'


# --- counters -------------------------------------------------------------------------------------------------------


def heat_section(report: ReportModel, room: TextBudget) -> str:
    parts = [
        "<p>Counted on the simulator at one case, exact as executed. The share is of the modelled clocks of the pipe "
        "that limits the kernel. <span class='never'>never</span> names an outcome of a condition that this case did "
        "not see; <code>evo check --coverage</code> looks at all cases. Nothing here was timed.</p>"
    ]
    for heat in report.heats:
        html = heat_html(heat)
        if not room.take(html):
            html = "<p>Left out to keep the page small: <code>evo profile FILE</code> shows it.</p>"
        parts.append(f"<h3>{clean(heat.title)}</h3>{html}")
    if report.lazy:
        parts.append(_count_buttons(report))
    elif not report.heats:
        parts.append(f"<p>{clean(report.no_heat or 'No champion was counted')}. "
                     "<code>evo report --count</code> counts each champion at a small case, "
                     "<code>evo profile FILE</code> at a case of your choice.</p>")  # fmt: skip
    return "".join(parts)


def _count_buttons(report: ReportModel) -> str:
    """Counting takes the processor for seconds, perhaps from a run, so that a reader asks for it."""
    parts = []
    for entry in sorted(report.board, key=lambda entry: entry.date, reverse=True):
        trial = next((one.trial for one in reversed(report.records) if one.kept and one.variant == entry.variant), "")
        words = f"Count the lines of the champion {entry.variant} of {entry.chip}, {entry.built_for}"
        button = f'<button type="button" data-count="counts/{clean(trial)}">{clean(words)}</button>'
        parts.append(f"<div><p>{button}</p></div>")
    return "".join(parts) or "<p>There is no champion yet.</p>"
