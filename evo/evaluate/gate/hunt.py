"""Looking for sizes and inputs at which a variant is wrong, beyond the cases that its task lists.

`hunt` runs the cases that its source suggests (`threshold_cases`), few in an ordinary trial, many before a keep.
`all_distributions` lets every check case meet every distribution, which an ordinary trial deals out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evo.device import Program
from evo.device.remote_device import RemoteDevice, RemoteSimulator
from evo.errors import TaskInvalid
from evo.evaluate.counted_stage import CountedStage, Tell, silent
from evo.evaluate.gate.at_timed_sizes import timed_sizes
from evo.evaluate.gate.hunted_steps import dealt_steps, many_numbers, patterned_steps, short_steps
from evo.evaluate.gate.input_patterns import BY_CONSTANTS, PATTERNS, is_topmost, patterned
from evo.evaluate.gate.looked import Looked, SteeredCases
from evo.evaluate.gate.other_machines import (
    GROSS,
    all_altered,
    apart,
    given_last,
    is_coarse,
    rough,
    shifted_steps,
)
from evo.evaluate.gate.other_orders import other_orders
from evo.evaluate.gate.own_kernel import is_by_rounding, is_own_too, is_own_wrong, wrong_at_near_ties
from evo.evaluate.gate.run_cases import (
    CHECK_BUDGET,
    Bind,
    Step,
    check_case,
    expected_under,
    failed,
    spread_over_cases,
)
from evo.evaluate.gate.scaled_cases import longest_cases, named_case
from evo.evaluate.gate.side_by_side import checked
from evo.evaluate.gate.steered_cases import steered_cases
from evo.evaluate.gate.threshold_cases import (
    cost_of,
    elements_of,
    is_simulated,
    steered_limits,
    threshold_cases,
    usual_limits,
)
from evo.results import CaseCheck, Check, Fault, FaultKind, Stage, Status
from evo.sim import PtxError
from evo.sim.launch_conditions import compared_constants
from evo.spec.chips import Chip
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import DRAWN, suited_to
from evo.spec.reference import Reference
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

QUICK, THOROUGH = 0.3, 2.0  # of what the task's own check cases cost
_FEW, _MANY = 3, 10  # cases for an outcome that no check case has: in a trial, before a keep
_STEERED = 120  # cases of outcomes that no check case has, before a keep
_AFFORDABLE = 6e9  # flops and bytes of a reference that takes seconds
_SAMPLED = 256  # blocks, of which a sample stands for all
_LARGE = 3  # cases that are looked at by a sample of their blocks
_HELD, _SIMULATED = 1 << 28, 1 << 22  # elements of them: as are drawn in a few seconds, or simulated
_FIRST = (0, 0, 0)  # block
_CHEAP = 0.6  # of the dearest check case: a trial prefers those that cost less
_ROUGH = "if approximate instructions err more, as they may"
_HUNTED = "hunted"  # so few elements say nothing about a bias

_AskedPattern = tuple[str, Case, int]  # a pattern, and which draw of it


def hunt(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    bind: Bind,
    reference: Reference,
    devices: Sequence[RemoteSimulator],
    chip: Chip,
    seed: int,
    *,
    share: float,
    looked: Looked | None = None,
    honest: Bind | None = None,
    part: tuple[int, int] = (0, 1),
    tell: Tell = silent,
) -> Check | None:
    """The first case that is wrong; None if none is. Raises EvoError for the harness only.

    share: QUICK or THOROUGH. honest: programs of the task's first kernel. part: which of how many parts of the cases.
    """
    device, thorough, looked = devices[0], share >= THOROUGH, looked if looked is not None else Looked()
    own = reference.beside()
    limits, total = usual_limits(task, share), steered_limits(task, share).total
    steered = (
        looked.steered(lambda: steered_thoroughly(task, variant, programs, chip, seed, device))
        if thorough
        else steered_cases(task, variant, programs, chip, seed, steered_limits(task, share), each=_FEW)
    )
    known = chosen(task, steered.cheap[:_STEERED] if limits.thorough else steered.cheap, total)
    reached, counted = (tuple(longest_cases(task, limits)), many_numbers(task, limits)) if limits.thorough else ((), ())
    sizes = (*reached, *counted, *threshold_cases(task, variant, seed, limits))
    suggested = chosen(task, sizes, limits.total, known)
    cases = [*known, *suggested]
    bound = bind(cases)
    steps = [*dealt_steps(task, [case for case in cases if case.name in bound], device, seed, thorough=thorough)]
    if thorough:
        steps += patterned_steps(task, [case for case in cases if case.name in bound], reached, counted, device)
        short, more = short_steps(task, variant, programs, bind, own, seed, device)
        bound = {**more, **bound}
        steps += [step for step in short if step.case not in cases]

    def run(step: Step, expectation: Expectation, on: RemoteSimulator) -> tuple[CaseCheck | None, tuple[Fault, ...]]:
        step = replace(step, device=on)
        if looked.is_again(step, expectation):
            return None, ()
        row, faults = _at_suggested(task, bound, own, expectation, step, on, seed)
        is_own = row is not None and is_own_too(task, bound, honest, step, expectation, row)
        return (None, ()) if is_own else (row, faults)

    constants = _constants(programs) if thorough else ()
    steps = steps[part[0] :: part[1]]
    made = checked(steps, lambda step: _expected(task, own, step, seed, constants), run, devices)
    for number, (step, (row, faults)) in enumerate(made):
        tell(CountedStage("verify", "size", number, len(steps), step.case.name.strip("()")))
        if row is not None and row.status is not Status.CORRECT:
            why = "a size that the source suggests" if step.case in cases else "a short size"
            return failed(row, step, Stage.THRESHOLD, f"at {why}, {step.case.name}{step.under}", faults, seed)
        if row is not None:
            looked.add(step)
    return None


def _at_suggested(
    task: Task,
    programs: Mapping[str, Program],
    reference: Reference,
    expectation: Expectation,
    step: Step,
    device: RemoteSimulator,
    seed: int,
) -> tuple[CaseCheck | None, tuple[Fault, ...]]:
    """What a size shows; None for a launch too large to be run whole, of which a sample of blocks is right.

    Its launch may be large where the task's work is small. An endless loop is one in any of its blocks, and what the
    first block by itself has no end of, no sample of others tells more about.
    """
    row, _, faults = check_case(task, programs, expectation, step, {})
    if step.distribution == DRAWN and is_by_rounding(row):
        # The task's author has not looked at what is drawn for this size: it may be as hard as a distribution is.
        rng = np.random.default_rng([seed, 83])
        known = reference.sound(step.case, expectation.inputs, _HUNTED, rng, is_given=True)
        row, _, faults = (row, None, faults) if known is None else check_case(task, programs, known, step, {})
    spent = any(fault.kind is FaultKind.BUDGET and fault.block != _FIRST for fault in faults)
    if spent and programs[step.case.name].blocks > _SAMPLED:
        seen = timed_sizes(task, programs, reference, device, seed, cases=[step.case])
        if seen.status.passed and seen.unseen is None:
            return None, ()  # on other inputs, and by a sample: nothing is said of this size
        if not seen.status.passed:
            return seen.case or row, faults if seen.fault is None else (seen.fault,)
    return row, faults


def steered_thoroughly(
    task: Task, variant: Variant, programs: Mapping[str, Program], chip: Chip, seed: int, device: RemoteSimulator
) -> SteeredCases:
    """Sizes at which the variant decides otherwise than at its check cases, as they are looked for before a keep."""
    limits = steered_limits(task, THOROUGH)
    return steered_cases(task, variant, programs, chip, seed, limits, each=_MANY, rehearsing=device)


def unlike_machines(
    task: Task, programs: Mapping[str, Program], bind: Bind, reference: Reference, device: RemoteDevice, seed: int
) -> Check | None:
    """The first check case that is far off on a machine that the ISA allows as well, or in another order of its sums;
    None if none is.
    """
    if (unlike := other_orders(task, programs, bind, reference, device, seed, share=THOROUGH)) is not None:
        step, row, faults = unlike
        return failed(row, step, Stage.GATE, f"case {row.name}{step.under}", faults, seed)
    for step in shifted_steps(task, programs, device):
        row, _, faults = check_case(task, programs, reference.expectation(step.case, seed), step, {})
        if row.status is not Status.CORRECT:
            why = f"if {', '.join(step.shifted)} begins at no multiple of its usual alignment"
            return failed(row, step, Stage.GATE, f"case {row.name}, {why}", faults, seed)
    others = {
        _ROUGH: all_altered(programs, rough),
        "if no two lanes happen to be active together": all_altered(programs, apart),
        "if tensor cores add what they are given last": all_altered(programs, given_last),
    }
    drawn = [(case, DRAWN) for case in task.check]
    more = [*spread_over_cases(task, reference, seed)] if is_coarse(programs) else []
    for words, other in others.items():
        for case, distribution in drawn + (more if words == _ROUGH else []):
            if case.name not in other or (expectation := expected_under(reference, case, seed, distribution)) is None:
                continue
            step = Step(case, device, distribution=distribution, budget=CHECK_BUDGET)
            row, _, faults = check_case(task, other, expectation, step, {})
            if faults or (row.mismatch is not None and row.mismatch.kind in GROSS):
                return failed(row, step, Stage.GATE, f"case {case.name}{step.under}, {words}", faults, seed)
    return None


def large_cases(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    chip: Chip,
    seed: int,
    device: RemoteSimulator,
    looked: Looked,
) -> tuple[Case, ...]:
    """Sizes that are too large to run whole: where the variant decides otherwise than at its check cases; timed ones
    with other flags.
    """
    steered = looked.steered(lambda: steered_thoroughly(task, variant, programs, chip, seed, device))
    most = _SIMULATED if is_simulated(task) else _HELD
    dear = [case for case in steered.dear if elements_of(task, case) <= most]
    return (*dear[:_LARGE], *_with_other_flags(task, seed))


def _with_other_flags(task: Task, seed: int) -> Iterator[Case]:
    """The headline and another timed size, each with one flag turned that no timed size of these lengths has so."""
    rng = np.random.default_rng([seed, 81])
    known = [dict(case.axes) for case in task.bench]
    others = [case for case in task.bench if case.name != task.headline and cost_of(task, case) <= _AFFORDABLE]
    cases = [task.case(task.headline), *(others[:1] and [others[int(rng.integers(len(others)))]])]
    for flag in (name for name, kind in task.axes.items() if kind == "bool"):
        for case in cases:
            axes = {**case.axes, flag: 1 - case.axes[flag]}
            if axes not in known:
                yield named_case(axes)


def chosen(task: Task, cases: Iterable[Case], most: float, beside: Sequence[Case] = ()) -> list[Case]:
    """The first cases that cost so much together, but for those that are known."""
    known = {tuple(case.axes.values()) for case in beside}
    spent = 0.0
    found: list[Case] = []
    for case in cases:
        cost = cost_of(task, case)
        if tuple(case.axes.values()) not in known and spent + cost <= most:
            known.add(tuple(case.axes.values()))
            spent += cost
            found.append(case)
    return found


def _expected(
    task: Task, reference: Reference, step: Step, seed: int, constants: Sequence[int | float]
) -> Expectation | None:
    """What is right there; None if the reference has no such case, or the distribution does not suit it."""
    try:
        if step.distribution in PATTERNS:
            found = _patterned(task, reference, step.case, seed, step.distribution, constants, step.turn)
        else:
            found = expected_under(reference, step.case, seed, step.distribution)
    except TaskInvalid:  # its sizes do not go together, in a way that the task's cases do not show
        return None
    return None if found is None else replace(found, distribution=_HUNTED, memo={})


def all_distributions(
    task: Task,
    programs: Mapping[str, Program],
    reference: Reference,
    device: RemoteDevice,
    seed: int,
    *,
    looked: Looked | None = None,
) -> Check | None:
    """The first check case that is wrong under a distribution that the gate has not dealt to it; None if none is."""
    dealt = {(case.name, distribution) for case, distribution in spread_over_cases(task, reference, seed)}
    for case in task.check:
        for distribution in suited_to(tensor.dtype for tensor in task.inputs):
            if (case.name, distribution) in dealt:
                continue
            expectation = reference.derived(case, seed, distribution)
            if (found := _wrong(task, programs, case, distribution, expectation, device, seed, looked)) is not None:
                return found
    return None


def patterns(
    task: Task,
    programs: Mapping[str, Program],
    reference: Reference,
    devices: Sequence[RemoteDevice],
    seed: int,
    *,
    share: float,
    looked: Looked | None = None,
    honest: Bind | None = None,
    tell: Tell = silent,
) -> Check | None:
    """The first check case that is wrong on inputs with a structure that no draw has; None if none is.

    In a trial each pattern meets one case, before a keep all of them. honest: programs of the task's own first kernel.
    """
    constants = _constants(programs)
    rng = np.random.default_rng([seed, 80])
    orders = {pattern: [task.check[at] for at in rng.permutation(len(task.check))] for pattern in PATTERNS}

    def drawn(asked: _AskedPattern) -> Expectation | None:
        pattern, case, turn = asked
        return _patterned(task, reference, case, seed, pattern, constants, turn)

    if share < THOROUGH:
        dearest = max(cost_of(task, case) for case in task.check)
        for pattern, order in orders.items():
            for case in sorted(order, key=lambda case: cost_of(task, case) > _CHEAP * dearest):
                if (expectation := drawn((pattern, case, 0))) is not None:
                    found = _wrong(task, programs, case, pattern, expectation, devices[0], seed, looked, honest)
                    if found is not None:
                        return found
                    break
        return None

    def run(asked: _AskedPattern, expectation: Expectation, on: RemoteDevice) -> tuple[Check | None]:
        pattern, case, turn = asked
        found = _wrong(task, programs, case, pattern, expectation, on, seed, looked, honest)
        if found is None or found.status is not Status.WRONG or not is_topmost(pattern, turn):
            return (found,)
        return (None if is_own_wrong(task, honest, case, expectation, on) else found,)

    if honest is not None:
        ties = wrong_at_near_ties(task, programs, honest, reference, devices[0], seed)
        if ties is not None:
            step, row, faults = ties
            return failed(row, step, Stage.GATE, f"case {row.name}{step.under}", faults, seed)
    asked = [(p, case, turn) for p, order in orders.items() for case in order for turn in range(PATTERNS[p])]
    for number, ((_, case, _), (found,)) in enumerate(checked(asked, drawn, run, devices)):
        if found is not None:
            return found
        tell(CountedStage("verify", "structured input", number, len(asked), case.name))
    return None


def _patterned(
    task: Task, reference: Reference, case: Case, seed: int, pattern: str, constants: Sequence[int | float], turn: int
) -> Expectation | None:
    """Inputs under a pattern, which are the same for the next variants unless they follow from what those compare."""
    known = tuple(constants) if pattern in BY_CONSTANTS else ()
    key = (*case.axes.values(), case.name, seed, pattern, turn, known)
    return reference.derived_once(key, lambda: patterned(task, reference, case, seed, pattern, known, turn=turn))


def _constants(programs: Mapping[str, Program]) -> tuple[int | float, ...]:
    """What the machine code compares data with."""
    binaries = {program.binary.key: program.binary for program in programs.values()}
    found: dict[int | float, None] = {}
    for binary in binaries.values():
        try:
            found |= dict.fromkeys(compared_constants(binary.ptx))
        except PtxError:
            continue
    return tuple(found)


def _wrong(
    task: Task,
    programs: Mapping[str, Program],
    case: Case,
    distribution: str,
    expectation: Expectation | None,
    device: RemoteDevice,
    seed: int,
    looked: Looked | None,
    honest: Bind | None = None,
) -> Check | None:
    """What is wrong with a check case under other inputs than were drawn; None if nothing, or if they do not suit."""
    if expectation is None:
        return None
    step = Step(case, device, check_races=distribution in PATTERNS, distribution=distribution, budget=CHECK_BUDGET)
    if looked is not None and looked.is_again(step, expectation):
        return None
    row, _, faults = check_case(task, programs, expectation, step, {})
    if row.status is Status.CORRECT:
        if looked is not None:
            looked.add(step)
        return None
    if is_own_too(task, programs, honest, step, expectation, row):
        return None
    return failed(row, step, Stage.GATE, f"case {case.name}{step.under}", faults, seed)
