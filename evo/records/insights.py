"""Statistics over the records: the measured effect of each kind of change. Pure.

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

from evo.records.trials import Record, arm_of
from evo.results.codec import Serializable, copied

_NUMBER = re.compile(r"(?<![A-Za-z_])-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight(Serializable):
    """The effect of one kind of change in one environment."""

    task: str  # the task
    operator: str  # what proposed it
    change: str  # the kind within the operator: its rule and knob, or the summary with its numbers masked
    chip: str  # the chip
    timing: str  # `measured` or `modelled`
    environment: str  # the environment in words
    count: int  # trials
    kept: int  # of them
    timed: int  # of them: those with a gain
    median: float | None = None  # of the gains; absent if there is none
    low: float | None = None  # the smallest gain
    high: float | None = None  # the largest gain
    gain_low: float | None = None  # the median of the lower ends of their 95 % intervals, if measured
    gain_high: float | None = None  # the median of the upper ends
    where: str | None = None  # the functions that were touched
    counters: str | None = None  # what limited the first case, before and after, in the trial with the largest gain

    def sentence(self) -> str:
        """For a person or a prompt: `rules.knobs BLOCK_M: 1.12x measured on l4 (median of 3), kept 1 of 4`."""
        effect = "never got as far as a time"
        if self.median is not None:
            ratios = f"median of {self.timed}, {self.low:.2f}x to {self.high:.2f}x" if self.timed > 1 else "one trial"
            effect = f"{self.median:.2f}x {self.timing} on {self.chip} ({ratios})"
        limits = f"; {self.counters}" if self.counters is not None else ""
        return f"{self.operator} {self.change}: {effect}, kept {self.kept} of {self.count}{limits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuccessful(Serializable):
    """One change that was not kept, and why."""

    trial: str  # the trial's id
    task: str  # the task
    variant: str  # what was tried
    operator: str  # what proposed it
    summary: str  # what was changed, in a line
    status: str  # how far it got
    reason: str  # why it was not kept
    chip: str  # the chip
    timing: str  # `measured` or `modelled`
    ratio: float | None = None  # how much faster it was than its parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvidence(Serializable):
    """What one rule has brought in all trials with one kind of timing."""

    operator: str  # the operator
    rule: str  # the rule
    timing: str  # `measured` or `modelled`
    trials: int  # how many
    new_code: int  # of them: those that compiled to machine code other than their parent's
    correct: int  # of them: those that passed the gate
    kept: int  # of them
    best: float | None = None  # the largest gain over the parent that a correct one had; absent if none was timed


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteStatistics(Serializable):
    """What rewrites of one operator have brought to a task in one place. No single change is among them."""

    task: str  # the task
    operator: str  # what proposed them
    chip: str  # the chip
    timing: str  # `measured` or `modelled`
    tried: int  # rewrites that became trials
    correct: int  # of them: those that passed the gate
    kept: int  # of them
    median: float | None = None  # of the gains of those that were timed; absent if none was
    best: float | None = None  # the largest gain of a kept one; absent if none was kept
    changes_after: int  # single changes that were kept on top of a kept rewrite


def change_of(record: Record) -> str:
    """The kind of change within its operator. Rewrites are one kind: each is a change of its own."""
    if record.kind == "rewrite":
        return "rewrite"
    named = [str(record.arguments[key]) for key in ("rule", "knob") if isinstance(record.arguments.get(key), str)]
    if named:
        return " ".join(named)
    return _NUMBER.sub("#", " ".join(record.summary.split()))


def environment_words(record: Record) -> str:
    """What the effects of one insight share: `l4, sm_89, cubin, nvrtc 13.0.88, driver 580.65, CUDA 13.0`."""
    identity = record.environment.identity()
    plain = ("chip", "arch", "loaded", "NVRTC", "GPU")
    shared = {name: value for name, value in identity.items() if name not in ("task", "harness") and value}
    return ", ".join(value if name in plain else f"{name} {value}" for name, value in shared.items())


def summarise(records: Iterable[Record]) -> list[Insight]:
    """One insight per task, operator, kind of change and environment; most helpful first. Starts claim nothing."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.proposed:
            where = environment_words(record)
            key = (record.task, record.operator, change_of(record), record.place[0], record.timing, where)
            groups.setdefault(key, []).append(record)
    insights = [_insight(key, group) for key, group in groups.items()]
    return sorted(insights, key=_rank)


def rule_evidence(records: Sequence[Record]) -> list[RuleEvidence]:
    """One row per rule and kind of timing; measured ones first, then by what was kept and gained."""
    codes = {(r.variant, *r.place): code for r in records if (code := r.evaluation.code_hash)}
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.proposed and isinstance(rule := record.arguments.get("rule"), str):
            groups.setdefault((record.operator, rule, record.timing), []).append(record)
    rows = [
        RuleEvidence(
            operator=operator,
            rule=rule,
            timing=timing,
            trials=len(group),
            new_code=sum(r.evaluation.code_hash not in (None, codes.get((r.parent or "", *r.place))) for r in group),
            correct=sum(record.status.passed for record in group),
            kept=sum(record.kept for record in group),
            best=max((ratio for r in group if r.status.passed and (ratio := r.own_ratio) is not None), default=None),
        )
        for (operator, rule, timing), group in groups.items()
    ]
    return sorted(rows, key=lambda row: (row.timing != "measured", -row.kept, -(row.best or 0.0), row.rule))


