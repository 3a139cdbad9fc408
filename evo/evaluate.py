"""The one pipeline: compile -> gate -> bench -> decide. The CLI, the loop, the nightly run and the tests all call it.

A variant's failure comes back as data in the Evaluation; a harness failure is raised. `Workbench` holds what evaluations
share: worker processes, references, compiled binaries and the parents' modelled times.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evo import compile as compiler
from evo import gate
from evo.bench import BenchOptions, measure
from evo.decide import decide_modelled
from evo.device import (
    POISON_LARGE,
    BenchCase,
    DeviceName,
    Program,
    RunRequest,
    RunResult,
)
from evo.device.worker import Crashed, TimedOut, Worker
from evo.errors import SyntaxInvalid, UsageError
from evo.hardware import Chip, chip
from evo.launch import Plan, Refusal, macros_of, plan
from evo.program import build, signature_problem
from evo.reference import Reference, load_reference
from evo.result import (
    CaseBench,
    CaseCheck,
    Check,
    Decision,
    Environment,
    Evaluation,
    Fault,
    Gain,
    Json,
    Status,
    Verdict,
    drop_absent,
)
from evo.source import kernel_signatures
from evo.task import Case, Task
from evo.variant import Variant, parse_variant

_RUN_LIMIT_S = 120.0
_BENCH_LIMIT_S = 300.0
_OFFSET_BYTES = 16  # the second run's shift: aligned for the widest access, unlike the first run's 256
_DETERMINISM_REPEATS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant to be evaluated. `rival` is the text it is compared with (its parent), if any.

    upto: `check` ends at the gate, `bench` goes on to times.
    """

    task: Task
    text: str
    path: str = "<variant>"
    seed: int = 0
    rival: str | None = None
    upto: str = "bench"
    margin: float | None = None
    neutral: bool = False
    champion: bool = False  # take the thousand samples that a champion's percentiles need


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A variant that compiled and may launch: one Program per check and bench case."""

    variant: Variant
    programs: dict[str, Program]
    compile_json: dict[str, Json]
    code_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A variant that went no further, as data."""

    status: Status
    reason: str
    variant: str
    compile_json: dict[str, Json] = field(default_factory=dict)
    check: Check | None = None


class Workbench:
    """What evaluations on one device share. Close it, or use it as a context manager."""

    def __init__(self, device: DeviceName, *, arch: str = "sm_89") -> None:
        self.device = device
        self.worker = Worker(device)
        self.about: dict[str, str] = self.worker.call("describe", time_limit_s=_RUN_LIMIT_S)
        self.chip: Chip = chip(self.about.get("chip", device.which))
        self.arch = self.chip.arch if arch == "native" else arch
        # The simulator's checkers see races and uninitialised reads that no tool sees on a GPU, so they always run.
        self.checker = self.worker if device.kind == "sim" else Worker(DeviceName("sim", self.chip.slug))
        self._references: dict[str, Reference] = {}
        self._estimates: dict[tuple[str, str, int], tuple[CaseBench, ...]] = {}

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.worker.close()
        if self.checker is not self.worker:
            self.checker.close()

    @property
    def modelled(self) -> bool:
        return self.device.kind == "sim"

    @property
    def chip_slug(self) -> str:
        """`l4` for the chip, `sim-l4` for its model."""
        return f"sim-{self.chip.slug}" if self.modelled else self.chip.slug

    def environment(self, task: Task) -> Environment:
        if self.modelled:
            loaded = "sim"
        else:
            loaded = "cubin" if self.arch == self.chip.arch else "ptx_jit"
        return Environment(
            device=str(self.device),
            chip=self.chip_slug,
            arch=self.arch,
            loaded=loaded,
            toolkit=compiler.toolkit_version(),
            harness=importlib.metadata.version("evo-kernels"),
            task_hash=task.hash,
            detail={key: value for key, value in self.about.items() if key not in ("chip", "loaded")},
        )

    def reference(self, task: Task) -> Reference:
        if task.hash not in self._references:
            self._references[task.hash] = load_reference(task)
        return self._references[task.hash]

    def estimates(self, task: Task, prepared: Prepared, seed: int) -> tuple[CaseBench, ...] | Fault:
        """The modelled times of all bench cases, kept by variant; or the fault that an execution ended in."""
        key = (task.hash, prepared.variant.id, seed)
        if key not in self._estimates:
            found: tuple[CaseBench, ...] | Fault = self.worker.call(
                "estimate", self.bench_cases(task, prepared, seed), time_limit_s=_BENCH_LIMIT_S
            )
            if isinstance(found, Fault):
                return found
            self._estimates[key] = found
        return self._estimates[key]

    def bench_cases(self, task: Task, prepared: Prepared, seed: int) -> list[BenchCase]:
        reference = self.reference(task)
        return [
            BenchCase(program=prepared.programs[case.name], inputs=reference.inputs(case, seed)) for case in task.bench
        ]


