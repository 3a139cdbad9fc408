"""Running a variant's cases on devices, and what became of each: faults, overwritten inputs, numbers, stability."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evo.device import POISON_LARGE, POISON_NAN, Arrays, Program, RunRequest, RunResult
from evo.device.remote_device import RemoteDevice, RemoteGpu, RemoteSimulator
from evo.errors import Crashed, TimedOut
from evo.evaluate.counted_stage import CountedStage, Tell, silent
from evo.evaluate.gate.compare import compare
from evo.evaluate.gate.error_budget import per_element
from evo.evaluate.gate.metric_gates import metric_problem
from evo.evaluate.gate.mismatches import element_of, first_difference, wrong
from evo.results import CaseCheck, Check, Fault, Figure, MismatchKind, Stage, Status
from evo.results.coverage import Coverage
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import DRAWN, suited_to
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_RUN_LIMIT_S = 120.0
_TOO_LARGE = ", which says nothing of its results; make a smaller case the `headline` of task.yaml"
_OFFSET_BYTES = 16  # the second run's shift: aligned for the widest access, unlike the first run's 256
_DETERMINISM_REPEATS = 10
_HIDDEN = "its sums depend on the order of the threads; here rounding hides that in the outputs"
_AGAIN = "differs when memory held other values before, or blocks started in another order"
_SMALL_OUTPUT = 64  # elements; a case with fewer shows little of a distribution
# Programs of some cases; those that the variant refuses, or does not compile for, are left out.
Bind = Callable[[Sequence[Case]], Mapping[str, Program]]
CHECK_BUDGET = 100_000_000  # warp instructions: check cases are small, and an endless loop should end in seconds


def fault_reason(fault: Fault) -> str:
    """One line: what happened, and where in the source."""
    where = f"line {fault.source_line}: " if fault.source_line is not None else ""
    return f"{where}{fault.kind.words}: {fault.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDevices:
    """Where cases run. checker: a simulator, always. target: the GPU, or None on the simulator.

    half: to run one part alone: `checker`, the check cases on the simulator; `target`, the check cases on the GPU;
    `timed`, the bench cases there. So one variant's first part may overlap another's second.
    """

    checker: RemoteSimulator
    target: RemoteGpu | None
    half: str | None = None
    tell: Tell = silent  # of each case


def run_gate(
    task: Task, programs: Mapping[str, Program], reference: Reference, places: GateDevices, seed: int
) -> Check:
    """Every check case, and the bench cases that the device can run whole. Raises EvoError for the harness only.

    The seed is the run's own secret; with it, the same inputs are drawn again.
    """
    if places.target is not None:
        reference.ahead(task.bench, seed)  # the large cases, while the small ones are checked
    rows: dict[str, CaseCheck] = {}
    counters: dict[str, int] = {}
    first: dict[tuple[str, int], RunResult] = {}
    expected_steps = _expected_steps(task, places)
    for number, step in enumerate(_steps(task, places, reference, seed)):
        places.tell(CountedStage("gate", "run", number, expected_steps, step.words))
        expectation = _expectation(reference, step, seed)
        row, result, faults = check_case(task, programs, expectation, step, first)
        before = rows.get(row.name)
        inputs = dict.fromkeys((*(before.inputs if before is not None else ()), step.distribution))
        row = replace(before if before is not None and row.status is Status.CORRECT else row, inputs=tuple(inputs))
        rows[row.name] = row
        if result is not None and step.counted:
            for name, value in result.counters.items():
                counters[name] = counters.get(name, 0) + value
        if row.status is not Status.CORRECT:
            found = failed(row, step, Stage.GATE, f"case {row.name}{step.under}", faults, seed)
            return replace(found, cases=tuple(rows.values()), counters=counters)
    problem = (
        metric_problem(task, programs, reference, places.checker, seed) if places.half in (None, "checker") else None
    )
    return Check(
        status=Status.REFUSED if problem else Status.CORRECT,
        reason=problem,
        stage=Stage.METRICS if problem else None,
        cases=tuple(rows.values()),
        counters=counters,
        seed=seed,
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One run of one case. again: under another poison and placement, to be the same bit for bit as the first run."""

    case: Case
    device: RemoteDevice
    check_races: bool = False
    repeats: int = 1
    distribution: str = DRAWN
    turn: int = 0  # which draw of a pattern
    again: bool = False
    budget: int | None = None
    counted: bool = False  # its counters go into the check's totals
    shifted: Mapping[str, int] = field(default_factory=dict)  # tensors that begin so many bytes off a usual address

    @property
    def under(self) -> str:
        """Of the inputs, where they are not those that the task draws."""
        return "" if self.distribution == DRAWN else f" with {self.distribution} inputs"

    @property
    def words(self) -> str:
        """Which case, and what is special about this run of it."""
        special = "memory and order changed" if self.again else self.distribution if self.distribution != DRAWN else ""
        return f"case {self.case.name}" + (f", {special}" if special else "")

    @property
    def plain(self) -> bool:
        """The drawn inputs, for the first time."""
        return self.distribution == DRAWN and not self.again


