"""State shared by evaluations on one device: processes, references, the parent, modelled times, the noise floor."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from evo.analysis.calibration import latest_rates
from evo.analysis.roofline import BestFloor, limits
from evo.cuda import compile as compiler
from evo.decide.modelled import MARGIN as MODELLED_MARGIN
from evo.decide.sequential import DEFAULT_RULE, DecisionRule, NoiseFloor, require_margin, supported_margin
from evo.device import BenchCase, DeviceName
from evo.device.judge import RemoteJudge
from evo.device.remote_device import RemoteGpu, RemoteSimulator, open_remote
from evo.device.timing_types import StageTimer
from evo.errors import CandidateFailed, EvoError, HarnessFault, SyntaxInvalid, UsageError
from evo.evaluate import kept_control
from evo.evaluate.before_keep import SimulatedLooks, before_keep, simulated_looks
from evo.evaluate.begun import judged_on
from evo.evaluate.code_ahead import CORES_TO_SPARE, CodeAhead
from evo.evaluate.counted_stage import CountedStage
from evo.evaluate.device_turn import DeviceTurn, WorkBeside
from evo.evaluate.gate import Sanitized, TimedSizes, check_task
from evo.evaluate.harness import harness_version
from evo.evaluate.judge_fitness import begin_judge, judge_where_asked
from evo.evaluate.library_baselines import SessionBaselines
from evo.evaluate.look_process import LookProcesses, looks_begun
from evo.evaluate.looking_bench import LookingBench
from evo.evaluate.measure import BenchOptions, control, measure_persisting, require_quiet
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.results import CaseBench, Control, Environment, Fault, Loaded
from evo.spec.child_entries import JUDGE, OPENER
from evo.spec.chips import Chip, chip
from evo.spec.proc_files import memory_limit
from evo.spec.process_settings import collect_seldom, take_short_turns
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Task

_RUN_LIMIT_S = 120.0
_BENCH_LIMIT_S = 300.0
_CONTROL_S = 30.0
_PARENTS = 8
_LOOKS = 14  # side by side
_CHECKERS = 4  # the device's, two for what is prepared ahead, one for the timed sizes
_BESIDE = 2  # simulators for one look after the other
_COPIES = 3  # of a case: in this process, on the way, and in the memory of the simulator


class EvaluationSession(LookingBench):
    """What evaluations on one device share. Close it, or use it as a context manager."""

    def __init__(
        self,
        device: DeviceName,
        *,
        arch: str = "sm_89",
        on_stage: Callable[[str], None] = lambda _: None,
        opener: str = OPENER,
        about: dict[str, str] | None = None,
        judge: str | None = None,
        jobs: int | None = None,
        task: Task | None = None,
    ) -> None:
        """judge: the entry of another process than a GPU's own that works on large cases.

        jobs: first looks side by side (default: as the cores allow); 1 leaves looks before a keep to this process too.
        task: whose reference is read while the device is opened.

        `about` is what a device elsewhere says of itself: then none is opened here, and nothing can be timed."""
        take_short_turns()
        collect_seldom()
        self.device, self.jobs, self.on_stage = device, jobs, on_stage
        self.remote = open_remote(device, opener=opener, on_wait=lambda: self.on_stage(f"waiting for {device}"))
        self._lock = threading.Lock()
        self._references: dict[str, Reference] = {}
        self._judges: list[RemoteJudge] = []
        on_gpu = about is None and opener == OPENER and device.kind == "gpu"
        self._judge_entry = judge or (JUDGE if on_gpu and judged_on(device) else None)
        # A second's work, unless it is kept; what asks for it waits.
        threading.Thread(target=harness_version, name="evo-harness", daemon=True).start()
        if task is not None:
            threading.Thread(target=self._read_ahead, args=(task,), name="evo-reference", daemon=True).start()
        self.about: dict[str, str] = about or self.remote.describe(time_limit_s=_RUN_LIMIT_S)
        self.chip: Chip = chip(self.about.get("chip", device.which))
        self.arch = self.chip.arch if arch == "native" else arch
        if isinstance(self.remote, RemoteSimulator):
            self.checker, self.target = self.remote, None
        else:
            self.checker, self.target = RemoteSimulator(DeviceName("sim", self.chip.slug)), self.remote
            self.checker.prepare_spare()  # it starts while the task is read
        self.controls: dict[str, Control] = {}  # task hash -> the noise floor of this run's A/A control
        self.floors: dict[str, NoiseFloor] = {}  # the same as it was measured, for the intervals
        self._margins: dict[str, float] = {}  # task hash -> the default margin, or what its noise floor asks for
        self.sanitized: dict[tuple[str, str], Sanitized] = {}  # (task hash, code hash) that compute-sanitizer passed
        self.sanitizing: dict[tuple[str, str], Future[Sanitized]] = {}  # ... and that are under it
        self.looks: dict[tuple[str, str, int], dict[str, float]] = {}  # first looks at parents: modelled time by case
        self.promising: Callable[[str], object] | None = None  # hears of a text whose first stage showed a gain
        self._checkers: list[RemoteSimulator] = []  # more simulators, for screening and for what is evaluated ahead
        self.turn = DeviceTurn()
        self.beside = WorkBeside(self.turn)
        self._parents: dict[tuple[str, str], Prepared | PrepareFailure] = {}
        self.baselines = SessionBaselines(self.target, apart=on_gpu, tell=on_stage)
        self.code = CodeAhead(self.checker.device, self.chip.arch if on_gpu and self.arch != self.chip.arch else None)
        self._estimates: dict[tuple[str, str, int], tuple[CaseBench, ...]] = {}
        self._timed: dict[tuple[str, str, int, bool], TimedSizes] = {}
        self._looks: dict[tuple[str, str, int], SimulatedLooks] = {}  # of the latest variant that is to be kept
        self._threads: ThreadPoolExecutor | None = None
        self._look_processes: LookProcesses | None = None

    def __enter__(self) -> EvaluationSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for device in (self.remote, self.checker, *self._checkers):
            device.close()
        self.beside.end()
        self.baselines.close()
        self.code.close()
        self._end_looks()
        for judge in self._judges:
            judge.close()
        for reference in self._references.values():
            reference.close(for_good=True)

    def watch_calls(self, look: Callable[[], object]) -> None:
        """Have something looked at before each call of a device, such as the time; what it raises ends the call."""
        for device in (self.remote, self.checker, *self._checkers):
            device.on_call = look

    def rest(self) -> None:
        """End what works ahead or side by side: a run that has no candidates left needs the memory, and the device."""
        self.beside.end()
        self.code.close()
        self._end_looks()
        while self._checkers:
            self._checkers.pop().close()

    def _end_looks(self) -> None:
        for looks in self._looks.values():
            looks.give_up()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._look_processes is not None:
            self._look_processes.close()
        self._threads = self._look_processes = None

    @property
    def gpu(self) -> RemoteGpu:
        """What times are measured on. Raises UsageError on a simulator."""
        if self.target is None:
            raise UsageError(f"{self.device} measures no times", hint="use --device gpu:0")
        return self.target

    @property
    def default_margin(self) -> float:
        """The fraction of its parent's time that a variant has to save to be kept."""
        return MODELLED_MARGIN if self.modelled else DEFAULT_RULE.margin

    def margin(self, task: Task) -> float:
        """The default margin, or the larger one that the noise of the task's A/A control asks for."""
        return self._margins.get(task.hash, self.default_margin)

    @property
    def chip_slug(self) -> str:
        """`l4` for the chip, `sim-l4` for its model."""
        return f"sim-{self.chip.slug}" if self.modelled else self.chip.slug

    def environment(self, task: Task) -> Environment:
        measured: Loaded = "cubin" if self.arch == self.chip.arch else "ptx_jit"
        return Environment(
            device=str(self.device),
            chip=self.chip_slug,
            arch=self.arch,
            loaded="sim" if self.modelled else measured,
            toolkit=compiler.toolkit_version(),
            harness=harness_version(),
            task_hash=task.hash,
            detail={key: value for key, value in self.about.items() if key not in ("chip", "loaded")},
        )

    def reference(self, task: Task) -> Reference:
        with self._lock:
            if task.hash not in self._references:
                # Its process starts while the task is checked, where more than one job is asked for.
                judge = self._open_judge(task) if self._judge_entry is not None and self.jobs != 1 else None
                reference = load_reference(task)
                coming = begin_judge(reference, judge) if judge is not None else None
                self.on_stage("self-test")
                check_task(task, reference)  # by NumPy alone
                if coming is not None:
                    reference.coming = coming
                elif self._judge_entry is not None:
                    judge_where_asked(reference, partial(self._open_judge, task))
                self._references[task.hash] = reference
            return self._references[task.hash]

    def _open_judge(self, task: Task) -> RemoteJudge:
        assert self._judge_entry is not None
        judge = RemoteJudge(task, self.device.which, entry=self._judge_entry, told=self.on_stage)
        self._judges.append(judge)
        return judge

    def _read_ahead(self, task: Task) -> None:
        with contextlib.suppress(EvoError, RuntimeError):  # told where it is asked for, unless all is at its end
            self.reference(task)

    def estimates(self, task: Task, prepared: Prepared, seed: int) -> tuple[CaseBench, ...] | Fault:
        """The modelled times of all bench cases, kept by variant; or the fault that an execution ended in."""
        key = (task.hash, prepared.variant.id, seed)
        if key not in self._estimates:
            rows: list[CaseBench] = []
            for number, case in enumerate(self.bench_cases(task, prepared, seed)):
                name = task.bench[number].name
                self.on_stage(CountedStage("estimate", "case", number, len(task.bench), name))
                found = self.checker.estimate([case], time_limit_s=_BENCH_LIMIT_S)
                if isinstance(found, Fault):
                    return found
                rows += found
            self._estimates[key] = tuple(rows)
        return self._estimates[key]

    def timed_sizes(
        self,
        task: Task,
        prepared: Prepared,
        seed: int,
        stages: StageTimer,
        *,
        timed_alone: bool = False,
        times: Sequence[CaseBench] | None = None,
    ) -> TimedSizes:
        """A last look at all bench cases on the simulator, kept by variant; numbers of a GPU on other inputs alone.

        times: of what is about to be kept. Its turn at the GPU ends, if simulators look at it already.
        """
        key = (task.hash, prepared.variant.id, seed)
        begun = self._looks.get(key)
        if begun is None and times is not None and self.beside.control is not None:
            with stages.time("control"):
                self.beside.take_control(times)
        if (known := self._timed.get((*key, timed_alone))) is None:
            checkers = self.more_checkers(min(os.cpu_count() or 1, _BESIDE)) if self.modelled else [self.checker]
            looks = begun or simulated_looks(self, task, prepared, seed, checkers, timed_alone=timed_alone)
            beside = None
            if begun is not None and times is not None:
                beside = partial(self.beside.begin, prepared.variant.text, times)
            known = before_keep(task, looks, stages, timed_alone=timed_alone, beside=beside)
            self._timed[*key, timed_alone] = known
        self.drop_looks(task, prepared, seed)  # until then those at what comes next wait: one is waited for
        return known

    def prepare_looks(self) -> None:
        """Start the processes that look at what is about to be kept, unless one job at a time is asked for."""
        has_cores = (os.cpu_count() or 1) >= CORES_TO_SPARE
        if self._look_processes is None and has_cores and self.jobs != 1 and not self.modelled:
            self._look_processes = LookProcesses(self.checker.device)

    def begin_looks(self, task: Task, prepared: Prepared, seed: int, *, early: bool = False) -> None:
        """Begin with what `timed_sizes` asks of simulators, on the cores that a GPU leaves idle while it is timed.

        early: while its gate goes on, unless another variant is looked at.
        """
        key = (task.hash, prepared.variant.id, seed)
        with self._lock:
            self.prepare_looks()
            if self._look_processes is None or (*key, False) in self._timed or key in self._looks:
                return
            if early and self._looks:
                return
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_LOOKS, thread_name_prefix="evo-looks")
            checkers = self.checker, self.more_checkers(_CHECKERS)[-1]
            for others in self._looks.values():
                others.give_up()
            self._looks = {key: looks_begun(self, task, prepared, seed, self._look_processes, checkers, self._threads)}

    def drop_looks(self, task: Task, prepared: Prepared, seed: int) -> None:
        """The variant is not to be kept: the cores and the processes are another's."""
        with self._lock:
            if (looks := self._looks.pop((task.hash, prepared.variant.id, seed), None)) is not None:
                looks.give_up()

    def bench_cases(self, task: Task, prepared: Prepared, seed: int) -> list[BenchCase]:
        reference = self.reference(task)
        if self.modelled:
            _require_room(task)
        inputs = reference.fixed_inputs
        return [BenchCase(program=prepared.programs[c.name], inputs=inputs(c, seed)) for c in task.bench]

    def more_checkers(self, count: int) -> list[RemoteSimulator]:
        """The simulator and others beside it, `count` in all; they live as long as the session."""
        while len(self._checkers) < count - 1:
            self._checkers.append(RemoteSimulator(self.checker.device))
            self._checkers[-1].on_call = self.checker.on_call
            self._checkers[-1].prepare_spare()
        return [self.checker, *self._checkers[: count - 1]]

    @property
    def idle_checker(self) -> RemoteSimulator | None:
        """A simulator that works ahead of a GPU, if one is open; candidates ahead may have to wait for it."""
        return self._checkers[0] if self._checkers and not self.modelled else None

    def parent(self, task: Task, text: str) -> Prepared:
        """The variant that others are compared with, prepared once. Raises UsageError if it does not run."""
        key = (task.hash, text)
        if key not in self._parents:
            if len(self._parents) >= _PARENTS:
                self._parents.clear()
            self._parents[key] = self.prepare(task, text, path="<parent>")
        found = self._parents[key]
        if isinstance(found, PrepareFailure):
            raise UsageError(
                f"the variant to compare with does not run: {found.reason}",
                problem="rival-fails",
                hint="compare with one that passes `evo check`",
            )
        return found

    def control(
        self,
        task: Task,
        text: str,
        seed: int,
        *,
        margin: float | None = None,
        reuse: bool = False,
        known: Sequence[CaseBench] = (),
    ) -> NoiseFloor:
        """The A/A control of a run on a GPU: a variant against itself, on the path that every variant takes.

        Its noise floor goes into every later Evaluation. reuse: that of the last hour in this environment serves too.
        known: times of the variant; cases whose launches take longer than a control is given are left out.
        Without a margin, the default grows to what the noise supports (`margin`). Raises HarnessFault if the variant
        is judged faster than itself, UsageError if the margin is within the noise.
        """
        rule = DEFAULT_RULE if margin is None else replace(DEFAULT_RULE, margin=margin)
        environment, now = self.environment(task), datetime.now(UTC)
        if reuse and (kept := kept_control.latest(environment, now)) is not None:
            floor, age_s = kept
            self._hold_to(task, floor, rule, is_chosen=margin is not None)
            self.controls[task.hash] = replace(floor.shown(rule), age_s=age_s)
            return floor
        cases = tuple(self.bench_cases(task, self.parent(task, text), seed))
        options = BenchOptions(rule=rule, budget_s=_CONTROL_S)
        known_us = {row.name: row.time_us for row in known}
        try:
            floor, decision = control(self.gpu, cases, options=options, score=dict(task.score), known_us=known_us)
        except CandidateFailed as failure:
            hint = "demote it: it passed its gate once"
            raise HarnessFault(f"A/A control: the champion failed: {failure}", hint=hint) from None
        require_quiet(decision)
        self._hold_to(task, floor, rule, is_chosen=margin is not None)
        self.controls[task.hash] = floor.shown(rule)
        kept_control.keep(environment, floor, now)
        return floor

    def _hold_to(self, task: Task, floor: NoiseFloor, rule: DecisionRule, *, is_chosen: bool) -> None:
        if is_chosen:
            require_margin(floor, rule)
        else:
            self._margins[task.hash] = supported_margin(floor, rule)
        self.floors[task.hash] = floor

    def persisting(self, task: Task, text: str, seed: int) -> tuple[CaseBench, ...]:
        """Warm times of a verified variant with its inputs kept in L2, as `measure_persisting` takes them."""
        cases = tuple(self.bench_cases(task, self.parent(task, text), seed))
        return measure_persisting(self.gpu, cases)

    def best_floor(self, task: Task, case: str) -> BestFloor | None:
        """The floor of a bench case by the best rates known; None if nothing is known of it."""
        known = latest_rates(self.chip.slug)
        try:
            found = limits(task, task.case(case), self.chip, measured=known.rates() if known else None)
        except SyntaxInvalid:
            return None
        if not found.best_floor_us:
            return None
        launch_us = found.calibrated_floors_us.get("launch", found.floors_us.get("launch") if self.modelled else None)
        estimated = found.best_limiter in found.estimated or (found.best_limiter == "l2" and known is None)
        return BestFloor(found.best_limiter, found.best_floor_us, launch_us, estimated=estimated)

    def floor_us(self, task: Task, case: str) -> float | None:
        """What a bench case cannot be faster than on this chip; None if the task states no work."""
        try:
            return limits(task, task.case(case), self.chip).floor_us or None
        except SyntaxInvalid:
            return None

    def target_us(self, task: Task, case: str) -> float | None:
        """The time that a bench case is to reach on this chip; its floor if no target is stated."""
        try:
            return limits(task, task.case(case), self.chip).target_us or self.floor_us(task, case)
        except SyntaxInvalid:
            return None


def _require_room(task: Task) -> None:
    """Raises HarnessFault if the simulator would run out of memory, minutes later and without a word."""
    for case in task.bench:
        needed = sum(tensor.size_bytes(case) for tensor in task.tensors)
        if _COPIES * needed > memory_limit():
            raise HarnessFault(
                f"case {case.name} of {task.name} has {needed / 1e9:.1f} GB of tensors: simulating it needs about "
                f"{_COPIES} times that, and this machine gives {memory_limit() / 1e9:.1f} GB",
                hint="use a GPU, or take the case out of `bench` in task.yaml (`evo import --small` leaves it out)",
            )
