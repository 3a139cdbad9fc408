"""Every start and every keep of a task in one place, as lanes: who came from whom, and what was tried from each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evo.cli.pages.highlight import clean
from evo.cli.pages.html_parts import identifier
from evo.cli.pages.report_model import Genealogy, Kin, ReportModel
from evo.cli.pages.verdict_reasons import verdict_words
from evo.records.insights import environment_words
from evo.records.trials import Record
from evo.results.wording import clipped, microseconds, plural, ratio

_MOST_MARKS = 24
_LANE = 18  # pixels


@dataclass(frozen=True, slots=True)
class Lanes:
    """lanes: by row. spans: lane, first row, last row."""

    lanes: Sequence[int]
    spans: Sequence[tuple[int, int, int]]


def lanes_of(kin: Sequence[Kin]) -> Lanes:
    """Each line of champions in the first lane that is free over its rows. The latest child continues a line."""
    lanes = [0] * len(kin)
    spans: list[tuple[int, int, int]] = []
    for row, one in enumerate(kin):
        if one.parent is not None and kin[one.parent].children[-1] == row:
            continue  # it continues its parent's line
        chain = [row]
        while kin[chain[-1]].children:
            chain.append(kin[chain[-1]].children[-1])
        last = max([*chain, *(child for member in chain for child in kin[member].children)])
        begin = row if one.parent is None else one.parent + 1
        taken = {lane for lane, first, end in spans if first <= last and begin <= end}
        lane = next(lane for lane in range(len(taken) + 1) if lane not in taken)
        spans.append((lane, row, last))
        for member in chain:
            lanes[member] = lane
    return Lanes(lanes, spans)


def genealogy_section(report: ReportModel, room: object) -> str:
    del room
    parts = [
        "<p>Every start and every keep, oldest first. Beside a variant: its time, how much faster it is than the start "
        "of its line and than its parent, and what was tried from it and not kept "
        '(<span class="mark-not"></span> timed, <span class="mark-cross">×</span> not timed).</p>'
    ]
    for index, one in enumerate(report.genealogies):
        drawn = lanes_of(one.kin)
        lanes = 1 + max(drawn.lanes)
        rows = "".join(_row(row, one, drawn, report) for row in range(len(one.kin)))
        count = _count(one)
        words = f"{count}; the champion is marked. Times and effects are {one.timing}."
        body = f'<ol class="kin" style="--lanes:{lanes}">{rows}</ol><p class="soft">{words}</p>'
        heading = f"<h3>{clean(one.title)}, {one.timing}</h3>"
        if index:
            key = clean(f"kin-{one.title}")
            parts.append(
                f'<details data-key="{key}"><summary>{clean(one.title)}, {one.timing} '
                f'<span class="soft">{count}</span></summary>{body}</details>'
            )
        else:
            parts.append(heading + body)
    if len(parts) == 1:
        parts.append("<p>Nothing was kept so far.</p>")
    return "".join(parts)


def _row(row: int, one: Genealogy, drawn: Lanes, report: ReportModel) -> str:
    kin = one.kin[row]
    record = kin.record
    name = clean(record.trial)
    champion = "<span class='badge good'>champion</span> " if row == len(one.kin) - 1 else ""
    commit = report.commits.get(record.trial)
    about = [identifier(record.variant), clean(record.operator)]
    if record.parent is not None and kin.parent is None:
        about.append(f"from {identifier(record.parent)}, whose record is not among those shown")
    elif record.parent is not None and kin.parent is not None and record.parent != one.kin[kin.parent].record.variant:
        about.append(f"from {identifier(record.parent)}, tried and not kept")
    about += [f"commit {identifier(commit[:7])}"] if commit else []
    return (
        f'<li>{_rail(row, one, drawn)}<div class="kin-what"><a href="#t-{name}">{champion}'
        f"{clean(clipped(record.summary, 100))}</a><div class='soft'>{' · '.join(about)}</div>{_tried(kin.tried)}"
        f"</div><div class='kin-us'>{_times(row, one, report.headlines)}</div></li>"
    )


def _count(one: Genealogy) -> str:
    """`1 start, 2 kept`."""
    starts = sum(kin.parent is None for kin in one.kin)
    return f"{plural(starts, 'start')}, {len(one.kin) - starts} kept"


def _times(row: int, one: Genealogy, headlines: Mapping[str, str]) -> str:
    record = one.kin[row].record
    us = record.evaluation.case_us(headlines.get(record.task, ""))
    parts = [f"<b>{microseconds(us)} µs</b>"] if us is not None else []
    root = one.line(row)[0].record
    if us and root is not record and environment_words(root) == environment_words(record):
        start = root.evaluation.case_us(headlines.get(record.task, ""))
        parts += [f"<span>{ratio(start / us)} since the start</span>"] if start is not None else []
    if record.gain is not None:
        parts.append(f"<span class='soft'>{ratio(record.gain.ratio)} over its parent</span>")
    elif record.begins:
        parts.append("<span class='soft'>a start, which claims no gain</span>")
    return "".join(parts)


def _tried(tried: Iterable[Record]) -> str:
    listed = list(tried)
    if not listed:
        return ""
    marks = "".join(
        f'<a href="#t-{clean(one.trial)}" class="{"mark-not" if one.bench else "mark-cross"}" '
        f'title="{clean(f"trial {one.number}, {verdict_words(one)}: {clipped(one.summary, 60)}")}">'
        f"{'' if one.bench else '×'}</a>"
        for one in listed[:_MOST_MARKS]
    )
    more = f" +{len(listed) - _MOST_MARKS}" if len(listed) > _MOST_MARKS else ""
    return f'<div class="tried">{marks}<span class="soft">{more} {len(listed)} tried, not kept</span></div>'


def _rail(row: int, one: Genealogy, drawn: Lanes) -> str:
    """The lanes beside a row: lines of those that pass, the variant's dot, and a branch from the parent's lane."""
    kin, own = one.kin[row], drawn.lanes[row]
    parts = []
    for lane, first, last in drawn.spans:
        if first <= row <= last:
            kind = " no" if first == last else " from" if row == first else " to" if row == last else ""
            parts.append(f'<i class="v{kind}" style="left:{lane * _LANE + 8}px"></i>')
    if kin.parent is not None and drawn.lanes[kin.parent] != own:
        a, b = sorted((drawn.lanes[kin.parent], own))
        parts.append(f'<i class="h" style="left:{a * _LANE + 9}px;width:{(b - a) * _LANE}px"></i>')
    square = " square" if kin.record.begins else ""
    parts.append(f'<i class="dot{square}" style="left:{own * _LANE + 3}px"></i>')
    return f'<span class="rail" aria-hidden="true">{"".join(parts)}</span>'
