"""The knob space of one kernel file on one device: the launchable combinations, and the time of each.

A GPU measures (a first look per variant: one guarded and checked run, a short timing); the simulator models (a few
blocks). Neither decides anything: what is found here is proposed to `evo iterate` or `evo try` like any other change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evo.device import BenchCase
from evo.errors import Crashed, TimedOut, UsageError
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.evaluate.screening import ScreeningResult, screen_all
from evo.evaluate.session import EvaluationSession
from evo.results import Fault, Status
from evo.search.knobs import t1_t4_files
from evo.search.knobs.draws import SearchStrategy
from evo.search.knobs.space import Point, Space, SpaceKnob
from evo.search.knobs.strategies import Exhaustive
from evo.spec.chips import Chip
from evo.spec.launch import Refusal, plan
from evo.spec.task import Case, Task
from evo.spec.variant import KnobValue, Variant

_MOST_PLANNED = 200_000
_LIMIT_S = 60.0
# How far a variant got, in the words of results files.
_INVALIDITY = {
    Status.UNCOMPILED: "compile",
    Status.REFUSED: "compile",
    Status.TIMED_OUT: "timeout",
    Status.CRASHED: "runtime",
    Status.UNSAFE: "runtime",
    Status.UNSTABLE: "correctness",
    Status.WRONG: "correctness",
}


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """One configuration and its result; `time_us` is measured on a GPU and modelled on the simulator."""

    values: dict[str, KnobValue]
    status: Status
    reason: str | None
    time_us: float | None


@dataclass(frozen=True)
class Sweep:
    """A kernel file's knobs at one case on one device."""

    task: Task
    variant: Variant
    case: Case
    bench: EvaluationSession

    def space(self) -> Space:
        """All combinations whose launch plan the chip can run. Raises UsageError if there are none to choose."""
        return space_of(self.variant, self.task, self.case, self.bench.chip)

    def text(self, values: dict[str, KnobValue]) -> str:
        return self.variant.with_knobs(values).text

    def run(
        self,
        space: Space,
        searcher: SearchStrategy,
        budget: int,
        seed: int,
        known: Mapping[tuple[object, ...], SweepTrial],
    ) -> Iterator[SweepTrial]:
        """Ask, look, tell, `budget` times at most; what is known by its values is not looked at again.

        An exhaustive search compiles ahead of the device.
        """
        asked: Iterator[Point] = itertools.islice(_asked(searcher), budget)
        if isinstance(searcher, Exhaustive):
            points = list(asked)
            looks = self._screened(space, [p for p in points if space.values(p) not in known], seed)
            asked = iter(points)
        else:
            looks = None
        for point in asked:
            trial = known.get(space.values(point))
            if trial is None:
                screened = next(looks if looks is not None else self._screened(space, [point], seed))
                trial = SweepTrial(self._named(space, point), screened.status, screened.reason, screened.p50_us)
            searcher.tell(point, trial.time_us)
            yield trial

    def _named(self, space: Space, point: Point) -> dict[str, KnobValue]:
        values = space.values(point)
        return {
            knob.name: value for knob, value in zip(space.knobs, values, strict=True) if not isinstance(value, float)
        }

    def _screened(self, space: Space, points: Iterable[Point], seed: int) -> Iterator[ScreeningResult]:
        texts = (self.text(self._named(space, point)) for point in points)
        if self.bench.modelled:
            return (self._modelled(text, seed) for text in texts)
        return screen_all(self.task, texts, self.bench, case=self.case, seed=seed)

    def _modelled(self, text: str, seed: int) -> ScreeningResult:
        """A quick estimate on the simulator. Outputs are not compared; the gate does that for a proposal."""
        bench = self.bench
        prepared = prepare(self.task, text, chip=bench.chip, arch=bench.arch, cases=[self.case])
        if isinstance(prepared, PrepareFailure):
            return ScreeningResult(variant=prepared.variant, status=prepared.status, reason=prepared.reason)
        inputs = bench.reference(self.task).fixed_inputs(self.case, seed)
        request = [BenchCase(program=prepared.programs[self.case.name], inputs=inputs)]
        try:
            found = bench.checker.screen(request, time_limit_s=_LIMIT_S)
        except TimedOut as late:
            return ScreeningResult(variant=prepared.variant.id, status=Status.TIMED_OUT, reason=str(late))
        except Crashed as crash:
            return ScreeningResult(variant=prepared.variant.id, status=Status.CRASHED, reason=str(crash))
        if isinstance(found, Fault):
            return ScreeningResult(variant=prepared.variant.id, status=Status.UNSAFE, reason=str(found))
        return ScreeningResult(variant=prepared.variant.id, status=Status.CORRECT, p50_us=found[0].time_us)

    def results(self, trials: Iterable[SweepTrial]) -> list[Any]:
        """The trials as members of a T4 file's `results`."""
        return [_result(trial) for trial in trials]

    def metadata(self) -> dict[str, Any]:
        """Where a T4 file's results come from."""
        environment = self.bench.environment(self.task)
        return {
            "task": self.task.name,
            "kernel": Path(self.variant.path).name,
            "source": self.variant.with_knobs({knob.name: knob.domain[0] for knob in self.variant.knobs}).id,
            "case": {self.case.name: dict(self.case.axes)},
            "device": environment.chip,
            "arch": environment.arch,
            "loaded": environment.loaded,
            "toolkit": environment.toolkit,
            "harness": environment.harness,
            "timing": "modelled" if self.bench.modelled else "measured",
            "timeunit": "microseconds",
        }

    def write(self, path: Path, trials: Iterable[SweepTrial]) -> None:
        """Write the trials as a T4 file. Raises HarnessFault if the disk refuses."""
        t1_t4_files.write_results(path, self.results(trials), self.metadata())

    def known(self, path: Path) -> dict[tuple[object, ...], SweepTrial]:
        """The trials of an earlier, interrupted sweep of this file. Raises UsageError if it is of another one."""
        if not path.exists():
            return {}
        found = t1_t4_files.read_raw(path)
        here = self.metadata()
        for name in ("task", "kernel", "source", "case", "device", "arch", "timing"):
            if found.metadata.get(name) != here[name]:
                problem = f"{path}: results of another {name} ({found.metadata.get(name)}) are in it"
                raise UsageError(problem, hint="give --out a new file, or remove this one")
        trials = [_trial(result) for result in found.results]
        return {tuple(trial.values.values()): trial for trial in trials}