def evaluate(job: Job, bench: Workbench) -> Evaluation:
    """Take one variant as far as it gets. Raises EvoError for harness failures only."""
    started = time.monotonic()
    outcome = _evaluate(job, bench)
    return replace(outcome, elapsed_s=time.monotonic() - started)


def _evaluate(job: Job, bench: Workbench) -> Evaluation:
    environment = bench.environment(job.task)
    prepared = prepare(job.task, job.text, bench, path=job.path)
    if isinstance(prepared, Failed):
        return _failed(prepared, environment)
    check = run_gate(job.task, prepared, bench, job.seed)
    base = Evaluation(
        variant=prepared.variant.id,
        status=check.status,
        reason=check.reason,
        environment=environment,
        check=check,
        compile=prepared.compile_json,
    )
    if not check.status.passed or job.upto == "check":
        return base
    return _benched(job, bench, prepared, base)


def _failed(failure: Failed, environment: Environment) -> Evaluation:
    return Evaluation(
        variant=failure.variant,
        status=failure.status,
        reason=failure.reason,
        environment=environment,
        check=failure.check,
        compile=failure.compile_json,
    )


def prepare(task: Task, text: str, bench: Workbench, *, path: str = "<variant>") -> Prepared | Failed:
    """Parse, hold to the static rules, plan, compile and bind one variant for all cases of its task."""
    variant_id = ""
    try:
        variant = parse_variant(text, path=path)
    except SyntaxInvalid as error:
        return Failed(status=Status.REFUSED, reason=error.message, variant=variant_id)
    if variant.task is not None and variant.task != task.name:
        hint = f"use --task {variant.task}, or change the line"
        raise UsageError(f"{path}: `// evo: task {variant.task}`, but the task is {task.name}", hint=hint)

    def refused(reason: str) -> Failed:
        return Failed(status=Status.REFUSED, reason=reason, variant=variant.id)

    if problem := gate.static_problem(text):
        return refused(f"line {problem.line}: {problem.what}")
    signatures = kernel_signatures(text)
    if reason := signature_problem(variant, task, signatures):
        return refused(reason)
    plans: dict[str, Plan] = {}
    for case in (*task.check, *task.bench):
        planned = plan(variant, task, case, bench.chip)
        if isinstance(planned, Refusal):
            return refused(f"case {case.name}: {planned.reason}")
        plans[case.name] = planned
    return _compile_and_bind(task, variant, plans, {k: len(v) for k, v in signatures.items()}, bench)


