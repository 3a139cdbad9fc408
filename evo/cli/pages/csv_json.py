"""The report as data: JSON, CSV of the trials, and drawings as SVG files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from evo.cli.pages.case_study import CaseStudy
from evo.cli.pages.climb_chart import climb_svg
from evo.cli.pages.climb_speedup import climb_speedup
from evo.cli.pages.figures import WIDE
from evo.cli.pages.highlight import clean
from evo.cli.pages.html_parts import SVG_STYLE
from evo.cli.pages.report_model import Climb, Genealogy, ReportModel, RunCost
from evo.cli.pages.roofline_chart import roofline_svg
from evo.cli.pages.roofline_plot import Roofline
from evo.cli.pages.source_counters import LineUtilisation
from evo.records.insights import Insight, RewriteStatistics
from evo.records.leaderboard import LeaderboardEntry
from evo.results import Environment, Gain
from evo.results.codec import ALWAYS, Serializable, copied

_COLUMNS = (
    "trial", "run", "number", "task", "chip", "arch", "loaded", "variant", "parent", "operator", "kind", "status",
    "verdict", "kept", "case", "measured_p50_us", "measured_p90_us", "modelled_us", "model_version", "gain_ratio",
    "gain_low", "gain_high", "confirmed", "elapsed_s", "date", "commit", "summary", "reason",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TEXTS = ("summary", "reason", "operator", "case")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStep(Serializable):
    """One kept variant in a line of descent."""

    trial: str  # the trial that kept it
    variant: str  # the variant
    parent: str | None = None  # what it was made from; absent for a start
    summary: str  # what was changed, in a line
    gain: Gain | None = None  # over its parent
    tried: Annotated[tuple[str, ...], ALWAYS]  # trials made from it that were not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class DescentLine(Serializable):
    """From a start to a champion, in one place."""

    task: str  # the task
    chip: str  # the chip
    arch: str  # what was compiled for
    loaded: str  # `cubin`, `ptx_jit` or `sim`
    steps: Annotated[tuple[KeptStep, ...], ALWAYS]  # from the start on


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEnvironment(Environment):
    """An environment, and how many trials ran there."""

    trials: int  # how many


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyChapter(Serializable):
    """A chapter of a case study."""

    heading: str  # its heading
    sentences: Annotated[tuple[str, ...], ALWAYS]  # its text
    head: Annotated[tuple[str, ...], ALWAYS]  # of its table
    rows: Annotated[tuple[tuple[str, ...], ...], ALWAYS]  # of its table


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutput(Serializable):
    """One run as a narrative."""

    run: str  # the run
    title: str  # the title
    chapters: Annotated[tuple[StudyChapter, ...], ALWAYS]  # in order


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutput(Serializable):
    """`evo report --json`: everything that the page shows, without the texts."""

    version: Literal[1] = 1  # of this format
    title: str  # the title
    made: str  # when, ISO 8601
    evo: str  # the version of evo
    trials: int  # how many
    kept: int  # how many of them were kept
    climbs: Annotated[tuple[Climb, ...], ALWAYS]  # trials in order, by task and environment
    lines: Annotated[tuple[DescentLine, ...], ALWAYS]  # from starts to champions
    leaderboard: Annotated[tuple[LeaderboardEntry, ...], ALWAYS]  # the champions
    insights: Annotated[tuple[Insight, ...], ALWAYS]  # what each kind of change has brought
    rewrites: Annotated[
        tuple[RewriteStatistics, ...], ALWAYS
    ]  # what whole rewrites have brought, apart from single changes
    rooflines: Annotated[tuple[Roofline, ...], ALWAYS]  # limits and times
    counters: Annotated[tuple[LineUtilisation, ...], ALWAYS]  # counted events by source line
    spent: RunCost  # time and cost
    environments: Annotated[tuple[SeenEnvironment, ...], ALWAYS]  # where trials ran
    case_study: StudyOutput | None = None  # with --case-study


def report_output(report: ReportModel, study: CaseStudy | None = None) -> ReportOutput:
    """Everything the page shows, without the texts."""
    seen = (copied(SeenEnvironment, where, trials=trials) for _, where, trials in report.environments)
    return copied(
        ReportOutput,
        report,
        evo=report.version,
        version=1,
        trials=len(report.records),
        kept=sum(record.kept for record in report.records),
        lines=tuple(_descent(one) for one in sorted(report.genealogies, key=_place)),
        leaderboard=report.board,
        counters=report.heats,
        environments=tuple(seen),
        case_study=_study(study) if study is not None else None,
    )


def _descent(one: Genealogy) -> DescentLine:
    """The line of the latest champion."""
    line = one.line(len(one.kin) - 1)
    steps = (copied(KeptStep, kin.record, tried=tuple(other.trial for other in kin.tried)) for kin in line)
    champion = line[-1].record
    chip, arch, loaded = champion.place
    return DescentLine(task=champion.task, chip=chip, arch=arch, loaded=loaded, steps=tuple(steps))


def _place(one: Genealogy) -> tuple[str, ...]:
    first = one.kin[0].record
    return (first.task, *first.place)


def _study(study: CaseStudy) -> StudyOutput:
    chapters = (
        copied(StudyChapter, chapter, head=tuple(cell.lstrip(">") for cell in chapter.head))
        for chapter in study.chapters
    )
    return copied(StudyOutput, study, chapters=tuple(chapters))


def trials_csv(report: ReportModel) -> str:
    """A row per trial and timed case, one row for a trial without times. Measured and modelled are separate columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for record in report.records:
        chip, arch, loaded = record.place
        gain = record.gain
        base: dict[str, object] = {
            "trial": record.trial, "run": record.run, "number": record.number, "task": record.task, "chip": chip,
            "arch": arch, "loaded": loaded, "variant": record.variant, "parent": record.parent,
            "operator": record.operator, "kind": record.kind, "status": record.status.value,
            "verdict": record.outcome, "kept": str(record.kept).lower(), "elapsed_s": record.elapsed_s,
            "gain_ratio": gain.ratio if gain else None, "gain_low": gain.low if gain else None,
            "gain_high": gain.high if gain else None, "confirmed": str(gain.confirmed).lower() if gain else None,
            "date": record.date, "commit": report.commits.get(record.trial), "summary": record.summary,
            "reason": record.evaluation.reason,
        }  # fmt: skip
        timed: list[dict[str, object]] = [
            {
                "case": row.name,
                "measured_p50_us": row.warm.p50_us if row.warm else None,
                "measured_p90_us": row.warm.p90_us if row.warm else None,
                "modelled_us": row.modelled_us,
                "model_version": row.model_version,
            }
            for row in record.bench
        ]
        for figures in timed or [{}]:
            row = base | figures
            writer.writerow({name: _cell(name, value) for name, value in row.items() if value is not None})
    return text.getvalue()


