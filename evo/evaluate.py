"""The one pipeline: compile -> gate -> bench -> decide. The CLI, the loop, the nightly run and the tests all call it.

A variant's failure comes back as data in the Evaluation; a harness failure is raised. `Workbench` holds
what evaluations share: worker processes, references and modelled times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue

import evo
from evo import compile as compiler
from evo import gate
from evo.bench import BenchOptions, BenchRequest, measure
from evo.decide import DEFAULT_RULE, decide_modelled
from evo.decide_modelled import CASE_LOSS
from evo.decide_modelled import MARGIN as MODELLED_MARGIN
from evo.device import BenchCase, DeviceName
from evo.device.worker import Crashed, TimedOut, Worker
from evo.errors import UsageError
from evo.hardware import Chip, chip
from evo.launch import macros_of
from evo.prepare import Failed, Prepared, prepare
from evo.reference import Reference, load_reference
from evo.result import CaseBench, Decision, Environment, Evaluation, Fault, Status
from evo.task import Case, Task
from evo.variant import parse_variant

_RUN_LIMIT_S = 120.0
_BENCH_LIMIT_S = 300.0
_SCREEN_LIMIT_S = 30.0
_SCREENING_SAMPLES = 64
_OTHER_SEEDS = (7919, 15485)  # more input values: timed launches rotate over all three sets


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant to be evaluated. `rival` is the text it is compared with (its parent), if any.

    upto: `check` ends at the gate, `bench` goes on to times. static_rules=False is for `evo redteam` alone.
    """

    task: Task
    text: str
    path: str = "<variant>"
    seed: int = 0
    rival: str | None = None
    upto: str = "bench"
    margin: float | None = None
    neutral: bool = False
    static_rules: bool = True