def _compile_and_bind(
    task: Task, variant: Variant, plans: dict[str, Plan], counts: dict[str, int], bench: Workbench
) -> Prepared | Failed:
    binaries: dict[tuple[tuple[str, int], ...], compiler.Binary] = {}
    programs: dict[str, Program] = {}
    started = time.monotonic()
    for case in (*task.check, *task.bench):
        key = tuple(sorted(macros_of(variant, case).items()))
        if key not in binaries:
            built = compiler.compile_source(
                variant.text,
                name=f"{task.name}.cu",
                macros=dict(key),
                flags=variant.flags,
                headers=task.headers,
                arch=bench.arch,
            )
            if isinstance(built, compiler.Diagnostics):
                shape = compile_json(variant, bench.arch, built.status, (), [built.reason], time.monotonic() - started)
                return Failed(status=built.status, reason=built.reason, variant=variant.id, compile_json=shape)
            binaries[key] = built
        program = build(variant, task, case, plans[case.name], binaries[key], counts, bench.chip)
        if isinstance(program, Refusal):
            return Failed(status=Status.REFUSED, reason=f"case {case.name}: {program.reason}", variant=variant.id)
        programs[case.name] = program
    elapsed_s = time.monotonic() - started
    shape = compile_json(variant, bench.arch, Status.CORRECT, tuple(binaries.values()), [], elapsed_s)
    code = "+".join(binary.code_hash for _, binary in sorted(binaries.items()))
    launched = repr([(case, [b.launch for b in p.launches], p.scratch) for case, p in programs.items()])
    return Prepared(variant=variant, programs=programs, compile_json=shape, code_hash=f"{code}|{hash_text(launched)}")


def hash_text(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:16]


def compile_json(
    variant: Variant,
    arch: str,
    status: Status,
    binaries: tuple[compiler.Binary, ...],
    warnings: list[str],
    elapsed_s: float,
) -> dict[str, Json]:
    """The shape of `evo compile --json`; status is absent's opposite only here: `compiled` or why not."""
    launched = {line.kernel for line in variant.launches}
    kernels: list[Json] = [
        drop_absent(
            {
                "name": report.name,
                "axes": dict(binary.macros),
                "registers": report.registers,
                "spill_store_bytes": report.spill_store_bytes,
                "spill_load_bytes": report.spill_load_bytes,
                "stack_bytes": report.stack_bytes,
                "shared_bytes": report.shared_bytes,
                "sass": dict(report.sass),
            }
        )
        for binary in binaries
        for report in binary.kernels
        if report.name in launched
    ]
    return {
        "variant": variant.id,
        "arch": arch,
        "status": "compiled" if binaries else status.value,
        "warnings": list(warnings),
        "kernels": kernels,
        "elapsed_s": round(elapsed_s, 4),
    }


# --- gate -----------------------------------------------------------------------------------------------------------


def run_gate(task: Task, prepared: Prepared, bench: Workbench, seed: int) -> Check:
    """Every check case, and the bench cases that the device can run whole."""
    rows: list[CaseCheck] = []
    counters: dict[str, int] = {}
    for step in _steps(task, bench):
        row, result, faults = _check_case(task, prepared, bench, step, seed)
        rows.append(row)
        if result is not None and step.worker is bench.checker and step.case in task.check:
            for name, value in result.counters.items():
                counters[name] = counters.get(name, 0) + value
        if row.status is not Status.CORRECT:
            reason = f"case {row.name}: {row.reason}"
            return Check(status=row.status, reason=reason, cases=tuple(rows), faults=faults, counters=counters)
    return Check(status=Status.CORRECT, cases=tuple(rows), counters=counters)


@dataclass(frozen=True, slots=True)
class _Step:
    case: Case
    worker: Worker
    check_races: bool
    repeats: int = 1


def _steps(task: Task, bench: Workbench) -> Iterator[_Step]:
    for case in task.check:
        yield _Step(case, bench.checker, True)
    headline = task.case(task.headline)
    if bench.modelled:
        yield _Step(headline, bench.checker, False)
        return
    for index, case in enumerate(task.check):
        yield _Step(case, bench.worker, True, _DETERMINISM_REPEATS if index == 0 else 2)
    for case in task.bench:
        yield _Step(case, bench.worker, True, _DETERMINISM_REPEATS if case is headline else 2)


