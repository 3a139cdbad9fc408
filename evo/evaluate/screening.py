"""A first look at many variants: compile, load, one guarded and checked run, a short timing; or a coarse estimate.

The cheap first stage in front of `evaluate`: it says what is worth a trial, and decides nothing.
While one variant is on the GPU or on a simulator the next are compiled.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from evo.decide.modelled import CASE_LOSS
from evo.device import Arrays, BenchCase, RunRequest
from evo.device.remote_device import RemoteSimulator
from evo.device.timing_types import StageTimer
from evo.errors import Crashed, TimedOut, UsageError
from evo.evaluate import gate
from evo.evaluate.counted_stage import CountedStage, Tell
from evo.evaluate.measure import BenchOptions, BenchRequest
from evo.evaluate.prepare import Prepared, PrepareFailure, prepare, spills
from evo.evaluate.session import EvaluationSession
from evo.results import CaseCheck, Fault, Status
from evo.spec.expectation import Expectation
from evo.spec.launch import Launch, macros_of
from evo.spec.look_ahead import look_ahead
from evo.spec.task import Case, Task
from evo.spec.variant import parse_variant

_LIMIT_S = 20.0
_ESTIMATE_LIMIT_S = 30.0
_SIMULATORS = 4  # at most, and two at least; each runs blocks on several cores
_MOST_AHEAD = 8
_LARGER = 4  # times the headline's work
_CLOSE, _FAR = 1.15, 1.25  # of the best gain, and over the parent
_GLANCE = 1 << 16  # elements of an output
_OPTIONS = BenchOptions(  # one block; of launches that are blocks by themselves, two
    samples=8, cold_samples=0, warm_up_s=0.0, budget_s=2.0, tail_s=0.1, fewest=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningResult:
    """What a first look showed: MEASURED with a time, or how far the variant got and why. code: what was timed."""

    variant: str
    status: Status
    reason: str | None = None
    p50_us: float | None = None
    stages_s: dict[str, float] = field(default_factory=dict)
    code: tuple[str, tuple[Launch, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Glance:
    """Some places of each output, as flat indices, and what is to stand there."""

    places: dict[str, NDArray[np.int64]]
    truth: Expectation


def screen_all(
    task: Task, texts: Iterable[str], bench: EvaluationSession, *, case: Case | None = None, seed: int = 0
) -> Iterator[ScreeningResult]:
    """Screen variants in order at one case (default: the headline), each compiled while others are on the GPU.

    Raises UsageError on a simulator, EvoError for harness failures.
    """
    if bench.modelled:
        raise UsageError("a first look on hardware needs a GPU", hint="use --device gpu:0")
    case = case or task.case(task.headline)
    expectation = bench.reference(task).expectation(case, seed)
    ahead = bench.jobs or min(os.cpu_count() or 1, _MOST_AHEAD)

    def compiled(text: str) -> tuple[Prepared | PrepareFailure, StageTimer]:
        stages = StageTimer()
        with stages.time("compile"):
            found = prepare(task, text, chip=bench.chip, arch=bench.arch, cases=[case], addresses=False)
            bench.code.assembled(found)
            return found, stages

    with ThreadPoolExecutor(max_workers=ahead, thread_name_prefix="evo-screen") as pool:
        for _, (prepared, stages) in look_ahead(lambda text: pool.submit(compiled, text), texts, ahead + 1):
            yield _screened(task, prepared, stages, bench, case, expectation, seed)


def screened_gains(
    bench: EvaluationSession, task: Task, parent: str, texts: Sequence[str], seed: int, tell: Tell | None = None
) -> list[float | None]:
    """Quick gains over the parent, to choose what to try: modelled, or measured at the headline case and a larger
    one, and at the largest where what runs at both is what the parent runs, or several are far ahead and close.

    None if a text does not come as far as a time. On a GPU the parent is timed first and last, against drift. tell:
    hears how far it is; by default who watches the session.
    """
    tell = tell or bench.on_stage
    if bench.modelled:
        return _Neighbours(bench, task, parent, seed, tell).gains(texts)
    gains: list[dict[str, float]] = [{} for _ in texts]
    hopeful, unchanged = list(range(len(texts))), set(range(len(texts)))

    def look(case: Case) -> None:
        found = _measured(bench, task, case, parent, [texts[place] for place in hopeful], seed, tell)
        for place, (gain, is_same) in zip(hopeful, found, strict=True):
            if gain is not None:
                gains[place][case.name] = gain
            if not is_same:
                unchanged.discard(place)

    first = _first_looks(task)
    for case in first:
        look(case)
        # A keep may make no case slower: what loses here is no better for what it gains elsewhere.
        hopeful = [place for place in hopeful if gains[place].get(case.name, 0.0) > 1 - 2 * CASE_LOSS]
    # What is the parent's code at these sizes, as a tile for large problems, shows at the largest alone.
    largest = max(task.bench, key=lambda case: _work(task, case))
    hopeful = [place for place in hopeful if place in unchanged and largest not in first]
    look(largest)
    promised = [_promised(each, task.score) if each else None for each in gains]
    return promised if largest in first else _told_apart(bench, task, largest, first, texts, promised, seed, tell)


def _told_apart(
    bench: EvaluationSession,
    task: Task,
    largest: Case,
    first: Sequence[Case],
    texts: Sequence[str],
    promised: list[float | None],
    seed: int,
    tell: Tell,
) -> list[float | None]:
    """The gains, where what is far ahead and close together is timed where the most is to do as well: one beside
    another, since their parent may take long there.
    """
    best = max(filter(None, promised), default=0.0)
    close = [place for place, gain in enumerate(promised) if gain and gain >= max(best / _CLOSE, _FAR)]
    share = _share(task, largest, first)
    if len(close) < 2 or not share:
        return promised
    one, *others = (texts[place] for place in close)
    found = _measured(bench, task, largest, one, others, seed, tell)
    if all(gain is None for gain, _ in found):
        return promised
    ratios = [1.0, *(gain for gain, _ in found)]
    fastest = max(filter(None, ratios))
    told = list(promised)
    for place, ratio in zip(close, ratios, strict=True):
        told[place] = (promised[place] or 0.0) * (ratio / fastest) ** share if ratio else None
    return told


def _share(task: Task, largest: Case, first: Sequence[Case]) -> float:
    """The weight of the largest case beside those that are looked at first."""
    weights = [task.score.get(case.name, 0.0) for case in (largest, *first)]
    return weights[0] / sum(weights) if sum(weights) else 0.0


def compile_ahead(bench: EvaluationSession, task: Task, texts: Sequence[str]) -> None:
    """Have compiled, and kept in the compiler's cache, what a first look at these texts on a GPU will ask for."""

    def compiled(text: str) -> None:
        chip, arch = bench.chip, bench.arch
        bench.code.assembled(prepare(task, text, chip=chip, arch=arch, cases=_first_looks(task), addresses=False))

    with ThreadPoolExecutor(bench.jobs or min(os.cpu_count() or 1, _MOST_AHEAD), "evo-compile-ahead") as pool:
        for _ in pool.map(compiled, texts):
            pass


