"""The page's tables: champions, effects, counters, cost, environments. Text from records is escaped."""

from __future__ import annotations

from evo.cli.pages.case_study import Chapter, llm_words, time_words
from evo.cli.pages.heat_map import heat_html
from evo.cli.pages.highlight import clean
from evo.cli.pages.html import TextBudget, identifier, table
from evo.cli.pages.model import REWRITE_HEAD, ReportModel, rewrite_rows
from evo.results.wording import clipped, count, duration, gain_words, microseconds, ratio

_MOST_INSIGHTS = 200


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
                    row += [microseconds(case.p90_us)]
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
                ratio(row.median),
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
            f"<h3>{clean(words)}</h3>"
            f"{table(['what', '*value'], rows, f'{count(trials)} trials ran here, starts among them', stack=False)}"
        )
    return "".join(parts)


def chapter_html(chapter: Chapter) -> str:
    """One chapter of a case study."""
    parts = [f"<p>{clean(sentence)}</p>" for sentence in chapter.sentences]
    if chapter.rows:
        parts.append(table(chapter.head, chapter.rows, chapter.caption or chapter.heading))
    return "".join(parts)
