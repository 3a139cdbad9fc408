"""An engineer's expectation before any measurement, from the names and values of knobs; 0 if no name is known.

Rules of thumb in logarithms of time: a block of 128 to 256 threads in whole warps whose rows are at least a warp wide,
and a few outputs per thread. The model weighs them by what it sees, so a wrong one costs a few evaluations.
"""

from __future__ import annotations

import re

import numpy as np

from evo.search.knobs.features import block_group, numeric, product_of, warp_group, work_group
from evo.search.knobs.space import Floats, Points, Space

_WARP = 32.0
_FIRST_SIDE = re.compile(r"(x|size|mdim_?c)$", re.I)


def expected(space: Space, points: Points) -> Floats:
    """About log(time / good time) per point, from rules of thumb."""
    cost = np.zeros(len(points))
    block, warps = block_group(space), warp_group(space)
    if block or warps:
        threads = product_of(space, block, points) if block else _WARP * product_of(space, warps, points)
        cost += 0.30 * np.maximum(0, np.log2(128 / threads)) + 0.15 * np.maximum(0, np.log2(threads / 256))
        cost += np.log(np.ceil(threads / _WARP) * _WARP / threads)
        side = next((index for index in block if _FIRST_SIDE.search(space.knobs[index].name)), None)
        if side is not None and len(block) > 1:
            width = numeric(space.knobs[side])
            assert width is not None
            width = width[points[:, side]]
            cost += 0.12 * np.maximum(0, np.log2(_WARP / width)) + 0.05 * (width % _WARP != 0)
    work = work_group(space)
    if work:
        outputs = product_of(space, work, points)
        cost += 0.12 * np.maximum(0, np.log2(4 / outputs)) + 0.15 * np.maximum(0, np.log2(outputs / 16))
    return cost
