"""Are decisions true on this GPU? A/A trials, and planted slowdowns and speed-ups of a known size.

Every trial goes through evo's own path: interleaved pairs, the sequential rule, confirmation in a fresh process where a
gain is claimed. A planted change is a loop with a known share more trips; its time is a fixed part plus a part in
proportion, both measured first. What that leaves open of the true ratio is stated, and coverage is counted with it and
without; of an A/A trial the truth is 1. Intervals are those of the records: pairs, and what other captures would add.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from recorder import Recorder
from report import ROOT, Clock, parser, required_gpu, run, say, table, verdict, write_json

from evo.cuda.compile import Diagnostics, compile_source
from evo.decide.capture_noise import ASSUMED, student_t
from evo.decide.sequential import CaptureScatter, NoiseFloor, gain_of, noise_floor, widened
from evo.device import Argument, Arrays, BenchCase, BoundLaunch, Buffer, Program
from evo.device.remote_device import RemoteGpu
from evo.errors import HarnessFault
from evo.evaluate.measure import BenchOptions, BenchRequest, control, measure
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.results import Verdict
from evo.spec.chips import Chip, chip
from evo.spec.launch import Launch
from evo.spec.reference import load_reference
from evo.spec.task import load_task

KERNEL = Path(__file__).parent / "kernels/known_work.cu"
SHARES = (2, 4, 6, 10)  # per cent more work
SLOWDOWNS, SPEEDUPS = 15, 10  # of each share
A_A_TRIALS = 200
STEP = 50  # trip counts are multiples of it, so that every share is a whole number of trips
BASES_US = (30.0, 42.0)  # with 10 % more, all take the same number of launches per sample
FIT_US = (27.0, 30.0, 33.0, 36.0, 39.0, 42.0, 45.0, 47.0)
FIT_ROUNDS = 3
COLD_ROUNDS = 8
THREADS, BLOCKS = 128, 32
CASE = "work"
INPUT_SEEDS = 4  # trials take turns with their inputs, since drawing them costs more than timing
OPTIONS = BenchOptions(budget_s=20.0, warm_up_s=1.0)


# --- what is timed --------------------------------------------------------------------------------------------------


def known_work(trips: int, arch: str) -> Program:
    """The planted kernel with so many trips. Raises HarnessFault where it does not compile."""
    built = compile_source(KERNEL.read_text(), name=KERNEL.name, macros={"TRIPS": trips}, arch=arch)
    if isinstance(built, Diagnostics):
        raise HarnessFault(f"{KERNEL.name}: {built.reason}", hint="run `evo doctor`")
    n = THREADS * BLOCKS
    launch = Launch(kernel="known_work", grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1), shared_bytes=0)
    buffers = (Argument(name="x", dtype="float32"), Argument(name="y", dtype="float32"))
    return Program(
        variant=f"work-{trips}",
        case=CASE,
        binary=built,
        launches=(BoundLaunch(launch=launch, arguments=(*buffers, Argument(name="n", dtype="int32", value=n))),),
        outputs=(Buffer(name="y", dtype="float32", dims=(n,)),),
        scratch=(),
    )


def work_inputs(seed: int) -> Arrays:
    return {"x": np.random.default_rng(seed).standard_normal(THREADS * BLOCKS).astype(np.float32)}


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to time: its cases on inputs of a seed, and more inputs to rotate over."""

    name: str
    cases: Callable[[int], tuple[BenchCase, ...]]
    others: Callable[[int], dict[str, tuple[Arrays, ...]]]


def work_subject(trips: int, arch: str) -> Subject:
    program = known_work(trips, arch)
    return Subject(
        f"known work, {trips} trips",
        lambda seed: (BenchCase(program=program, inputs=work_inputs(seed)),),
        lambda seed: {CASE: (work_inputs(seed + 1), work_inputs(seed + 2))},
    )


def rung_subject(task_name: str, rung: str, cases: Sequence[str], row: Chip, arch: str) -> Subject:
    """One rung of a shipped task at some of its bench cases."""
    task = load_task(ROOT, task_name)
    chosen = [task.case(name) for name in cases]
    text = (task.folder / "ladder" / f"{rung}.cu").read_text(encoding="utf-8")
    prepared = prepare(task, text, chip=row, arch=arch, cases=chosen)
    if isinstance(prepared, PrepareFailure):
        raise HarnessFault(f"{task_name} {rung}: {prepared.reason}", hint="run `evo check` on it")
    reference = load_reference(task)
    return Subject(
        f"{task_name} {rung}, {' and '.join(cases)}",
        lambda seed: tuple(
            BenchCase(program=prepared.programs[c.name], inputs=reference.inputs(c, seed)) for c in chosen
        ),
        lambda seed: {c.name: (reference.inputs(c, seed + 1), reference.inputs(c, seed + 2)) for c in chosen},
    )


