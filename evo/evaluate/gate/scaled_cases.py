"""Check cases made larger, with their structure kept: grouped, causal and ragged as before, at other lengths.

A task's check cases show which structures its author thinks of: groups of heads, more keys than queries, a tail. A
variant may be right for each of them at small lengths and forget one at large lengths. So each case is repeated with
one axis longer, or all of them, under every combination of flags.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.evaluate.gate.threshold_cases import AxisLimits, AxisSpace, cost_of
from evo.spec.element_types import is_float
from evo.spec.task import Case, Task

Sizes = dict[str, NDArray[np.int64]]  # by axis, one place a size

_LONG = 16  # above it, an axis of a check case may be made shorter; below, it counts a few things
_RESIDUE = 8  # a length keeps its remainder by this, so that what was ragged stays so
_SWEPT = 24  # lengths of one axis
_SCALES = 40  # factors for all axes at once
_SHOWN = 6  # lengths that have an outcome, per axis
_WIDEST = 4  # cases
_REACH = (1.0, 0.7, 0.4)  # of the way to the largest length, on a logarithmic scale


@dataclass(frozen=True, slots=True)
class ScaledSizes:
    """group: the number of the case and flags that each size was made from. whole: all axes were scaled."""

    sizes: Sizes
    group: NDArray[np.int64]
    whole: NDArray[np.bool_]


def scaled_sizes(
    task: Task, space: AxisSpace, cases: Sequence[Case], fixed: Mapping[str, int], shown: Mapping[str, Sequence[int]]
) -> ScaledSizes:
    """Of each case under each combination of flags. shown: lengths of axes that are tried besides."""
    rows: list[dict[str, int]] = []
    group: list[int] = []
    whole: list[bool] = []
    free = [name for name in space.free if name not in fixed]
    flags = [name for name in space.flags if name not in fixed]
    number = 0
    for case in cases:
        for setting in itertools.product((0, 1), repeat=len(flags)):
            base = {**case.axes, **dict(zip(flags, setting, strict=True))}
            for scaled, axes in _larger(space, base, free, shown):
                rows.append(axes)
                group.append(number)
                whole.append(scaled)
            number += 1
    sizes = {name: np.asarray([axes[name] for axes in rows], np.int64) for name in task.axes}
    return ScaledSizes(sizes, np.asarray(group, np.int64), np.asarray(whole, bool))


def longest_cases(task: Task, limits: AxisLimits) -> Iterator[Case]:
    """Check cases with one axis as long as the task allows, and less, and the others short: whatever a loop or data
    make of a length, what lies behind it is run.
    """
    space = AxisSpace.of(task)
    flags = [dict(zip(space.flags, s, strict=True)) for s in itertools.product((0, 1), repeat=len(space.flags))]
    seen: set[tuple[int, ...]] = set()
    for turn, (reach, axis) in enumerate(itertools.product(_REACH, space.free)):
        found: list[tuple[float, Case]] = []
        for case in task.check:
            for setting in flags:
                axes = _short({**case.axes, **setting}, space, axis)
                low, high = space.spans[axis]
                length = round(math.exp(math.log(max(1, low)) + reach * (math.log(high) - math.log(max(1, low)))))
                axes[axis] = _like(length, case.axes[axis], space.steps[axis], high)
                space.settle(axes, {axis: axes[axis]})
                key = tuple(axes.values())
                if space.allows(task, axes) and key not in seen:
                    made = named_case(axes)
                    found.append((cost_of(task, made), made))
        affordable = sorted((pair for pair in found if pair[0] <= limits.each), key=lambda pair: pair[0])
        ragged = [case for _, case in affordable if _is_ragged(space, case, axis)] or [c for _, c in affordable]
        for case in ragged[turn % 2 : turn % 2 + 2]:
            seen.add(tuple(case.axes.values()))
            yield case


def widest_cases(task: Task, limits: AxisLimits) -> list[Case]:
    """Sizes with one axis as long as the task allows, where whole numbers that are places along it have most values."""
    if all(is_float(tensor.dtype) or tensor.dtype == "bool" for tensor in task.inputs):
        return []
    found = [(max(case.axes.values()), case) for case in longest_cases(task, limits)]
    return [case for _, case in sorted(found, key=lambda pair: -pair[0])[:_WIDEST]]


def named_case(axes: Mapping[str, int]) -> Case:
    return Case(name="(" + ", ".join(f"{name} {value}" for name, value in axes.items()) + ")", axes=dict(axes))


def _is_ragged(space: AxisSpace, case: Case, axis: str) -> bool:
    """Whether the other lengths have tails that could be dropped."""
    others = [name for name in space.free if name != axis]
    return all(case.axes[name] > 1 and case.axes[name] % 4 for name in others if space.steps[name] % 4)


def _larger(
    space: AxisSpace, base: Mapping[str, int], free: Sequence[str], shown: Mapping[str, Sequence[int]]
) -> Iterator[tuple[bool, dict[str, int]]]:
    """Whether all axes were scaled, and the size."""
    for axis in free:
        low, high = base[axis], space.spans[axis][1]
        if high <= low:
            continue
        swept = np.unique(np.exp(np.linspace(math.log(max(1, low)), math.log(high), _SWEPT)).astype(np.int64))
        lengths = [_like(int(length), low, space.steps[axis], high) for length in swept[1:]]
        for length in dict.fromkeys((*lengths, *shown.get(axis, ())[:_SHOWN])):
            for others in (dict(base), _short(base, space, axis)):
                others[axis] = length
                space.settle(others, {axis: length})
                yield False, others
    long = [axis for axis in free if base[axis] > 1]
    if len(long) > 1:
        most = max(space.spans[axis][1] / base[axis] for axis in long)
        for factor in np.exp(np.linspace(0, math.log(max(1.0, most)), _SCALES))[1:]:
            for kept in (_LONG, 0):  # with counts as they are, and with them scaled too
                axes = dict(base)
                for axis in long:
                    if base[axis] > kept:
                        high = space.spans[axis][1]
                        axes[axis] = _like(int(base[axis] * factor), base[axis], space.steps[axis], high)
                space.settle(axes, {})
                yield True, axes


def _short(base: Mapping[str, int], space: AxisSpace, axis: str) -> dict[str, int]:
    """The same with all other lengths short."""
    out = dict(base)
    for name in space.free:
        if name != axis and base[name] > _LONG:
            least = max(_LONG // 2, space.spans[name][0])
            out[name] = _like(least, base[name], space.steps[name], base[name])
    return out


def _like(length: int, model: int, step: int, high: int) -> int:
    """A length that is as ragged as its model, and at most `high`."""
    unit = math.lcm(_RESIDUE, max(1, step))
    length = min(length, high)
    found = length - length % unit + model % unit
    if found < length:
        found += unit
    if found > high and found > unit:
        found -= unit
    return min(found, high)


def alternating(first: Sequence[Case], second: Sequence[Case]) -> list[Case]:
    """One of each in turn."""
    pairs = itertools.zip_longest(first, second)
    return [case for pair in pairs for case in pair if case is not None]


def interleaved(parts: Sequence[tuple[Case, ...]]) -> tuple[Case, ...]:
    """The first of each, then the second of each; no size twice."""
    rows = itertools.zip_longest(*parts)
    found = {tuple(case.axes.values()): case for row in rows for case in row if case is not None}
    return tuple(found.values())