def _cell(name: str, value: object) -> object:
    """A text that a spreadsheet would read as a formula, with an apostrophe in front."""
    if name in _TEXTS and isinstance(value, str):
        line = " ".join(value.encode("utf-8", "replace").decode("utf-8").split())
        return f"'{line}" if line.startswith(_FORMULA) else line
    return value


def climbs_svg(report: ReportModel) -> str:
    """All climbs below one another, each with its own axes and its speed-up, as a complete SVG file."""
    drawn = []
    for number, climb in enumerate(report.climbs):
        since = climb_speedup(climb)
        headline = (f"{since.ratio_words} {since.since}", since.facts) if since is not None else ("", "")
        drawn.append((climb.title, *headline, climb_svg(climb, f"climb{number}", WIDE)))
    return _standing_alone(report.title, drawn)


def roof_svg(roof: Roofline) -> str:
    """One roofline as a complete SVG file; it must be `drawable`."""
    title = f"Roofline of {roof.title}"
    return _standing_alone(title, [(title, "", "", roofline_svg(roof, "roofline", WIDE))])


def _standing_alone(title: str, drawn: Sequence[tuple[str, str, str, str]]) -> str:
    """A file of drawings, each under its title and, if it has one, its headline with the facts beside it."""
    parts, y, width = [], 0, WIDE.width
    for caption, headline, facts, svg in drawn:
        parts.append(f'<text class="ink title" x="{WIDE.margin}" y="{y + 34}">{clean(caption)}</text>')
        if headline:
            parts.append(f'<text class="headline" x="{WIDE.margin}" y="{y + 74}">{clean(headline)}</text>')
            parts.append(f'<text x="{WIDE.margin}" y="{y + 98}">{clean(facts)}</text>')
        y += 116 if headline else 50
        height = math.ceil(float(svg.partition('viewBox="0 0 ')[2].partition('"')[0].split()[1]))
        parts.append(svg.replace("<svg ", f'<svg x="0" y="{y}" width="{width}" height="{height}" ', 1))
        y += height + 24
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">'
    background = f'<rect width="{width}" height="{y}" style="fill:var(--paper)"/>'
    return f"{head}<title>{clean(title)}</title><style>{SVG_STYLE}</style>{background}{''.join(parts)}</svg>\n"
