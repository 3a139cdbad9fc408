"""What a candidate costs: evo's whole cascade, its first screening, and two peers on the same kernels, in one run.

(a) evo on a knob sweep of attention: compile, both gates, bench, decision; compiling overlaps with measuring. As in a
    run, the parent is evaluated first, with its A/A control. GPU time: how long a candidate held the GPU's lock.
(b) the way of KernelBench and EvoEngineer's evaluator: a torch extension per candidate, 5 trials, 100 timed runs.
(c) a matmul knob space: Kernel Tuner's CuPy backend, and evo's first screening of the same configurations.
Everything is compiled: caches are empty folders.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from recorder import Recorder
from report import ROOT, Clock, parser, required_gpu, run, say, table, verdict, write_json

from evo.device import DeviceName
from evo.device.remote_device import OPENER
from evo.errors import HarnessFault
from evo.evaluate.pipeline import Job, evaluate, evaluate_all
from evo.evaluate.screening import ScreeningResult, screen_all
from evo.evaluate.session import EvaluationSession
from evo.results import Evaluation, Status, Verdict
from evo.spec.chips import Chip
from evo.spec.launch import Refusal, plan
from evo.spec.task import Case, Task, load_task
from evo.spec.variant import KnobValue, parse_variant

HERE = Path(__file__).parent
SWEPT = ("attention", "40_mma", ("b2", "b4"))
SCREENED = ("matmul", "20_register", "square1k")
CANDIDATES, CONFIGURATIONS, EXTENSIONS = 24, 18, 3
LOSS = 1.10  # a clear loser takes this many times its parent's time
PEER_LIMIT_S = 150.0
AIM_MEDIAN_S, AIM_LOSER_S, AIM_RATIO = 1.0, 0.2, 40.0


# --- what is swept --------------------------------------------------------------------------------------------------


def narrowed(task: Task, names: Sequence[str]) -> Task:
    """The task with these bench cases only."""
    bench = tuple(case for case in task.bench if case.name in names)
    score = {case.name: task.score.get(case.name, 1.0) for case in bench}
    return replace(task, bench=bench, score=score, headline=bench[0].name)


def knob_space(task: Task, text: str, cases: Iterable[Case], row: Chip) -> list[dict[str, KnobValue]]:
    """Every setting of the text's knobs that its `require` lines and the chip allow at these cases."""
    variant = parse_variant(text)
    names = [knob.name for knob in variant.knobs]
    found: list[dict[str, KnobValue]] = []
    for values in itertools.product(*(knob.domain for knob in variant.knobs)):
        setting = dict(zip(names, values, strict=True))
        moved = variant.with_knobs(setting)
        if not any(isinstance(plan(moved, task, case, row), Refusal) for case in cases):
            found.append(setting)
    return found


def drawn(settings: Sequence[dict[str, KnobValue]], count: int, seed: int) -> list[dict[str, KnobValue]]:
    return random.Random(seed).sample(list(settings), min(count, len(settings)))


def named(setting: Mapping[str, KnobValue]) -> str:
    return " ".join(f"{name} {value}" for name, value in setting.items())