def failed(row: CaseCheck, step: Step, stage: Stage, where: str, faults: tuple[Fault, ...], seed: int) -> Check:
    """A check that ends with what is wrong in a step. where: in words."""
    cases, reason = (replace(row, inputs=(step.distribution,)),), f"{where}: {row.reason}"
    return Check(status=row.status, reason=reason, stage=stage, cases=cases, faults=faults, seed=seed)


def _expected_steps(task: Task, places: GateDevices) -> int:
    """About how many steps `_steps` will give: what other inputs a case has is only known when they are drawn."""
    suited = len(suited_to(tensor.dtype for tensor in task.inputs))
    check, others = len(task.check), max(len(task.check), suited)
    if places.half == "checker":
        return check
    if places.target is None:
        return check + others + 1
    on_gpu = 0 if places.half == "timed" else 2 * check + suited
    return on_gpu + (0 if places.half == "target" else 2 * len(task.bench)) + (check if places.half is None else 0)


def _steps(task: Task, places: GateDevices, reference: Reference, seed: int) -> Iterator[Step]:
    # The simulator's checkers see races and uninitialised reads that no tool sees on a GPU, so they always run.
    if places.half in (None, "checker"):
        for case in task.check:
            yield Step(case, places.checker, check_races=True, counted=True, budget=CHECK_BUDGET)
    if places.half == "checker":
        return
    headline = task.case(task.headline)
    if places.target is None:
        # A second run has other inputs, another poison and another placement all at once, which costs one run and not
        # three; what has no other inputs, and the plain case, must repeat the first run's bits.
        taken = set()
        for case, distribution in spread_over_cases(task, reference, seed):
            taken.add(case.name)
            yield Step(case, places.checker, distribution=distribution, budget=CHECK_BUDGET)
        for case in task.check:
            if case.name not in taken or case is task.check[0]:
                yield Step(case, places.checker, again=True, budget=CHECK_BUDGET)
        # The check cases have been through races and the second poison; this one is large and guards its own shape.
        yield Step(headline, places.checker)
        return
    for case in () if places.half == "timed" else task.check:
        yield from _twice(case, places.target, _DETERMINISM_REPEATS if case is task.check[0] else 2)
    for case, distribution in () if places.half == "timed" else spread_over_cases(task, reference, seed):
        yield Step(case, places.target, distribution=distribution)
    for case in () if places.half == "target" else task.bench:
        yield from _twice(case, places.target, _DETERMINISM_REPEATS if case is headline else 2)


def _twice(case: Case, device: RemoteDevice, repeats: int) -> Iterator[Step]:
    yield Step(case, device, repeats=repeats)
    yield Step(case, device, again=True)


