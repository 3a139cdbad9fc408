"""The records arranged for reading: climbs, genealogies, costs, environments. Pure.

A climb holds times that may be held against each other: one task in one place, one environment, one timing. Measured
and modelled times are therefore never in one climb.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from evo.cli.pages.roofline_plot import Roofline
from evo.cli.pages.source_counters import LineUtilisation
from evo.records.insights import Insight, RewriteStatistics, environment_words, rewrite_statistics, summarise
from evo.records.leaderboard import LeaderboardEntry, build, entries
from evo.records.trials import Record, arm_of
from evo.results import Environment
from evo.results.codec import ALWAYS, Seconds, Serializable, copied
from evo.results.wording import ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimbPoint(Serializable):
    """One trial of a climb."""

    trial: str  # the trial's id
    index: int  # from 1, over the climb
    variant: str  # what was tried
    operator: str  # what proposed it
    kind: str  # of the change
    status: str  # how far it got
    verdict: str  # the verdict, or `start`
    kept: bool  # whether it became the champion
    summary: str  # what was changed, in a line
    us: float | None = None  # the time of the climb's case; absent if it was not timed
    low: float | None = None  # the lower end of the 95 % interval of its gain, as a time; absent if it was not measured
    high: float | None = None  # the upper end


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb(Serializable):
    """The trials of one task in one environment, in order."""

    task: str  # the task
    chip: str  # the chip
    arch: str  # what was compiled for
    loaded: str  # `cubin`, `ptx_jit` or `sim`
    timing: str  # `measured` or `modelled`
    environment: str  # the environment in words
    model: str  # the simulator's model version; empty if times are measured
    case: str  # whose times these are
    points: Annotated[tuple[ClimbPoint, ...], ALWAYS]  # one per trial

    @property
    def title(self) -> str:
        how = " by PTX" if self.loaded == "ptx_jit" else ""
        return f"{self.task} on {self.chip}, {self.arch}{how}, {self.timing} times"


@dataclass(slots=True)
class Kin:
    """One start or keep. parent: its place in the list, None for a start or if the parent is not shown.

    Of a keep over what was tried and not kept, the parent is what that was tried from.
    """

    record: Record
    parent: int | None
    children: list[int] = field(default_factory=list)
    tried: list[Record] = field(default_factory=list)  # from it, and not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Genealogy:
    """The kept variants of one task in one place, oldest first."""

    kin: Sequence[Kin]

    @property
    def title(self) -> str:
        first = self.kin[0].record
        how = " by PTX" if first.environment.loaded == "ptx_jit" else ""
        return f"{first.task} on {first.environment.chip}, {first.environment.arch}{how}"

    @property
    def timing(self) -> str:
        return self.kin[0].record.timing

    def line(self, row: int) -> list[Kin]:
        """From the start, or the earliest that is shown, to a row."""
        chain = [self.kin[row]]
        while (parent := chain[-1].parent) is not None:
            chain.append(self.kin[parent])
        return chain[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime(Serializable):
    """What one operator's trials took."""

    operator: str  # the operator; its rewrites apart, as `llm (rewrite)`
    trials: int  # how many
    kept: int  # how many of them were kept
    seconds: Seconds  # wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost(Serializable):
    """Wall-clock seconds by operator and stage, and the language models' cost, if the records have them."""

    trials: int  # how many
    seconds: Seconds | None = None  # in trials alone
    lasted_s: Seconds | None = None  # of all runs from start to last trial, with what lies between trials
    by_operator: Annotated[tuple[OperatorTime, ...], ALWAYS]  # the longest first
    by_stage_s: Mapping[str, Seconds] = field(default_factory=dict)  # of an evaluation, the longest first
    llm: Mapping[str, float] = field(default_factory=dict)  # sums of what language models used


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportModel:
    """Everything a report shows. headlines: each task's headline case, if the task is known."""

    title: str
    made: str  # ISO 8601
    version: str
    records: tuple[Record, ...]
    commits: Mapping[str, str]
    climbs: tuple[Climb, ...]
    genealogies: tuple[Genealogy, ...]
    board: tuple[LeaderboardEntry, ...]
    insights: tuple[Insight, ...]
    rewrites: tuple[RewriteStatistics, ...]
    spent: RunCost
    environments: tuple[tuple[str, Environment, int], ...]  # words, one of them, trials
    headlines: Mapping[str, str]
    rooflines: tuple[Roofline, ...] = ()
    heats: tuple[LineUtilisation, ...] = ()
    no_heat: str = ""  # why there are none
    lazy: bool = False  # whether the page asks its server for what a trial unfolds to


