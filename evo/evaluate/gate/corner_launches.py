"""Launches at the corners of what a task allows: some axes as long as any, the others short.

A grid, a block or shared memory that grows with the axes may be within the chip's limits at every size that is run,
and not where several axes are longest together. No kernel runs here: the launch line is arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from evo.evaluate.gate.own_kernel import own_kernel
from evo.evaluate.gate.scaled_cases import named_case
from evo.evaluate.gate.threshold_cases import AxisSpace
from evo.results import CaseCheck, Check, Stage, Status
from evo.spec.chips import Chip
from evo.spec.launch import Refusal, plan
from evo.spec.task import Case, Task
from evo.spec.variant import Variant, parse_variant

_MOST = 1 << 12  # corners
_ROOM = 1 << 36  # bytes of all tensors


def at_corners(task: Task, variant: Variant, chip: Chip, seed: int) -> Check | None:
    """The first corner at which a launch is beyond the chip's limits and that of the task's first kernel is not."""
    text = own_kernel(task)
    if text is None:
        return None  # nothing tells that a kernel must be launched there
    own = parse_variant(text)
    for case in _corners(task):
        found = plan(variant, task, case, chip)
        if isinstance(found, Refusal) and found.of_launch and not isinstance(plan(own, task, case, chip), Refusal):
            reason = f"at a size that the task allows, {case.name}: {found.reason}"
            row = CaseCheck(name=case.name, status=Status.REFUSED, reason=reason)
            return Check(status=Status.REFUSED, reason=reason, stage=Stage.THRESHOLD, cases=(row,), seed=seed)
    return None


def _corners(task: Task) -> Iterator[Case]:
    """Every choice of the shortest and the longest length of each axis that fits into memory."""
    space = AxisSpace.of(task)
    ends = [sorted(set(space.spans.get(name, (0, 1)))) for name in task.axes]
    for lengths in itertools.islice(itertools.product(*ends), _MOST):
        axes = dict(zip(task.axes, lengths, strict=True))
        if space.allows(task, axes):
            case = named_case(axes)
            if sum(tensor.size_bytes(case) for tensor in task.tensors) <= _ROOM:
                yield case
