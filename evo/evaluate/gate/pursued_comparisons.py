"""Inputs at which comparisons of data come out as no run has had them, found as fuzzers find them.

A run logs what each comparison compared last. Where a logged number is an element of an input as it lies there, or
follows from such, these elements are set so that the comparison comes out otherwise, and the kernel runs again; behind
one condition the next one is met. So a kernel that concludes from a few elements what all of them are meets these few,
and others beside them. What loops, lanes and shared memory make of many elements is turned by all of a tensor at once,
of which as much is put back as the outcome allows.
Input-to-state correspondence: Aschermann et al., REDQUEEN, NDSS 2019.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from evo.device import Arrays, Program
from evo.device.remote_device import RemoteSimulator
from evo.evaluate.gate.distinct_inputs import InputSpace, Setting, element_turning
from evo.evaluate.gate.furthest_runs import FurthestRuns, Outcome, PointKey, SeenRun, key_of, outcomes_of
from evo.evaluate.gate.looked import Looked
from evo.evaluate.gate.others_extreme import edges, others_extreme, tells_of_edges
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step, check_case, covered_run, failed
from evo.evaluate.gate.solved_conditions import SolvedConditions, solved_conditions
from evo.evaluate.gate.tensors_at_once import Counted, Doses, alike, approached, some_places
from evo.evaluate.gate.threshold_cases import cost_of
from evo.results import Check, Stage, Status
from evo.results.coverage import ConditionSource, Coverage, CoveragePoint
from evo.spec.expectation import Expectation
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

PURSUED = "pursued"
_CASES = 6  # from which comparisons are pursued
_FULL = 2  # more of them that meet most, beside the task's own and the first that meet a comparison
_OTHERS = 24  # cases besides the task's own that are run to find these
_RUNS = 320  # of a case
_IN_VAIN = 60  # runs one after the other that reach nothing
_TOGETHER = (1, 1, 1, 2, 3)  # comparisons that are turned in one run
_IN_COMPANY = 0.3  # of the turns keep which elements are equal, or what a row of them comes to
_OPEN = 4.0  # times as likely is a comparison turned of which an outcome is missing
_CYCLES = 3  # of turning elements, and then all of a tensor
_AT_ONCE = 29  # ways to change all of a tensor
_EARLY = 5  # of them before any is scaled
_KEPT = 2  # new outcomes of such a run that are kept while elements are put back
_PUT_BACK = 16  # tries to put back a part
_OF_CASE = 0.3  # of what is left for doses
_LEAST_WORK = 1e6  # operations that a run takes as long as
_SOLVED = 0.5  # of the turns of what may be compared as it lies, too
_UNSOLVED = 4  # times that no elements are found, and a condition is given up
_EDGES = 2  # cases at which the edges of comparisons are sought
_BESIDE = 8  # new outcomes of a case with which other tensors are extreme


def pursued(
    task: Task,
    programs: Mapping[str, Program],
    bind: Bind,
    reference: Reference,
    device: RemoteSimulator,
    seed: int,
    others: Sequence[Case],
    looked: Looked,
    part: tuple[int, int] = (0, 1),
) -> Check | None:
    """The first inputs found so at which the variant is wrong; None if there are none.

    others: sizes besides those of the check cases, which lead elsewhere. part: which of how many parts of the cases,
    each with the work of all.
    """
    number, parts = part
    dearest = max(_LEAST_WORK, *(cost_of(task, case) for case in task.check))
    others = [case for case in others if cost_of(task, case) <= dearest][:_OTHERS]
    bound = {**bind(others), **programs}
    cases = [*sorted(task.check, key=lambda case: -cost_of(task, case)), *others]
    own = reference.beside()
    work, solved = _Work(), dict[str, dict[str, SolvedConditions]]()
    worth, full, edged = _worth_it(task.check, [c for c in cases if c.name in bound], bound, own, device, seed)
    each = list(enumerate((*edged, *worth, *full)))[number::parts]  # dealt out evenly
    more = _Work(elements=1e8, at_once=5e7, scaled=5e7, doses=5e7)  # or nothing is left for the task's own cases
    for place, case in each:
        binary = bound[case.name].binary
        if binary.key not in solved:
            solved[binary.key] = solved_conditions(binary.ptx)
        left = more if case in full else work
        rng = np.random.default_rng([seed, 83, place])  # the same whoever pursues it
        pursuit = _Pursuit(task, case, bound[case.name], own, device, rng, solved[binary.key], left)
        found = pursuit.wrong_at_edges(bound, seed) if place < len(edged) else None
        if found is None and case in (*worth, *full):
            found = pursuit.wrong(bound, seed)
        if found is not None:
            return found
        looked.inputs.add(PURSUED)
    return None


def _worth_it(
    own: Sequence[Case],
    cases: Sequence[Case],
    programs: Mapping[str, Program],
    reference: Reference,
    device: RemoteSimulator,
    seed: int,
) -> tuple[list[Case], list[Case], list[Case]]:
    """Cases in which comparisons of data leave something open; first those that meet some that none before has met.
    Some more that meet most beside those of the task. And a few, the cheapest, whose comparisons may have edges.

    own: the cases of the task.
    """
    edged: list[tuple[int, Case]] = []
    met: set[tuple[str, str, int]] = set()
    first: list[Case] = []
    then: list[tuple[int, Case]] = []
    for case in cases:
        program = programs[case.name]
        seen = covered_run(device, program, reference.inputs(case, seed), case)
        if seen is not None and (both := tells_of_edges(seen)):
            edged.append((both, case))
        if seen is None or not any(point.is_open for point in seen.points):
            continue
        reached = {
            (program.binary.key, point.kernel, point.ptx_line)
            for point in seen.points
            if point.reached and point.compares_data
        }
        if reached - met:
            first.append(case)
        else:
            then.append((len(reached), case))
        met |= reached
    worth = [*first, *(case for _, case in then)][:_CASES]
    others = sorted((pair for pair in then if pair[1] not in (*own, *worth)), key=lambda pair: -pair[0])
    full = [case for _, case in others[:_FULL]]
    edged.sort(key=lambda pair: pair[0])  # the cheap ones come last
    return (worth if met else []), (full if met else []), [case for _, case in edged[-_EDGES:]]


_Again = Callable[[Arrays], "tuple[SeenRun, CoveragePoint] | None"]


def _registers(point: CoveragePoint) -> tuple[str, ...]:
    return (point.kernel, *(leaf.register for leaf in point.leaves))


@dataclass(slots=True)
class _Work:
    """What all cases together may still cost, in operations of the reference."""

    elements: float = 1e9
    at_once: float = 3e8
    scaled: float = 2e8
    doses: float = 3e8


@dataclass(slots=True)
class _Pursuit:
    """One case whose inputs change, a few elements at a time. known: outcomes that a run of it has had."""

    task: Task
    case: Case
    program: Program
    reference: Reference
    device: RemoteSimulator
    rng: np.random.Generator
    solved: Mapping[str, SolvedConditions]
    work: _Work
    known: set[Outcome] = field(default_factory=set)
    unsolved: Counter[PointKey] = field(default_factory=Counter)
    extremes: int = 0  # times that other tensors were made extreme

    def wrong_at_edges(self, programs: Mapping[str, Program], seed: int) -> Check | None:
        """What is wrong just before comparisons come out otherwise, if other tensors are large then."""
        space = InputSpace.of(self.task, self.case, self.reference, seed)
        start = space.distinct(self.rng)

        def run(inputs: Arrays) -> Coverage | None:
            return covered_run(self.device, self.program, inputs, self.case)

        found = (self._beside(programs, inputs, {name}, seed) for name, inputs in edges(space, start, run))
        return next((check for check in found if check is not None), None)

    def wrong(self, programs: Mapping[str, Program], seed: int) -> Check | None:
        """The first inputs with a new outcome at which the variant is wrong."""
        space = InputSpace.of(self.task, self.case, self.reference, seed)
        first = seen = self._run(space.distinct(self.rng))
        if first is None or seen is None:
            return None
        self.known |= outcomes_of(seen.coverage)
        counted = Counted(space, first.inputs, first.coverage, np.random.default_rng([seed, 87]))
        for _ in range(_CYCLES):
            seen, found = self._by_elements(seen, space, programs, seed)
            if found is not None:
                return found
            before = len(self.known)
            seen, found = self._at_once(seen, space, programs, seed)
            if found is None:
                seen, found = self._by_doses(seen, first, counted, programs, seed)
            if found is not None or len(self.known) == before:
                return found
        return None

    @property
    def _cost(self) -> float:
        return max(_LEAST_WORK, cost_of(self.task, self.case))

    def _run(self, inputs: Arrays) -> SeenRun | None:
        coverage = covered_run(self.device, self.program, inputs, self.case)
        return None if coverage is None else SeenRun(inputs, coverage)

    def _is_open(self, seen: SeenRun) -> bool:
        return any(self._open(point).is_open for point in seen.coverage.points)

    def _by_elements(
        self, best: SeenRun, space: InputSpace, programs: Mapping[str, Program], seed: int
    ) -> tuple[SeenRun, Check | None]:
        """A few elements changed at a time: the run that has gone furthest, and what is wrong on the way there."""
        in_vain, start, others = 0, best.inputs, FurthestRuns(self.rng.spawn(1)[0])
        others.add(best)
        for _ in range(_RUNS):
            if in_vain >= _IN_VAIN or self.work.elements < 0 or not self._is_open(best):
                break
            self.work.elements -= self._cost
            base = others.drawn(best) if in_vain else best
            if (changed := self._turned(base.coverage, base.inputs, space)) is None:
                break  # what is compared is no element of an input
            seen = self._run(changed)
            new = outcomes_of(seen.coverage) - self.known if seen is not None else set()
            has_gone_on = seen is not None and others.add(seen)
            if seen is None or not (new or has_gone_on or seen.coverage.goes_further(best.coverage)):
                in_vain += 1
                continue
            best, in_vain = seen, 0
            self.known |= new
            if new and (found := self._checked(programs, best.inputs, seed)) is None and self._names(best, new):
                stays = {name for name, array in start.items() if best.inputs[name] is not array}
                found = self._beside(programs, best.inputs, stays, seed)
            if new and found is not None:
                return best, found
        return best, None

    def _at_once(
        self, start: SeenRun, space: InputSpace, programs: Mapping[str, Program], seed: int
    ) -> tuple[SeenRun, Check | None]:
        """All of a tensor changed, and parts of it put back while a new outcome remains."""
        best = start
        ways = alike(start.inputs, start.coverage, space, _AT_ONCE)
        nearest = approached(space, start.inputs, start.coverage, self._missing, self._scaled_run)
        early = islice(ways, _EARLY * len(space.free))  # or a sum has vanished with all of its elements
        for name, array in chain(early, nearest, ways):
            if self.work.at_once < 0 or not self._is_open(start):
                break
            self.work.at_once -= self._cost
            seen = self._run({**start.inputs, name: array})
            new = sorted(outcomes_of(seen.coverage) - self.known) if seen is not None else []
            self.known |= set(new)
            decided = self._decides(start, new)
            for at in self.rng.permutation(len(decided))[:_KEPT]:
                kept = self._put_back(name, {**start.inputs, name: array}, start, decided[int(at)])
                found = self._checked(programs, kept, seed)
                if found is None and self._names(start, [decided[int(at)]]):
                    found = self._beside(programs, kept, {name}, seed)
                if found is not None:
                    return best, found
                best = self._run(kept) or best
        return best, None

    def _by_doses(
        self, start: SeenRun, first: SeenRun, counted: Counted, programs: Mapping[str, Program], seed: int
    ) -> tuple[SeenRun, Check | None]:
        """What is wrong where conditions turn on how many elements are such; those of few registers first.

        first: another run, which may have met other conditions.
        """
        best, doses = start, Doses(counted.space, start.inputs, start.coverage, self.rng.spawn(1)[0])
        bases = [start.inputs, first.inputs]
        least, tried = self.work.doses * (1 - _OF_CASE), set[tuple[object, ...]]()
        while self.work.doses >= least and (found := self._counting((best, first), tried)) is not None:
            number, at, is_again = found
            run = (best, first)[number]
            wanted, met = self._open(run.coverage.points[at]).unexercised, list[SeenRun]()

            def again(inputs: Arrays, at: int = at) -> tuple[SeenRun, CoveragePoint] | None:
                self.work.doses -= self._cost
                seen = self._run(inputs)
                return None if seen is None else (seen, seen.coverage.points[at])

            def look(
                inputs: Arrays, wanted: tuple[str, ...] = wanted, met: list[SeenRun] = met, again: _Again = again
            ) -> float:
                """How near the condition is to turning; infinite once it has."""
                if (found := again(inputs)) is None:
                    return -math.inf
                seen, point = found
                new = outcomes_of(seen.coverage) - self.known
                self.known |= new
                if self._decides(seen, new):
                    met.append(seen)
                has_turned = any(point.outcomes[outcome] for outcome in wanted)
                return math.inf if has_turned else self.solved[point.kernel].nearness(point)

            def leaves(inputs: Arrays, again: _Again = again) -> tuple[ConditionSource, ...]:
                return () if (found := again(inputs)) is None else found[1].leaves

            point = run.coverage.points[at]
            if is_again:
                bases[number] = doses.climbed(bases[number], look)  # others may be nearer there
            else:
                ways = counted.settled(run.inputs, point, self.solved[point.kernel], leaves)
                any(look(inputs) == math.inf for inputs in ways)
            for best in met:
                if (wrong := self._checked(programs, best.inputs, seed)) is not None:
                    return best, wrong
        return best, None

    def _counting(self, runs: Sequence[SeenRun], tried: set[tuple[object, ...]]) -> tuple[int, int, bool] | None:
        """Which run met an open condition, its place, and whether it is tried again, as each is at last."""
        found = [
            (is_again, point.implied and not is_again, len(point.leaves), at, number)
            for number, run in enumerate(runs)
            for at, point in enumerate(run.coverage.points)
            for is_again in (False, True)
            if point.leaves and self._open(point).unexercised and (is_again, *_registers(point)) not in tried
        ]
        if not found:
            return None
        is_again, _, _, at, number = min(found)
        tried.add((is_again, *_registers(runs[number].coverage.points[at])))
        return number, at, is_again

    def _missing(self, point: CoveragePoint) -> tuple[str, ...]:
        """Outcomes that data may decide and that are worth a search."""
        return self._open(point).unexercised if self.work.scaled > 0 and point.is_of_data else ()

    def _scaled_run(self, inputs: Arrays) -> Coverage | None:
        self.work.scaled -= self._cost
        return covered_run(self.device, self.program, inputs, self.case) if self.work.scaled > 0 else None

    def _put_back(self, name: str, inputs: Arrays, start: SeenRun, outcome: Outcome) -> Arrays:
        """The inputs with as much of a tensor as it was as leaves the outcome."""
        for _ in range(_PUT_BACK):
            self.work.at_once -= self._cost
            places = some_places(inputs[name].shape, self.rng)
            tried = {**inputs, name: np.where(places, start.inputs[name], inputs[name])}
            seen = self._run(tried)
            if seen is not None and outcome in outcomes_of(seen.coverage):
                inputs = tried
        return inputs

    def _open(self, point: CoveragePoint) -> CoveragePoint:
        """The point with the outcomes that any run has had."""
        return point._replace(outcomes={o: int((*key_of(point), o) in self.known) for o in point.outcomes})

    def _turned(self, coverage: Coverage, inputs: Arrays, space: InputSpace) -> Arrays | None:
        """The inputs with elements set so that some comparisons come out otherwise; None if no element is known."""
        points = [point for point in coverage.points if point.reached and (point.compares_data or point.leaves)]
        if not points:
            return None
        left, in_company = int(self.rng.choice(_TOGETHER)), self.rng.random() < _IN_COMPANY
        likely = np.array([_OPEN if self._open(point).unexercised else 1.0 for point in points])
        changed, known = inputs, False
        for at in self.rng.choice(len(points), len(points), replace=False, p=likely / likely.sum()):
            ways = self._ways(points[int(at)], inputs, space)
            before, known = changed, known or bool(ways)
            company = self.rng if in_company else None
            for name, place, value in ways:
                changed = space.placed(changed, name, place, value, company) or changed
            left -= changed is not before
            if not left:
                break
        return changed if known else None

    def _ways(self, point: CoveragePoint, inputs: Arrays, space: InputSpace) -> tuple[Setting, ...]:
        """Elements that turn the condition: one that it compares as it lies, or those that it is computed from."""
        solves = point.leaves and self.unsolved[key_of(point)] < _UNSOLVED
        if not (solves and self.rng.random() < _SOLVED):  # a logged number may also be an element by chance
            way = element_turning(point, inputs, space, self.rng) if point.compares_data else None
            if way is not None or not solves:
                return () if way is None else (way,)
        found = self.solved[point.kernel].settings(point, inputs, space, self.rng)
        self.unsolved[key_of(point)] += not found
        return found

    def _decides(self, seen: SeenRun, new: Iterable[Outcome]) -> list[Outcome]:
        """Those that data decide."""
        of_data = {key_of(point) for point in seen.coverage.points if point.is_of_data}
        return [outcome for outcome in new if outcome[:3] in of_data]

    def _names(self, seen: SeenRun, new: Iterable[Outcome]) -> list[Outcome]:
        """Those that a predicate names, too: what is implied may be rounding, as an exponential's way to zero is."""
        implied = {key_of(point) for point in seen.coverage.points if point.implied}
        return [outcome for outcome in self._decides(seen, new) if outcome[:3] not in implied]

    def _beside(self, programs: Mapping[str, Program], inputs: Arrays, stays: set[str], seed: int) -> Check | None:
        """What is wrong if tensors other than these are extreme."""
        if self.extremes >= _BESIDE:
            return None
        self.extremes += 1
        tried = others_extreme(self.task, inputs, stays, self.rng)
        found = (self._checked(programs, other, seed, special=special) for other, special in tried)
        return next((check for check in found if check is not None), None)

    def _checked(
        self, programs: Mapping[str, Program], inputs: Arrays, seed: int, *, special: bool = False
    ) -> Check | None:
        if special:
            expectation: Expectation | None = self.reference.special_expectation(inputs, self.case)
        else:
            expectation = self.reference.sound(self.case, inputs, PURSUED, self.rng)
        if expectation is None:
            return None
        step = Step(self.case, self.device, check_races=True, distribution=PURSUED, budget=CHECK_BUDGET)
        row, _, faults = check_case(self.task, programs, expectation, step, {})
        if row.status is Status.CORRECT:
            return None
        where = f"case {self.case.name} with inputs that turn a comparison"
        return failed(row, step, Stage.GATE, where, faults, seed)
