"""The JSON of the commands that read and judge variants, as types. Loaded when a command needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from evo.records.trials import Kind, Record
from evo.results import CaseBench, CaseCheck, Check, Decision, Evaluation, Fault, Gain, SanitizerReport, Status
from evo.results.codec import ALWAYS, Seconds, Serializable


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutput(Serializable):
    """`evo check --json`: the gate's verdict.

    variant: the variant's id.
    task: its task.
    device: where it was checked.
    arch: what was compiled for.
    status: how far it got.
    reason: why it got no further; null if it passed.
    unseen: why the look at the timed sizes could not see all of them.
    seed: what the inputs were drawn with.
    cases: one row per case that was checked.
    faults: what was seen while it executed.
    counters: the simulator's totals over the cases, if it ran.
    sanitizer: what compute-sanitizer said, if it was asked.
    counters_by_line: with --counters, events by source line.
    """

    variant: str
    task: str
    device: str
    arch: str
    status: Status
    reason: Annotated[str | None, ALWAYS] = None
    unseen: str | None = None
    seed: int | None = None
    cases: Annotated[tuple[CaseCheck, ...], ALWAYS] = ()
    faults: Annotated[tuple[Fault, ...], ALWAYS] = ()
    counters: Annotated[Mapping[str, int], ALWAYS] = field(default_factory=dict)
    sanitizer: SanitizerReport | None = None
    counters_by_line: Mapping[str, Mapping[str, int]] | None = None

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        *,
        task: str,
        variant: str,
        counters_by_line: Mapping[str, Mapping[str, int]] | None = None,
    ) -> CheckOutput:
        """variant: the id to give if the evaluation has none."""
        check = evaluation.check or Check(status=evaluation.status)
        return cls(
            variant=evaluation.variant or variant,
            task=task,
            device=evaluation.environment.device,
            arch=evaluation.environment.arch,
            status=evaluation.status,
            reason=evaluation.reason,
            unseen=check.unseen,
            seed=check.seed,
            cases=check.cases,
            faults=check.faults,
            counters=check.counters,
            sanitizer=check.sanitizer,
            counters_by_line=counters_by_line,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOutput(Serializable):
    """`evo bench --json` and `evo try --json`: times, and the decision if there was something to compare with.

    variant: the variant's id.
    task: its task.
    device: where it was timed.
    arch: what was compiled for.
    status: how far it got.
    reason: why it got no further; null if it passed.
    timing: `measured` or `modelled`, of all times in it.
    cases: one row per case that was timed.
    decision: keep or not.
    gain: over what it was compared with.
    l2_persist: with --l2-persist, times with the inputs kept in L2.
    check: what the gate saw, from `evo try`.
    """

    variant: str
    task: str
    device: str
    arch: str
    status: Status
    reason: Annotated[str | None, ALWAYS] = None
    timing: Literal["measured", "modelled"]
    cases: Annotated[tuple[CaseBench, ...], ALWAYS] = ()
    decision: Decision | None = None
    gain: Gain | None = None
    l2_persist: tuple[CaseBench, ...] = ()
    check: CheckOutput | None = None

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        *,
        task: str,
        variant: str,
        l2_persist: tuple[CaseBench, ...] = (),
        check: CheckOutput | None = None,
    ) -> BenchOutput:
        """variant: the id to give if the evaluation has none."""
        return cls(
            variant=evaluation.variant or variant,
            task=task,
            device=evaluation.environment.device,
            arch=evaluation.environment.arch,
            status=evaluation.status,
            reason=evaluation.reason,
            timing=evaluation.environment.timing,
            cases=evaluation.bench,
            decision=evaluation.decision,
            gain=evaluation.decision.gain if evaluation.decision is not None else None,
            l2_persist=l2_persist,
            check=check,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTrial(Serializable):
    """One trial of `evo log --json`.

    trial: the trial's id.
    task: its task.
    run: its run.
    variant: what was tried.
    parent: what was changed; absent for a start.
    operator: what proposed it.
    kind: of the change.
    summary: what was changed, in a line.
    status: how far it got.
    reason: why it got no further.
    decision: keep or not, with the evidence.
    kept: whether it became the champion.
    device: where it was judged.
    timing: `measured` or `modelled`, of all times in it.
    cases: its times by case.
    gain: over what it was compared with.
    commit: the commit that keeps it.
    date: when it ended, ISO 8601 in UTC.
    elapsed_s: how long it took.
    """

    trial: str
    task: str
    run: str
    variant: str
    parent: str | None = None
    operator: str
    kind: Kind
    summary: str
    status: Status
    reason: str | None = None
    decision: Decision | None = None
    kept: bool
    device: str
    timing: Literal["measured", "modelled"]
    cases: Mapping[str, CaseBench] = field(default_factory=dict)
    gain: Gain | None = None
    commit: str | None = None
    date: str
    elapsed_s: Seconds | None = None

    @classmethod
    def of(cls, record: Record, commit: str | None) -> LoggedTrial:
        return cls(
            trial=record.trial,
            task=record.task,
            run=record.run,
            variant=record.variant,
            parent=record.parent,
            operator=record.operator,
            kind=record.kind,
            summary=record.summary,
            status=record.status,
            reason=record.evaluation.reason,
            decision=record.decision,
            kept=record.kept,
            device=record.environment.device,
            timing=record.timing,
            cases={row.name: row for row in record.bench},
            gain=record.gain,
            commit=commit,
            date=record.date,
            elapsed_s=record.elapsed_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord(Record):
    """`evo show --json`: a record, and the commit that keeps it.

    commit: absent if it was not kept.
    """

    commit: str | None = None

    @classmethod
    def of(cls, record: Record, commit: str | None) -> ShownRecord:
        return cls(**{each.name: getattr(record, each.name) for each in fields(record)}, commit=commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutput(Serializable):
    """`evo replay --json`: a recorded trial and the same trial now.

    trial: the trial's id.
    variant: what was tried.
    same: whether status and verdict are the same.
    differences: what the two environments do not share; if there is any, times are not compared.
    recorded: what the record says.
    now: what came of it now.
    """

    trial: str
    variant: str
    same: bool
    differences: tuple[str, ...] = ()
    recorded: Evaluation
    now: Evaluation