# --- (a) the whole cascade ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One candidate of the sweep. wall_s: since the one before was done. By method of the GPU's worker, gpu_s: how long
    the GPU's lock was held for it; calls_s: wall time of the calls, with what goes through the pipe.
    """

    name: str
    status: str
    verdict: str | None
    ratio: float | None
    pairs: int | None
    wall_s: float
    latency_s: float | None
    gpu_s: dict[str, float]
    calls_s: dict[str, float]
    stages_s: dict[str, float]

    @property
    def held_s(self) -> float | None:
        return sum(self.gpu_s.values()) if self.gpu_s else None

    @property
    def clear_loser(self) -> bool:
        return self.verdict == Verdict.REVERT.value and self.ratio is not None and self.ratio * LOSS < 1

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def candidate(name: str, found: Evaluation, wall_s: float, recorder: Recorder) -> Candidate:
    decision = found.decision
    return Candidate(
        name=name,
        status=found.status.value,
        verdict=decision.verdict.value if decision else None,
        ratio=decision.gain.ratio if decision and decision.gain else None,
        pairs=decision.evidence.pairs if decision and decision.evidence else None,
        wall_s=wall_s,
        latency_s=found.elapsed_s,
        gpu_s=dict(recorder.held_s),
        calls_s=dict(recorder.seconds),
        stages_s=dict(found.stages_s),
    )


def sweep(
    bench: EvaluationSession, count: int, seed: int, *, sanitize: bool = False
) -> tuple[list[Candidate], list[str]]:
    """Evaluate knob settings of attention against the rung as it stands; the candidates and their texts."""
    task_name, rung, cases = SWEPT
    task = narrowed(load_task(ROOT, task_name), cases)
    text = (task.folder / "ladder" / f"{rung}.cu").read_text(encoding="utf-8")
    variant = parse_variant(text)
    legal = [s for s in knob_space(task, text, (*task.check, *task.bench), bench.chip) if s != variant.knob_values]
    settings = drawn(legal, count, seed)
    texts = [variant.with_knobs(setting).text for setting in settings]
    jobs = [
        Job(task=task, text=t, path=named(s), seed=seed, rival=text, sanitize=sanitize)
        for s, t in zip(settings, texts, strict=True)
    ]
    for case in (*task.check, *task.bench):
        bench.reference(task).expectation(case, seed)  # once a run, whatever is evaluated
    started = evaluate(Job(task=task, text=text, path=rung, seed=seed, sanitize=sanitize), bench)
    if started.status is not Status.MEASURED:
        raise HarnessFault(f"the parent, {rung}: {started.status}, {started.reason}", hint="see `evo check`")
    floor = bench.control(task, text, seed)
    say(f"  A/A control of the parent: sd {floor.sd:.3%} over {floor.pairs} pairs")
    recorder = Recorder(bench.gpu)
    bench.remote = bench.target = recorder  # type: ignore[assignment]
    found: list[Candidate] = []
    before = time.monotonic()
    for job, evaluation in evaluate_all(jobs, bench):
        now = time.monotonic()
        found.append(candidate(job.path, evaluation, now - before, recorder))
        said = evaluation.decision.reason if evaluation.decision else evaluation.reason or evaluation.status
        say(f"  {len(found)}/{len(jobs)} {job.path}: {found[-1].wall_s:.2f} s, {said}")
        recorder.clear()
        before = now
    return found, texts


# --- (b) a torch extension per candidate ----------------------------------------------------------------------------


def extension(text: str, number: int, axes: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """Wall seconds of one candidate in a fresh process, with what that process reports; or `error`."""
    path = folder / f"candidate{number}.cu"
    path.write_text(text, encoding="utf-8")
    words = ",".join(f"{name}={value}" for name, value in axes.items())
    environment = {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder / f"extensions{number}")}
    return peer([str(HERE / "peer_extension.py"), str(path), words], environment, None)


def peer(arguments: list[str], environment: Mapping[str, str], given: str | None) -> dict[str, Any]:
    """Run a peer's script; its last line is JSON."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env=dict(environment),
            timeout=PEER_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {PEER_LIMIT_S:g} s"}
    wall = time.monotonic() - started
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        said = (done.stderr or done.stdout).strip()
        last = " | ".join(said.splitlines()[-2:])[-400:]
        return {"error": last or f"exit code {done.returncode}", "output": said[-6000:]}
    return {**json.loads(lines[-1]), "process_s": wall}


# --- (c) first screening against Kernel Tuner -----------------------------------------------------------------------


def screened(bench: EvaluationSession, count: int, seed: int) -> tuple[list[ScreeningResult], float, dict[str, Any]]:
    """evo's first screening of matmul configurations; the wall seconds; and the same job for Kernel Tuner."""
    task_name, rung, case_name = SCREENED
    task = load_task(ROOT, task_name)
    case = task.case(case_name)
    text = (task.folder / "ladder" / f"{rung}.cu").read_text(encoding="utf-8")
    variant = parse_variant(text)
    settings = [s for s in knob_space(task, text, [case], bench.chip) if s["PAD"] == 1]
    settings = drawn(settings, count, seed)
    texts = [variant.with_knobs(setting).text for setting in settings]
    bench.reference(task).expectation(case, seed)  # the answer is not on Kernel Tuner's clock either
    started = time.monotonic()
    looks = list(screen_all(task, texts, bench, case=case, seed=seed))
    wall = time.monotonic() - started
    axes = case.axes
    job = {
        "text": text,
        "knobs": list(variant.knob_values),
        "configurations": settings,
        "seed": seed,
        **{axis.lower(): axes[axis] for axis in ("M", "N", "K")},
    }
    return looks, wall, job


# --- report ---------------------------------------------------------------------------------------------------------


