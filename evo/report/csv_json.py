"""The report as data: JSON, CSV of the trials, and drawings as SVG files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from evo.report.case_study import CaseStudy
from evo.report.highlight import clean
from evo.report.model import Story
from evo.report.roofline_plot import Roofline
from evo.report.svg import SHAPES, STYLE, WIDTH, climb_svg, roofline_svg
from evo.results import Json

_COLUMNS = (
    "trial", "run", "number", "task", "chip", "arch", "loaded", "variant", "parent", "operator", "kind", "status",
    "verdict", "kept", "case", "measured_p50_us", "measured_p90_us", "modelled_us", "model_version", "gain_ratio",
    "gain_low", "gain_high", "confirmed", "elapsed_s", "date", "commit", "summary", "reason",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TEXTS = ("summary", "reason", "operator", "case")


def story_json(story: Story, study: CaseStudy | None = None) -> dict[str, Json]:
    """Everything the page shows, without the texts."""
    lines: list[Json] = [
        {
            "task": line.task,
            "chip": line.chip,
            "arch": line.arch,
            "loaded": line.loaded,
            "steps": [
                {
                    "trial": step.record.trial,
                    "variant": step.record.variant,
                    **({"parent": step.record.parent} if step.record.parent else {}),
                    "summary": step.record.summary,
                    **({"gain": step.record.gain.to_json()} if step.record.gain else {}),
                    "tried": [record.trial for record in step.tried],
                }
                for step in line.steps
            ],
        }
        for line in story.lines
    ]
    shape: dict[str, Json] = {
        "version": 1,
        "title": story.title,
        "made": story.made,
        "evo": story.version,
        "trials": len(story.records),
        "kept": sum(record.kept for record in story.records),
        "climbs": [climb.to_json() for climb in story.climbs],
        "lines": lines,
        "leaderboard": [entry.to_json() for entry in story.board],
        "insights": [insight.to_json() for insight in story.insights],
        "rooflines": [roof.to_json() for roof in story.rooflines],
        "counters": [heat.to_json() for heat in story.heats],
        "spent": story.spent.to_json(),
        "environments": [{**env.to_json(), "trials": trials} for _, env, trials in story.environments],
    }
    if study is not None:
        shape["case_study"] = {
            "run": study.run,
            "title": study.title,
            "chapters": [
                {
                    "heading": chapter.heading,
                    "sentences": list(chapter.sentences),
                    "head": [cell.lstrip(">") for cell in chapter.head],
                    "rows": [list(row) for row in chapter.rows],
                }
                for chapter in study.chapters
            ],
        }
    return shape


def trials_csv(story: Story) -> str:
    """A row per trial and timed case, one row for a trial without times. Measured and modelled are separate columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for record in story.records:
        chip, arch, loaded = record.place
        gain = record.gain
        base: dict[str, object] = {
            "trial": record.trial, "run": record.run, "number": record.number, "task": record.task, "chip": chip,
            "arch": arch, "loaded": loaded, "variant": record.variant, "parent": record.parent,
            "operator": record.operator, "kind": record.kind, "status": record.status.value,
            "verdict": record.outcome, "kept": str(record.kept).lower(), "elapsed_s": record.elapsed_s,
            "gain_ratio": gain.ratio if gain else None, "gain_low": gain.low if gain else None,
            "gain_high": gain.high if gain else None, "confirmed": str(gain.confirmed).lower() if gain else None,
            "date": record.date, "commit": story.commits.get(record.trial), "summary": record.summary,
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
    """A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    if name in _TEXTS and isinstance(value, str):
        line = " ".join(value.encode("utf-8", "replace").decode("utf-8").split())
        return f"'{line}" if line.startswith(_FORMULA) else line
    return value


def climbs_svg(story: Story) -> str:
    """All climbs below one another, each with axes of its own, as a file that stands alone."""
    drawn = [(climb.title, climb_svg(climb, f"climb{number}")) for number, climb in enumerate(story.climbs)]
    return _standing_alone(story.title, drawn)


def roof_svg(roof: Roofline) -> str:
    """One roofline as a file that stands alone; it must be `drawable`."""
    return _standing_alone(f"Roofline of {roof.title}", [(roof.title, roofline_svg(roof, "roofline"))])


def _standing_alone(title: str, drawn: Sequence[tuple[str, str]]) -> str:
    parts, y = [], 0
    for caption, svg in drawn:
        inner = svg.replace("<svg ", f'<svg x="0" y="{y + 30}" width="{WIDTH}" height="340" ', 1)
        parts.append(f'<text class="ink" x="4" y="{y + 20}">{clean(caption)}</text>{inner}')
        y += 390
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}">'
    background = f'<rect width="{WIDTH}" height="{y}" style="fill:var(--paper)"/>'
    style = f"<style>{STYLE}{SHAPES}</style>"
    return f"{head}<title>{clean(title)}</title>{style}{background}{''.join(parts)}</svg>\n"
