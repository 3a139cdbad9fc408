"""Large arrays in blocks that stay in a core's cache, on several threads.

NumPy makes one pass over memory for each operation of a formula. In blocks all operations of one formula meet the same
few hundred kilobytes, and NumPy leaves the interpreter's lock while it computes. Sums are those of the blocks, added
without rounding (math.fsum), so they do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16  # elements; 512 KiB in float64
_MOST_THREADS = 8  # memory bandwidth is used up by then
_ALONE = 4  # so few blocks are done before a thread would have begun

T = TypeVar("T")


def over_blocks(work: Callable[[slice], T], size: int) -> list[T]:
    """What `work` gives for each block of 0..size, in order."""
    parts = [slice(at, min(at + BLOCK, size)) for at in range(0, size, BLOCK)]
    if len(parts) <= _ALONE:
        return [work(part) for part in parts]
    return list(_threads().map(work, parts))


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=min(_MOST_THREADS, os.cpu_count() or 1), thread_name_prefix="compare")


def exact_sum(values: Iterable[float]) -> float:
    """Without rounding in between; infinite if it overflows, NaN if it has no value."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf
    except ValueError:  # infinities of both signs
        return math.nan


def sum_of_squares(values: NDArray[np.float64]) -> float:
    flat = np.ascontiguousarray(values).reshape(-1)

    def of_block(part: slice) -> float:
        with np.errstate(over="ignore"):  # infinite, then
            return float(np.square(flat[part]).sum())

    return exact_sum(over_blocks(of_block, flat.size))


def same_bits(left: NDArray[np.generic], right: NDArray[np.generic]) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (left, right))
    words = a.size // 8 * 8
    if a[words:].tobytes() != b[words:].tobytes():
        return False
    x, y = a[:words].view(np.uint64), b[:words].view(np.uint64)
    return all(over_blocks(lambda part: bool((x[part] == y[part]).all()), x.size))
