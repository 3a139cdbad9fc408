"""Sums of floats by atomics: every check case once more, with blocks and warps in another order.

In a trial one run of the gate has another order, of a case or two. A sum shows its order in a few elements of many, and
in more of them where its terms cancel or differ in size. So before a keep all cases of a kernel that has such sums are
run, under every distribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from evo.device import Program, RunResult
from evo.device.remote_device import RemoteDevice
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Step, check_case
from evo.results import CaseCheck, Fault, Status
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import SCALES, suited_to
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.:]+")


def other_orders(
    task: Task, programs: Mapping[str, Program], reference: Reference, device: RemoteDevice, seed: int
) -> tuple[Step, CaseCheck, tuple[Fault, ...]] | None:
    """The first check case that gives other bits in another order; None if none does, or if the task allows it."""
    if task.nondeterministic is not None:
        return None
    for case in task.check:
        if not _adds_floats(programs[case.name].binary.ptx):
            continue
        for expectation in _under_each(task, case, reference, seed):
            first: dict[tuple[str, int], RunResult] = {}
            for step in (Step(case, device, budget=CHECK_BUDGET), Step(case, device, again=True, budget=CHECK_BUDGET)):
                row, _, faults = check_case(task, programs, expectation, step, first)
                if row.status is not Status.CORRECT:
                    return replace(step, distribution=expectation.distribution), row, faults
    return None


def _under_each(task: Task, case: Case, reference: Reference, seed: int) -> Iterator[Expectation]:
    yield reference.expectation(case, seed)
    for distribution in (*suited_to(tensor.dtype for tensor in task.inputs), SCALES):
        if (found := reference.derived(case, seed, distribution)) is not None:
            yield found


def _adds_floats(ptx: str) -> bool:
    """By an atomic for it, or perhaps by compare-and-swap."""
    found = (match.group().split(".") for match in _ATOMIC.finditer(ptx))
    return any("cas" in parts or ("add" in parts and parts[-1].startswith(("f", "bf"))) for parts in found)