def _check_case(
    task: Task, prepared: Prepared, bench: Workbench, step: _Step, seed: int
) -> tuple[CaseCheck, RunResult | None, tuple[Fault, ...]]:
    case = step.case
    expectation = bench.reference(task).expectation(case, seed)
    first = RunRequest(
        program=prepared.programs[case.name],
        inputs=expectation.inputs,
        repeats=step.repeats,
        check_races=step.check_races,
    )
    result = _run(step.worker, first, case)
    if isinstance(result, CaseCheck):
        return result, None, ()
    if problem := _run_problem(case, result):
        return problem, result, result.faults
    row = gate.compare(task, case.name, result.outputs[0], expectation)
    if row.status is not Status.CORRECT:
        return row, result, ()
    for again in result.outputs[1:]:
        if difference := gate.first_difference(result.outputs[0], again):
            return _unstable(row, f"differs between launches: {difference}"), result, ()
    if case.name == task.headline and bench.modelled:
        return row, result, ()  # the check cases have already run under the second poison
    second = replace(first, poison=POISON_LARGE, offset_bytes=_OFFSET_BYTES, repeats=1, check_races=False)
    shifted = _run(step.worker, second, case)
    if isinstance(shifted, CaseCheck):
        return shifted, None, ()
    if problem := _run_problem(case, shifted):
        return problem, shifted, shifted.faults
    if difference := gate.first_difference(result.outputs[0], shifted.outputs[0]):
        return _unstable(row, f"differs when memory held other values before: {difference}"), result, ()
    return row, result, ()


def _unstable(row: CaseCheck, reason: str) -> CaseCheck:
    return replace(row, status=Status.UNSTABLE, reason=reason)


def _run(worker: Worker, request: RunRequest, case: Case) -> RunResult | CaseCheck:
    try:
        result: RunResult = worker.call("run", request, time_limit_s=_RUN_LIMIT_S)
    except TimedOut as late:
        reason = f"still running after {late.seconds:g} s"
        return CaseCheck(name=case.name, status=Status.TIMED_OUT, reason=reason)
    except Crashed as crash:
        return CaseCheck(name=case.name, status=Status.CRASHED, reason=str(crash))
    return result


def _run_problem(case: Case, result: RunResult) -> CaseCheck | None:
    if result.faults:
        fault = result.faults[0]
        return CaseCheck(name=case.name, status=gate.fault_status(fault), reason=gate.fault_reason(fault))
    if result.overwritten:
        names = ", ".join(result.overwritten)
        return CaseCheck(name=case.name, status=Status.UNSAFE, reason=f"read only: input overwritten: {names}")
    if result.broken_guards:
        names = ", ".join(result.broken_guards)
        return CaseCheck(name=case.name, status=Status.UNSAFE, reason=f"out of bounds: wrote past the ends of {names}")
    return None


# --- bench and decide -----------------------------------------------------------------------------------------------


def _benched(job: Job, bench: Workbench, prepared: Prepared, base: Evaluation) -> Evaluation:
    rival = prepare(job.task, job.rival, bench, path="<parent>") if job.rival is not None else None
    if isinstance(rival, Failed):
        raise UsageError(
            f"the variant to compare with does not compile: {rival.reason}", hint="give --against a variant that runs"
        )
    if not bench.modelled:
        return _measured(job, bench, prepared, rival, base)
    try:
        ours = bench.estimates(job.task, prepared, job.seed)
        theirs = bench.estimates(job.task, rival, job.seed) if rival else None
    except (TimedOut, Crashed) as failure:
        status = Status.TIMED_OUT if isinstance(failure, TimedOut) else Status.CRASHED
        return replace(base, status=status, reason=f"while estimating: {failure}")
    if isinstance(ours, Fault):
        return replace(base, status=gate.fault_status(ours), reason=f"while estimating: {gate.fault_reason(ours)}")
    if isinstance(theirs, Fault):
        raise UsageError(f"the variant to compare with faults: {gate.fault_reason(theirs)}", hint="compare with another")
    decision: Decision | None = None
    if theirs is not None:
        margin = {} if job.margin is None else {"margin": job.margin}
        decision = decide_modelled(theirs, ours, job.task.score, neutral=job.neutral, **margin)
    return replace(base, bench=ours, decision=decision)


def _measured(
    job: Job, bench: Workbench, prepared: Prepared, rival: Prepared | None, base: Evaluation
) -> Evaluation:
    raise NotImplementedError