def _promised(gains: Mapping[str, float], score: Mapping[str, float]) -> float:
    """What a first look at some cases promises: the mean by their weights, or the gain of one that gets slower."""
    weights = {name: score.get(name, 0.0) for name in gains}
    if min(gains.values()) < 1 - CASE_LOSS or not sum(weights.values()):
        return min(gains.values())
    mean = sum(weights[name] * math.log(gain) for name, gain in gains.items()) / sum(weights.values())
    return math.exp(mean)


class _Neighbours:
    """Edits of a parent on simulators: modelled times of a few blocks of the cases that share the headline's binary.

    It stops as early as possible. Identical machine code is run once. A child that spills where its parent does not is
    not run, since it is never kept on a modelled time. One that slows the headline case is rejected at once.
    """

    def __init__(self, bench: EvaluationSession, task: Task, parent: str, seed: int, tell: Tell) -> None:
        self._bench, self._task, self._seed, self._tell = bench, task, seed, tell
        self._parent = self._prepared(parent)
        cores = os.cpu_count() or 1
        self._ahead = bench.jobs or min(cores, _MOST_AHEAD)
        self._count = bench.jobs or max(2, min(cores // 2, _SIMULATORS))
        self._free: SimpleQueue[RemoteSimulator] = SimpleQueue()
        for simulator in bench.more_checkers(self._count):
            self._free.put(simulator)

    def gains(self, texts: Sequence[str]) -> list[float | None]:
        """The gains of texts over the parent; None if one does not come as far as a time, or would not be kept."""
        if isinstance(self._parent, PrepareFailure):
            return [None for _ in texts]
        with (
            ThreadPoolExecutor(max_workers=self._ahead, thread_name_prefix="evo-compile-ahead") as compilers,
            ThreadPoolExecutor(max_workers=self._count, thread_name_prefix="evo-screen") as lookers,
        ):
            try:
                ahead = [compilers.submit(self._prepared, text) for text in texts]
                return self._looked(self._parent, ahead, lookers)
            finally:
                compilers.shutdown(wait=False, cancel_futures=True)
                lookers.shutdown(wait=False, cancel_futures=True)

    def _looked(
        self, parent: Prepared, ahead: Sequence[Future[Prepared | PrepareFailure]], lookers: ThreadPoolExecutor
    ) -> list[float | None]:
        key = (self._task.hash, parent.variant.id, self._seed)
        if key not in self._bench.looks:
            self._bench.looks[key] = self._times(parent, {})
        if not (before := self._bench.looks[key]):
            return [None for _ in ahead]
        looks: dict[str, Future[dict[str, float]]] = {}
        codes: list[str | None] = []
        for compiled in ahead:  # in order: which of several with the same code is run must not depend on the compiler
            prepared = compiled.result()
            if isinstance(prepared, PrepareFailure) or spills(parent, prepared):
                codes.append(None)
                continue
            codes.append(code := prepared.code_hash)
            if code not in looks and code != parent.code_hash:
                looks[code] = lookers.submit(self._times, prepared, before)
        times: dict[str | None, dict[str, float]] = {}
        for number, (code, look) in enumerate(looks.items()):
            self._tell(CountedStage("screen", "candidate", number, len(looks)))
            times[code] = look.result()
        times |= {parent.code_hash: before}
        return [self._gain(before, times[code]) if code is not None else None for code in codes]

    def _gain(self, before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
        gains = {name: before[name] / time for name, time in after.items() if name in before}
        return _promised(gains, self._task.score) if gains else None

    def _prepared(self, text: str) -> Prepared | PrepareFailure:
        task, bench = self._task, self._bench
        cases = _sharing_headline(task, text)
        return prepare(task, text, chip=bench.chip, arch=bench.arch, cases=cases, addresses=False)

    def _times(self, prepared: Prepared, before: Mapping[str, float]) -> dict[str, float]:
        """Times by case, the headline's alone if that is slower than before; none if it cannot be run."""
        headline = self._task.headline
        others = [name for name in prepared.programs if name != headline]
        simulator = self._free.get()
        try:
            times = self._estimated(simulator, prepared, [headline])
            if others and times and not times[headline] > before.get(headline, math.inf) / (1 - CASE_LOSS):
                more = self._estimated(simulator, prepared, others)
                return times | more if more else {}
            return times
        finally:
            self._free.put(simulator)

    def _estimated(self, simulator: RemoteSimulator, prepared: Prepared, names: Sequence[str]) -> dict[str, float]:
        inputs = self._bench.reference(self._task).fixed_inputs
        cases = [
            BenchCase(program=prepared.programs[name], inputs=inputs(self._task.case(name), self._seed))
            for name in names
        ]
        try:
            found = simulator.screen(cases, time_limit_s=_ESTIMATE_LIMIT_S)
        except (TimedOut, Crashed):
            return {}
        return {} if isinstance(found, Fault) else {row.name: row.time_us for row in found}


def _sharing_headline(task: Task, text: str) -> list[Case]:
    """The bench cases that run the headline's binary, so that a quick look compiles once."""
    variant = parse_variant(text)
    wanted = macros_of(variant, task.case(task.headline))
    return [case for case in task.bench if macros_of(variant, case) == wanted]


def _first_looks(task: Task) -> list[Case]:
    """The headline, and the least of the bench cases with several times its work: a small launch hides what pays."""

    headline, work = task.case(task.headline), functools.partial(_work, task)
    enough = _LARGER * work(headline)
    larger = sorted((case for case in task.bench if work(case) >= enough > 0), key=work)
    return [headline, *larger[:1]]


def _work(task: Task, case: Case) -> float:
    known = task.work_of(case)
    return known.get("flop") or known.get("bytes") or 0.0


def _measured(
    bench: EvaluationSession, task: Task, case: Case, parent: str, texts: Sequence[str], seed: int, tell: Tell
) -> list[tuple[float | None, bool]]:
    """Of each text the gain at a case, and whether what runs there is what the parent runs."""
    if not texts:
        return []
    looks: list[ScreeningResult] = []
    for look in screen_all(task, [parent, *texts, parent], bench, case=case, seed=seed):
        looks.append(look)
        tell(CountedStage("screen", "candidate", len(looks) - 1, len(texts) + 2, case.name))
    before, *rows, after = looks
    ends = [row.p50_us for row in (before, after) if row.p50_us is not None]
    gains = [min(ends) / row.p50_us if ends and row.p50_us is not None else None for row in rows]
    return [
        (1.0, True) if gain is not None and row.code == before.code else (gain, False)
        for gain, row in zip(gains, rows, strict=True)
    ]


def _glanced_at(task: Task, case: Case, outputs: Arrays, expectation: Expectation) -> CaseCheck:
    """The comparison with the reference, of large outputs at some places only: a trial compares all of them."""
    if expectation.judged is not None or all(array.size <= _GLANCE for array in outputs.values()):
        return gate.compare(task, case.name, outputs, expectation)
    known = expectation.memo.get("glance")
    if not isinstance(known, _Glance):
        rng = np.random.default_rng(len(expectation.expected))
        places = {
            name: np.sort(rng.choice(array.size, min(array.size, _GLANCE), replace=False))
            for name, array in expectation.expected.items()
        }

        def part(arrays: Arrays) -> Arrays:
            return {name: arrays[name].reshape(-1)[where] for name, where in places.items()}

        trusted = part(expectation.trusted) if expectation.trusted is not None else None
        terms = gate.terms_of(task, case)
        near = None if expectation.honest is None else expectation.honest.whole_at(places)
        truth = Expectation({}, part(expectation.expected), trusted, expectation.distribution, terms=terms, honest=near)
        expectation.memo["glance"] = known = _Glance(places=places, truth=truth)
    seen = {name: outputs[name].reshape(-1)[where] for name, where in known.places.items()}
    return gate.compare(task, case.name, seen, known.truth)


def _screened(
    task: Task,
    prepared: Prepared | PrepareFailure,
    stages: StageTimer,
    bench: EvaluationSession,
    case: Case,
    expectation: Expectation,
    seed: int,
) -> ScreeningResult:
    if isinstance(prepared, PrepareFailure):
        return ScreeningResult(
            variant=prepared.variant, status=prepared.status, reason=prepared.reason, stages_s=stages.seconds
        )
    program, variant = prepared.programs[case.name], prepared.variant.id

    def ended(status: Status, reason: str | None) -> ScreeningResult:
        return ScreeningResult(variant=variant, status=status, reason=reason, stages_s=stages.seconds)

    try:
        with bench.turn, stages.time("check"):
            given = bench.reference(task).fixed_inputs(case, seed)
            request = RunRequest(program=program, inputs=given)
            ran = bench.gpu.run(request, time_limit_s=_LIMIT_S)
            if ran.faults:
                return ended(ran.faults[0].kind.status, gate.fault_reason(ran.faults[0]))
            if touched := (*ran.overwritten, *ran.broken_guards):
                return ended(Status.UNSAFE, f"wrote where it may not: {', '.join(touched)}")
            row = _glanced_at(task, case, ran.outputs[0], expectation)
        if row.status is not Status.CORRECT:
            return ended(row.status, row.reason)
        with bench.turn, stages.time("bench"):
            timed = BenchRequest(child=(BenchCase(program=program, inputs=given),), options=_OPTIONS)
            found = bench.gpu.bench(timed, time_limit_s=_LIMIT_S)
    except TimedOut as late:
        return ended(Status.TIMED_OUT, str(late))
    except Crashed as crash:
        return ended(Status.CRASHED, str(crash))
    if found.divergence is not None:
        return ended(Status.UNSTABLE, f"while timing: {gate.fault_reason(found.divergence)}")
    code = (program.binary.code_hash, tuple(bound.launch for bound in program.launches))
    return ScreeningResult(
        variant=variant, status=Status.MEASURED, p50_us=found.child[0].time_us, stages_s=stages.seconds, code=code
    )
