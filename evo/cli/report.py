"""`evo report`: all records as one page, or as Markdown, JSON, CSV or SVG; or one run as a case study."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli.command_context import choose_task, session_of
from evo.cli.options import AsJson, OnlyTaskOption
from evo.cli.record_view import commits_of, headline_of
from evo.cli.terminal import out, say
from evo.errors import TaskInvalid, UsageError

if TYPE_CHECKING:
    from evo.cli.pages import CaseStudy, ReportModel
    from evo.records.trials import Record


class Format(StrEnum):
    html = "html"
    md = "md"
    json = "json"
    csv = "csv"
    svg = "svg"


def report(
    context: Context,
    format: Annotated[
        Format | None,
        Option("--format", help="The format (default: by the ending of --out, else html).", show_default=False),
    ] = None,
    out_file: Annotated[
        Path | None,
        Option(
            "--out", metavar="FILE", help="The file, or - for stdout (default: report.html, other formats to stdout)."
        ),
    ] = None,
    task: OnlyTaskOption = None,
    run: Annotated[
        str | None, Option("--run", metavar="RUN", help="Only this run, named by the beginning of its id.")
    ] = None,
    case_study: Annotated[
        bool, Option("--case-study", help="Write about one run: --run, else the latest with a gain.")
    ] = False,
    count: Annotated[
        bool, Option("--count/--no-count", help="Count each champion by source line on the simulator.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Write a report of the records: one page that needs no network, or Markdown, JSON, CSV, SVG; or a case study.

    The page shows progress over trials, champions, rooflines, genealogies with their diffs, effects by kind of change,
    counters by source line (with --count), time and cost, environments. Measured and modelled times are separate.
    """
    chosen = _format(format, out_file, json)
    root = session_of(context).root()
    shown, population = _records(root, task, run, case_study=case_study)
    told, study = _told(root, shown, population, count=count, case_study=case_study)
    text = _rendered(chosen, told, study)
    target = out_file if out_file is not None else Path("report.html") if chosen is Format.html else None
    if target is None or str(target) == "-":
        sys.stdout.write(text)
        return 0
    _write(target, text)
    say(f"{len(told.records)} trials in {target}, {len(text.encode()) / 1e6:.2f} MB")
    out(str(target))
    return 0


def write_page(root: Path, target: Path) -> int:
    """The page of all records, for another command; how many trials it tells. Raises TaskInvalid without any."""
    shown, population = _records(root, None, None, case_study=False)
    told, study = _told(root, shown, population, count=False, case_study=False)
    _write(target, _rendered(Format.html, told, study))
    return sum(not record.begins for record in told.records)


def _format(given: Format | None, out_file: Path | None, json: bool) -> Format:
    if json and given not in (None, Format.json):
        raise UsageError(f"--json and --format {given.value} together", hint="give one of them")
    if json:
        return Format.json
    if given is not None or out_file is None or str(out_file) == "-":
        return given or Format.html
    ending = out_file.suffix.lower().lstrip(".").replace("htm", "html").replace("htmll", "html")
    try:
        return Format(ending)
    except ValueError:
        known = ", ".join(one.value for one in Format)
        hint = f"name a file that ends in one of {known}, or give --format"
        raise UsageError(f"--out {out_file}: the ending names no format", hint=hint) from None


def _records(root: Path, task: str | None, run: str | None, *, case_study: bool) -> tuple[list[Record], list[Record]]:
    """The records to show, and the ancestors from which their texts are rebuilt."""
    from evo.records.trials import load_records

    if task is not None and not (root / "population" / task / "runs").is_dir():
        task = choose_task(root, task).name  # an unknown task gets another message than one without trials
    population = load_records(root, task)
    if not population:
        what = f"no trial of {task} is recorded" if task is not None else "no trial is recorded"
        hint = f"`evo iterate{f' {task}' if task else ''}` makes some"
        raise TaskInvalid(f"{root / 'population'}: {what}, so there is nothing to report", hint=hint)
    if run is None and case_study:
        run = _run_to_tell(population)
    if run is None:
        return population, population
    runs = sorted({record.run for record in population if record.run.startswith(run)})
    if len(runs) != 1:
        known = sorted({record.run for record in population})
        problem = f"is the beginning of {len(runs)} runs" if runs else "is the beginning of no run"
        listed = ", ".join((runs or known)[-6:])
        raise UsageError(
            f"--run {run!r} {problem}", hint=f"give more of one of {listed}" if runs else f"runs: {listed}"
        )
    shown = [record for record in population if record.run == runs[0]]
    return shown, population


def _run_to_tell(population: Sequence[Record]) -> str:
    """The latest run with a gain, else the latest."""
    gained = [record.run for record in population if record.kept and record.gain is not None]
    return max(gained or [record.run for record in population])


def _told(
    root: Path, shown: list[Record], population: list[Record], *, count: bool, case_study: bool
) -> tuple[ReportModel, CaseStudy | None]:
    import evo
    from evo.cli.pages import case_study as tell
    from evo.cli.pages import report_model
    from evo.cli.report_figures import heats, rooflines
    from evo.records.leaderboard import build, entries

    commits = commits_of(root)
    names = sorted({record.task for record in shown})
    headlines = {name: headline for name in names if (headline := headline_of(root, name)) is not None}
    board = entries(build(shown, commits))
    roofs = rooflines(root, board)
    counted = heats(root, board, population) if count else []
    told = report_model(
        shown,
        commits=commits,
        headlines=headlines,
        title=f"Kernel evolution of {', '.join(names)}",
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        version=evo.__version__,
        rooflines=roofs,
        heats=counted,
        no_heat="" if count else "Counters by source line were not requested",
    )
    if not case_study:
        return told, None
    name = shown[0].task
    same = [record for record in population if record.task == name]
    return told, tell(shown[0].run, same, headlines.get(name), roofs)


def _rendered(chosen: Format, told: ReportModel, study: CaseStudy | None) -> str:
    from evo.cli import pages as writer

    if chosen is Format.html:
        return writer.page(told, study)
    if chosen is Format.md:
        return writer.markdown(told, study)
    if chosen is Format.csv:
        return writer.trials_csv(told)
    if chosen is Format.svg:
        return writer.climbs_svg(told)
    # Half a surrogate pair, as a careless reply may hold, has no UTF-8 form; escaped it has one.
    return json_module.dumps(writer.report_output(told, study).to_json(), indent=2, allow_nan=False) + "\n"


def _write(target: Path, text: str) -> None:
    from evo.files import write_atomic

    if target.is_dir():
        raise UsageError(f"--out {target} is a folder", hint="name a file")
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: no folder {target.parent}", hint="create the folder first")
    write_atomic(target, text.encode("utf-8", "replace"))
