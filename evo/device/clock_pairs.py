"""Clocks of blocks: whether two blocks ran at one clock and may be a pair, and the clock that a side settles at.

An H200 runs a kernel that fills its tensor cores at 1.80 GHz and a scalar one at 1.98, block after block, whichever is
first. Such a difference is the kernel's doing and no reason to drop a pair; a clock that moves for both sides is.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from evo.device.nvml import Reading

CLOCK_TOLERANCE = 0.02
_BLOCKS = 16  # of a side's latest blocks
_FEWEST = 8
_SHARE = 7 / 8  # of them at one clock: a clock that jumps for reasons of its own is no side's


@dataclass(slots=True)
class OwnClock:
    """The clocks of one side's latest blocks, in MHz as its SMs counted them."""

    seen: deque[float] = field(default_factory=lambda: deque(maxlen=_BLOCKS))

    def add(self, mhz: float | None) -> None:
        """One more block; None if nobody counted."""
        if mhz:
            self.seen.append(mhz)

    def holds(self) -> bool:
        """Whether the latest block and nearly all before it ran at one clock."""
        if len(self.seen) < _FEWEST:
            return False
        usual = float(np.median(self.seen))
        near = [abs(math.log(mhz / usual)) <= CLOCK_TOLERANCE for mhz in self.seen]
        return near[-1] and sum(near) >= _SHARE * len(near)


def same_clock(first: Reading, second: Reading) -> bool:
    """Whether two blocks may be a pair: throttled alike, at clocks within 2 % where they are known."""
    if first.throttle != second.throttle:
        return False
    ratio = clock_ratio(first, second)
    return ratio is None or abs(math.log(ratio)) <= CLOCK_TOLERANCE


def clock_ratio(first: Reading, second: Reading) -> float | None:
    """The first clock over the second, from readings of one kind; None if there are none."""
    if first.counted_mhz and second.counted_mhz:
        return first.counted_mhz / second.counted_mhz
    return first.sm_mhz / second.sm_mhz if first.sm_mhz and second.sm_mhz else None
