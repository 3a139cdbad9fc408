"""Inputs at which comparisons of data come out as no run has had them, found as fuzzers find them.

A run logs what each comparison compared last. Where a logged number is an element of an input as it lies there, this
element is set so that the comparison comes out otherwise, and the kernel runs again; behind one condition the next one
is met. So a kernel that concludes from a few elements what all of them are meets these few, and others beside them.
Input-to-state correspondence: Aschermann et al., REDQUEEN, NDSS 2019.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays, Program
from evo.device.remote_device import RemoteSimulator
from evo.evaluate.gate.distinct_inputs import InputSpace
from evo.evaluate.gate.looked import Looked
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step, check_case, covered_run
from evo.evaluate.gate.threshold_cases import cost_of
from evo.results import Check, Stage, Status
from evo.results.coverage import BRANCHES, MEMORY, Coverage, CoveragePoint, Operand, PointKind
from evo.sim.bit_arithmetic import TESTS
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

PURSUED = "pursued"
_CASES = 6  # from which comparisons are pursued
_OTHERS = 12  # cases besides the task's own that are run to find these
_RUNS = 320  # of a case
_IN_VAIN = 60  # runs one after the other that reach nothing
_PLACES = 8  # elements that a logged number may be
_TOGETHER = (1, 1, 1, 2, 3)  # comparisons that are turned in one run
_OPEN = 4.0  # times as likely is a comparison turned of which an outcome is missing
_COMPARED = (PointKind.COMPARISON, PointKind.MINIMUM, PointKind.MAXIMUM)
_SETP = re.compile(r"set[p]?\.(?P<how>[a-z]+)")

_Outcome = tuple[str, int, str, str]  # kernel, line of the PTX, kind, outcome


def pursued(
    task: Task,
    programs: Mapping[str, Program],
    bind: Bind,
    reference: Reference,
    device: RemoteSimulator,
    seed: int,
    others: Sequence[Case],
    looked: Looked,
) -> Check | None:
    """The first inputs found so at which the variant is wrong; None if there are none.

    others: sizes besides those of the check cases, which lead elsewhere.
    """
    rng = np.random.default_rng([seed, 83])
    dearest = max(cost_of(task, case) for case in task.check)
    others = [case for case in others if cost_of(task, case) <= dearest][:_OTHERS]
    bound = {**bind(others), **programs}
    cases = [*sorted(task.check, key=lambda case: -cost_of(task, case)), *others]
    own = reference.beside()
    for case in _worth_it([case for case in cases if case.name in bound], bound, own, device, seed):
        pursuit = _Pursuit(task, case, bound[case.name], own, device, rng)
        if (found := pursuit.wrong(bound, seed)) is not None:
            return found
        looked.inputs.add(PURSUED)
    return None


def _worth_it(
    cases: Sequence[Case],
    programs: Mapping[str, Program],
    reference: Reference,
    device: RemoteSimulator,
    seed: int,
) -> list[Case]:
    """Cases in which comparisons of data leave something open; first those that meet some that none before has met."""
    met: set[tuple[str, str, int]] = set()
    first: list[Case] = []
    then: list[Case] = []
    for case in cases:
        program = programs[case.name]
        seen = covered_run(device, program, reference.inputs(case, seed), case)
        if seen is None or not any(_is_open(point) for point in seen.points):
            continue
        reached = {
            (program.binary.key, point.kernel, point.ptx_line)
            for point in seen.points
            if point.reached and _compares_data(point)
        }
        (first if reached - met else then).append(case)
        met |= reached
    return [*first, *then][:_CASES] if met else []


@dataclass(slots=True)
class _Pursuit:
    """One case whose inputs change, a few elements at a time. known: outcomes that a run of it has had."""

    task: Task
    case: Case
    program: Program
    reference: Reference
    device: RemoteSimulator
    rng: np.random.Generator
    known: set[_Outcome] = field(default_factory=set)

    def wrong(self, programs: Mapping[str, Program], seed: int) -> Check | None:
        """The first inputs with a new outcome at which the variant is wrong."""
        space = InputSpace.of(self.task, self.case, self.reference, seed)
        best = space.distinct(self.rng)
        seen = covered_run(self.device, self.program, best, self.case)
        if seen is None:
            return None
        coverage, in_vain = seen, 0
        self.known |= _outcomes(coverage)
        for _ in range(_RUNS):
            if in_vain >= _IN_VAIN or not any(_is_open(self._open(point)) for point in coverage.points):
                break
            if (changed := self._turned(coverage, best, space)) is None:
                break  # what is compared is no element of an input
            seen = covered_run(self.device, self.program, changed, self.case)
            if seen is None:
                in_vain += 1
                continue
            new = _outcomes(seen) - self.known
            if not new and not _goes_further(coverage, seen):
                in_vain += 1
                continue
            best, coverage, in_vain = changed, seen, 0
            self.known |= new
            if new and (found := self._checked(programs, best, seed)) is not None:
                return found
        return None

    def _open(self, point: CoveragePoint) -> CoveragePoint:
        """The point with the outcomes that any run has had."""
        return replace(point, outcomes={o: int((*_key(point), o) in self.known) for o in point.outcomes})

    def _turned(self, coverage: Coverage, inputs: Arrays, space: InputSpace) -> Arrays | None:
        """The inputs with elements set so that some comparisons come out otherwise; None if no element is known."""
        points = [point for point in coverage.points if point.reached and _compares_data(point)]
        ways = [(point, way) for point in points if (way := _way(point, inputs, space, self.rng)) is not None]
        if not ways:
            return None
        count = min(len(ways), int(self.rng.choice(_TOGETHER)))
        likely = np.array([_OPEN if self._open(point).unexercised else 1.0 for point, _ in ways])
        changed = dict(inputs)
        for at in self.rng.choice(len(ways), count, replace=False, p=likely / likely.sum()):
            _, (name, place, value) = ways[int(at)]
            array = changed[name].copy() if changed[name] is inputs[name] else changed[name]
            array.reshape(-1)[place] = value
            changed[name] = array
        return changed

    def _checked(self, programs: Mapping[str, Program], inputs: Arrays, seed: int) -> Check | None:
        expectation = self.reference.sound(self.case, inputs, PURSUED, self.rng)
        if expectation is None:
            return None
        step = Step(self.case, self.device, check_races=True, distribution=PURSUED, budget=CHECK_BUDGET)
        row, _, faults = check_case(self.task, programs, expectation, step, {})
        if row.status is Status.CORRECT:
            return None
        reason = f"case {self.case.name} with inputs that turn a comparison: {row.reason}"
        cases = (replace(row, inputs=(PURSUED,)),)
        return Check(status=row.status, reason=reason, stage=Stage.GATE, cases=cases, faults=faults, seed=seed)


# Points ------------------------------------------------------------------------------------------------------------


def _key(point: CoveragePoint) -> tuple[str, int, str]:
    return point.kernel, point.ptx_line, point.kind


def _outcomes(coverage: Coverage) -> set[_Outcome]:
    return {(*_key(point), name) for point in coverage.points for name, threads in point.outcomes.items() if threads}


def _compares_data(point: CoveragePoint) -> bool:
    sides = [side for side in (point.left, point.right) if side is not None]
    return point.kind in _COMPARED and any(MEMORY in side.origins for side in sides)


def _is_open(point: CoveragePoint) -> bool:
    """Whether it has an outcome that is missing and that data may decide."""
    if not point.unexercised:
        return False
    return _compares_data(point) or not {MEMORY, BRANCHES}.isdisjoint(point.origins)


def _goes_further(before: Coverage, after: Coverage) -> bool:
    """Whether a comparison of data is met more often: a loop over such goes on for longer."""
    pairs = zip(before.points, after.points, strict=True)
    more = [(sum(b.outcomes.values()), sum(a.outcomes.values())) for b, a in pairs if _compares_data(b)]
    return any(a > b for b, a in more) and not any(a < b for b, a in more)


def _way(
    point: CoveragePoint, inputs: Arrays, space: InputSpace, rng: np.random.Generator
) -> tuple[str, int, np.generic] | None:
    """An element of an input, and what makes the comparison come out otherwise than it did last."""
    assert point.left is not None
    assert point.right is not None
    left, right = point.left.value, point.right.value
    if left is None or right is None or not all(math.isfinite(value) for value in (left, right)):
        return None
    holds = _relation(point)
    if holds is None:
        return None
    sides: list[tuple[Operand, float, float, Callable[[float], object]]] = [
        (point.left, left, right, lambda value: holds(value, right)),
        (point.right, right, left, lambda value: holds(left, value)),
    ]
    known = [side for side in sides if MEMORY in side[0].origins]
    for at in rng.permutation(len(known)):
        _, own, other, holds_for = known[int(at)]
        found = _found(own, _is_real(point), inputs, space)
        if not found:
            continue
        name, place = found[int(rng.integers(len(found)))]
        value = _value(own, other, holds_for)
        if value is not None and (fitting := space.fitted(name, value)) is not None:
            return name, place, fitting
    return None


def _relation(point: CoveragePoint) -> Callable[[float, float], object] | None:
    """What a comparison asks of numbers; None for one of what is no number."""
    match = _SETP.search(point.instruction)
    name = match["how"].removesuffix("u") if match else "lt"  # of a minimum or a maximum
    return TESTS.get(name)


def _value(own: float, other: float, holds: Callable[[float], object]) -> float | None:
    """What `own` has to be for the relation to come out otherwise."""
    wanted = not bool(holds(own))
    step = max(1.0, abs(other) / 64) if float(other).is_integer() else max(abs(other) / 64, 2.0**-10)
    return next((value for value in (other, other + step, other - step) if bool(holds(value)) == wanted), None)


def _is_real(point: CoveragePoint) -> bool:
    """Whether it compares numbers of a floating-point type."""
    return point.instruction.split(" ")[0].rpartition(".")[2].startswith(("f", "bf"))


def _found(value: float, real: bool, inputs: Arrays, space: InputSpace) -> list[tuple[str, int]]:
    """Where it lies in the inputs that may change; nothing if it lies in many places, or is no element at all."""
    found: list[tuple[str, int]] = []
    for name in space.free:
        if real == (name in space.bounds):
            continue
        places: NDArray[np.intp] = np.flatnonzero(inputs[name].reshape(-1).astype(np.float64) == value)
        found += [(name, int(place)) for place in places[: _PLACES + 1]]
    return found if len(found) <= _PLACES else []
