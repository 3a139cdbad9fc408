"""Looking for sizes and inputs at which a variant is wrong, beyond the cases that its task lists.

`hunt` runs the cases that its source suggests (`threshold_cases`), few in an ordinary trial, many before a keep.
`all_distributions` lets every check case meet every distribution, which an ordinary trial deals out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evo.device import Program
from evo.device.remote_device import RemoteDevice
from evo.errors import TaskInvalid
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Step, check_case, spread_over_cases
from evo.evaluate.gate.threshold_cases import threshold_cases, usual_limits
from evo.results import CaseCheck, Check, Fault, Stage, Status
from evo.spec.input_distributions import DRAWN, ENDS, suited_to
from evo.spec.integer_distributions import EXTREME
from evo.spec.reference import Expectation, Reference
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

QUICK, THOROUGH = 0.3, 2.0  # of what the task's own check cases cost
_ENDS = (ENDS, EXTREME)  # what a thorough look adds to the drawn inputs
_HUNTED = "hunted"  # so few elements say nothing about a bias

# Programs of some cases; those that the variant refuses, or does not compile for, are left out.
Bind = Callable[[Sequence[Case]], Mapping[str, Program]]


def hunt(
    task: Task, variant: Variant, bind: Bind, reference: Reference, device: RemoteDevice, seed: int, *, share: float
) -> Check | None:
    """The first case that is wrong; None if none is. share: QUICK or THOROUGH. Raises EvoError for the harness only."""
    own = Reference(task, reference.process, limit_s=reference.limit_s)  # nobody asks for these cases again
    cases = threshold_cases(task, variant, seed, usual_limits(task, share))
    programs = bind(cases)
    rng = np.random.default_rng([seed, 78])
    suited = suited_to(tensor.dtype for tensor in task.inputs)
    for case in cases:
        if case.name not in programs:
            continue
        for step in _steps(case, device, rng, suited, thorough=share >= THOROUGH):
            expectation = _expected(own, step, seed)
            if expectation is None:
                continue
            row, _, faults = check_case(task, programs, expectation, step, {})
            if row.status is not Status.CORRECT:
                under = "" if step.distribution == DRAWN else f" with {step.distribution} inputs"
                reason = f"at a size that the source suggests, {case.name}{under}: {row.reason}"
                return _failed(row, step, Stage.THRESHOLD, reason, faults, seed)
    return None


def _failed(row: CaseCheck, step: Step, stage: Stage, reason: str, faults: tuple[Fault, ...], seed: int) -> Check:
    cases = (replace(row, inputs=(step.distribution,)),)
    return Check(status=row.status, reason=reason, stage=stage, cases=cases, faults=faults, seed=seed)


def _steps(
    case: Case, device: RemoteDevice, rng: np.random.Generator, suited: Sequence[str], *, thorough: bool
) -> Iterator[Step]:
    other = str(rng.choice(suited)) if suited else DRAWN
    if thorough or rng.integers(2):
        yield Step(case, device, check_races=True, budget=CHECK_BUDGET)
    else:
        yield Step(case, device, check_races=True, distribution=other, budget=CHECK_BUDGET)
    if thorough:
        for distribution in dict.fromkeys((*(name for name in _ENDS if name in suited), other)):
            yield Step(case, device, distribution=distribution, budget=CHECK_BUDGET)


def _expected(reference: Reference, step: Step, seed: int) -> Expectation | None:
    """What is right there; None if the reference has no such case, or the distribution does not suit it."""
    try:
        if step.distribution == DRAWN:
            found: Expectation | None = reference.expectation(step.case, seed)
        else:
            found = reference.derived(step.case, seed, step.distribution)
    except TaskInvalid:  # its sizes do not go together, in a way that the task's cases do not show
        return None
    return None if found is None else replace(found, distribution=_HUNTED, memo={})


def all_distributions(
    task: Task, programs: Mapping[str, Program], reference: Reference, device: RemoteDevice, seed: int
) -> Check | None:
    """The first check case that is wrong under a distribution that the gate has not dealt to it; None if none is."""
    dealt = {(case.name, distribution) for case, distribution in spread_over_cases(task, reference, seed)}
    for case in task.check:
        for distribution in suited_to(tensor.dtype for tensor in task.inputs):
            if (case.name, distribution) in dealt:
                continue
            expectation = reference.derived(case, seed, distribution)
            if expectation is None:
                continue
            step = Step(case, device, distribution=distribution, budget=CHECK_BUDGET)
            row, _, faults = check_case(task, programs, expectation, step, {})
            if row.status is not Status.CORRECT:
                reason = f"case {case.name} with {distribution} inputs: {row.reason}"
                return _failed(row, step, Stage.GATE, reason, faults, seed)
    return None
