"""The sizes of the timed case: the file's own, or smaller or larger ones of the same kind; and of dear check cases."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from evo.errors import SyntaxInvalid, TaskInvalid
from evo.interop.adopt.draft import SMALL_SIZE
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.task_texts import elements, value_of
from evo.spec.element_types import DTYPES

_WORK = 6_000_000.0  # warp instructions of the headline: seconds on the simulator, some ten times for each variant
_LITTLE = 2_000_000.0  # ... below which the launch is more than a quarter of the time
_LONG_WARP = 4_000.0  # ... of one warp, above which its own loop takes longer than the launch
_LITTLE_BYTES = 4 << 20  # of all tensors: some 10 us of a GPU's memory, which is longer than a launch
_SHORTEST, _POWERS = 64, 3  # an axis whose half tells something; the highest power that is believed
_MORE = 1.5  # times the work, without which twice the length is no larger size


def with_fewer(trial: DraftTrial, axes: dict[str, int]) -> dict[str, int]:
    """Sizes of a check case with less of what only repeats the work (batches, heads) where a run takes seconds."""
    while trial.is_dear(axes):
        short = [axis for axis, value in trial.draft.axes.items() if value <= SMALL_SIZE and axes[axis] > 1]
        halves = ({**axes, axis: axes[axis] // 2} for axis in sorted(short, key=lambda axis: -axes[axis]))
        fewer = next((each for each in halves if trial.takes(each)), None)
        if fewer is None:
            break
        axes = fewer
    return axes


def headline_sizes(trial: DraftTrial, given: Collection[str] = ()) -> dict[str, int]:
    """The file's sizes, or smaller ones that the simulator runs in seconds, or larger ones that are more than a launch.

    given: axes that somebody asked for; they stay as they are.
    """
    axes = dict(trial.draft.axes)
    work = trial.work(axes)
    if _is_little(trial, axes, work):
        return _larger(trial, axes, work, given)
    while work > _WORK:
        smaller = next(_scaled(axes, 0.5, given), axes)
        if smaller == axes or max(v for a, v in axes.items() if a not in given) <= 64:
            break
        axes = smaller
        work = trial.work(axes)
    return axes


def growth_of_work(trial: DraftTrial, axes: dict[str, int], work: float) -> dict[str, int]:
    """With which power of each longer axis the work grows: 2 for all pairs of n, 0 for one that only the grid strides
    along. Half the length shows it.
    """
    found = {}
    for axis, value in axes.items():
        if value <= _SHORTEST:
            continue
        try:
            less = trial.work({**axes, axis: value // 2})
        except (SyntaxInvalid, TaskInvalid):  # no length that it takes
            continue
        if less and work and math.isfinite(less):
            found[axis] = min(_POWERS, max(0, round(math.log2(work / less))))
    return found


def _larger(trial: DraftTrial, axes: dict[str, int], work: float, given: Collection[str]) -> dict[str, int]:
    """Sizes at which the launch itself is not most of the time."""
    for _ in range(10):
        for further in _scaled(axes, 2, given):
            if trial.takes(further) and (more := trial.work(further)) > _MORE * work:
                axes, work = further, more
                break
        else:
            break
        if not _is_little(trial, axes, work):
            break
    return axes


def _is_little(trial: DraftTrial, axes: dict[str, int], work: float) -> bool:
    """Whether the launches are most of the time, since warps are few and each has little to do and none waits."""
    draft = trial.draft
    if "atomic" in draft.code:
        return False
    sizes = {**axes, **draft.knobs}
    if sum(elements(tensor, sizes) * DTYPES[tensor.dtype] for tensor in draft.given) > _LITTLE_BYTES:
        return False
    threads = sum(math.prod(value_of(part, sizes) for part in (*e.grid, *e.block)) for e in draft.launches)
    return work < min(_LITTLE, _LONG_WARP * max(1, threads // 32))


def _scaled(axes: dict[str, int], factor: float, given: Collection[str]) -> Iterator[dict[str, int]]:
    """The longest axes, those of one length together, half or twice as long; then the next longest."""
    free = {axis: value for axis, value in axes.items() if value > SMALL_SIZE and axis not in given}
    for length in sorted(set(free.values()), reverse=True):
        yield {a: int(v * factor) if free.get(a) == length else v for a, v in axes.items()}
