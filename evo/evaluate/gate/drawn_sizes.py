"""Sizes that a task allows, drawn in large numbers: for conditions that are computed, and for those that are run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from evo.evaluate.gate.scaled_cases import Sizes
from evo.evaluate.gate.threshold_cases import AxisSpace
from evo.spec.task import Task

_EVERY = 1 << 15  # lengths of one axis that are tried in one surrounding
_SWEPT = 1024  # in the others, where more are possible
_RANDOM = 2048  # sizes
_REHEARSED = 12288  # sizes that are run without data
_BASES = 3  # surroundings in which an axis is swept
_ALIKE, _ALIKE_WITHIN = 0.05, 64  # of the sizes have two lengths alike, or nearly so


class DrawnSizes:
    """fixed: axes that have one length in all cases that are compiled alike."""

    def __init__(self, task: Task, space: AxisSpace, fixed: Mapping[str, int], rng: np.random.Generator) -> None:
        self.task, self.space, self.fixed, self.rng = task, space, fixed, rng

    def sampled(self, more: int = 0) -> Sizes:
        """Sizes that the task allows: every length of each axis among those of cases, and many drawn ones."""
        rows: list[Sizes] = []
        cases = [*self.task.check, *self.task.bench]
        bases = [cases[at] for at in self.rng.permutation(len(cases))[:_BASES]]
        for axis in self.space.free:
            if axis in self.fixed:
                continue
            low, high = self.space.spans[axis]
            lengths = np.arange(low, high + 1)
            if len(lengths) > _SWEPT:
                drawn = np.exp(self.rng.uniform(math.log(max(1, low)), math.log(high + 1), _SWEPT)).astype(np.int64)
                lengths = np.unique(np.r_[drawn, self.rng.choice(lengths, _SWEPT), low, high])
            every = np.arange(low, min(high, low + _EVERY) + 1)
            for number, base in enumerate(bases):
                swept = lengths if number else every
                rows.append({n: swept if n == axis else np.full(len(swept), base.axes[n]) for n in self.task.axes})
        rows.append(self._drawn(_RANDOM + more))
        whole = {name: np.concatenate([row[name] for row in rows]) for name in self.task.axes}
        return self.settled(whole)

    def rehearsed(self) -> Sizes:
        """Lengths of all axes drawn together, short ones and long ones alike, and some that are equal."""
        count, free = _REHEARSED, [name for name in self.space.free if name not in self.fixed]
        drawn = self._drawn(count)
        for name in free:
            low, high = self.space.spans[name]
            evenly = self.rng.integers(low, high + 1, count)
            drawn[name] = np.where(self.rng.random(count) < 0.5, evenly, drawn[name])
        for first, second in itertools.permutations(free, 2):
            alike = self.rng.random(count) < _ALIKE
            beside = drawn[second] + self.rng.integers(-_ALIKE_WITHIN, _ALIKE_WITHIN + 1, count)
            drawn[first] = np.where(alike, np.where(self.rng.random(count) < 0.5, drawn[second], beside), drawn[first])
        return self.settled(drawn)

    def _drawn(self, count: int) -> Sizes:
        cases = [*self.task.check, *self.task.bench]
        drawn_sizes: Sizes = {}
        lent = self.rng.integers(0, len(cases), count)
        for name in self.task.axes:
            low, high = self.space.spans.get(name, (0, 1))
            if name in self.space.flags:
                drawn_sizes[name] = self.rng.integers(0, 2, count)
            elif name in self.space.free:
                logs = self.rng.uniform(math.log(max(1, low)), math.log(high + 1), count)
                drawn_sizes[name] = np.exp(logs).astype(np.int64)
            else:
                drawn_sizes[name] = np.asarray([case.axes[name] for case in cases])[lent]
        return drawn_sizes

    def settled(self, sizes: Sizes) -> Sizes:
        """With the lengths that go together, as far as that is known; those that do not are left out later."""
        out = {name: values.copy() for name, values in sizes.items()}
        for name, value in self.fixed.items():
            out[name][:] = value
        for name, step in self.space.steps.items():
            if step > 1:
                out[name] = np.maximum(step, out[name] // step * step)
        for name, (low, high) in self.space.spans.items():
            out[name] = np.clip(out[name], low, high)
        for a, b in self.space.pairs:
            if b in self.fixed:
                out[a] = np.minimum(out[a], out[b])
            else:
                out[b] = np.maximum(out[a], out[b])
        for a, b in self.space.divided:
            if b not in self.fixed:
                out[b] = np.where(out[a] % np.maximum(1, out[b]) == 0, out[b], np.gcd(out[a], out[b]))
        return out
