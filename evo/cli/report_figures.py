"""What a report shows beside the records: rooflines of champions, and their counters by source line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evo.cli.stage_line import stage
from evo.errors import EvoError

if TYPE_CHECKING:
    from evo.cli.pages import LineUtilisation, Roofline
    from evo.cli.pages.roofline_plot import RooflineDot
    from evo.records.leaderboard import LeaderboardEntry
    from evo.records.trials import Record

_COUNT_LIMIT_S = 30.0  # for each case that is tried
_MOST_COUNTED = 6  # champions with different texts


@dataclass(frozen=True, slots=True)
class _Place:
    task: str
    chip: str  # a chip's slug in the table, without `sim-`
    timing: str


def rooflines(root: Path, board: Sequence[LeaderboardEntry]) -> list[Roofline]:
    """One for each task, chip and timing that has a champion, that of the latest champion first."""
    latest = sorted(board, key=lambda entry: entry.date, reverse=True)
    places = dict.fromkeys(_Place(entry.task, entry.chip.removeprefix("sim-"), entry.timing) for entry in latest)
    found = [_roofline(root, place, board) for place in places]
    return [one for one in found if one is not None]


def _roofline(root: Path, place: _Place, board: Sequence[LeaderboardEntry]) -> Roofline | None:
    from evo.analysis.roofline import limits
    from evo.cli.pages import roofline
    from evo.cli.pages.roofline_plot import RooflineDot
    from evo.spec.chips import chip as chip_of
    from evo.spec.task import load_task

    try:
        chip = chip_of(place.chip)
    except EvoError:
        return None  # a GPU that the table has no row for
    try:
        task = load_task(root, place.task)
        cases = [limits(task, case, chip) for case in task.bench]
    except EvoError as error:
        return roofline(place.task, chip, place.timing, (), (), problem=f"There are no limits: {error.message}")
    taken: list[RooflineDot] = []
    for entry in board:
        if _Place(entry.task, entry.chip.removeprefix("sim-"), entry.timing) == place:
            what = f"{entry.variant} {entry.built_for}"
            taken += [
                RooflineDot(case=name, what=what, role="champion", p50_us=case.p50_us, modelled_us=case.modelled_us)
                for name, case in entry.cases.items()
            ]
    if place.timing == "measured":
        from evo.cli.limits import measured_times

        for name, times in measured_times(root, task, chip).items():
            taken += [
                RooflineDot(case=name, what=time.what.removeprefix("rival "), role="rival", p50_us=time.p50_us)
                for time in times
                if time.what.startswith("rival ")
            ]
    return roofline(place.task, chip, place.timing, cases, taken)


# --- counters -------------------------------------------------------------------------------------------------------


def heats(root: Path, board: Sequence[LeaderboardEntry], population: Sequence[Record]) -> list[LineUtilisation]:
    """Each champion's text once, on the simulator of its chip, else of the L4; that of the latest champion first."""
    from evo.records.trials import find_among

    found: dict[tuple[str, str], LineUtilisation] = {}
    for entry in sorted(board, key=lambda entry: entry.date, reverse=True):
        chip = _simulated(entry.chip)
        if (entry.variant, chip) in found or len(found) == _MOST_COUNTED:
            continue
        stage(f"counting {entry.task} {entry.variant}")
        try:
            record = find_among([r for r in population if r.task == entry.task and r.kept], entry.variant)
            found[(entry.variant, chip)] = heat_of(root, record, population)
        finally:
            stage("")
    return list(found.values())


def heat_of(root: Path, record: Record, population: Sequence[Record]) -> LineUtilisation:
    """The counters of a trial's text by line. What goes wrong is the heat's problem: the rest is still useful."""
    from evo.cli.pages import LineUtilisation, count_lines
    from evo.records.trials import rebuild_text
    from evo.spec.task import load_task

    task, variant, chip, arch = (
        record.task,
        record.variant,
        _simulated(record.environment.chip),
        record.environment.arch,
    )
    text = ""
    try:
        text = rebuild_text(population, record.trial)
        return count_lines(load_task(root, task), text, variant=variant, chip=chip, arch=arch, limit_s=_COUNT_LIMIT_S)
    except EvoError as error:
        return LineUtilisation(task=task, chip=chip, arch=arch, variant=variant, text=text, problem=error.message)


def _simulated(slug: str) -> str:
    from evo.spec.chips import CHIPS

    slug = slug.removeprefix("sim-")
    return slug if slug in CHIPS else "l4"