def spread_over_cases(task: Task, reference: Reference, seed: int) -> Iterator[tuple[Case, str]]:
    """Which check case runs under which derived distribution: each case gets one or more, each distribution one case.

    Sums of positive values go where the sums are longest; the rest is dealt out by the seed.
    """
    cases = [case for case in task.check if _output_size(task, case) >= _SMALL_OUTPUT] or list(task.check)
    longest = max(cases, key=lambda case: _input_size(task, case) / _output_size(task, case))
    dealt = [cases[i] for i in np.random.default_rng([seed, len(cases)]).permutation(len(cases))]
    if longest in dealt:
        dealt.remove(longest)
    dealt.insert(0, longest)
    waiting = deque(dealt)
    for distribution in suited_to(tensor.dtype for tensor in task.inputs):
        for case in list(waiting):
            if reference.derived(case, seed, distribution) is not None:
                waiting.remove(case)
                waiting.append(case)  # to the end: the others come first next time
                yield case, distribution
                break


def _output_size(task: Task, case: Case) -> int:
    return sum(math.prod(tensor.dims(case)) for tensor in task.outputs)


def _input_size(task: Task, case: Case) -> int:
    return sum(math.prod(tensor.dims(case)) for tensor in task.inputs)


def check_case(
    task: Task,
    programs: Mapping[str, Program],
    expectation: Expectation,
    step: Step,
    first: dict[tuple[str, int], RunResult],
) -> tuple[CaseCheck, RunResult | None, tuple[Fault, ...]]:
    """Run one step and hold it to what is expected. first: what the plain runs left, by case and device."""
    case = step.case
    key = (case.name, id(step.device))
    request = _request(programs[case.name], step, expectation.inputs)
    result = _run(step.device, request, case)
    if isinstance(result, CaseCheck):
        return result, None, ()
    if problem := _run_problem(case, result):
        return problem, result, result.faults
    outputs = result.outputs[0]
    elements = sum(array.size for array in outputs.values())
    terms = per_element(task, result.counters.get("atomic_lanes", 0), step.repeats * elements)
    if step.again and task.nondeterministic is None:  # the same bits as the first run's are as right as they
        row = CaseCheck(name=case.name, status=Status.CORRECT)
    else:
        row = _named(compare(task, case.name, outputs, expectation, terms), step, request, outputs, expectation)
    if row.status is Status.CORRECT and step.plain:
        first[key] = result
    for again in result.outputs[1:]:
        row = _repeated(task, row, outputs, again, expectation, "differs between launches", terms)
    if step.again and row.status is not Status.CORRECT:
        # The first run was right, so it is the memory around it that decides.
        return _unstable(row, _AGAIN, row), result, ()
    if step.again:
        row = _repeated(task, row, first[key].outputs[0], outputs, expectation, _AGAIN, terms)
        if row.status is Status.CORRECT and task.nondeterministic is None and result.left != first[key].left:
            row = replace(row, status=Status.UNSTABLE, reason=_HIDDEN)
    return row, result, ()


def _named(row: CaseCheck, step: Step, request: RunRequest, outputs: Arrays, expectation: Expectation) -> CaseCheck:
    """The row; if it calls unwritten what one byte holds, by another poison, since one value of 256 is the poison."""
    found = row.mismatch
    if found is None or found.kind is not MismatchKind.UNWRITTEN or outputs[found.tensor].itemsize > 1:
        return row
    poison = POISON_LARGE if request.poison == POISON_NAN else POISON_NAN
    again = _run(step.device, replace(request, poison=poison, repeats=1, check_races=False), step.case)
    if isinstance(again, CaseCheck) or not again.outputs:
        return row
    got, want = outputs[found.tensor][found.index], expectation.expected[found.tensor][found.index]
    if again.outputs[0][found.tensor][found.index] != got:
        return row
    found = element_of(MismatchKind.DIFFERENT, found.tensor, found.index, found.elements, got, want)
    return wrong(row.name, found, f"{found.element} is {got}, expected {want} ({found.elements} elements differ)")


def expected_under(reference: Reference, case: Case, seed: int, distribution: str) -> Expectation | None:
    """What is right of a case under a distribution; None if that does not suit it."""
    drawn = distribution == DRAWN
    return reference.expectation(case, seed) if drawn else reference.derived(case, seed, distribution)


def _expectation(reference: Reference, step: Step, seed: int) -> Expectation:
    found = expected_under(reference, step.case, seed, step.distribution)
    assert found is not None  # only such pairs are handed out
    return found


