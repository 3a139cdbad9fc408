"""Check cases in which one axis is far longer than any that the others have.

A variant may leave out what is beyond some length, and is right at every size that its task lists: the gate looks for
the lengths that a source suggests no further than the task's own cases reach. So each axis is long once, beside others
that are short, as far as the original takes that and the simulator runs it at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from evo.errors import TaskInvalid
from evo.interop.adopt.draft import SMALL_SIZE
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.task_texts import all_elements

FAR = "far_"  # of the names of these cases
_LENGTHS = (33013, 16411, 8209)  # odd, and beyond the powers of two at which a buffer or a counter ends
_ELEMENTS = 1 << 19  # of all tensors
_WORK = 1_000_000.0  # warp instructions: a fraction of a second on the simulator


def far_cases(
    trial: DraftTrial, cases: Mapping[str, Mapping[str, int]], timed: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """By name. cases: the check cases that there are, which show how axes go together. timed: the timed one."""
    large = [axis for axis, value in trial.draft.axes.items() if value > SMALL_SIZE]
    found = {}
    for axis in large:
        # Beside other sizes the timed one is short; alone it is looked at as such.
        most = max(axes[axis] for axes in (*cases.values(), *([timed] if len(large) == 1 else [])))
        if (axes := _far(trial, cases, axis)) is not None and axes[axis] > most:
            found[f"{FAR}{axis}"] = axes
    return found


def _far(trial: DraftTrial, cases: Mapping[str, Mapping[str, int]], axis: str) -> dict[str, int] | None:
    """The longest that the original takes, beside the shortest lengths that a case has of the others."""
    base = min(cases.values(), key=lambda axes: sum(value for name, value in axes.items() if name != axis))
    unit = math.gcd(*(axes[axis] for axes in cases.values()))  # it may ask for a multiple of something
    for length in _LENGTHS:
        axes = {**base, axis: -(-length // unit) * unit}
        if _is_cheap(trial, axes) and trial.takes(axes):
            return axes
    return None


def _is_cheap(trial: DraftTrial, axes: Mapping[str, int]) -> bool:
    """Whether it takes no more than `_WORK`, as a few of its blocks tell, and its tensors are small."""
    if all_elements(trial.draft, axes) > _ELEMENTS:
        return False
    try:
        return 0 < trial.work(axes) <= _WORK
    except (Failing, TaskInvalid):
        return False
