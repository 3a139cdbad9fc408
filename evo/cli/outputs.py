"""The JSON of the commands that read and judge variants, as types. Loaded when a command needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from evo.cli.command_context import FileSubject
from evo.records.trials import Kind, Record
from evo.results import (
    CaseBench,
    CaseCheck,
    Check,
    Decision,
    Evaluation,
    Fault,
    Gain,
    SanitizerReport,
    Stage,
    StaticRule,
    Status,
)
from evo.results.codec import ALWAYS, Seconds, Serializable, copied
from evo.results.coverage import Coverage, CoveragePoint, PointKind


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexercisedOutput(Serializable):
    """One condition with an outcome that no thread saw in the gate's cases."""

    line: int | None  # in the variant's text
    kernel: str  # the kernel
    kind: PointKind  # what kind of condition it is
    instruction: str  # its PTX text
    unexercised: tuple[str, ...]  # the outcomes
    compared: str | None = None  # the operands of the last execution, and what they are computed from

    @classmethod
    def of(cls, point: CoveragePoint) -> UnexercisedOutput:
        return copied(cls, point, line=point.source_line, compared=compared(point))


def compared(point: CoveragePoint) -> str | None:
    """`96 (tid.x), 4096`: what a comparison last compared; None if it has no operands or was never executed."""
    if point.left is None or point.right is None or not point.reached:
        return None
    sides = []
    for side in (point.left, point.right):
        origins = "" if side.constant or not side.origins else f" ({', '.join(side.origins)})"
        sides.append(f"{side.value:.6g}{origins}" if isinstance(side.value, float) else f"{side.value}{origins}")
    return ", ".join(sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantOutput(Serializable):
    """What every command says that judges a variant on a device."""

    variant: str  # the variant's id
    task: str  # its task
    device: str  # where it was judged
    arch: str  # what was compiled for
    status: Status  # how far it got
    reason: Annotated[str | None, ALWAYS] = None  # why it got no further; null if it passed
    stage: Stage | None = None  # the stage that it did not pass; absent if it passed them all
    rule: StaticRule | None = None  # the static rule that refused it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutput(VariantOutput):
    """`evo check --json`: the gate's verdict."""

    unseen: str | None = None  # why the look at the timed sizes could not see all of them
    seed: int | None = None  # what the inputs were drawn with
    cases: Annotated[tuple[CaseCheck, ...], ALWAYS] = ()  # one row per case that was checked
    faults: Annotated[tuple[Fault, ...], ALWAYS] = ()  # what was seen while it executed
    # the simulator's totals over the cases, if it ran
    counters: Annotated[Mapping[str, int], ALWAYS] = field(default_factory=dict)
    sanitizer: SanitizerReport | None = None  # what compute-sanitizer said, if it was asked
    # with --coverage, the conditions with an outcome that no thread saw
    unexercised: tuple[UnexercisedOutput, ...] | None = None

    @classmethod
    def of(
        cls, evaluation: Evaluation, subject: FileSubject, coverage: Sequence[Coverage] | None = None
    ) -> CheckOutput:
        check = evaluation.check or Check(status=evaluation.status)
        given = {**_known(evaluation, subject), "status": evaluation.status, "reason": evaluation.reason}
        given["unexercised"] = (
            tuple(UnexercisedOutput.of(point) for part in coverage for point in part.unexercised())
            if coverage is not None
            else None
        )
        given |= {"stage": evaluation.stage, "rule": evaluation.rule}
        return copied(cls, check, evaluation.environment, **given)


def _known(evaluation: Evaluation, subject: FileSubject) -> dict[str, Any]:
    """A text that no variant could be read from has no id in its evaluation."""
    return {"variant": evaluation.variant or subject.variant.id, "task": subject.task.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOutput(VariantOutput):
    """`evo bench --json` and `evo try --json`: times, and the decision if there was something to compare with."""

    timing: Literal["measured", "modelled"]  # `measured` or `modelled`, of all times in it
    cases: Annotated[tuple[CaseBench, ...], ALWAYS] = ()  # one row per case that was timed
    decision: Decision | None = None  # keep or not
    gain: Gain | None = None  # over what it was compared with
    l2_persist: tuple[CaseBench, ...] = ()  # with --l2-persist, times with the inputs kept in L2
    check: CheckOutput | None = None  # what the gate saw, from `evo try`

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        subject: FileSubject,
        *,
        l2_persist: tuple[CaseBench, ...] = (),
        check: CheckOutput | None = None,
    ) -> BenchOutput:
        gain = evaluation.decision.gain if evaluation.decision is not None else None
        known = {**_known(evaluation, subject), "cases": evaluation.bench, "gain": gain}
        return copied(cls, evaluation.environment, evaluation, **known, l2_persist=l2_persist, check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTrial(Serializable):
    """One trial of `evo log --json`."""

    trial: str  # the trial's id
    task: str  # its task
    run: str  # its run
    variant: str  # what was tried
    parent: str | None = None  # what was changed; absent for a start
    operator: str  # what proposed it
    kind: Kind  # of the change
    summary: str  # what was changed, in a line
    status: Status  # how far it got
    reason: str | None = None  # why it got no further
    stage: Stage | None = None  # the stage that it did not pass
    decision: Decision | None = None  # keep or not, with the evidence
    kept: bool  # whether it became the champion
    device: str  # where it was judged
    timing: Literal["measured", "modelled"]  # `measured` or `modelled`, of all times in it
    cases: Mapping[str, CaseBench] = field(default_factory=dict)  # its times by case
    gain: Gain | None = None  # over what it was compared with
    commit: str | None = None  # the commit that keeps it
    date: str  # when it ended, ISO 8601 in UTC
    elapsed_s: Seconds | None = None  # how long it took

    @classmethod
    def of(cls, record: Record, commit: str | None) -> LoggedTrial:
        cases = {row.name: row for row in record.bench}
        given: dict[str, Any] = {"device": record.environment.device, "stage": record.evaluation.stage, "cases": cases}
        given["reason"] = record.evaluation.reason  # a record's own reason says why it was proposed
        return copied(cls, record, **given, commit=commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord(Record):
    """`evo show --json`: a record, and the commit that keeps it."""

    commit: str | None = None  # absent if it was not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutput(Serializable):
    """`evo replay --json`: a recorded trial and the same trial now."""

    trial: str  # the trial's id
    variant: str  # what was tried
    same: bool  # whether status and verdict are the same
    differences: tuple[str, ...] = ()  # what the two environments do not share; if there is any, times are not compared
    recorded: Evaluation  # what the record says
    now: Evaluation  # what came of it now