def spread(values: Sequence[float]) -> str | None:
    """Median and 90th percentile."""
    return f"{statistics.median(values):.3f} / {float(np.percentile(values, 90)):.3f}" if values else None


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def sweep_report(found: Sequence[Candidate]) -> str:
    measured = [c for c in found if c.status == Status.MEASURED.value]
    losers = [c for c in measured if c.clear_loser]
    rows: list[list[object]] = [
        ["candidates (measured)", f"{len(found)} ({len(measured)})"],
        ["wall seconds each, median / p90", spread([c.wall_s for c in measured])],
        ["wall seconds each, all over count", f"{sum(c.wall_s for c in found) / len(found):.3f}" if found else None],
        ["from first touch to verdict, median / p90", spread([c.latency_s for c in measured if c.latency_s])],
        ["GPU held, median / p90", spread(known([c.held_s for c in measured]))],
        [f"clear losers, {LOSS:g}x and slower", len(losers)],
        ["  GPU held, median / p90", spread(known([c.held_s for c in losers]))],
        ["  GPU held, longest", f"{max(held):.3f}" if (held := known([c.held_s for c in losers])) else None],
        ["  of it timing, median / p90", spread(known([c.gpu_s.get("bench") for c in losers]))],
        ["  calls to its worker, median / p90", spread([sum(c.calls_s.values()) for c in losers])],
    ]
    names = list(dict.fromkeys(name for c in measured for name in c.stages_s))
    stages = [[name, spread([c.stages_s[name] for c in measured if name in c.stages_s])] for name in names]
    return "\n".join(
        [table(["(a) whole cascade, attention", "seconds"], rows), table(["stage", "median / p90"], stages)]
    )


def aims(figures: Mapping[str, Any]) -> list[tuple[str, bool | None, str]]:
    """From the run's figures: what has to hold, whether it did, and the figure."""
    found: list[Candidate] = figures["sweep"]
    measured = [c for c in found if c.status == Status.MEASURED.value]
    wall = statistics.median([c.wall_s for c in measured]) if measured else None
    mean = sum(c.wall_s for c in found) / len(found) if found else None
    losers = known([c.held_s for c in measured if c.clear_loser])
    extensions = [e["process_s"] for e in figures["extensions"] if "process_s" in e]
    built = statistics.median(extensions) if extensions else None
    ratio = built / wall if built and wall else None
    look, tuner = figures["screening_s"], figures["kernel_tuner_s"]
    shown = (
        f"{ratio:.1f}x by medians ({built:.1f} s, {wall:.3f} s), {built / mean:.1f}x by all over count"
        if ratio
        else "-"
    )
    return [
        (
            f"median of the cascade at most {AIM_MEDIAN_S:g} s per candidate",
            wall <= AIM_MEDIAN_S if wall is not None else None,
            f"{wall:.3f} s" if wall is not None else "-",
        ),
        (
            f"clear losers at most {AIM_LOSER_S:g} s on the GPU",
            max(losers) <= AIM_LOSER_S if losers else None,
            f"{len(losers)}, median {statistics.median(losers):.3f} s, longest {max(losers):.3f} s"
            if losers
            else "none",
        ),
        (f"an extension per candidate at least {AIM_RATIO:g}x slower", ratio >= AIM_RATIO if ratio else None, shown),
        (
            "first screening costs no more than Kernel Tuner",
            look <= tuner if look and tuner else None,
            f"{look:.3f} s and {tuner:.3f} s per configuration ({tuner / look:.2f}x)" if look and tuner else "-",
        ),
    ]


def screening_report(looks: Sequence[ScreeningResult], wall_s: float, tuner: Mapping[str, Any]) -> str:
    timed = [look for look in looks if look.status is Status.MEASURED]
    best = min((look.p50_us for look in timed if look.p50_us), default=None)
    parts = {name: [look.stages_s[name] for look in timed] for name in ("compile", "check", "bench")}
    rows: list[list[object]] = [
        [
            "evo, first screening",
            f"{len(timed)}/{len(looks)}",
            f"{wall_s / len(looks):.3f}" if looks else None,
            *(f"{statistics.median(values):.3f}" if values else None for values in parts.values()),
            f"{best:.1f}" if best else None,
        ]
    ]
    if "error" not in tuner:
        medians = [
            statistics.median([part[name] for part in tuner["parts_s"]])
            for name in ("compile", "verification", "benchmark")
        ]
        each = f"{tuner['wall_s'] / max(1, tuner['configurations']):.3f}"
        rows.append(
            [
                "Kernel Tuner, CuPy",
                f"{tuner['timed']}/{tuner['configurations']}",
                each,
                *(f"{value:.3f}" for value in medians),
                f"{tuner['best_us']:.1f}",
            ]
        )
    shown = table(
        [f"(c) {SCREENED[0]}, {SCREENED[2]}", "timed", "s each", "compile", "check", "bench", "best us"], rows
    )
    return f"{shown}\nKernel Tuner did not run: {tuner['error']}" if "error" in tuner else shown


