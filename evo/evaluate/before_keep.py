"""Checks before a keep, beyond those of a trial: more sizes, more inputs, the timed sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import TypeVar

from evo.device import Program
from evo.device.remote_device import RemoteSimulator
from evo.device.timing_types import StageTimer
from evo.errors import TaskInvalid
from evo.evaluate import gate
from evo.evaluate.counted_stage import Tell
from evo.evaluate.gate.looked import SteeredCases
from evo.evaluate.looking_bench import LookingBench, LookSubject
from evo.evaluate.prepare import Prepared
from evo.results import Check, Stage, Status, Verified
from evo.results.coverage import Coverage
from evo.spec.task import Case, Task

T = TypeVar("T")

_MIXED = 12  # sizes that mix those of the cases, whose comparisons of data are pursued


Look = Callable[[LookSubject], T]
"""A look that needs simulators alone: a function of a module, so that another process can be told which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLooks:
    """The looks that need simulators alone, each done where its result is asked for, or under way elsewhere already.

    looked: the sizes and inputs that `hunted` has looked at. at_timed: the timed sizes, on the GPU too if there is one.
    distributed: the check cases under every distribution, there. pursued: on inputs that turn its comparisons of data.
    outcomes: sizes at which conditions come out as at none of those. give_up: nobody will ask for them.
    """

    looked: gate.Looked
    hunted: Callable[[], Check | None]
    at_large: Callable[[], tuple[gate.TimedSizes | None, int]]
    covered: Callable[[], Mapping[str, Coverage]]
    at_timed: Callable[[], gate.TimedSizes]
    distributed: Callable[[], Check | None]
    pursued: Callable[[], Check | None]
    outcomes: Callable[[], tuple[gate.TimedSizes | None, int]]
    give_up: Callable[[], None] = lambda: None


def simulated_looks(
    bench: LookingBench,
    task: Task,
    prepared: Prepared,
    seed: int,
    checkers: Sequence[RemoteSimulator],
    *,
    timed_alone: bool = False,
) -> SimulatedLooks:
    """The looks on these simulators in turn. timed_alone: of a variant that claims nothing."""
    looked = gate.Looked({case.name for case in task.check})
    places = cycle(checkers)
    _, large, covering, timing, beside = (next(places) for _ in range(5))

    def on(look: Look[T], *devices: RemoteSimulator) -> Callable[[], T]:
        return partial(look, LookSubject(bench, task, prepared, seed, devices, looked))

    return SimulatedLooks(
        looked=looked,
        hunted=on(hunted, *checkers),
        at_large=on(at_large, large),
        covered=on(covered, covering),
        distributed=on(distributed),
        pursued=on(pursued, covering),
        outcomes=lambda: unverified(bench, task, prepared, seed, looked.cases),
        at_timed=on(partial(at_timed, tell=bench.on_stage, drawn_alone=timed_alone), *dict.fromkeys((timing, beside))),
    )


def hunted(of: LookSubject) -> Check | None:
    return of.bench.hunt(of.task, of.prepared, of.checkers, of.seed, share=gate.THOROUGH, looked=of.looked)


def covered(of: LookSubject) -> Mapping[str, Coverage]:
    return gate.exercised(of.task, of.prepared.programs, of.bench.reference(of.task), of.checkers[0], of.seed)


def distributed(of: LookSubject) -> Check | None:
    """On the device itself."""
    bench, task = of.bench, of.task
    device = bench.target or bench.checker
    programs, reference = of.prepared.programs, bench.reference(task)
    return gate.all_distributions(task, programs, reference, device, of.seed, looked=of.looked)


def at_timed(of: LookSubject, *, tell: Tell, drawn_alone: bool = False) -> gate.TimedSizes:
    return gate.timed_sizes(
        of.task,
        of.prepared.programs,
        of.bench.reference(of.task),
        of.checkers[0],
        of.seed,
        numbers=of.bench.modelled,
        target=of.bench.target,
        beside=tuple(of.checkers[1:]),
        tell=tell,
        drawn_alone=drawn_alone,
    )


def steered(of: LookSubject) -> SteeredCases:
    """The sizes at which the variant decides otherwise than at its check cases, worked out once for several looks."""
    variant, programs = of.prepared.variant, of.prepared.programs
    return of.looked.steered(
        lambda: gate.steered_thoroughly(of.task, variant, programs, of.bench.chip, of.seed, of.checkers[0])
    )


def pursued(of: LookSubject, part: tuple[int, int] = (0, 1)) -> Check | None:
    bench, task, prepared, seed, checker = of.bench, of.task, of.prepared, of.seed, of.checkers[0]
    programs, bind = prepared.programs, partial(bench.bound, task, prepared)
    dearest = max(gate.cost_of(task, case) for case in task.check)
    compiled = [name for name in prepared.variant.macros if name in task.axes]
    alike = {tuple(case.axes[name] for name in compiled) for case in task.check}  # another binary takes seconds
    mixtures = gate.drawn_mixtures(task, seed, dearest, related=True)
    others = [case for case in mixtures if tuple(case.axes[name] for name in compiled) in alike][:_MIXED]
    others = [*gate.widest_cases(task, gate.usual_limits(task, gate.THOROUGH)), *others, *steered(of).cheap]
    return gate.pursued(task, programs, bind, bench.reference(task), checker, seed, others, of.looked, part)


