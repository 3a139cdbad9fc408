"""A source as a heat map: what each line keeps busy, and the outcomes of its conditions that were not seen."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from evo.cli.pages.highlight import clean, highlighted
from evo.cli.pages.html_parts import LONGEST, region
from evo.cli.pages.source_counters import LineUtilisation
from evo.results.wording import clipped, plural

_MOST_REMARKS = 12
_FOLDED = 3  # lines in a row that are worth hiding are more than this
_AROUND = 2  # lines that are shown beside one that executes
_EVENTS = ("shared_wavefronts", "global_sectors", "local_requests", "mma_instructions", "atomic_lanes", "ex2")


def heat_html(heat: LineUtilisation) -> str:
    """The map, and the losses that follow from it; or why nothing is known."""
    if heat.problem:
        return f"<p>There are no counters: {clean(clipped(heat.problem, LONGEST))}.</p>"
    remarks = [remark for line in heat.lines for remark in line.remarks]
    found = "".join(f"<li>{clean(remark)}</li>" for remark in remarks[:_MOST_REMARKS])
    return _table(heat) + (f"<p><b>Losses by line</b></p><ul>{found}</ul>" if found else "")


def _table(heat: LineUtilisation) -> str:
    counted = _by_line(heat)
    never = _unexercised(heat)
    lines = highlighted(heat.text.removesuffix("\n"))
    shown = {near for line in {*counted, *never} for near in range(line - _AROUND, line + _AROUND + 1)}
    rows: list[str] = []
    for there, group in itertools.groupby(enumerate(lines, start=1), key=lambda line: line[0] in shown):
        listed = list(group)
        if not there and len(listed) > _FOLDED:
            rows.append(
                f'<tr class="gap"><td colspan="4">⋯ {len(listed)} lines without instructions of their own</td></tr>'
            )
            continue
        rows += [_row(number, html, *counted.get(number, (0.0, {})), never.get(number, "")) for number, html in listed]
    caption = f"Lines of {heat.variant} at case {heat.case}; limiting pipe of {_pipes(heat)}{_outcomes(heat)}"
    head = "".join(f'<th scope="col">{title}</th>' for title in ("line", "share", "source", "events"))
    return region(
        f'<table class="heat"><caption>{clean(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}'
        "</tbody></table>",
        caption,
    )


def _row(number: int, html: str, share: float, counters: Mapping[str, int], never: str) -> str:
    shade = f' style="background:rgba(var(--heat),{min(share, 1.0) ** 0.5 * 0.5:.2f})"' if share >= 0.005 else ""
    named = [name for name in _EVENTS if counters.get(name)][:2]
    words = ", ".join(f"{name.replace('_', ' ')} {counters[name]:,}" for name in named)
    words = clean(words or (f"warp instructions {counters['warp_instructions']:,}" if counters else ""))
    percent = (f"{100 * share:.1f} %" if share >= 0.001 else "< 0.1 %") if counters else ""
    bar = f'<b class="bar" style="width:{min(share, 1.0) * 100:.0f}%"></b>' if share >= 0.01 else ""
    missed = f'{"; " if words else ""}<span class="never">never {clean(never)}</span>' if never else ""
    cells = f'<td class="n">{number}</td><td class="n">{bar}<span>{clean(percent)}</span></td><td>{html}</td>'
    return f"<tr{shade}>{cells}<td>{words}{missed}</td></tr>"


def _by_line(heat: LineUtilisation) -> dict[int, tuple[float, Mapping[str, int]]]:
    """Share and counters of each line, over the kernels that it is in."""
    found: dict[int, tuple[float, Mapping[str, int]]] = {}
    for hot in heat.lines:
        share, counters = found.get(hot.line, (0.0, {}))
        names = {*counters, *hot.counters}
        merged = {name: counters.get(name, 0) + hot.counters.get(name, 0) for name in names}
        found[hot.line] = (max(share, hot.share), merged)
    found.pop(0, None)  # code without a place in the source
    return found


def _unexercised(heat: LineUtilisation) -> dict[int, str]:
    """The outcomes that no thread has seen, by line, of the conditions that were reached."""
    if heat.coverage is None:
        return {}
    found: dict[int, dict[str, None]] = {}
    for line, points in heat.coverage.by_line().items():
        for point in points:
            if line and point.reached:
                for outcome in point.unexercised:
                    found.setdefault(line, {})[f"{point.kind.value}: {outcome.replace('_', ' ')}"] = None
    return {line: ", ".join(names) for line, names in found.items() if names}


def _outcomes(heat: LineUtilisation) -> str:
    if heat.coverage is None:
        return ""
    seen, there = heat.coverage.outcomes()
    return f"; {seen} of {plural(there, 'outcome')} of conditions seen" if there else ""


def _pipes(heat: LineUtilisation) -> str:
    return ", ".join(sorted({f"{line.kernel}: {line.pipe}" for line in heat.lines}))