def rewrite_statistics(records: Sequence[Record]) -> list[RewriteStatistics]:
    """One row per task, operator, chip and kind of timing that has rewrites; measured ones first."""
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        if record.kind == "rewrite":
            key = (record.task, record.operator, record.place[0], record.timing)
            groups.setdefault(key, []).append(record)
    after = _kept_after(records)
    rows = []
    for (task, operator, chip, timing), group in groups.items():
        ratios = [ratio for record in group if record.status.passed and (ratio := record.own_ratio) is not None]
        kept = [record for record in group if record.kept]
        rows.append(
            RewriteStatistics(
                task=task,
                operator=operator,
                chip=chip,
                timing=timing,
                tried=len(group),
                correct=sum(record.status.passed for record in group),
                kept=len(kept),
                median=statistics.median(ratios) if ratios else None,
                best=max((ratio for record in kept if (ratio := record.own_ratio) is not None), default=None),
                changes_after=sum(after.get(record.trial, 0) for record in kept),
            )
        )
    return sorted(rows, key=lambda row: (row.timing != "measured", row.task, row.chip, row.operator))


def _kept_after(records: Sequence[Record]) -> dict[str, int]:
    """By trial of a kept rewrite: the single changes kept after it, up to the next rewrite or start in its place."""
    found: dict[str, int] = {}
    latest: dict[tuple[str, ...], str] = {}
    for record in sorted(records, key=lambda record: record.moment):
        place = (record.task, *record.place)
        if not record.kept:
            continue
        if record.kind == "rewrite":
            latest[place] = record.trial
            found[record.trial] = 0
        elif record.kind in ("start", "rung"):
            latest.pop(place, None)
        elif record.proposed and place in latest:
            found[latest[place]] += 1
    return found


def outcomes(records: Iterable[Record], *, chip: str) -> dict[str, tuple[int, float]]:
    """Per arm (an operator, or its rewrites) on one chip: its trials, and the sum of the logarithms of kept gains."""
    found: dict[str, tuple[int, float]] = {}
    for record in records:
        if record.proposed and record.place[0] == chip:
            arm = arm_of(record.operator, record.kind)
            trials, reward = found.get(arm, (0, 0.0))
            ratio = record.own_ratio if record.kept else None
            found[arm] = (trials + 1, reward + (math.log(ratio) if ratio else 0.0))
    return found


def unsuccessful(records: Sequence[Record]) -> list[Unsuccessful]:
    """The changes that were not kept, latest first."""
    ordered = sorted(records, key=lambda record: record.moment, reverse=True)
    return [_unsuccessful(record) for record in ordered if not record.kept]


def _insight(key: tuple[str, ...], group: Sequence[Record]) -> Insight:
    task, operator, change, chip, timing, environment = key
    ratios = [ratio for record in group if (ratio := record.own_ratio) is not None]
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
        gain_low=_middle(record.gain.low for record in group if record.gain is not None),
        gain_high=_middle(record.gain.high for record in group if record.gain is not None),
        where=", ".join(dict.fromkeys(place for record in group if (place := _where(record)))) or None,
        counters=_counters(max(group, key=lambda record: (record.own_ratio or 0.0, record.trial))),
    )


def _middle(ends: Iterable[float | None]) -> float | None:
    found = [end for end in ends if end is not None]
    return round(statistics.median(found), 5) if found else None


def _where(record: Record) -> str:
    """The function that a change is in, where its operator says so."""
    named = [record.arguments.get(key) for key in ("kernel", "function")]
    return next((name for name in named if isinstance(name, str)), "")


def _counters(record: Record) -> str | None:
    """What limited the first case, before and after."""
    evidence = record.evidence
    for name, case in evidence.cases.items() if evidence is not None else ():
        if case.parent_limiter_us is not None and case.child_limiter_us is not None:
            ends = f"{case.parent_limiter_us:.4g} -> {case.child_limiter_us:.4g}"
            return f"{case.limiter} {ends} µs in case {name}, now {case.limiter_after}"
    return None


def _rank(insight: Insight) -> tuple[object, ...]:
    effect = insight.median if insight.median is not None else 0.0
    return (insight.task, insight.timing, -effect, -insight.kept, insight.operator, insight.change, insight.environment)


def _unsuccessful(record: Record) -> Unsuccessful:
    reason = record.decision.reason if record.decision is not None else record.evaluation.reason
    status = record.status.value
    known = {"status": status, "reason": reason or status, "chip": record.place[0], "ratio": record.own_ratio}
    return copied(Unsuccessful, record, **known)