def extension_report(found: Sequence[Mapping[str, Any]]) -> str:
    rows: list[list[object]] = []
    failed: list[str] = []
    for number, one in enumerate(found, start=1):
        if "error" in one:
            failed.append(f"extension {number} did not run: {one['error']}")
            continue
        parts = [f"{one['seconds'][name]:.2f}" for name in ("start", "build", "correctness", "timing")]
        rows.append(
            [number, f"{one['process_s']:.2f}", *parts, f"{one['correct']}/{one['trials']}, {one['mean_us']:.1f} us"]
        )
    head = ["(b) torch extension", "seconds", "start", "build", "check", "timing", "correct, eager mean"]
    return "\n".join([table(head, rows), *failed])


def measured(
    device: DeviceName, options: argparse.Namespace, *, clock: Clock, folder: Path, opener: str = OPENER
) -> dict[str, Any]:
    """All three parts; (b) last, since it is the longest, and only as often as time is left."""
    quick, seed, arch = options.quick, options.seed, options.arch
    os.environ["EVO_CACHE"] = str(folder / "cache")
    count, settings = (4, 4) if quick else (options.candidates, options.configurations)
    with EvaluationSession(device, arch=arch, opener=opener) as bench:
        about = {**bench.about, "arch": bench.arch}
        say("(a) evo on a knob sweep of attention")
        found, texts = sweep(bench, count, seed, sanitize=options.sanitize)
        print(sweep_report(found))
    with EvaluationSession(device, arch=arch, opener=opener) as bench:
        say("(c) first screening, then Kernel Tuner")
        looks, wall_s, job = screened(bench, settings, seed)
    tuner = peer(
        [str(HERE / "peer_kernel_tuner.py")], {**os.environ, "CUPY_CACHE_DIR": str(folder / "cupy")}, json.dumps(job)
    )
    print(screening_report(looks, wall_s, tuner))
    task = load_task(ROOT, SWEPT[0])
    axes = task.case(task.headline).axes
    extensions: list[dict[str, Any]] = []
    for number, text in enumerate(texts[: 1 if quick else options.extensions]):
        if number and clock.left < 1.3 * max(e.get("process_s", 0.0) for e in extensions):
            say(f"stopped by --seconds {clock.limit_s:g} after {number} extensions")
            break
        say(f"(b) a torch extension, candidate {number + 1}")
        extensions.append(extension(text, number, axes, folder))
    print(extension_report(extensions))
    if not found:
        raise HarnessFault("no knob setting is legal on this chip", hint="see the `require` lines of the rung")
    return {
        "environment": about,
        "sweep": found,
        "extensions": extensions,
        "screening": looks,
        "screening_s": wall_s / len(looks) if looks else None,
        "kernel_tuner": tuner,
        "kernel_tuner_s": tuner["wall_s"] / tuner["configurations"] if tuner.get("configurations") else None,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--seconds", type=float, default=240.0, help="build no further extension past this")
    made.add_argument("--arch", default="native", help="what evo compiles for (the peers compile for this chip)")
    made.add_argument("--sanitize", action="store_true", help="compute-sanitizer before each keep, as in a run")
    made.add_argument("--candidates", type=int, default=CANDIDATES, metavar="N", help="of evo's sweep")
    made.add_argument("--configurations", type=int, default=CONFIGURATIONS, metavar="N", help="of the first screening")
    made.add_argument("--extensions", type=int, default=EXTENSIONS, metavar="N", help="torch extensions at most")
    made.add_argument("--seed", type=int, default=1)
    options = made.parse_args(arguments)
    clock = Clock(options.seconds)
    device = required_gpu(options.gpu)
    with tempfile.TemporaryDirectory(prefix="evo-throughput-") as folder:
        figures = measured(device, options, clock=clock, folder=Path(folder))
    found = aims(figures)
    for aim in found:
        print(verdict(*aim))
    print(f"{clock.seconds:.0f} s in all")
    figures["sweep"] = [c.to_json() for c in figures["sweep"]]
    figures["screening"] = [
        {"variant": s.variant, "status": s.status.value, "reason": s.reason, "p50_us": s.p50_us, "stages_s": s.stages_s}
        for s in figures["screening"]
    ]
    figures["aims"] = [{"aim": name, "met": met, "figure": figure} for name, met, figure in found]
    write_json(options.json, {**figures, "elapsed_s": round(clock.seconds, 1)})
    return 0 if all(met is True for _, met, _ in found) else 1


if __name__ == "__main__":
    run(main)
