"""Measuring a variant on a GPU, alone or against its parent: two stages in two processes, and one decision.

The measurement itself is `evo.device.gpu_timing`, in the GPU's process; the statistics are `evo.decide.sequential`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from evo.decide.capture_noise import ASSUMED
from evo.decide.case_loss import judge_loss
from evo.decide.sequential import (
    CaptureScatter,
    Comparison,
    DecisionRule,
    NoiseFloor,
    compute_bound,
    confirm,
    judge,
    noise_floor,
    too_fast,
)
from evo.device import BenchCase
from evo.device.remote_device import RemoteGpu
from evo.device.timing_types import (
    CHAMPION_SAMPLES,
    BenchOptions,
    BenchRequest,
    BenchResult,
    Samples,
    control_us,
    timing_of,
)
from evo.errors import HarnessFault
from evo.results import CaseBench, Clocks, Decision, Fault, Ground, Verdict
from evo.results.codec import copied
from evo.spec.chips import Chip

__all__ = [
    "CHAMPION_SAMPLES", "BenchOptions", "BenchRequest", "Measurement", "control", "measure", "measure_persisting",
    "require_quiet",
]  # fmt: skip

_SLACK_S = 120.0  # loading, verifying and warming up, on top of the budget for samples
# Pairs and captures, and how many more if they scatter: a capture costs about as much as a pair, and varies as much.
_CONTROLS = ((12, 4), (18, 6))
_CONTROL_SAMPLES = 8  # only the pairs matter
_CONTROL_US = 1_500_000.0  # of the GPU's time, for the cases that it is taken at
_CONTROL_WARM_UP_S = 0.5  # what it is taken of has just been timed, or is another run's champion
_QUIET = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was measured. `divergence` is the variant's failure, and leaves no figures; no parent, no decision."""

    child: tuple[CaseBench, ...] = ()
    parent: tuple[CaseBench, ...] = ()
    decision: Decision | None = None
    divergence: Fault | None = None
    loaded: str = "cubin"
    clocks: Clocks | None = None
    launches_per_sample: dict[str, int] = field(default_factory=dict)
    dropped: int = 0  # pairs between whose halves the clock moved, over both stages
    stages_s: dict[str, float] = field(default_factory=dict)


def measure(
    gpu: RemoteGpu,
    request: BenchRequest,
    *,
    chip: Chip,
    fresh: Callable[[], BenchRequest] | None = None,
    floor: NoiseFloor | None = None,
    prove: Callable[[], bool] = lambda: True,
) -> Measurement:
    """Time the request's cases; with a parent, decide, and confirm a gain in a fresh process.

    fresh: gives the same programs on newly drawn inputs for the confirming stage; without it the same inputs serve.
    floor: of the A/A control before; its scatter between captures widens the intervals (without one, an assumed one).
    prove: shows what is still to be shown of a candidate that the first stage would keep, before its second one; False
    ends it without a decision. Raises TimedOut or Crashed for the variant, EvoError for the harness.
    """
    score, asked = _score(request), request.options
    first = _bench(gpu, request)
    if first.divergence:
        return Measurement(divergence=first.divergence, loaded=first.loaded, stages_s=first.stages_s)
    between = floor.between if floor is not None and floor.between is not None else ASSUMED
    decision = _judged(first, request, chip, between)
    if decision is None or not decision.kept:
        return _measurement(first, decision, first.child)
    if not prove():
        return Measurement(loaded=first.loaded, stages_s=first.stages_s)
    if fresh:  # the first inputs go before others are drawn: all sets of one trial are most of a driver's memory
        del request
        request = fresh()
    options = replace(
        asked,
        samples=max(asked.samples, asked.confirming_samples),
        swap=not asked.swap,
        rule=asked.rule.confirming(),
        stop_at_loss=False,
    )
    with gpu.reserved():  # looks at other inputs may be under way
        gpu.recycle()
        second = _bench(gpu, replace(request, options=options))
    if second.divergence:
        return Measurement(divergence=second.divergence, loaded=second.loaded, stages_s=first.stages_s)
    if reason := _impossible(second.child, request.child, chip):
        return _measurement(second, _fault(reason), second.child)
    final = confirm(decision, _comparison(second, request, chip, between), score, asked.rule)
    return _measurement(second, final, _pooled(first, second), before=first)