class Workbench:
    """What evaluations on one device share. Close it, or use it as a context manager."""

    def __init__(
        self, device: DeviceName, *, arch: str = "sm_89", on_stage: Callable[[str], None] = lambda _: None
    ) -> None:
        self.device = device
        self.on_stage = on_stage
        self.worker = Worker(device)
        self.about: dict[str, str] = self.worker.call("describe", time_limit_s=_RUN_LIMIT_S)
        self.chip: Chip = chip(self.about.get("chip", device.which))
        self.arch = self.chip.arch if arch == "native" else arch
        self.checker = self.worker if device.kind == "sim" else Worker(DeviceName("sim", self.chip.slug))
        self._helper: Worker | None = None  # a second simulator, for screening
        self._references: dict[str, Reference] = {}
        self._estimates: dict[tuple[str, str, int], tuple[CaseBench, ...]] = {}

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.worker.close()
        if self._helper is not None:
            self._helper.close()
        if self.checker is not self.worker:
            self.checker.close()

    @property
    def modelled(self) -> bool:
        return self.device.kind == "sim"

    @property
    def default_margin(self) -> float:
        """The fraction of its parent's time that a variant has to save to be kept."""
        return MODELLED_MARGIN if self.modelled else DEFAULT_RULE.margin

    @property
    def chip_slug(self) -> str:
        """`l4` for the chip, `sim-l4` for its model."""
        return f"sim-{self.chip.slug}" if self.modelled else self.chip.slug

    def environment(self, task: Task) -> Environment:
        measured = "cubin" if self.arch == self.chip.arch else "ptx_jit"
        return Environment(
            device=str(self.device),
            chip=self.chip_slug,
            arch=self.arch,
            loaded="sim" if self.modelled else measured,
            toolkit=compiler.toolkit_version(),
            harness=evo.__version__,
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

    def screen(self, task: Task, parent: str, texts: Sequence[str], seed: int) -> list[float | None]:
        """Quick modelled gains over the parent, from a few blocks: only to choose what to try, never recorded.

        Takes the bench cases that share the headline's binary; a case that gets slower is the answer by itself.
        """

        def quick(worker: Worker, text: str) -> dict[str, float] | None:
            cases = _sharing_headline(task, text)
            prepared = prepare(task, text, chip=self.chip, arch=self.arch, cases=cases)
            if isinstance(prepared, Failed):
                return None
            inputs = self.reference(task).inputs
            quick_cases = [BenchCase(program=prepared.programs[c.name], inputs=inputs(c, seed)) for c in cases]
            try:
                found = worker.call("screen", quick_cases, time_limit_s=_SCREEN_LIMIT_S)
            except (TimedOut, Crashed):
                return None
            return None if isinstance(found, Fault) else {row.name: row.time_us for row in found}

        before, *after = self._spread(quick, [parent, *texts])
        return [_screened_gain(before, times, task.score) if before and times else None for times in after]

    def _spread(
        self, call: Callable[[Worker, str], dict[str, float] | None], texts: Sequence[str]
    ) -> Iterator[dict[str, float] | None]:
        """Run over two simulator workers, since estimates of different variants do not disturb one another."""
        if self._helper is None:
            self._helper = Worker(self.device)
        free: SimpleQueue[Worker] = SimpleQueue()
        for worker in (self.worker, self._helper):
            free.put(worker)

        def one(text: str) -> dict[str, float] | None:
            worker = free.get()
            try:
                return call(worker, text)
            finally:
                free.put(worker)

        with ThreadPoolExecutor(max_workers=2) as pool:
            yield from pool.map(one, texts)

    def bench_cases(self, task: Task, prepared: Prepared, seed: int) -> list[BenchCase]:
        reference = self.reference(task)
        return [BenchCase(program=prepared.programs[c.name], inputs=reference.inputs(c, seed)) for c in task.bench]

    def prepare(
        self, task: Task, text: str, *, path: str = "<variant>", static_rules: bool = True
    ) -> Prepared | Failed:
        """Compile and bind one variant for this device."""
        return prepare(task, text, chip=self.chip, arch=self.arch, path=path, static_rules=static_rules)


def _sharing_headline(task: Task, text: str) -> list[Case]:
    """The bench cases that run the headline's binary, so that a quick look compiles once."""
    variant = parse_variant(text)
    wanted = macros_of(variant, task.case(task.headline))
    return [case for case in task.bench if macros_of(variant, case) == wanted]


def _screened_gain(before: dict[str, float], after: dict[str, float], score: Mapping[str, float]) -> float:
    gains = {name: before[name] / time for name, time in after.items()}
    weights = {name: score.get(name, 0.0) for name in gains}
    if min(gains.values()) < 1 - CASE_LOSS or not sum(weights.values()):
        return min(gains.values())
    mean = sum(weights[name] * math.log(gain) for name, gain in gains.items()) / sum(weights.values())
    return math.exp(mean)


def evaluate(job: Job, bench: Workbench) -> Evaluation:
    """Take one variant as far as it gets. Raises EvoError for harness failures only."""
    started = time.monotonic()
    outcome = _evaluate(job, bench)
    return replace(outcome, elapsed_s=time.monotonic() - started)


def _evaluate(job: Job, bench: Workbench) -> Evaluation:
    environment = bench.environment(job.task)
    bench.on_stage("compile")
    prepared = bench.prepare(job.task, job.text, path=job.path, static_rules=job.static_rules)
    if isinstance(prepared, Failed):
        return Evaluation(
            variant=prepared.variant,
            status=prepared.status,
            reason=prepared.reason,
            environment=environment,
            compile=prepared.compile_json,
        )
    bench.on_stage("gate")
    places = gate.Places(checker=bench.checker, target=None if bench.modelled else bench.worker)
    check = gate.run_gate(job.task, prepared.programs, bench.reference(job.task), places, job.seed)
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
    bench.on_stage("estimate" if bench.modelled else "bench")
    rival = bench.prepare(job.task, job.rival, path="<parent>") if job.rival is not None else None
    if isinstance(rival, Failed):
        raise UsageError(
            f"the variant to compare with does not run: {rival.reason}", hint="compare with one that passes `evo check`"
        )
    step = _modelled if bench.modelled else _measured
    try:
        return step(job, bench, prepared, rival, base)
    except (TimedOut, Crashed) as failure:
        status = Status.TIMED_OUT if isinstance(failure, TimedOut) else Status.CRASHED
        return replace(base, status=status, reason=f"while timing: {failure}")


def _modelled(job: Job, bench: Workbench, prepared: Prepared, rival: Prepared | None, base: Evaluation) -> Evaluation:
    ours = bench.estimates(job.task, prepared, job.seed)
    if isinstance(ours, Fault):
        return replace(base, status=gate.fault_status(ours), reason=f"while estimating: {gate.fault_reason(ours)}")
    decision: Decision | None = None
    if rival is not None:
        theirs = bench.estimates(job.task, rival, job.seed)
        if isinstance(theirs, Fault):
            raise UsageError(
                f"the variant to compare with faults: {gate.fault_reason(theirs)}", hint="compare with another"
            )
        margin = job.margin if job.margin is not None else MODELLED_MARGIN
        decision = decide_modelled(theirs, ours, job.task.score, margin, neutral=job.neutral)
    return replace(base, bench=ours, decision=decision)


def _measured(job: Job, bench: Workbench, prepared: Prepared, rival: Prepared | None, base: Evaluation) -> Evaluation:
    rule = DEFAULT_RULE if job.margin is None else replace(DEFAULT_RULE, margin=job.margin)
    reference = bench.reference(job.task)

    def request(seed: int) -> BenchRequest:
        return BenchRequest(
            child=tuple(bench.bench_cases(job.task, prepared, seed)),
            parent=tuple(bench.bench_cases(job.task, rival, seed)) if rival else (),
            score=dict(job.task.score),
            others={c.name: tuple(reference.inputs(c, seed + o) for o in _OTHER_SEEDS) for c in job.task.bench},
            options=BenchOptions(rule=rule, samples=_SCREENING_SAMPLES),
        )

    found = measure(bench.worker, request(job.seed), chip=bench.chip, fresh=lambda: request(job.seed + 1))
    if found.divergence is not None:
        return replace(base, status=Status.UNSTABLE, reason=f"while timing: {gate.fault_reason(found.divergence)}")
    return replace(base, status=Status.MEASURED, bench=found.child, decision=found.decision)
