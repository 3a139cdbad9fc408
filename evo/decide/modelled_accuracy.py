"""Accuracy of the simulator's clock: how often it ranks two variants as measured pairs do.

`benchmarks/clock/accuracy.py` fits the table to pairs of an H200's fit families and prints held-out families beside it.
A version of the model that is not in the table gives no probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ENOUGH = 0.90  # probability that a child is faster, below which nothing is kept


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A modelled gain of exp(s) is real with probability 1 - floor - (1/2 - floor) exp(-s / scale)."""

    scale: float
    floor: float

    def probability(self, gain: float) -> float:
        """That a child modelled to be `gain` times faster is faster; below 1/2 for a gain below 1."""
        if gain < 1:
            return 1 - self.probability(1 / gain)
        return 1 - self.floor - (0.5 - self.floor) * math.exp(-math.log(gain) / self.scale)


_OF_ALL = "any"
# By version of the model and by the term that bounds the parent.
_TABLE: dict[str, dict[str, Accuracy]] = {
    "sim-5": {_OF_ALL: Accuracy(0.100, 0.006), "l2": Accuracy(0.193, 0.006), "atomic": Accuracy(0.603, 0.006)},
}
# What binds the parent where the model was seen to be hardly better than chance at any gain below twofold.
_WEAK: dict[str, dict[str, str]] = {"sim-5": {"atomic": "kernels bound by global atomics"}}


def probability_faster(version: str, limiter: str, gain: float) -> float | None:
    """That the child is faster, from its modelled gain and what bounds its parent; None for an unknown version."""
    table = _TABLE.get(version)
    if table is None:
        return None
    return table.get(limiter, table[_OF_ALL]).probability(gain)


def weak_on(version: str, limiter: str) -> str | None:
    """The kernels on which this version of the model is known to fail, in words, if the limiter says it is one."""
    return _WEAK.get(version, {}).get(limiter)