# --- calibration ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """time_us = fixed_us + trips * each_us. residual: the worst relative distance of a point from it; scatter: the sd
    of these distances, over `freedom` degrees of freedom.
    """

    fixed_us: float
    each_us: float
    residual: float
    scatter: float = 0.0
    freedom: int = 0

    def time_us(self, trips: int) -> float:
        return self.fixed_us + trips * self.each_us

    def uncertainty(self, alpha: float) -> float:
        """Half-width of what a ratio of two times on the line may be off by: two programs' distances from it."""
        return student_t(self.freedom, alpha) * self.scatter * math.sqrt(2) if self.freedom else 0.0


def fitted(points: Sequence[tuple[int, float]]) -> Line:
    """Least squares through (trips, microseconds)."""
    trips, times = (np.asarray(column, np.float64) for column in zip(*points, strict=True))
    slope, fixed = np.polyfit(trips, times, 1)
    line = Line(float(fixed), float(slope), 0.0)
    off = [line.time_us(int(n)) / t - 1 for n, t in points]
    freedom = len(points) - 2
    scatter = math.sqrt(sum(d * d for d in off) / freedom) if freedom else 0.0
    return replace(line, residual=max(map(abs, off)), scatter=scatter, freedom=freedom)


def whole_trips(line: Line, wanted_us: float) -> int:
    return max(1, round((wanted_us - line.fixed_us) / line.each_us / STEP)) * STEP


def calibrated(recorder: Recorder, arch: str, rounds: int) -> tuple[Line, list[tuple[int, float]]]:
    """How the planted kernel's time grows with its trips, over the range that the trials use."""

    def times(trips: Sequence[int]) -> list[tuple[int, float]]:
        points: dict[int, list[float]] = {n: [] for n in trips}
        for _ in range(rounds):
            for n in trips:
                case = BenchCase(program=known_work(n, arch), inputs=work_inputs(0))
                options = replace(OPTIONS, samples=128, cold_samples=0)
                request = BenchRequest(child=(case,), options=options)
                result = recorder.bench(request, time_limit_s=60.0)
                assert result.child[0].warm is not None
                points[n].append(result.child[0].warm.p50_us)
        return [(n, statistics.median(found)) for n, found in points.items()]

    rough = fitted(times([500, 1000]))
    points = times([whole_trips(rough, wanted) for wanted in FIT_US])
    return fitted(points), points