def _asked(searcher: SearchStrategy) -> Iterator[Point]:
    while (point := searcher.ask()) is not None:
        yield point


def _result(trial: SweepTrial) -> dict[str, Any]:
    measured = [] if trial.time_us is None else [{"name": "time", "value": trial.time_us, "unit": "microseconds"}]
    result: dict[str, Any] = {
        "configuration": dict(trial.values),
        "invalidity": "correct" if trial.time_us is not None else _INVALIDITY.get(trial.status, "runtime"),
        "measurements": measured,
        "objectives": ["time"],
        "status": trial.status.value,
    }
    return result if trial.reason is None else {**result, "reason": trial.reason}


def _trial(result: Mapping[str, Any]) -> SweepTrial:
    times = [row["value"] for row in result.get("measurements", [])]
    status = Status(result.get("status", Status.CRASHED))
    return SweepTrial(dict(result["configuration"]), status, result.get("reason"), times[0] if times else None)


def space_of(variant: Variant, task: Task, case: Case, chip: Chip) -> Space:
    """The combinations of a variant's knobs whose launch plan the chip can run at this case.

    Raises UsageError if the file has no knob to choose, too many combinations, or none that can be launched.
    """
    if not any(len(knob.domain) > 1 for knob in variant.knobs):
        hint = "declare some: `// evo: knob NAME in 1, 2, 4` and `#define NAME 1`"
        raise UsageError(f"{variant.path}: no knob with more than one value", hint=hint)
    knobs = tuple(SpaceKnob(knob.name, knob.domain) for knob in variant.knobs)
    product = Space(variant.path, knobs).product
    if product > _MOST_PLANNED:
        hint = "narrow a domain, or fix a knob by giving it one value"
        raise UsageError(f"{variant.path}: {product:,} combinations, at most {_MOST_PLANNED:,} are planned", hint=hint)
    legal, reason = [], ""
    for point in itertools.product(*(range(len(knob.domain)) for knob in variant.knobs)):
        chosen = zip(variant.knobs, point, strict=True)
        moved = replace(variant, knobs=tuple(replace(knob, value=knob.domain[at]) for knob, at in chosen))
        planned = plan(moved, task, case, chip)
        if isinstance(planned, Refusal):
            reason = planned.reason
        else:
            legal.append(point)
    if not legal:
        raise UsageError(
            f"{variant.path}: no combination can be launched on {chip.slug}: {reason}", hint="see its require lines"
        )
    return Space(variant.path, knobs, np.array(legal, np.int16))