def report_model(
    records: Sequence[Record],
    *,
    commits: Mapping[str, str],
    headlines: Mapping[str, str],
    title: str,
    made: str,
    version: str,
    rooflines: Sequence[Roofline] = (),
    heats: Sequence[LineUtilisation] = (),
    no_heat: str = "",
    lazy: bool = False,
) -> ReportModel:
    """Arrange records. lazy: a server gives the page what a trial unfolds to, and counts lines, when it is asked."""
    ordered = sorted(records, key=lambda record: record.moment)
    return ReportModel(
        title=title,
        made=made,
        version=version,
        records=tuple(ordered),
        commits=commits,
        climbs=tuple(climbs(ordered, headlines)),
        genealogies=tuple(genealogies(ordered)),
        board=tuple(entries(build(ordered, commits))),
        insights=tuple(summarise(ordered)),
        rewrites=tuple(rewrite_statistics(ordered)),
        spent=spent(ordered),
        environments=tuple(_environments(ordered)),
        headlines=headlines,
        rooflines=tuple(rooflines),
        heats=tuple(heats),
        no_heat=no_heat,
        lazy=lazy,
    )


REWRITE_HEAD = ["task", "operator", "chip", "timing", ">tried", ">correct", ">kept", ">median", ">best", ">kept after"]


def rewrite_rows(rows: Sequence[RewriteStatistics]) -> list[list[str]]:
    """The cells of a table of rewrites. `kept after`: single changes that were kept on top of a kept rewrite."""
    return [
        [
            row.task,
            row.operator,
            row.chip,
            row.timing,
            *map(str, (row.tried, row.correct, row.kept)),
            ratio(row.median),
            ratio(row.best),
            str(row.changes_after),
        ]
        for row in rows
    ]


# --- climbs ---------------------------------------------------------------------------------------------------------


def climbs(ordered: Sequence[Record], headlines: Mapping[str, str]) -> list[Climb]:
    """One climb per task, environment, task text and model version; trials without a time stand in their run's."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    models: dict[tuple[str, ...], str] = {}
    for record in ordered:
        place = (record.task, *record.place, environment_words(record), record.environment.task_hash)
        model = next((case.model_version for case in record.bench if case.model_version is not None), None)
        if model is not None:
            models[place] = model
        groups.setdefault((*place, models.get(place, "") if record.timing == "modelled" else ""), []).append(record)
    found = [_climb(key, group, headlines) for key, group in groups.items()]
    return sorted(found, key=lambda climb: (climb.task, climb.timing, climb.chip, climb.arch, climb.loaded))


def _climb(key: tuple[str, ...], group: Sequence[Record], headlines: Mapping[str, str]) -> Climb:
    task, chip, arch, loaded, environment, _, model = key
    timed = [case.name for record in group for case in record.bench]
    case = headlines.get(task, "")
    if case not in timed:
        case = timed[0] if timed else case
    return Climb(
        task=task,
        chip=chip,
        arch=arch,
        loaded=loaded,
        timing="modelled" if loaded == "sim" else "measured",
        environment=environment,
        model=model,
        case=case,
        points=tuple(_point(index, record, case) for index, record in enumerate(group, start=1)),
    )


def _point(index: int, record: Record, case: str) -> ClimbPoint:
    us = record.evaluation.case_us(case)
    low, high = interval_us(record, case, us)
    words = {"status": record.status.value, "verdict": record.outcome, "summary": " ".join(record.summary.split())}
    return copied(ClimbPoint, record, index=index, us=us, low=low, high=high, **words)


def interval_us(record: Record, case: str, us: float | None) -> tuple[float | None, float | None]:
    """The 95 % interval of this case's gain over the parent, as times: us * ratio / high to us * ratio / low."""
    evidence = record.evidence
    gain = evidence.cases.get(case) if evidence is not None else None
    if us is None or gain is None or not gain.ratio or not gain.low or not gain.high:
        return None, None
    return us * gain.ratio / gain.high, us * gain.ratio / gain.low