# --- trials ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """One decision to take. share is in per cent, positive where the parent does more work; None for A/A.

    floor: of the control of its kind. line: what the truth was taken from, for a planted change.
    """

    parent: Subject
    child: Subject
    share: int | None = None
    truth: float = 1.0  # parent time / child time
    floor: NoiseFloor | None = None
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What evo decided, and whether its intervals hold the truth (None: no interval with so few pairs).

    covered: with the truth's own uncertainty; strict95: as if the truth were exact; alone95: the pairs' own interval.
    """

    trial: Trial
    verdict: Verdict
    reason: str
    pairs: int
    stages: int
    dropped: int
    elapsed_s: float
    ratio: float | None
    half_width: float | None
    covered95: bool | None
    covered99: bool | None
    strict95: bool | None
    alone95: bool | None
    log_ratios: list[dict[str, float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.trial.child.name,
            "share": self.trial.share,
            "truth": round(self.trial.truth, 6),
            "verdict": self.verdict.value,
            "reason": self.reason,
            "pairs": self.pairs,
            "stages": self.stages,
            "dropped": self.dropped,
            "elapsed_s": round(self.elapsed_s, 4),
            "ratio": self.ratio,
            "half_width": self.half_width,
            "covered95": self.covered95,
            "covered99": self.covered99,
            "strict95": self.strict95,
            "alone95": self.alone95,
        }


def covers(
    pairs: Sequence[dict[str, float]],
    truth: float,
    alpha: float,
    between: CaptureScatter | None = None,
    unsure: float = 0.0,
) -> bool | None:
    """Whether the interval from these pairs, widened for other captures, holds the truth; unsure: of its logarithm."""
    gain = widened(gain_of([statistics.fmean(pair.values()) for pair in pairs], alpha=alpha), between, alpha=alpha)
    gain = widened(gain, CaptureScatter(sd=0.0, timer_step=unsure), alpha=alpha)
    if gain.low is None or gain.high is None:
        return None
    return gain.low <= truth <= gain.high


def taken(trial: Trial, recorder: Recorder, row: Chip, seed: int) -> Outcome:
    """Take one decision as the loop would."""

    def request(seed: int) -> BenchRequest:
        return BenchRequest(
            child=trial.child.cases(seed),
            parent=trial.parent.cases(seed),
            others=trial.child.others(seed),
            options=OPTIONS,
        )

    recorder.clear()
    clock = Clock()
    found = measure(
        recorder,  # type: ignore[arg-type]
        request(seed),
        chip=row,
        fresh=lambda: request(seed + 1),
        floor=trial.floor,
    )
    elapsed = clock.seconds
    decision = found.decision
    if decision is None:
        raise HarnessFault(
            f"{trial.child.name}: no decision ({found.divergence})",
            hint="the timed outputs differ; run `make test-gpu`",
        )
    last = recorder.results[-1]
    known = trial.floor.between if trial.floor is not None and trial.floor.between is not None else ASSUMED
    between = replace(known, timer_step=last.timer_step)

    def covered(alpha: float, between: CaptureScatter | None = between, *, strict: bool = False) -> bool | None:
        unsure = trial.line.uncertainty(alpha) if trial.line is not None and not strict else 0.0
        return covers(last.pairs, trial.truth, alpha, between, unsure) if last.pairs else None

    gain = decision.gain
    width = math.log(gain.high / gain.low) / 2 if gain and gain.low and gain.high else None
    return Outcome(
        trial=trial,
        verdict=decision.verdict,
        reason=decision.reason,
        pairs=sum(len(result.pairs) for result in recorder.results),
        stages=len(recorder.results),
        dropped=sum(result.dropped for result in recorder.results),
        elapsed_s=elapsed,
        ratio=gain.ratio if gain else None,
        half_width=width,
        covered95=covered(0.05),
        covered99=covered(0.01),
        strict95=covered(0.05, strict=True),
        alone95=covered(0.05, None, strict=True),
        log_ratios=[dict(pair) for pair in recorder.results[0].pairs],
    )


def planned(
    subjects: Sequence[Subject],
    floors: Sequence[NoiseFloor],
    bases: Sequence[int],
    line: Line,
    arch: str,
    *,
    tenth: bool,
    seed: int,
) -> list[Trial]:
    """All trials in one random order, so that drift of the machine meets every kind alike.

    floors: of each subject's control; the last subject is the planted kernel.
    """
    part = 10 if tenth else 1
    kinds = list(zip(subjects, floors, strict=True))
    trials = [Trial(s, s, floor=f) for s, f in (kinds[i % len(kinds)] for i in range(A_A_TRIALS // part))]
    made: dict[int, Subject] = {}

    def subject(trips: int) -> Subject:
        return made.setdefault(trips, work_subject(trips, arch))

    for share in SHARES:
        slow, fast = (max(1, count // part) for count in (SLOWDOWNS, SPEEDUPS))
        for number in range(slow + fast):
            base = bases[number % len(bases)]
            more = base + base * share // 100
            parent, child, sign = (base, more, -1) if number < slow else (more, base, 1)
            truth = line.time_us(parent) / line.time_us(child)
            trials.append(Trial(subject(parent), subject(child), sign * share, truth, floors[-1], line))
    random.Random(seed).shuffle(trials)
    return trials


# --- noise floor ----------------------------------------------------------------------------------------------------


def cold_floor(recorder: Recorder, subject: Subject, rounds: int) -> list[float]:
    """ln(child / parent) of the cold medians of a program against itself, once per measurement and case."""
    ratios: list[float] = []
    watched = replace(OPTIONS, samples=8, warm_up_s=0.2, rule=replace(OPTIONS.rule, max_pairs=1))
    for number in range(rounds):
        cases = subject.cases(number)
        request = BenchRequest(child=cases, parent=cases, options=watched)
        result = recorder.bench(request, time_limit_s=60.0)
        for ours, theirs in zip(result.child, result.parent, strict=True):
            if ours.cold is not None and theirs.cold is not None:
                ratios.append(math.log(ours.cold.p50_us / theirs.cold.p50_us))
    return ratios


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation about zero, which is the truth of an A/A ratio."""
    return math.sqrt(statistics.fmean(v * v for v in values)) if values else None


# --- report ---------------------------------------------------------------------------------------------------------


def between(floor: NoiseFloor) -> str:
    """What a control says about captures, in words."""
    if floor.between is None:
        return "captures not told apart"
    found = floor.between
    return f"sd {percent(found.sd)} between {found.captures} captures, timer step {percent(found.timer_step)}"


def percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.3f} %"


def summary(outcomes: Sequence[Outcome]) -> str:
    """One row a kind of trial."""
    rows: list[list[object]] = []
    kinds = sorted({o.trial.share for o in outcomes}, key=lambda s: (s is not None, s or 0))
    for share in kinds:
        group = [o for o in outcomes if o.trial.share == share]
        name = "A/A" if share is None else f"{abs(share)} % {'slowdown' if share < 0 else 'speed-up'}"
        times = [o.elapsed_s for o in group]
        pairs = [o.pairs for o in group]
        rows.append(
            [
                name,
                len(group),
                sum(o.verdict is Verdict.KEEP for o in group),
                sum(o.verdict is Verdict.REVERT for o in group),
                sum(o.verdict is Verdict.INCONCLUSIVE for o in group),
                f"{statistics.median(pairs):g} ({max(pairs)})",
                sum(o.dropped for o in group),
                _share([o.covered95 for o in group]),
                _share([o.strict95 for o in group]),
                _share([o.alone95 for o in group]),
                percent(statistics.median(widths))
                if (widths := [o.half_width for o in group if o.half_width])
                else None,
                f"{statistics.median(times):.2f} ({max(times):.2f})",
            ]
        )
    head = ["trial", "n", "keep", "revert", "open", "pairs (max)", "dropped", "95 %", "strict", "pairs alone", "+-"]
    head.append("seconds (max)")
    return table(head, rows)


def _share(covered: Sequence[bool | None]) -> str | None:
    known = [c for c in covered if c is not None]
    return f"{sum(known)}/{len(known)}" if known else None


def aims(outcomes: Sequence[Outcome], planned_trials: int) -> list[tuple[str, bool | None, str]]:
    """What has to hold, whether it did, and the figure."""
    complete = len(outcomes) == planned_trials
    a_a = [o for o in outcomes if o.trial.share is None]
    planted = [o for o in outcomes if o.trial.share is not None]
    kept = sum(o.verdict is Verdict.KEEP for o in a_a)
    covered = sum(o.covered95 is True for o in planted)
    strict = sum(o.strict95 is True for o in planted)
    same = sum(o.covered95 is True for o in a_a)
    large = [o for o in planted if (o.trial.share or 0) >= 6]
    small = [o for o in planted if o.trial.share == 2]
    slow = [o for o in planted if (o.trial.share or 0) < 0]

    def held(group: Sequence[Outcome], good: bool) -> bool | None:
        return None if not group or (good and not complete) else good

    count = {v: sum(o.verdict is v for o in small) for v in Verdict}
    return [
        ("no A/A trial kept", held(a_a, kept == 0), f"{kept} of {len(a_a)}"),
        (
            "the 95 % interval covers the truth, at least 90 of 100",
            held(planted, covered >= 0.9 * len(planted)),
            f"{covered} of {len(planted)}; {strict} as if the truth were exact",
        ),
        (
            "the 95 % interval of A/A trials covers 1, at least 9 of 10",
            held(a_a, same >= 0.9 * len(a_a)),
            f"{same} of {len(a_a)}",
        ),
        (
            "every gain of 6 % and more kept",
            held(large, all(o.verdict is Verdict.KEEP for o in large)),
            f"{sum(o.verdict is Verdict.KEEP for o in large)} of {len(large)}",
        ),
        (
            "every gain of 2 % reverted",
            held(small, count[Verdict.REVERT] == len(small)),
            f"{count[Verdict.REVERT]} of {len(small)}",
        ),
        (
            "no slowdown kept",
            held(slow, not any(o.verdict is Verdict.KEEP for o in slow)),
            f"{sum(o.verdict is Verdict.KEEP for o in slow)} of {len(slow)}",
        ),
    ]


def floors(outcomes: Sequence[Outcome], subjects: Sequence[Subject], cold: dict[str, list[float]]) -> str:
    """The noise floor of each subject: one warm pair, and one cold median against another."""
    rows: list[list[object]] = []
    for subject in subjects:
        pairs = [
            p for o in outcomes if o.trial.share is None and o.trial.child.name == subject.name for p in o.log_ratios
        ]
        warm = noise_floor(pairs, dict.fromkeys(pairs[0], 1.0)).sd if len(pairs) > 1 else None
        rows.append([subject.name, len(pairs), percent(warm), percent(deviation(cold.get(subject.name, [])))])
    return table(["noise floor (sd of ln ratio)", "pairs", "warm, one pair", "cold, medians of 48"], rows)


def trial_run(
    recorder: Recorder, row: Chip, arch: str, subjects: Sequence[Subject], *, quick: bool, clock: Clock, seed: int
) -> tuple[dict[str, Any], bool]:
    """Everything on one worker: calibration, floors, trials. Returns the figures, and whether all aims were met."""
    line, points = calibrated(recorder, arch, 1 if quick else FIT_ROUNDS)
    bases = [whole_trips(line, wanted) for wanted in BASES_US]
    print(f"planted kernel: {line.fixed_us:.3f} us + {1000 * line.each_us:.4f} ns a trip, bases of {bases} trips;")
    print(f"  off by {percent(line.residual)} at most from {points[0][1]:.1f} to {points[-1][1]:.1f} us,")
    print(f"  which leaves {percent(line.uncertainty(0.05))} open of a true ratio (95 %)")
    own = [*subjects, work_subject(bases[0], arch)]
    cold = {s.name: cold_floor(recorder, s, 2 if quick else COLD_ROUNDS) for s in own}
    controls: list[NoiseFloor] = []
    for subject in own:
        floor, _ = control(recorder, subject.cases(0), options=replace(OPTIONS, cold_samples=0))  # type: ignore[arg-type]
        controls.append(floor)
        print(
            f"evo's own A/A control, {subject.name}: sd {percent(floor.sd)} over {floor.pairs} pairs; {between(floor)}"
        )
    trials = planned(own, controls, bases, line, arch, tenth=quick, seed=seed)
    outcomes: list[Outcome] = []
    started = clock.seconds
    for number, trial in enumerate(trials):
        if clock.left < 5.0:
            say(f"stopped by --seconds {clock.limit_s:g} after {number} of {len(trials)} trials")
            break
        outcomes.append(taken(trial, recorder, row, seed + 10 * (number % INPUT_SEEDS)))
        if (number + 1) % 25 == 0:
            say(f"{number + 1} of {len(trials)} trials, {clock.seconds:.0f} s")
    print(summary(outcomes))
    print(floors(outcomes, own, cold))
    found = aims(outcomes, len(trials))
    for aim in found:
        print(verdict(*aim))
    print(f"{len(outcomes)} decisions in {clock.seconds - started:.1f} s, all in {clock.seconds:.1f} s")
    figures = {
        "line": {**asdict(line), "points": points},
        "controls": {s.name: floor.shown(OPTIONS.rule).to_json() for s, floor in zip(own, controls, strict=True)},
        "cold_log_ratios": cold,
        "aims": [{"aim": name, "met": met, "figure": figure} for name, met, figure in found],
        "trials": [outcome.to_json() for outcome in outcomes],
        "log_ratios": [outcome.log_ratios for outcome in outcomes],
    }
    return figures, all(met is True for _, met, _ in found)


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--seconds", type=float, default=150.0, help="stop taking trials after so long")
    made.add_argument("--seed", type=int, default=1)
    options = made.parse_args(arguments)
    clock = Clock(options.seconds)
    with RemoteGpu(required_gpu(options.gpu)) as gpu:
        about = gpu.describe()
        row, arch = chip(about["chip"]), about["capability"]
        print(f"{about['gpu']}, driver {about['driver']}, kernels for {arch}")
        subjects = [
            rung_subject("attention", "40_mma", ("b2", "b4"), row, arch),
            rung_subject("rmsnorm", "20_vector", ("rows2k",), row, arch),
        ]
        figures, met = trial_run(
            Recorder(gpu), row, arch, subjects, quick=options.quick, clock=clock, seed=options.seed
        )
    figures |= {"environment": about, "elapsed_s": round(clock.seconds, 1)}
    write_json(options.json, figures)
    return 0 if met else 1


if __name__ == "__main__":
    run(main)
