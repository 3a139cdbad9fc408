"""The page's tables: champions, effects, counters, cost, environments. Text from records is escaped."""

from __future__ import annotations

from evo.cli.pages.case_study import Chapter, llm_words, time_words
from evo.cli.pages.highlight import clean, highlighted
from evo.cli.pages.html import LONGEST, TextBudget, identifier, region, table
from evo.cli.pages.model import REWRITE_HEAD, ReportModel, rewrite_rows
from evo.cli.pages.source_counters import LineUtilisation
from evo.results.wording import clipped, count, duration, gain_words, microseconds, ratio

_MOST_INSIGHTS = 200
_MOST_REMARKS = 12
_EVENTS = ("shared_wavefronts", "global_sectors", "local_requests", "mma_instructions", "atomic_lanes", "ex2")


def board_section(report: ReportModel, room: TextBudget) -> str:
    del room
    parts = []
    places = sorted({(entry.timing, entry.chip) for entry in report.board})
    for timing, chip in places:
        rows = []
        for entry in report.board:
            if (entry.timing, entry.chip) != (timing, chip):
                continue
            for name, case in entry.cases.items():
                row = [entry.task, entry.built_for, identifier(entry.variant), name, microseconds(case.time_us)]
                if timing == "measured":
                    row += [microseconds(case.p90_us) if case.p90_us is not None else ""]
                    row += [f"{case.tflop_per_s:.2f}" if case.tflop_per_s is not None else ""]
                else:
                    row += [case.model_version or "", case.calibration or ""]
                rows.append([*row, gain_words(entry.gain), (entry.commit or "")[:7], entry.date[:10]])
        more = [">p90 µs", ">TFLOP/s"] if timing == "measured" else ["model", "calibration"]
        name = f">{timing} {'p50 ' if timing == 'measured' else ''}µs"
        head = ["task", "arch", "variant", "case", name, *more, "last gain", "commit", "date"]
        parts.append(
            f"<h3>{clean(chip)}, {timing}</h3>{table(head, rows, f'Champions on {chip}, {timing} times', raw=(2,))}"
        )
    return "".join(parts) or "<p>There is no champion yet.</p>"


def insight_section(report: ReportModel, room: TextBudget) -> str:
    del room
    parts = [
        "<p>The effect of each kind of change over its parent, in one environment at a time; starts claim none.</p>"
    ]
    shown = report.insights[:_MOST_INSIGHTS]
    places = sorted({(row.timing, row.task, row.environment) for row in shown})
    for timing, task, environment in places:
        rows = [
            [
                row.operator,
                clipped(row.change, 160),
                ratio(row.median) if row.median is not None else "",
                f"{ratio(row.low)} to {ratio(row.high)}" if row.low is not None and row.high is not None else "",
                f"{row.timed} of {row.count}",
                f"{row.kept}",
            ]
            for row in shown
            if (row.timing, row.task, row.environment) == (timing, task, environment)
        ]
        head = ["operator", "*change", f">{timing} median", ">range", ">timed", ">kept"]
        parts.append(f"<h3>{clean(task)}, {timing} effects</h3>{table(head, rows, environment)}")
    if left := len(report.insights) - len(shown):
        parts.append(f"<p>And {left} more kinds of change: <code>evo insights</code> lists them.</p>")
    if not report.insights:
        parts.append("<p>Nothing but starts so far.</p>")
    if report.rewrites:
        caption = "Rewrites: whole kernels or files, apart from single changes"
        parts.append(f"<h3>Rewrites</h3>{table(REWRITE_HEAD, rewrite_rows(report.rewrites), caption)}")
    return "".join(parts)


# --- counters, cost, environment ------------------------------------------------------------------------------------


def heat_section(report: ReportModel, room: TextBudget) -> str:
    parts = [
        "<p>Counted on the simulator, exact as executed. The share is of the modelled clocks of the pipe that limits "
        "the kernel; the stronger the colour, the larger the share. Nothing here was timed.</p>"
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


def heat_html(heat: LineUtilisation) -> str:
    """One variant's source with what each line keeps busy, and the losses that follow; or why that is not known."""
    if heat.problem:
        return f"<p>There are no counters: {clean(clipped(heat.problem, LONGEST))}.</p>"
    remarks = [remark for line in heat.lines for remark in line.remarks]
    found = "".join(f"<li>{clean(remark)}</li>" for remark in remarks[:_MOST_REMARKS])
    return _heat_table(heat) + (f"<p><b>Losses by line</b></p><ul>{found}</ul>" if found else "")


def _heat_table(heat: LineUtilisation) -> str:
    by_line: dict[int, tuple[float, dict[str, int], str]] = {}
    for hot in heat.lines:
        share, counters, pipe = by_line.get(hot.line, (0.0, {}, hot.pipe))
        merged = {name: counters.get(name, 0) + hot.counters.get(name, 0) for name in {*counters, *hot.counters}}
        by_line[hot.line] = (max(share, hot.share), merged, pipe)
    rows = []
    for number, html in enumerate(highlighted(heat.text.removesuffix("\n")), start=1):
        share, counters, _ = by_line.get(number, (0.0, {}, ""))
        shade = f' style="background:rgba(var(--heat),{min(share, 1.0) ** 0.5 * 0.55:.2f})"' if share >= 0.005 else ""
        named = [name for name in _EVENTS if counters.get(name)][:2]
        words = ", ".join(f"{name.replace('_', ' ')} {counters[name]:,}" for name in named)
        words = words or (f"warp instructions {counters['warp_instructions']:,}" if counters else "")
        percent = (f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %") if counters else ""
        cells = f'<td class="n">{number}</td><td class="n">{percent}</td><td>{html}</td><td>{words}</td>'
        rows.append(f"<tr{shade}>{cells}</tr>")
    pipes = ", ".join(sorted({f"{line.kernel}: {line.pipe}" for line in heat.lines}))
    caption = f"Lines of {heat.variant} at case {heat.case}; limiting pipe of {pipes}"
    head = "".join(f'<th scope="col">{title}</th>' for title in ("line", "share", "source", "events"))
    return region(
        f'<table class="heat"><caption>{clean(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}'
        "</tbody></table>",
        caption,
    )


def cost_section(report: ReportModel, room: TextBudget) -> str:
    del room
    total = report.spent
    rows = [[row.operator, str(row.trials), str(row.kept), duration(row.seconds)] for row in total.by_operator]
    parts = [f"<p>{clean(time_words(total))} {clean(llm_words(total))}</p>"]
    parts.append(table(["operator", ">trials", ">kept", ">time"], rows, "Time by operator"))
    if total.by_stage_s:
        stages = [[name, duration(seconds)] for name, seconds in total.by_stage_s.items()]
        parts.append(table(["stage", ">time"], stages, "Time by stage of an evaluation"))
    return "".join(parts)


def environment_section(report: ReportModel, room: TextBudget) -> str:
    del room
    parts = []
    for words, environment, trials in report.environments:
        shape = environment.to_json()
        detail = environment.detail
        rows = [[name, str(value)] for name, value in shape.items() if name != "detail" and value]
        rows += [[name, value] for name, value in detail.items()]
        parts.append(
            f"<h3>{clean(words)}</h3>{table(['what', '*value'], rows, f'{count(trials)} trials ran here', stack=False)}"
        )
    return "".join(parts)


def chapter_html(chapter: Chapter) -> str:
    """One chapter of a case study."""
    parts = [f"<p>{clean(sentence)}</p>" for sentence in chapter.sentences]
    if chapter.rows:
        parts.append(table(chapter.head, chapter.rows, chapter.caption or chapter.heading))
    return "".join(parts)
