"""Requirements for a keep and figures of a champion: looks, compute-sanitizer, rivals, times."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from evo.device import RunRequest
from evo.device.timing_types import StageTimer
from evo.errors import Crashed, TimedOut
from evo.evaluate import gate
from evo.evaluate.job import Job
from evo.evaluate.measure import CHAMPION_SAMPLES, BenchOptions, BenchRequest, measure
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.evaluate.session import EvaluationSession
from evo.results import CaseBench, Evaluation, Stage, Status


def sanitized(
    job: Job, bench: EvaluationSession, prepared: Prepared, found: Evaluation, stages: StageTimer
) -> Evaluation:
    """compute-sanitizer's word on a variant that is about to be kept, which it takes seconds to give.

    Machine code that it has passed for this task in this run is not run under it again.
    """
    kept = found.decision is None or found.decision.kept
    if bench.modelled or not found.status.passed or not kept or found.check is None:
        return found
    wanted = job.upto != "timed" and (job.sanitize or (job.upto == "bench" and not job.full))
    if job.sanitize:  # while simulators look at other sizes, which may have begun
        found = _by_sanitizer(job, bench, prepared, found, stages)
    if not wanted or not found.status.passed:
        return found
    return where_timed(job, bench, prepared, found, stages)


def begin_sanitizer(job: Job, bench: EvaluationSession, prepared: Prepared) -> None:
    """Have compute-sanitizer run a start while its large outputs are compared: neither takes times."""
    key = (job.task.hash, prepared.code_hash)
    if not bench.modelled and key not in bench.sanitized:
        threads = ThreadPoolExecutor(1, thread_name_prefix="evo-sanitizer")
        bench.sanitizing[key] = threads.submit(_said, job, bench, prepared)
        threads.shutdown(wait=False)


def await_sanitizer(job: Job, bench: EvaluationSession, prepared: Prepared, stages: StageTimer) -> None:
    """Nothing is timed while it runs."""
    if (coming := bench.sanitizing.get((job.task.hash, prepared.code_hash))) is not None:
        bench.on_stage("sanitize")
        with stages.time("sanitize"):
            wait([coming])


def _said(job: Job, bench: EvaluationSession, prepared: Prepared) -> gate.Sanitized:
    reference = bench.reference(job.task)
    requests = [
        RunRequest(program=prepared.programs[case.name], inputs=reference.inputs(case, job.seed))
        for case in job.task.check
    ]
    return gate.sanitize(requests, bench.device.which)


def _by_sanitizer(
    job: Job, bench: EvaluationSession, prepared: Prepared, found: Evaluation, stages: StageTimer
) -> Evaluation:
    """The verdict with compute-sanitizer's."""
    assert found.check is not None
    key = (job.task.hash, prepared.code_hash)
    if (earlier := bench.sanitized.get(key)) is not None:
        return replace(found, check=replace(found.check, sanitizer=earlier.shown(cached=True)))
    bench.on_stage("sanitize")
    with stages.time("sanitize"):
        coming = bench.sanitizing.pop(key, None)
        said = coming.result() if coming is not None else _said(job, bench, prepared)
    check = replace(found.check, sanitizer=said.shown())
    if said.state == "clean":
        bench.sanitized[key] = said
    if said.fault is None:
        return replace(found, check=check)
    reason = f"compute-sanitizer: {said.reason}"
    check = replace(check, status=Status.UNSAFE, stage=Stage.SANITIZE, reason=reason, faults=(said.fault,))
    return found.judged(check)


def champion_figures(job: Job, bench: EvaluationSession, kept: Evaluation) -> Evaluation:
    """The evaluation of a variant that was kept, with a champion's figures: every percentile warm and cold, rivals.

    They are taken once, at the end of a run, and so is compute-sanitizer's word: the status is UNSAFE where it finds a
    fault. Raises EvoError for the harness.
    """
    stages = StageTimer()
    bench.baselines.begin(bench.reference(job.task))  # beside compute-sanitizer, which takes no times
    prepared = bench.prepare(job.task, job.text, path=job.path)
    if isinstance(prepared, PrepareFailure):
        failed = replace(kept, status=prepared.status, stage=prepared.stage, reason=prepared.reason)
        return replace(failed, bench=(), decision=None)
    found = sanitized(replace(job, sanitize=True), bench, prepared, replace(kept, decision=None), stages)
    if not found.status.passed:
        return found
    bench.on_stage("champion's figures")
    cases = tuple(bench.bench_cases(job.task, prepared, job.seed))
    request = BenchRequest(child=cases, options=BenchOptions(samples=CHAMPION_SAMPLES))
    try:
        with stages.time("bench"):
            taken = measure(bench.gpu, request, chip=bench.chip)
    except (TimedOut, Crashed) as failure:
        reason = f"while timing: {failure}"
        return replace(found, status=Status.CRASHED, stage=Stage.BENCH, reason=reason, bench=())
    if taken.divergence is not None:
        reason = f"while timing: {gate.fault_reason(taken.divergence)}"
        return replace(found, status=Status.UNSTABLE, stage=Stage.BENCH, reason=reason, bench=())
    rows = tuple(with_floor(row, bench.floor_us(job.task, row.name)) for row in taken.child)
    found = replace(found, status=Status.MEASURED, bench=rows, clocks=taken.clocks)
    found = with_baselines(job, bench, found, stages)
    return replace(found, stages_s=dict(stages.seconds), elapsed_s=sum(stages.seconds.values()))


def where_timed(
    job: Job, bench: EvaluationSession, prepared: Prepared, found: Evaluation, stages: StageTimer
) -> Evaluation:
    """The verdict with that of the simulator's look at every timed size, and what that look could not see."""
    bench.on_stage("verify")
    with stages.time("verify"):
        seen = bench.timed_sizes(job.task, prepared, job.seed, stages, times=found.bench or None)
    return with_look(found, seen)


def with_look(found: Evaluation, seen: gate.TimedSizes) -> Evaluation:
    assert found.check is not None
    check = replace(found.check, unseen=seen.unseen, verified=seen.verified)
    if seen.status is Status.CORRECT:
        return replace(found, check=check)
    faults = (seen.fault,) if seen.fault is not None else ()
    cases = tuple(row for row in check.cases if seen.case is None or row.name != seen.case.name)
    cases = (*cases, seen.case) if seen.case is not None else cases
    check = replace(check, status=seen.status, stage=seen.stage, reason=seen.reason, faults=faults, cases=cases)
    return found.judged(check)


def with_floor(row: CaseBench, floor_us: float | None) -> CaseBench:
    return replace(row, roofline_fraction=floor_us / row.time_us) if floor_us is not None else row


def with_baselines(job: Job, bench: EvaluationSession, found: Evaluation, stages: StageTimer) -> Evaluation:
    """The library rivals' times beside those of a variant that is kept, or that a line of descent starts from."""
    kept = found.decision is None or found.decision.kept
    if found.status is not Status.MEASURED or not kept:
        return found
    bench.on_stage("baseline")
    with bench.turn, stages.time("baseline"):  # it may have been left
        baselines = bench.baselines.of(job.task, bench.reference(job.task), job.seed)
    return replace(found, bench=tuple(replace(row, baseline=baselines.get(row.name)) for row in found.bench))
