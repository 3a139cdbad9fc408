"""The headline of a climb: how much faster the champion is than the start, at the climb's case."""

from __future__ import annotations

from dataclasses import dataclass

from evo.cli.pages.report_model import Climb, ClimbPoint
from evo.records.since_start import speedup_text
from evo.results.wording import microseconds, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimbSpeedup:
    """Two times of one case in one environment. from_start: False if the start itself was not timed there."""

    start_us: float
    now_us: float
    trials: int
    kept: int
    how: str
    from_start: bool

    @property
    def ratio(self) -> float:
        return self.start_us / self.now_us

    @property
    def ratio_words(self) -> str:
        return speedup_text(self.ratio) if self.kept else "no gain yet"

    @property
    def since(self) -> str:
        return "since the start" if self.from_start else "since its first time in this environment"

    @property
    def facts(self) -> str:
        """`31.0 -> 2.18 µs, 5 kept of 40 trials, modelled (sim:l4)`."""
        before = f"{microseconds(self.start_us)} → " if self.kept else ""
        times = f"{before}{microseconds(self.now_us)} µs"
        return f"{times}, {self.kept} kept of {plural(self.trials, 'trial')}, {self.how}"


def place_words(climb: Climb) -> str:
    """`modelled (sim:l4)`, `measured (h200, sm_90)`."""
    if climb.timing == "modelled":
        return f"modelled (sim:{climb.chip.removeprefix('sim-')})"
    return f"measured ({climb.chip}, {climb.arch}{' by PTX' if climb.loaded == 'ptx_jit' else ''})"


def segments(climb: Climb) -> list[list[ClimbPoint]]:
    """The points from each start on. What precedes the first start belongs to a champion that came from elsewhere."""
    found: list[list[ClimbPoint]] = [[]]
    for point in climb.points:
        if point.kind == "start" and point.kept and found[-1]:
            found.append([])
        found[-1].append(point)
    return found


def climb_speedup(climb: Climb) -> ClimbSpeedup | None:
    """Of the latest line of champions; None if none of it was timed."""
    latest = segments(climb)[-1]
    timed = [point for point in latest if point.kept and point.us is not None]
    if not timed or timed[0].us is None or timed[-1].us is None:
        return None
    tried = [point for point in latest if point.kind not in ("start", "review")]
    return ClimbSpeedup(
        start_us=timed[0].us,
        now_us=timed[-1].us,
        trials=len(tried),
        kept=sum(point.kept for point in tried),
        how=place_words(climb),
        from_start=timed[0].kind == "start",
    )