# --- descent --------------------------------------------------------------------------------------------------------


def genealogies(records: Sequence[Record]) -> list[Genealogy]:
    """One for each task and place, that of the latest trial first."""
    places: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        places.setdefault((record.task, *record.place), []).append(record)
    ordered = sorted(places.items(), key=lambda item: item[1][-1].trial, reverse=True)
    return [_genealogy(group) for _, group in ordered if any(record.kept for record in group)]


def _genealogy(group: Sequence[Record]) -> Genealogy:
    kin: list[Kin] = []
    latest: dict[
        str, int
    ] = {}  # the row of each variant's last keep, or of what it was tried from: restarts go on there
    for record in group:
        parent = latest.get(record.parent) if record.parent is not None else None
        if record.kept:
            kin.append(Kin(record, parent))
            if parent is not None:
                kin[parent].children.append(len(kin) - 1)
            latest[record.variant] = len(kin) - 1
        elif parent is not None:
            kin[parent].tried.append(record)
            latest.setdefault(record.variant, parent)
    return Genealogy(kin=kin)


# --- cost and environment -------------------------------------------------------------------------------------------


def spent(records: Iterable[Record]) -> RunCost:
    """Sums over the records that state them."""
    operators: dict[str, list[float]] = {}
    stages: dict[str, float] = {}
    llm: dict[str, float] = {}
    seconds: list[float] = []
    ends: dict[str, datetime] = {}
    count = 0
    for record in records:
        count += 1
        ended = datetime.fromisoformat(record.date)
        ends[record.run] = max(ends.get(record.run, ended), ended)
        row = operators.setdefault(arm_of(record.operator, record.kind), [0, 0, 0.0])
        row[0] += 1
        row[1] += record.kept
        if record.elapsed_s is not None:
            seconds.append(record.elapsed_s)
            row[2] += record.elapsed_s
        for name, value in record.evaluation.stages_s.items():
            stages[name] = stages.get(name, 0.0) + value
        used = record.arguments.get("llm")
        for name, amount in used.items() if isinstance(used, dict) else ():
            if isinstance(amount, int | float):
                llm[name] = round(llm.get(name, 0) + amount, 6)
    ranked = sorted(operators.items(), key=lambda item: -item[1][2])
    return RunCost(
        trials=count,
        seconds=sum(seconds) if seconds else None,
        lasted_s=_lasted(ends),
        by_operator=tuple(
            OperatorTime(operator=name, trials=int(row[0]), kept=int(row[1]), seconds=row[2]) for name, row in ranked
        ),
        by_stage_s=dict(sorted(stages.items(), key=lambda item: -item[1])),
        llm=llm,
    )


def _lasted(ends: Mapping[str, datetime]) -> float | None:
    """From the times in the runs' names to their last trials; None if a clock went backwards."""
    try:
        starts = {run: datetime.strptime(f"{run[:15]}+0000", "%Y%m%dT%H%M%S%z") for run in ends}
    except ValueError:  # digits that are no date
        return None
    spans = [(end - starts[run]).total_seconds() for run, end in ends.items()]
    return sum(spans) if spans and min(spans) >= 0 else None


def _environments(records: Iterable[Record]) -> list[tuple[str, Environment, int]]:
    found: dict[str, tuple[Environment, int]] = {}
    for record in records:
        words = environment_words(record)
        environment, count = found.get(words, (record.environment, 0))
        found[words] = (environment, count + 1)
    return [(words, environment, count) for words, (environment, count) in found.items()]
