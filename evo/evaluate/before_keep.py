"""Checks before a keep, beyond those of a trial: more sizes, more inputs, the timed sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Protocol, TypeVar

from evo.device import Program
from evo.device.remote_device import RemoteGpu, RemoteSimulator
from evo.device.timing_types import StageTimer
from evo.errors import TaskInvalid
from evo.evaluate import gate
from evo.evaluate.counted_stage import Tell, silent
from evo.evaluate.prepare import Prepared
from evo.evaluate.unverified import unverified
from evo.results import Check, Stage, Verified
from evo.results.coverage import Coverage
from evo.spec.chips import Chip
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

T = TypeVar("T")

_MIXED = 12  # sizes that mix those of the cases, whose comparisons of data are pursued


class KeepingBench(Protocol):
    """What of a workbench these looks need."""

    @property
    def modelled(self) -> bool: ...

    chip: Chip
    checker: RemoteSimulator
    target: RemoteGpu | None
    on_stage: Tell

    def reference(self, task: Task) -> Reference: ...

    def bound(self, task: Task, prepared: Prepared, cases: Sequence[Case]) -> dict[str, Program]: ...

    def own_programs(self, task: Task, cases: Sequence[Case]) -> dict[str, Program]: ...

    def hunt(
        self,
        task: Task,
        prepared: Prepared,
        checkers: Sequence[RemoteSimulator],
        seed: int,
        *,
        share: float,
        looked: gate.Looked | None = None,
    ) -> Check | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLooks:
    """The looks that need simulators alone, each done where its result is asked for, or under way elsewhere already.

    looked: the sizes and inputs that `hunted` has looked at. at_timed: the timed sizes, on the GPU too if there is one.
    distributed: the check cases under every distribution, there. pursued: on inputs that turn its comparisons of data.
    """

    looked: gate.Looked
    hunted: Callable[[], Check | None]
    at_large: Callable[[], tuple[gate.TimedSizes | None, int]]
    covered: Callable[[], Mapping[str, Coverage]]
    at_timed: Callable[[], gate.TimedSizes]
    distributed: Callable[[], Check | None]
    pursued: Callable[[], Check | None]


def simulated_looks(
    bench: KeepingBench,
    task: Task,
    prepared: Prepared,
    seed: int,
    checkers: Sequence[RemoteSimulator],
    threads: Executor | None = None,
) -> SimulatedLooks:
    """The looks on these simulators in turn; with threads, begun at once and side by side.

    What a look asks of the GPU waits for what is timed there, and comes between its stages at most.
    """
    looked = gate.Looked({case.name for case in task.check}, set())
    reference = bench.reference(task)
    places = cycle(checkers)
    hunting, large, covering, timing, beside = (next(places) for _ in range(5))

    def hunted() -> Check | None:
        # Side by side, what is exercised is soon told, and its simulator free.
        together = checkers if threads is None else tuple(dict.fromkeys((hunting, covering)))
        return bench.hunt(task, prepared, together, seed, share=gate.THOROUGH, looked=looked)

    def at_large() -> tuple[gate.TimedSizes | None, int]:
        return _at_large(bench, task, prepared, seed, large, looked)

    def covered() -> Mapping[str, Coverage]:
        return gate.exercised(task, prepared.programs, reference, covering, seed)

    def at_timed() -> gate.TimedSizes:
        return gate.timed_sizes(
            task,
            prepared.programs,
            reference,
            timing,
            seed,
            numbers=bench.modelled,
            target=bench.target,
            beside=() if beside is timing else (beside,),
            tell=bench.on_stage if threads is None else silent,
        )

    def distributed() -> Check | None:
        device = bench.target or bench.checker
        return gate.all_distributions(task, prepared.programs, reference, device, seed, looked=looked)

    def begun(work: Callable[[], T]) -> Callable[[], T]:
        return work if threads is None else threads.submit(work).result

    exercised = begun(covered)
    return SimulatedLooks(
        looked=looked,
        hunted=begun(hunted),
        at_large=begun(at_large),
        covered=exercised,
        distributed=begun(distributed),
        pursued=begun(partial(_pursued, bench, task, prepared, seed, covering, looked, exercised if threads else None)),
        at_timed=begun(at_timed),
    )


def _pursued(
    bench: KeepingBench,
    task: Task,
    prepared: Prepared,
    seed: int,
    checker: RemoteSimulator,
    looked: gate.Looked,
    before: Callable[[], object] | None,
) -> Check | None:
    """before: what runs on the same simulator first."""
    if before is not None:
        before()
    programs, bind = prepared.programs, partial(bench.bound, task, prepared)
    steered = looked.steered(
        lambda: gate.steered_thoroughly(task, prepared.variant, programs, bench.chip, seed, checker)
    )
    dearest = max(gate.cost_of(task, case) for case in task.check)
    compiled = [name for name in prepared.variant.macros if name in task.axes]
    alike = {tuple(case.axes[name] for name in compiled) for case in task.check}  # another binary takes seconds
    mixtures = gate.drawn_mixtures(task, seed, dearest, related=True)
    others = [case for case in mixtures if tuple(case.axes[name] for name in compiled) in alike][:_MIXED]
    others += steered.cheap
    return gate.pursued(task, programs, bind, bench.reference(task), checker, seed, others, looked)


def before_keep(
    bench: KeepingBench, task: Task, prepared: Prepared, seed: int, looks: SimulatedLooks, stages: StageTimer
) -> gate.TimedSizes:
    """The first of these looks that finds something wrong; else what was looked at, and modelled times.

    stages: takes the time that each look was waited for.
    """
    looked = looks.looked
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
        others, more = unverified(bench, task, prepared, seed, looked.cases)
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


def _at_large(
    bench: KeepingBench, task: Task, prepared: Prepared, seed: int, checker: RemoteSimulator, looked: gate.Looked
) -> tuple[gate.TimedSizes | None, int]:
    """What is wrong at large sizes where the variant decides otherwise than at its check cases, or at the largest that
    its axes allow, and how many they are.

    What cannot be looked at there is no case that the task times, so it counts as not looked at.
    """
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
    far = gate.far_cases(task, own, seed)
    programs = bench.bound(task, prepared, far) | dict(prepared.programs)
    ours = partial(bench.own_programs, task)
    for case, seen in gate.far_sizes(task, programs, own, checker, seed, [c for c in far if c.name in programs], ours):
        if not seen.status.passed:
            return seen, count
        looked.cases.append(case)
        count += 1
    return None, count


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