def control(
    gpu: RemoteGpu,
    cases: tuple[BenchCase, ...],
    *,
    options: BenchOptions,
    score: dict[str, float] | None = None,
    known_us: Mapping[str, float] | None = None,
) -> tuple[NoiseFloor, Decision]:
    """An A/A run: a program against itself. The noise floor, and what the rule would have said (never KEEP).

    It is short if the noise is less than half of what the margin bears; the fewer captures widen every interval.
    known_us: times of cases; those whose launches take more of the GPU's time than a control is given are left out.
    The ratios of fewer cases scatter more in the mean than those of all, and a case left out is given the scatter of
    that mean, so no interval becomes narrower by it.
    """
    before: BenchResult | None = None
    cases = _affordable(cases, known_us or {})
    for pairs, captures in _CONTROLS:
        rule = replace(options.rule, futility=float("inf"), max_pairs=pairs, simpler=None)
        watched = replace(
            options,
            rule=rule,
            cold_samples=0,
            samples=_CONTROL_SAMPLES,
            captures=captures,
            warm_up_s=_CONTROL_WARM_UP_S,
        )
        request = BenchRequest(child=cases, parent=cases, options=watched, score=score or {})
        before = _together(before, _bench(gpu, request))
        floor, decision = _controlled(before, request, options.rule)
        if decision.kept or _QUIET * floor.smallest_margin(options.rule.fewest_pairs) <= options.rule.margin:
            break
    return floor, decision


def _affordable(cases: tuple[BenchCase, ...], known_us: Mapping[str, float]) -> tuple[BenchCase, ...]:
    """The cases that a control is taken at: the quickest ones, of which one at least, and those of unknown time."""
    pairs, captures = _CONTROLS[0]
    spent_us, chosen = 0.0, set[str]()
    for name, each_us in sorted(known_us.items(), key=lambda known: known[1]):
        spent_us += control_us(each_us, pairs, captures)
        if not chosen or spent_us <= _CONTROL_US:
            chosen.add(name)
    return tuple(case for case in cases if case.program.case in chosen or case.program.case not in known_us)


def _together(before: BenchResult | None, more: BenchResult) -> BenchResult:
    """A measurement with the pairs of the one before it, whose captures were others."""
    if before is None or more.divergence:
        return more
    first = 1 + max(before.captures, default=-1)
    return replace(
        more,
        pairs=(*before.pairs, *more.pairs),
        captures=(*before.captures, *(first + number for number in more.captures)),
        dropped=before.dropped + more.dropped,
    )


def _controlled(result: BenchResult, request: BenchRequest, rule: DecisionRule) -> tuple[NoiseFloor, Decision]:
    if result.divergence:
        hint = "demote it: its results differ from run to run"
        raise HarnessFault(f"A/A control: {result.divergence.message}", hint=hint)
    weights = _score(request)
    comparison = Comparison(
        pairs=result.pairs, child=result.child, parent=result.parent, dropped=result.dropped, clocks=result.clocks
    )
    floor = noise_floor(result.pairs, weights, result.captures)
    if floor.between is not None:
        floor = replace(floor, between=replace(floor.between, timer_step=result.timer_step))
    return floor, judge(comparison, weights, rule)


def measure_persisting(gpu: RemoteGpu, cases: tuple[BenchCase, ...]) -> tuple[CaseBench, ...]:
    """Warm times with the inputs kept in L2 that is set aside for them: to look at, never part of a decision.

    Raises UsageError on a GPU that sets no L2 aside, HarnessFault if outputs differ, and as `measure` does.
    """
    options = BenchOptions(l2_persist=True, cold_samples=0)
    result = _bench(gpu, BenchRequest(child=cases, options=options))
    if result.divergence:
        raise HarnessFault(f"with L2 set aside: {result.divergence.message}", hint="leave --l2-persist out")
    return result.child


