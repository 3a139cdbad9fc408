"""Where threads meet by atomics or flags: every check case once more, with blocks and warps in another order.

In a trial one run of the gate has another order, of a case or two. A sum shows its order in a few elements of many, and
in more of them where its terms cancel or differ in size. So before a keep all cases of a kernel that may have such
sums, by atomics, under a lock or by places in the order of arrival, are run under every distribution. Two blocks add up
to the same in either order, so the cheapest sizes of several blocks are run as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from evo.device import Program, RunResult
from evo.device.remote_device import RemoteDevice
from evo.errors import TaskInvalid
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step, check_case, expected_under
from evo.evaluate.gate.scaled_cases import longest_cases
from evo.evaluate.gate.threshold_cases import cost_of, usual_limits
from evo.results import CaseCheck, Fault, Status
from evo.spec.input_distributions import DRAWN, SCALES, suited_to
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_MEETS = re.compile(r"\b(?:atom|red|(?:ld|st)\.(?:volatile|relaxed|acquire|release))\.")
_ADDS = re.compile(r"\b(?:add|sub|fma)\.[\w.]{0,20}f(?:16|32|64)|\.cas\.|\.add\.(?:noftz\.)?b?f(?:16|32|64)")
_SEVERAL, _CHEAPEST = 5, 2  # blocks; cases of so many


def other_orders(
    task: Task,
    programs: Mapping[str, Program],
    bind: Bind,
    reference: Reference,
    device: RemoteDevice,
    seed: int,
    *,
    share: float,
) -> tuple[Step, CaseCheck, tuple[Fault, ...]] | None:
    """The first case that gives other bits in another order; None if none does, or if the task allows it."""
    if task.nondeterministic is not None:
        return None
    mine = [case for case in task.check if _may_show(programs[case.name])]
    if not mine:
        return None
    others = [*longest_cases(task, usual_limits(task, share))]
    bound = {**bind(others), **programs}
    own = reference.beside()
    suited = suited_to(tensor.dtype for tensor in task.inputs)
    asked = [(case, distribution) for case in mine for distribution in (DRAWN, *suited, SCALES)]
    asked += [(case, which) for case in _of_several_blocks(task, others, bound) for which in (DRAWN, SCALES)]
    for case, distribution in asked:
        try:
            expectation = expected_under(own, case, seed, distribution)
        except TaskInvalid:  # its sizes do not go together, in a way that the task's cases do not show
            continue
        if expectation is None:
            continue
        first: dict[tuple[str, int], RunResult] = {}
        step = Step(case, device, budget=CHECK_BUDGET)
        if check_case(task, bound, expectation, step, first)[0].status is not Status.CORRECT:
            continue  # other looks tell
        step = replace(step, again=True)
        row, _, faults = check_case(task, bound, expectation, step, first)
        if row.status is not Status.CORRECT:
            return replace(step, distribution=expectation.distribution), row, faults
    return None


def _may_show(program: Program) -> bool:
    return bool(_MEETS.search(program.binary.ptx) and _ADDS.search(program.binary.ptx))


def _of_several_blocks(task: Task, cases: Iterable[Case], programs: Mapping[str, Program]) -> list[Case]:
    found = [case for case in cases if case.name in programs and programs[case.name].blocks >= _SEVERAL]
    return sorted(found, key=lambda case: cost_of(task, case))[:_CHEAPEST]