def _request(program: Program, step: Step, inputs: Arrays) -> RunRequest:
    return RunRequest(
        program=program,
        inputs=inputs,
        poison=POISON_NAN if step.plain else POISON_LARGE,
        offset_bytes=0 if step.plain else _OFFSET_BYTES,
        repeats=step.repeats,
        check_races=step.check_races,
        budget=step.budget,
        backwards=step.again,
        shifted=step.shifted,
    )


def exercised(
    task: Task, programs: Mapping[str, Program], reference: Reference, checker: RemoteSimulator, seed: int
) -> dict[str, Coverage]:
    """What the gate's cases exercise of each binary, by binary key: its launches once more, on the simulator alone.

    Ends at the first launch that does not pass, with what was seen until then.
    """
    parts: dict[str, list[Coverage]] = {}
    for step in _steps(task, GateDevices(checker=checker, target=None), reference, seed):
        program = programs[step.case.name]
        seen = _covered(checker, _request(program, step, _expectation(reference, step, seed).inputs), step.case)
        if seen is None:
            break
        parts.setdefault(program.binary.key, []).append(seen)
    return {key: Coverage.merged(found) for key, found in parts.items()}


def covered_run(checker: RemoteSimulator, program: Program, inputs: Arrays, case: Case) -> Coverage | None:
    """What one run of a program exercises; None if it does not pass."""
    return _covered(checker, _request(program, Step(case, checker, budget=CHECK_BUDGET), inputs), case)


def _covered(checker: RemoteSimulator, request: RunRequest, case: Case) -> Coverage | None:
    result = _run(checker, replace(request, coverage=True, check_races=False, repeats=1), case)
    return None if isinstance(result, CaseCheck) or result.faults else result.coverage


def _repeated(
    task: Task, row: CaseCheck, first: Arrays, again: Arrays, expectation: Expectation, words: str, terms: float
) -> CaseCheck:
    """The row, or an unstable one if a further run differs: in a bit, or beyond the budget with declared atomics."""
    if row.status is not Status.CORRECT:
        return row
    if task.nondeterministic is None:
        if (difference := first_difference(first, again)) is not None:
            values = f"{_shown(difference.expected)} and then {_shown(difference.got)}"
            reason = f"{words}: {difference.element} was {values} ({difference.elements} elements)"
            return replace(row, status=Status.UNSTABLE, reason=reason, mismatch=difference)
        return row
    other = compare(task, row.name, again, expectation, terms)
    return row if other.status is Status.CORRECT else _unstable(row, words, other)


def _shown(value: Figure | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _unstable(row: CaseCheck, words: str, other: CaseCheck) -> CaseCheck:
    return replace(row, status=Status.UNSTABLE, reason=f"{words}: {other.reason}", mismatch=other.mismatch)


def _run(device: RemoteDevice, request: RunRequest, case: Case) -> RunResult | CaseCheck:
    try:
        result = device.run(request, time_limit_s=_RUN_LIMIT_S)
    except TimedOut as late:
        too_large = request.budget is None and isinstance(device, RemoteSimulator)
        reason = f"still running after {late.seconds:g} s{_TOO_LARGE if too_large else ''}"
        return CaseCheck(name=case.name, status=Status.TIMED_OUT, reason=reason)
    except Crashed as crash:
        return CaseCheck(name=case.name, status=Status.CRASHED, reason=str(crash))
    return result


def _run_problem(case: Case, result: RunResult) -> CaseCheck | None:
    if result.faults:
        fault = result.faults[0]
        return CaseCheck(name=case.name, status=fault.kind.status, reason=fault_reason(fault))
    if result.overwritten:
        names = ", ".join(result.overwritten)
        return CaseCheck(name=case.name, status=Status.UNSAFE, reason=f"read only: input overwritten: {names}")
    if result.broken_guards:
        names = ", ".join(result.broken_guards)
        return CaseCheck(name=case.name, status=Status.UNSAFE, reason=f"out of bounds: wrote past the ends of {names}")
    return None
