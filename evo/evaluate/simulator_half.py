"""The half of a gate that needs no GPU, and what is begun beside it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, TimedOut
from evo.evaluate import gate
from evo.evaluate.job import CheckedJob, Job, gate_on_target, is_sure, joined, part_of_gate
from evo.evaluate.kept import begin_sanitizer
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Check, Fault, FaultKind, Stage

_WORKSPACE_LIMIT_S = 20.0


def checked(
    started: CheckedJob, bench: EvaluationSession, checker: RemoteSimulator, beside: RemoteSimulator | None
) -> Check:
    """The simulator's checks; beside its hunt those of the GPU, of a start and of what a first look showed far ahead.

    The verdict is that of one after the other: the GPU's is asked for once the simulator's is there.
    """
    job, prepared = started.job, started.prepared
    assert prepared is not None
    coming: list[Future[Check]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="evo-target") as threads:

        def passed() -> None:
            if _is_start(job):
                begin_sanitizer(job, bench, prepared)
            if job.rival is None or is_sure(job):
                coming.append(threads.submit(_on_target, started, bench, prepared))

        places = gate.GateDevices(checker=checker, target=bench.target, half="checker", tell=bench.on_stage)
        check = part_of_gate(started, bench, places, beside, passed)
        if check.status.passed:
            check = _undefined_at_bench(job, prepared, check, bench, checker) or check
        if check.status.passed and coming:
            with started.stages.time("gate"):
                check = joined(check, coming[0].result())
            started.is_on_target = True
    return check


def _on_target(started: CheckedJob, bench: EvaluationSession, prepared: Prepared) -> Check:
    bench.code.assembled(prepared)
    return gate_on_target(started, bench)


def begin_looks(job: Job, bench: EvaluationSession, prepared: Prepared) -> None:
    """Begin with what is asked before a keep while the gate goes on: of a start, which is hardly ever refused, and of
    what a first look showed far ahead.
    """
    if _is_start(job) and job.upto != "check":
        bench.begin_looks(job.task, prepared, job.seed)
    elif is_sure(job):
        bench.begin_looks(job.task, prepared, job.seed, early=True)


def _is_start(job: Job) -> bool:
    return job.rival is None and job.sanitize


def _undefined_at_bench(
    job: Job, prepared: Prepared, check: Check, bench: EvaluationSession, checker: RemoteSimulator
) -> Check | None:
    """A failed check where some blocks of a timed case read from a workspace what that launch did not write.

    On a GPU such a read finds what an earlier launch left: a result to replay, or a count of launches.
    """
    if all(space.init == "zero" for program in prepared.programs.values() for space in program.scratch):
        return None
    try:
        found = checker.screen(bench.bench_cases(job.task, prepared, job.seed), time_limit_s=_WORKSPACE_LIMIT_S)
    except (TimedOut, Crashed):  # a few blocks of a grid may wait for others for ever; the gate has run whole ones
        return None
    if not isinstance(found, Fault) or found.kind is not FaultKind.UNINITIALISED:
        return None
    reason = f"at a timed size: {gate.fault_reason(found)}"
    return replace(check, status=found.kind.status, reason=reason, stage=Stage.VERIFY, faults=(found,))
