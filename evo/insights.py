"""What each kind of change has brought, from the records. Pure.

Effects of unlike environments (chip, arch, way of loading, compiler, driver, clocks, simulator) are never mixed, and so
neither are measured and modelled ones. A ratio comes from one place anyway, so the task's and evo's own versions may
differ between the trials of one insight.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evo.population import Record
from evo.result import Environment, Json, drop_absent

_NUMBER = re.compile(r"(?<![A-Za-z_])-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """The effect of one kind of change in one environment, which `environment` gives in words.

    change: what distinguishes kinds within an operator: its rule and knob, or the summary with its numbers masked.
    timed: trials with a gain ratio, of which `median`, `low` and `high` are the middle and the ends; absent if none.
    """

    task: str
    operator: str
    change: str
    chip: str
    timing: str
    environment: str
    count: int
    kept: int
    timed: int
    median: float | None = None
    low: float | None = None
    high: float | None = None

    def sentence(self) -> str:
        """For a person or a prompt: `rules.knobs BLOCK_M: 1.12x measured on l4 (median of 3), kept 1 of 4`."""
        effect = "never got as far as a time"
        if self.median is not None:
            ratios = f"median of {self.timed}, {self.low:.2f}x to {self.high:.2f}x" if self.timed > 1 else "one trial"
            effect = f"{self.median:.2f}x {self.timing} on {self.chip} ({ratios})"
        return f"{self.operator} {self.change}: {effect}, kept {self.kept} of {self.count}"

    def to_json(self) -> dict[str, Json]:
        return drop_absent({name: getattr(self, name) for name in self.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuccessful:
    """One change that was not kept, and why."""

    trial: str
    task: str
    variant: str
    operator: str
    summary: str
    status: str
    reason: str
    chip: str
    timing: str
    ratio: float | None = None

    def to_json(self) -> dict[str, Json]:
        return drop_absent({name: getattr(self, name) for name in self.__dataclass_fields__})


def change_of(record: Record) -> str:
    """The kind of change within its operator."""
    named = [str(record.arguments[key]) for key in ("rule", "knob") if isinstance(record.arguments.get(key), str)]
    if named:
        return " ".join(named)
    return _NUMBER.sub("#", " ".join(record.summary.split()))


def environment_words(record: Record) -> str:
    """What the effects of one insight share: `l4, sm_89, cubin, nvrtc 13.0.88, driver 580.65, CUDA 13.0`."""
    identity = Environment.from_json(record.environment).identity()
    plain = ("chip", "arch", "loaded", "NVRTC", "GPU")
    shared = {name: value for name, value in identity.items() if name not in ("task", "harness") and value}
    return ", ".join(value if name in plain else f"{name} {value}" for name, value in shared.items())


def summarise(records: Iterable[Record]) -> list[Insight]:
    """One insight per task, operator, kind of change and environment; most helpful first. Starts claim nothing."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.kind != "start":
            where = environment_words(record)
            key = (record.task, record.operator, change_of(record), record.place[0], record.timing, where)
            groups.setdefault(key, []).append(record)
    insights = [_insight(key, group) for key, group in groups.items()]
    return sorted(insights, key=_rank)


def outcomes(records: Iterable[Record], *, chip: str) -> dict[str, tuple[int, float]]:
    """Per operator on one chip: its trials, and the sum of the logarithms of the gains that were kept."""
    found: dict[str, tuple[int, float]] = {}
    for record in records:
        if record.kind != "start" and record.place[0] == chip:
            trials, reward = found.get(record.operator, (0, 0.0))
            ratio = _ratio(record) if record.kept else None
            found[record.operator] = (trials + 1, reward + (math.log(ratio) if ratio else 0.0))
    return found


def unsuccessful(records: Sequence[Record]) -> list[Unsuccessful]:
    """The changes that were not kept, latest first."""
    ordered = sorted(records, key=lambda record: (record.run, record.number), reverse=True)
    return [_unsuccessful(record) for record in ordered if not record.kept]


def _insight(key: tuple[str, ...], group: Sequence[Record]) -> Insight:
    task, operator, change, chip, timing, environment = key
    ratios = [ratio for record in group if (ratio := _ratio(record)) is not None]
    return Insight(
        task=task,
        operator=operator,
        change=change,
        chip=chip,
        timing=timing,
        environment=environment,
        count=len(group),
        kept=sum(record.kept for record in group),
        timed=len(ratios),
        median=round(statistics.median(ratios), 5) if ratios else None,
        low=min(ratios, default=None),
        high=max(ratios, default=None),
    )


def _rank(insight: Insight) -> tuple[object, ...]:
    effect = insight.median if insight.median is not None else 0.0
    return (insight.task, insight.timing, -effect, -insight.kept, insight.operator, insight.change, insight.environment)


def _unsuccessful(record: Record) -> Unsuccessful:
    decision = record.evaluation.get("decision")
    reason = decision["reason"] if isinstance(decision, dict) else record.evaluation.get("reason")
    return Unsuccessful(
        trial=record.trial,
        task=record.task,
        variant=record.variant,
        operator=record.operator,
        summary=record.summary,
        status=record.status.value,
        reason=str(reason or record.status.value),
        chip=record.place[0],
        timing=record.timing,
        ratio=_ratio(record),
    )


def _ratio(record: Record) -> float | None:
    ratio = record.gain["ratio"] if record.gain is not None else None
    return float(ratio) if isinstance(ratio, int | float) else None