def at_large(of: LookSubject) -> tuple[gate.TimedSizes | None, int]:
    """What is wrong at large sizes where the variant decides otherwise than at its check cases, or at the largest that
    its axes allow, and how many they are.

    What cannot be looked at there is no case that the task times, so it counts as not looked at.
    """
    bench, task, prepared, seed, looked = of.bench, of.task, of.prepared, of.seed, of.looked
    checker = of.checkers[0]
    cases = gate.large_cases(task, prepared.variant, prepared.programs, bench.chip, seed, checker, looked)
    programs = bench.bound(task, prepared, cases)
    own = bench.reference(task).beside()
    count = 0
    for case in cases:
        if case.name not in programs:
            continue
        try:
            seen = gate.timed_sizes(task, programs, own, checker, seed, cases=[case])
        except TaskInvalid:  # its sizes do not go together, in a way that the task's cases do not show
            continue
        if not seen.status.passed:
            return seen, count
        if seen.unseen is None:
            looked.cases.append(case)
            count += 1
    far: Sequence[Case] = gate.far_cases(task, own, seed)
    programs = bench.bound(task, prepared, far) | dict(prepared.programs)
    ours = of.own_programs
    far = [case for case in far if case.name in programs]
    for case, seen in gate.far_sizes(task, programs, own, of.checkers, seed, far, ours):
        if not seen.status.passed:
            return seen, count
        looked.cases.append(case)
        count += 1
    for case, row, fault in gate.wrong_beyond(task, partial(bench.bound, task, prepared), ours, own, checker, seed):
        if row is not None:
            reason = f"at a size beyond those of its cases, {case.name}: {row.reason}"
            return gate.TimedSizes(
                status=row.status, stage=Stage.THRESHOLD, reason=reason, case=row, fault=fault
            ), count
        count += 1
    return None, count


def before_keep(
    task: Task,
    looks: SimulatedLooks,
    stages: StageTimer,
    *,
    timed_alone: bool = False,
    beside: Callable[[], object] | None = None,
) -> gate.TimedSizes:
    """The first of these looks that finds something wrong; else what was looked at, and modelled times.

    stages: takes the time that each look was waited for. timed_alone: of a variant that claims nothing. beside: begins
    work for the device while looks go on that need none.
    """
    if timed_alone:
        with stages.time("verify.timed"):
            return looks.at_timed()
    if beside is not None:
        with stages.time("verify.inputs"):
            is_right = looks.distributed() is None  # on the device itself
        if is_right:
            beside()
    with stages.time("verify.hunt"):
        found = looks.hunted()
    with stages.time("verify.inputs"):
        found = found or looks.distributed() or looks.pursued()
    if found is not None:
        return _as_seen(found)
    with stages.time("verify.large"):
        others, large = looks.at_large()
    if others is not None:
        return others
    with stages.time("verify.outcomes"):
        others, more = looks.outcomes()
    if others is not None:
        return others
    with stages.time("verify.timed"):
        seen = looks.at_timed()
    if not seen.status.passed:
        return seen
    with stages.time("verify.coverage"):
        return replace(seen, verified=_verified(looks, large + more + len(task.bench)))


def _as_seen(found: Check) -> gate.TimedSizes:
    fault = next(iter(found.faults), None)
    stage = found.stage or Stage.GATE
    return gate.TimedSizes(status=found.status, stage=stage, reason=found.reason, case=found.cases[0], fault=fault)


def _verified(looks: SimulatedLooks, large: int) -> Verified:
    looked = looks.looked
    counts = [part.outcomes() for part in looks.covered().values() if isinstance(part, Coverage)]
    return Verified(
        outcomes=sum(count for _, count in counts),
        exercised=sum(met for met, _ in counts),
        sizes=len(looked.sizes),
        inputs=tuple(sorted(looked.inputs | {"drawn"})),
        laws=tuple(sorted(looked.laws)),
        large=large,
    )


_LOOKS = 8  # at sizes whose outcomes nothing else has met; a variant with more of them is refused
_BOUND = 4  # sizes that are tried, since a variant may refuse some


def unverified(
    bench: LookingBench, task: Task, prepared: Prepared, seed: int, ran: Sequence[Case]
) -> tuple[gate.TimedSizes | None, int]:
    """What is wrong, or cannot be verified, at sizes where conditions come out as at none that was run; None if
    nothing. And how many sizes were looked at besides.
    """
    own = bench.reference(task).beside()
    known = [*ran, *task.bench]
    count = 0
    variant, programs = prepared.variant, prepared.programs
    for look in range(_LOOKS + 1):
        unmet = gate.unmet_outcomes(task, variant, programs, bench.chip, seed, known, bench.checker)
        tried = ((one, _first_allowed(bench, task, prepared, one.cases)) for one in unmet)
        found = next(((one, allowed) for one, allowed in tried if allowed is not None), None)
        if found is None:
            break
        one, (case, program) = found
        if look == _LOOKS:  # or as many harmless conditions would hide one that is not
            return _refused(one, case), count
        known.append(case)
        try:
            seen = gate.timed_sizes(task, {case.name: program}, own, bench.checker, seed, cases=[case])
        except TaskInvalid:  # its sizes do not go together, in a way that the task's cases do not show
            continue
        if not seen.status.passed:
            return seen, count
        if seen.unseen is not None:
            return _refused(one, case), count
        count += 1
    return None, count


def _first_allowed(
    bench: LookingBench, task: Task, prepared: Prepared, cases: Sequence[Case]
) -> tuple[Case, Program] | None:
    """The first of these sizes that the variant can be launched at."""
    few = cases[:_BOUND]
    bound = bench.bound(task, prepared, few)
    return next(((case, bound[case.name]) for case in few if case.name in bound), None)


def _refused(one: gate.UnmetOutcome, case: Case) -> gate.TimedSizes:
    line = "" if one.source_line is None else f"line {one.source_line}: "
    outcome = f"`{one.instruction}` is {str(one.outcome).lower()} at sizes such as {case.name}"
    reason = f"{line}unverified code: {outcome}, and at none that could be verified"
    return gate.TimedSizes(status=Status.REFUSED, stage=Stage.THRESHOLD, reason=reason)
