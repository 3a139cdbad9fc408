"""Sizes that take a kernel to a condition behind others: one condition after the other is met, one axis at a time.

Drawn sizes hardly have what several conditions ask for together, such as three residues. Each of them alone is easily
met, so the sizes that meet most of them are changed along each axis until one more holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Sizes = dict[str, NDArray[np.int64]]
Progress = Callable[[Sizes], NDArray[np.int64]]  # of sizes, how many conditions they meet

_KEPT = 5  # sizes that are changed further
_SMALL, _DRAWN = 192, 192  # lengths of an axis that are tried: the first ones, and others


def climbed(
    start: Sizes,
    progress: Progress,
    steps: int,
    axes: Sequence[str],
    spans: Mapping[str, tuple[int, int]],
    settled: Callable[[Sizes], Sizes],
    rng: np.random.Generator,
) -> Sizes | None:
    """Some sizes that meet all of so many conditions; None if none is found. axes: that may be changed."""
    sizes = start
    best = -1
    for _ in range(steps + 1):
        met = progress(sizes)
        if int(met.max(initial=-1)) >= steps:
            chosen = np.flatnonzero(met >= steps)[:_KEPT]
            return {name: values[chosen] for name, values in sizes.items()}
        if int(met.max(initial=-1)) <= best:
            return None
        best = int(met.max())
        tops = np.flatnonzero(met == best)
        tops = rng.permutation(tops)[:_KEPT]
        sizes = settled(swept(sizes, tops, axes, spans, rng))
    return None


def swept(
    sizes: Sizes,
    rows: NDArray[np.intp],
    axes: Sequence[str],
    spans: Mapping[str, tuple[int, int]],
    rng: np.random.Generator,
) -> Sizes:
    """Each of these rows with other lengths along each axis."""
    parts: list[Sizes] = []
    for axis in axes:
        low, high = spans[axis]
        few = np.arange(low, min(high, low + _SMALL) + 1)
        lengths = np.unique(np.r_[few, rng.integers(low, high + 1, _DRAWN)])
        for row in rows:
            part = {name: np.full(len(lengths), values[row]) for name, values in sizes.items()}
            parts.append({**part, axis: lengths})
    if not parts:  # all axes are compiled in: nothing may be changed
        return {name: values[rows] for name, values in sizes.items()}
    return {name: np.concatenate([part[name] for part in parts]) for name in sizes}