def require_quiet(decision: Decision) -> None:
    """Check the result of an A/A control before anything else is measured.

    Raises HarnessFault if the program was judged faster than itself.
    """
    if decision.kept:
        raise HarnessFault(
            f"A/A control: a program was judged faster than itself ({decision.reason}); no gain measured here would "
            "mean anything",
            problem="false-gain",
            hint="look for other work on the GPU (`nvidia-smi`), lock its clocks, and run again",
        )


def _bench(gpu: RemoteGpu, request: BenchRequest) -> BenchResult:
    return gpu.bench(request, time_limit_s=request.options.budget_s + _SLACK_S)


def _judged(result: BenchResult, request: BenchRequest, chip: Chip, between: CaptureScatter) -> Decision | None:
    timed = tuple(case for case in request.child if result.lost_at in (None, case.program.case))
    if reason := _impossible(result.child, timed, chip):
        return _fault(reason)
    if not request.parent:
        return None
    if result.lost_at is not None:
        return judge_loss(_comparison(result, request, chip, between), result.lost_at, request.options.rule)
    return judge(_comparison(result, request, chip, between), _score(request), request.options.rule)


def _fault(reason: str) -> Decision:
    reason = f"measurement fault, too fast to be true: {reason}"
    return Decision(verdict=Verdict.REVERT, ground=Ground.TOO_FAST, reason=reason)


def _impossible(rows: tuple[CaseBench, ...], cases: tuple[BenchCase, ...], chip: Chip) -> str | None:
    for row, case in zip(rows, cases, strict=True):
        narrow = any(array.dtype.itemsize == 1 for array in case.inputs.values())
        program = case.program
        if reason := too_fast(row, flop=program.flop, bytes_moved=program.bytes, chip=chip, narrow=narrow):
            return reason
    return None


def _comparison(result: BenchResult, request: BenchRequest, chip: Chip, between: CaptureScatter) -> Comparison:
    programs = [case.program for case in request.child]
    return copied(
        Comparison,
        result,
        between=replace(between, timer_step=result.timer_step),
        compute_bound=frozenset(p.case for p in programs if compute_bound(flop=p.flop, bytes_moved=p.bytes, chip=chip)),
    )


def _score(request: BenchRequest) -> dict[str, float]:
    """Weights of the timed cases; equal ones where the request names none."""
    names = [case.program.case for case in request.child]
    given = {name: request.score.get(name, 0.0) for name in names}
    return given if any(given.values()) else dict.fromkeys(names, 1.0)


def _pooled(first: BenchResult, second: BenchResult) -> tuple[CaseBench, ...]:
    """The second stage's figures over the samples of both processes, where a sample means the same in both."""
    rows: list[CaseBench] = []
    for row in second.child:
        parts: list[Samples] = [second.samples[row.name]]
        if first.launches_per_sample.get(row.name) == second.launches_per_sample.get(row.name):
            parts.append(first.samples[row.name])
        warm = timing_of(np.concatenate(parts))
        work = row.tflop_per_s * row.warm.p50_us if row.tflop_per_s and row.warm else None
        rows.append(replace(row, warm=warm, tflop_per_s=work / warm.p50_us if work else None))
    return tuple(rows)


def _measurement(
    result: BenchResult, decision: Decision | None, child: tuple[CaseBench, ...], *, before: BenchResult | None = None
) -> Measurement:
    stages = dict(result.stages_s)
    for name, seconds in before.stages_s.items() if before else ():
        stages[name] = stages.get(name, 0.0) + seconds
    dropped = result.dropped + (before.dropped if before else 0)
    return copied(Measurement, result, child=child, decision=decision, dropped=dropped, stages_s=stages)
