"""What the report tells as sentences and tables: champions, effects, limits, cost, environments. Knows no markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.cli.pages.report_model import REWRITE_HEAD, ReportModel, RunCost, rewrite_rows
from evo.cli.pages.roofline_plot import Roofline, floor_cells
from evo.records.since_start import speedup_text
from evo.results.wording import clipped, count, duration, gain_words, microseconds, percent, plural, ratio

_MOST_INSIGHTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A heading that begins with `>` is that of numbers, with `*` of long texts. title: above it, if it has one."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """Sentences, in which code stands between backticks, then tables."""

    sentences: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()


def board_section(report: ReportModel) -> ReportSection:
    tables = []
    for timing, chip in sorted({(entry.timing, entry.chip) for entry in report.board}):
        rows, calibrated = [], dict[str, None]()
        for entry in report.board:
            if (entry.timing, entry.chip) != (timing, chip):
                continue
            for name, case in entry.cases.items():
                row = [entry.task, entry.built_for, entry.variant, name, microseconds(case.time_us)]
                if timing == "measured":
                    row += [microseconds(case.p90_us)]
                    row += [f"{case.tflop_per_s:.2f}" if case.tflop_per_s is not None else ""]
                else:
                    row += [case.model_version or ""]
                    calibrated[f"; {case.model_version}: {case.calibration}" if case.calibration else ""] = None
                speedup = entry.since_start.speedup.get(name) if entry.since_start is not None else None
                row += [speedup_text(speedup) if speedup is not None else "", gain_words(entry.gain)]
                rows.append([*row, (entry.commit or "")[:7], entry.date[:10]])
        more = [">p90 µs", ">TFLOP/s"] if timing == "measured" else ["model"]
        name = f">{timing} {'p50 ' if timing == 'measured' else ''}µs"
        head = ["task", "arch", "variant", "case", name, *more, ">since start", ">last gain", "commit", "date"]
        caption = f"Champions on {chip}, {timing} times{''.join(calibrated)}"
        tables.append(ReportTable(title=f"{chip}, {timing}", caption=caption, head=head, rows=rows))
    return ReportSection(sentences=() if tables else ("There is no champion yet.",), tables=tables)


def insight_section(report: ReportModel) -> ReportSection:
    sentences = [
        "The effect of each kind of change over its parent, in one environment at a time; starts claim none. "
        "A trial that went on from another variant than the champion was compared with the champion alone."
        if report.insights
        else "Nothing but starts so far."
    ]
    tables = []
    shown = report.insights[:_MOST_INSIGHTS]
    for timing, task, environment in sorted({(row.timing, row.task, row.environment) for row in shown}):
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
        head = ["operator", "*change", f">{timing} median", ">range", ">compared", ">kept"]
        tables.append(ReportTable(title=f"{task}, {timing} effects", caption=environment, head=head, rows=rows))
    if left := len(report.insights) - len(shown):
        sentences.append(f"{left} more kinds of change are not shown: `evo insights` lists them.")
    if report.rewrites:
        caption = "Rewrites: whole kernels or files, apart from single changes"
        rows = rewrite_rows(report.rewrites)
        tables.append(ReportTable(title="Rewrites", caption=caption, head=REWRITE_HEAD, rows=rows))
    return ReportSection(sentences=sentences, tables=tables)


def limits_table(roof: Roofline) -> ReportTable:
    rows = []
    for case in roof.cases:
        limits = [case.name, *floor_cells(case)]
        taken = roof.of_case(case.name)
        for one in taken:
            share = percent(case.floor_us / one.us) if case.floor_us else ""
            rate = f"{case.flop / one.us * 1e-6:.2f}" if case.flop else ""
            role = "library" if one.role == "rival" else one.role
            rows.append([*limits, f"{role}: {one.what}", microseconds(one.us), rate, share])
        if not taken:
            rows.append([*limits, "none yet", "", "", ""])
    head = ["case", ">floor µs", "bound by", "*what", f">{roof.timing} µs", ">TFLOP/s", ">floor / time"]
    return ReportTable(caption=f"Limits and times of {roof.title}", head=head, rows=rows)


def cost_section(report: ReportModel) -> ReportSection:
    total = report.spent
    rows = [[row.operator, str(row.trials), str(row.kept), duration(row.seconds)] for row in total.by_operator]
    tables = [ReportTable(caption="Time by operator", head=["operator", ">trials", ">kept", ">time"], rows=rows)]
    if total.by_stage_s:
        stages = [[name, duration(seconds)] for name, seconds in total.by_stage_s.items()]
        tables.append(ReportTable(caption="Time by stage of an evaluation", head=["stage", ">time"], rows=stages))
    return ReportSection(sentences=(time_words(total), llm_words(total)), tables=tables)


def time_words(total: RunCost) -> str:
    """The duration of the trials and of the runs, in one or two sentences."""
    if total.seconds is None:
        return "The records have no durations."
    words = f"{plural(total.trials, 'trial')}, starts among them, took {duration(total.seconds)} of wall-clock time"
    words += f", {duration(total.seconds / total.trials)} each on average."
    if total.lasted_s is not None:
        words += f" With the time between trials (proposing, screening, pauses) it was {duration(total.lasted_s)}."
    return words


def llm_words(total: RunCost) -> str:
    """The language models' cost, in a sentence."""
    if not total.llm:
        return "No language model was asked in these records."
    used = total.llm
    words = f"Language models were asked {plural(int(used.get('calls', 0)), 'time')}: "
    words += f"{count(used.get('prompt_tokens', 0))} tokens read, {count(used.get('completion_tokens', 0))} written"
    if "cost" in used:
        words += f", {used['cost']:.4g} paid in the unit of the price given"
    else:
        words += "; no price was given, so there is no cost"
    if used.get("estimated_calls"):
        words += f" ({count(used['estimated_calls'])} calls with estimated tokens)"
    return words + "."


def environment_section(report: ReportModel) -> ReportSection:
    tables = []
    for words, environment, trials in report.environments:
        rows = [[name, str(value)] for name, value in environment.to_json().items() if name != "detail" and value]
        rows += [[name, value] for name, value in environment.detail.items()]
        caption = f"{plural(trials, 'trial')} ran here, starts among them"
        tables.append(ReportTable(title=words, caption=caption, head=["what", "*value"], rows=rows))
    return ReportSection(tables=tables)
