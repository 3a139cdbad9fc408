"""The one pipeline: compile -> gate -> bench -> decide. The CLI, the loop, the nightly run and the tests all call it.

A variant's failure comes back as data in the Evaluation; a harness failure is raised. It has two halves: what needs no
device of one's own (compile, the simulator's checks) and the rest, so that a sweep overlaps them (`evaluate_all`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue

from evo.decide.modelled import MARGIN as MODELLED_MARGIN
from evo.decide.sequential import DEFAULT_RULE, P99_SAMPLES, DecisionRule, decide_modelled
from evo.device.remote_device import RemoteSimulator
from evo.device.timing_types import StageTimer
from evo.errors import Crashed, TimedOut, UsageError
from evo.evaluate import gate
from evo.evaluate.job import CheckedJob, Job, further_gate, is_sure, is_timed_first
from evo.evaluate.kept import (
    await_sanitizer,
    champion_figures,
    sanitized,
    where_timed,
    with_baselines,
    with_floor,
    with_look,
)
from evo.evaluate.measure import CHAMPION_SAMPLES, BenchOptions, BenchRequest, measure
from evo.evaluate.prepare import Prepared, PrepareFailure, simpler, spills
from evo.evaluate.session import EvaluationSession
from evo.evaluate.simulator_half import begin_looks, checked
from evo.results import CaseBench, Decision, Evaluation, Fault, Ground, Stage, Status, Verdict
from evo.results.codec import copied
from evo.spec.look_ahead import look_ahead

__all__ = ["CheckedJob", "EvaluationSession", "Job", "champion_figures", "evaluate", "evaluate_all", "finish", "start"]

_DECISION_SAMPLES = 64
_TAIL_S = 1.0
# A start is timed again beside each child, and nothing is decided on these figures.
_START = BenchOptions(samples=16, cold_samples=0, warm_up_s=0.6, tail_s=0.3, fewest=4)
_NOT_KEPT = "outputs at the timed sizes were not compared with the reference, because the variant is not kept"
_MOST_AHEAD = 12
_OTHER_SEEDS = (7919, 15485)  # more input values: timed launches rotate over all three sets


def evaluate(job: Job, bench: EvaluationSession) -> Evaluation:
    """Take one variant as far as it gets. Raises EvoError for harness failures only."""
    return finish(start(job, bench, bench.checker, bench.idle_checker), bench)


def evaluate_all(
    jobs: Iterable[Job], bench: EvaluationSession, *, ahead: int | None = None
) -> Iterator[tuple[Job, Evaluation]]:
    """Evaluate a sequence of variants, in order, each compiled and checked on the simulator while others are measured.

    ahead: how many variants may be under way before their turn (default: the cores but one, at most 12). A variant with
    the machine code and launches of an earlier one gets that one's result, with a reason that says so.
    """
    ahead = max(1, ahead if ahead is not None else min((os.cpu_count() or 2) - 1, _MOST_AHEAD))
    free: SimpleQueue[RemoteSimulator] = SimpleQueue()
    for checker in bench.more_checkers(1 if bench.modelled else ahead):
        free.put(checker)

    def begin(job: Job) -> CheckedJob:
        checker = free.get() if not bench.modelled else bench.checker
        try:
            return start(job, bench, checker)
        finally:
            if not bench.modelled:
                free.put(checker)

    known: dict[tuple[object, ...], Evaluation] = {}
    with ThreadPoolExecutor(max_workers=ahead, thread_name_prefix="evo-ahead") as pool:
        for job, started in look_ahead(lambda job: pool.submit(begin, job), jobs, ahead + 1):
            yield job, _finish_once(started, bench, known)


def _finish_once(
    started: CheckedJob, bench: EvaluationSession, known: dict[tuple[object, ...], Evaluation]
) -> Evaluation:
    """Finish a job, unless the same machine code has been evaluated against the same parent."""
    job, prepared = started.job, started.prepared
    if prepared is None:
        return finish(started, bench)
    key = (job.task.hash, prepared.code_hash, job.rival, job.seed, job.upto, job.margin, job.neutral)
    if (earlier := known.get(key)) is not None:
        reason = f"the machine code of {earlier.variant}" + (f": {earlier.reason}" if earlier.reason else "")
        return replace(
            earlier,
            variant=prepared.variant.id,
            reason=reason,
            same_code_as=earlier.variant,
            compile=prepared.report,
            elapsed_s=started.elapsed_s,
            stages_s=dict(started.stages.seconds),
        )
    known[key] = finish(started, bench)
    return known[key]


def start(
    job: Job, bench: EvaluationSession, checker: RemoteSimulator, beside: RemoteSimulator | None = None
) -> CheckedJob:
    """The half that needs no GPU: compile, and on the way to a GPU the simulator's checks. It may run elsewhere.

    beside: another simulator that is free.
    """
    began = time.monotonic()
    stages = StageTimer()
    environment = bench.environment(job.task)
    bench.on_stage("compile")
    with stages.time("compile"):
        prepared = job.prepared or bench.prepare(job.task, job.text, path=job.path, static_rules=job.static_rules)
    if isinstance(prepared, PrepareFailure):
        base = copied(Evaluation, prepared, environment=environment, compile=prepared.report)
    else:
        passed, report = Status.CORRECT, prepared.report
        base = Evaluation(variant=prepared.variant.id, status=passed, environment=environment, compile=report)
    started = CheckedJob(job=job, base=base, stages=stages)
    if isinstance(prepared, Prepared):
        started.prepared = prepared
        if not bench.modelled:
            begin_looks(job, bench, prepared)
            bench.on_stage("gate")
            with stages.time("check"):
                started.check = checked(started, bench, checker, beside)
            if started.check.status.passed:
                with stages.time("compile"):  # begun before the checks
                    bench.code.assembled(prepared)
    started.elapsed_s = time.monotonic() - began
    return started


def finish(started: CheckedJob, bench: EvaluationSession) -> Evaluation:
    """The half that has the device to itself, and whose environment and noise floor the result names."""
    if started.job.rival is not None:
        bench.beside.await_control()
    with bench.turn:
        began = time.monotonic()
        outcome = _outcome(started, bench)
        if started.prepared is not None and started.job.rival is not None and not outcome.kept:
            bench.drop_looks(started.job.task, started.prepared, started.job.seed)
        elapsed_s = started.elapsed_s + time.monotonic() - began
    seconds = dict(started.stages.seconds)
    seconds["rest"] = max(0.0, elapsed_s - sum(seconds.values()))
    return replace(
        outcome,
        environment=bench.environment(started.job.task),
        control=bench.controls.get(started.job.task.hash) if started.job.rival is not None else None,
        elapsed_s=elapsed_s,
        stages_s=seconds,
    )


def _outcome(started: CheckedJob, bench: EvaluationSession) -> Evaluation:
    job, prepared, stages = started.job, started.prepared, started.stages
    if prepared is None:
        return started.base
    check = started.check
    if not started.ended and not started.is_on_target:
        check = further_gate(started, bench, check, None if bench.modelled else "target")
        if not bench.modelled and check.status.passed and not is_timed_first(job):
            check = further_gate(started, bench, check, "timed")
    assert check is not None
    base = started.base.judged(check)
    if not check.status.passed or job.upto == "check":
        return sanitized(job, bench, prepared, base, stages)
    if job.upto == "timed":
        return sanitized(job, bench, prepared, where_timed(job, bench, prepared, base, stages), stages)
    await_sanitizer(job, bench, prepared, stages)
    bench.on_stage("estimate" if bench.modelled else "bench")
    with stages.time("parent"):
        rival = started.rival
        if rival is None and job.rival is not None:
            rival = bench.parent(job.task, job.rival)
    step = _modelled if bench.modelled else _measured
    if is_sure(job):
        bench.begin_looks(job.task, prepared, job.seed)
    try:
        with stages.time("estimate" if bench.modelled else "bench"):
            found = step(started, bench, prepared, rival, base)
    except (TimedOut, Crashed) as failure:
        status = Status.TIMED_OUT if isinstance(failure, TimedOut) else Status.CRASHED
        stage = Stage.ESTIMATE if bench.modelled else Stage.BENCH
        return replace(base, status=status, stage=stage, reason=f"while timing: {failure}")
    found = sanitized(job, bench, prepared, found, stages)
    return with_baselines(job, bench, found, stages) if job.baseline and not bench.modelled else found


def _modelled(
    started: CheckedJob, bench: EvaluationSession, prepared: Prepared, rival: Prepared | None, base: Evaluation
) -> Evaluation:
    job = started.job
    ours = bench.estimates(job.task, prepared, job.seed)
    if isinstance(ours, Fault):
        reason = f"while estimating: {gate.fault_reason(ours)}"
        return _faulted(base, ours, ours.kind.status, Stage.ESTIMATE, reason)
    decision: Decision | None = None
    theirs: tuple[CaseBench, ...] = ()
    if rival is not None:
        estimated = bench.estimates(job.task, rival, job.seed)
        if isinstance(estimated, Fault):
            raise UsageError(
                f"the variant to compare with faults: {gate.fault_reason(estimated)}", hint="compare with another"
            )
        theirs = estimated
        decision = _decided(job, prepared, rival, theirs, ours)
    found = replace(base, bench=ours, decision=decision)
    if decision is not None and not decision.kept:
        return found
    with started.stages.time("verify"):
        return _looked_at_again(job, bench, prepared, found, rival, theirs, started.stages)


def _faulted(base: Evaluation, fault: Fault, status: Status, stage: Stage, reason: str) -> Evaluation:
    """The evaluation of a variant that passed the gate and faulted at a later stage."""
    assert base.check is not None
    return base.judged(replace(base.check, status=status, stage=stage, reason=reason, faults=(fault,)))


def _decided(
    job: Job, prepared: Prepared, rival: Prepared, theirs: tuple[CaseBench, ...], ours: tuple[CaseBench, ...]
) -> Decision:
    return decide_modelled(
        theirs,
        ours,
        job.task.score,
        job.margin if job.margin is not None else MODELLED_MARGIN,
        neutral=job.neutral,
        simpler=simpler(rival, prepared) if job.neutral else None,
        unseen=spills(rival, prepared),
    )


def _looked_at_again(
    job: Job,
    bench: EvaluationSession,
    prepared: Prepared,
    found: Evaluation,
    rival: Prepared | None,
    theirs: tuple[CaseBench, ...],
    stages: StageTimer,
) -> Evaluation:
    """Numbers, races and times of every timed size on blocks that the variant could not foresee; all have to hold.

    What looks for wrong numbers elsewhere is left out of a start that is the task's reference itself. If a change of it
    fails there, the start is looked at too.
    """
    bench.on_stage("verify")
    is_reference = rival is None and gate.is_original(job.task, prepared.variant)
    seen = bench.timed_sizes(job.task, prepared, job.seed, stages, timed_alone=is_reference)
    found = with_look(found, seen)
    if not found.status.passed:
        if rival is not None and gate.is_original(job.task, rival.variant):
            theirs_seen = bench.timed_sizes(job.task, rival, job.seed, stages)
            if not theirs_seen.status.passed:
                return replace(found, reason=f"{found.reason}; the original fails too: {theirs_seen.reason}")
        return found
    if found.decision is None or rival is None:
        return replace(found, bench=_unhidden(found.bench, seen.rows)) if seen.rows else found
    if seen.unseen is not None:
        unverified = replace(found.decision, verdict=Verdict.REVERT, ground=Ground.UNVERIFIED, case=None)
        return replace(found, decision=replace(unverified, reason=seen.unseen))
    again = _decided(job, prepared, rival, theirs, seen.rows)
    if not again.kept:
        return replace(found, decision=replace(again, reason=f"on other blocks of the grids: {again.reason}"))
    shown = _unhidden(found.bench, seen.rows)
    return found if shown == found.bench else replace(found, bench=shown, decision=again)


def _unhidden(ours: tuple[CaseBench, ...], seen: tuple[CaseBench, ...]) -> tuple[CaseBench, ...]:
    """The times of a variant that stands: of the fixed sample, unless other blocks take much longer."""
    pairs = zip(ours, seen, strict=True)
    return tuple(other if other.time_us > gate.HIDDEN * row.time_us else row for row, other in pairs)


def _measured(
    started: CheckedJob, bench: EvaluationSession, prepared: Prepared, rival: Prepared | None, base: Evaluation
) -> Evaluation:
    job = started.job
    rule = replace(DEFAULT_RULE, margin=job.margin if job.margin is not None else bench.margin(job.task))
    if job.neutral and rival is not None:
        rule = replace(rule, simpler=simpler(rival, prepared))
    options = _decision_options(rule)
    if rival is None:
        options = replace(_START, rule=rule)
    if job.full:
        options = BenchOptions(rule=rule, samples=CHAMPION_SAMPLES if rival is None else _DECISION_SAMPLES)
    reference = bench.reference(job.task)

    def request(seed: int) -> BenchRequest:
        child = tuple(bench.bench_cases(job.task, prepared, seed))  # inputs may not be held until the next one's turn
        return BenchRequest(
            child=child,
            parent=tuple(replace(case, program=rival.programs[case.program.case]) for case in child) if rival else (),
            score=dict(job.task.score),
            others={c.name: tuple(reference.fixed_inputs(c, seed + o) for o in _OTHER_SEEDS) for c in job.task.bench},
            options=options,
        )

    proven = started_check = base.check

    def prove() -> bool:
        nonlocal proven
        if not is_timed_first(job):
            return True
        bench.begin_looks(job.task, prepared, job.seed)
        bench.gpu.open_spare()
        if bench.promising is not None:
            bench.promising(job.text)
        proven = further_gate(started, bench, base.check, "timed")
        bench.on_stage("confirm")
        return proven.status.passed

    floor = bench.floors.get(job.task.hash)
    if rival is not None:
        bench.gpu.prepare_spare()  # for the second stage; while there is none it starts beside the first
    found = measure(
        bench.gpu, request(job.seed), chip=bench.chip, fresh=lambda: request(job.seed + 1), floor=floor, prove=prove
    )
    for name, seconds in found.stages_s.items():
        started.stages.within(f"bench.{name}", seconds)
    assert proven is not None
    base = replace(base, status=proven.status, reason=proven.reason, check=proven)
    if not proven.status.passed:
        return base
    if found.divergence is not None:
        reason = f"while timing: {gate.fault_reason(found.divergence)}"
        return _faulted(base, found.divergence, Status.UNSTABLE, Stage.BENCH, reason)
    if proven is started_check and is_timed_first(job):
        base = replace(base, check=replace(proven, unseen=_NOT_KEPT))
    rows = tuple(with_floor(row, bench.floor_us(job.task, row.name)) for row in found.child)
    clocks = found.clocks if found.decision is None else None
    return replace(base, status=Status.MEASURED, bench=rows, decision=found.decision, clocks=clocks)


def _decision_options(rule: DecisionRule) -> BenchOptions:
    """No more than the decision needs: the guard against longer tails wants its samples of a gain, and no cold ones."""
    return BenchOptions(
        rule=rule,
        samples=_DECISION_SAMPLES,
        confirming_samples=P99_SAMPLES,
        cold_samples=0,
        tail_s=_TAIL_S,
        stop_at_loss=True,
    )
