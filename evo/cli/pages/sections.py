"""The page's drawn sections: climbs, rooflines, genealogies. Text from a record goes through `clean`."""

from __future__ import annotations

from evo.cli.pages.highlight import clean, highlighted, side_by_side
from evo.cli.pages.html import LONGEST, Room, identifier, region, table
from evo.cli.pages.model import AncestryStep, Line, ReportModel
from evo.cli.pages.roofline_plot import Roofline
from evo.cli.pages.svg import COLOURS, climb_svg, climb_words, descent_svg, drawable, drawn_cases, roofline_svg
from evo.results.wording import clipped, duration, gain_words, microseconds, percent, plural

# --- summary and climbs ---------------------------------------------------------------------------------------------


def facts(report: ReportModel) -> str:
    kept = sum(record.kept for record in report.records)
    runs = len({record.run for record in report.records})
    pairs = [("trials", f"{len(report.records):,}"), ("kept", f"{kept:,}"), ("runs", f"{runs:,}")]
    pairs.append(("champions", f"{len(report.board):,}"))
    if report.spent.seconds is not None:
        pairs.append(("time in trials", duration(report.spent.seconds)))
    if report.spent.lasted_s is not None:
        pairs.append(("from start to last trial", duration(report.spent.lasted_s)))
    cells = "".join(f"<div><dt>{name}</dt><dd>{clean(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{cells}</dl>'


def climb_section(report: ReportModel, room: Room) -> str:
    parts = [
        "<p>Time by trial at one case. The score over all cases decides, so a mark below the line may still not be "
        "kept. A filled mark was kept, a hollow one was not, a cross below the axis was never "
        "timed, a square is a start. The line is the champion's time as its own trial measured it. A whisker is the "
        "95 % interval of the gain over the parent at this case, as a time. Measured and modelled times never share "
        "an axis, nor do times of unlike environments.</p>"
    ]
    titles = [climb.title for climb in report.climbs]
    for number, climb in enumerate(report.climbs):
        name = room.new_id("climb")
        title = climb.title
        if (of := titles.count(title)) > 1:  # the caption names each environment
            title += f", environment {titles[: number + 1].count(title)} of {of}"
        parts.append(f'<h3 id="{name}">{clean(title)}</h3>')
        drawn = climb_svg(climb, f"{name}-svg")
        model = f", model version {climb.model}" if climb.model else ""
        parts.append(
            f"<figure>{region(drawn, f'Drawing: climb of {title}')}<figcaption>{clean(climb_words(climb))} "
            f"{clean(climb.environment + model)}.</figcaption></figure>"
        )
    return "".join(parts)


# --- rooflines ------------------------------------------------------------------------------------------------------


def roofline_section(report: ReportModel, room: Room) -> str:
    parts = [
        "<p>Throughput over arithmetic intensity, both logarithmic. Hollow circles: the limit of each case, "
        "warm and cold; filled circles: the champion; diamonds: the library's rivals.</p>"
    ]
    for roof in report.rooflines:
        name = room.new_id("roofline")
        parts.append(f'<h3 id="{name}">{clean(roof.title)}</h3>')
        if roof.problem:
            parts.append(f"<p>{clean(roof.problem)}</p>")
            continue
        if drawable(roof):
            legend = "".join(
                f'<li><b class="l{number % COLOURS}"></b>{clean(case.name)}</li>'
                for number, (case, _, _) in enumerate(drawn_cases(roof))
            )
            drawn = region(roofline_svg(roof, f"{name}-svg"), f"Drawing: roofline of {roof.title}")
            words = "Cases of one intensity stand side by side. Dashed: an estimate that binds nothing."
            caption = f"{words} Times are {roof.timing}."
            parts.append(f'<figure>{drawn}<ul class="legend">{legend}</ul><figcaption>{caption}</figcaption></figure>')
        else:
            parts.append("<p>The task states no arithmetic to draw; its floors are of memory.</p>")
        parts.append(_limits_table(roof))
        if not any(one.role == "rival" for one in roof.taken):
            parts.append(f"<p class='soft'>{_no_rivals(roof)}</p>")
    if not report.rooflines:
        parts.append(
            "<p>There is no champion whose chip has a row in the table of chips.</p>"
            if report.board
            else "<p>There is no champion yet.</p>"
        )
    return "".join(parts)


def _no_rivals(roof: Roofline) -> str:
    if roof.timing == "modelled":
        return "Rivals are library calls, which are measured on a GPU only: they have no place beside modelled times."
    return f"No rival was measured yet: <code>evo baseline {clean(roof.task)}</code> on the GPU does."


def _limits_table(roof: Roofline) -> str:
    rows = []
    for case in roof.cases:
        limits = [case.name, microseconds(case.floor_us), case.limiter]
        taken = roof.of_case(case.name)
        for one in taken:
            share = percent(case.floor_us / one.us) if case.floor_us else ""
            rate = f"{case.flop / one.us * 1e-6:.2f}" if case.flop else ""
            rows.append([*limits, f"{one.role}: {one.what}", microseconds(one.us), rate, share])
        if not taken:
            rows.append([*limits, "none yet", "", "", ""])
    head = ["case", ">floor µs", "bound by", "*what", f">{roof.timing} µs", ">TFLOP/s", ">floor / time"]
    return table(head, rows, f"Limits and times of {roof.title}")


# --- descent --------------------------------------------------------------------------------------------------------


def descent_section(report: ReportModel, room: Room) -> str:
    parts = [
        "<p>Each champion's line of descent: the variants that were kept, from the start on, with what changed. To the "
        "right of a variant, what was tried from it and not kept.</p>"
    ]
    for line in report.lines:
        name = room.new_id("descent")
        parts.append(f'<h3 id="{name}">{clean(line.title)}</h3>')
        drawn = region(descent_svg(line, f"{name}-svg"), f"Drawing: descent of {line.title}")
        caption = f"{plural(len(line.steps), 'kept variant')}, the champion last. Effects are {line.timing}."
        parts.append(f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>")
        first = line.steps[0].record
        if first.parent is not None:
            parts.append(f"<p>It begins at {identifier(first.parent)}, whose record is not among those shown.</p>")
        # The latest steps come first when the page's room is short.
        shown = {step.record.trial: _diff(step, room) for step in reversed(line.steps)}
        steps = "".join(f"<li>{_step(step, shown[step.record.trial], line, report)}</li>" for step in line.steps)
        parts.append(f'<ol class="chain">{steps}</ol>')
    if not report.lines:
        parts.append("<p>Nothing was kept so far.</p>")
    return "".join(parts)


def _step(step: AncestryStep, diff: str, line: Line, report: ReportModel) -> str:
    record = step.record
    commit = report.commits.get(record.trial)
    effect = gain_words(record.gain)
    words = f"{line.timing} {effect}" if effect else "a start, which claims no gain"
    rows = {
        "trial": record.trial,
        "parent": record.parent or "none",
        "operator": f"{record.operator} ({record.kind})",
        "why": clipped(record.reason, LONGEST),
        "expected": clipped(record.expected, LONGEST),
        "effect": words,
        "commit": commit[:12] if commit else "",
    }
    told = "".join(f"<tr><th scope='row'>{name}</th><td>{clean(text)}</td></tr>" for name, text in rows.items() if text)
    title = clean(clipped(record.summary, 120))
    return (
        f"<details><summary>{identifier(record.variant)} {title} <span class='soft'>{clean(words)}</span></summary>"
        f"<table><caption>Trial {record.number} of run {clean(record.run)}</caption><tbody>{told}</tbody></table>{diff}"
        "</details>"
    )


def _diff(step: AncestryStep, room: Room) -> str:
    record = step.record
    if step.text is None:
        return f"<p>{clean(step.problem)}</p>"
    if record.parent is None:
        lines = plural(step.text.count("\n") + 1, "line")
        html = f"<p>The start: {lines}.</p>{region(f'<pre>{_code(step.text)}</pre>', f'Source of {record.variant}')}"
    elif step.parent_text is None:
        how = f"evo diff {clean(record.parent)} {clean(record.variant)}"
        return f"<p>The parent's text is not among these records; <code>{how}</code> shows the change.</p>"
    else:
        html = side_by_side(step.parent_text, step.text, f"What changed from {record.parent} to {record.variant}")
    if not room.take(html):
        how = f"evo show {clean(record.trial)}"
        return f"<p>Left out to keep the page small: <code>{how}</code> shows the change.</p>"
    return html


def _code(text: str) -> str:
    return "\n".join(highlighted(text))
