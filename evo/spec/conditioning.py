"""Conditioning: the float32 error that given inputs excuse. Sums whose terms cancel keep the errors of the terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SUMMATION = 16.0  # roundings that the order of a sum may cost, where the inputs make each of them count


def rounding_of(spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """What sums in another order may err: by elements, and no less than is usual in the same row.

    One draw of signs may leave an element where it was, so that its own spread says little.
    """
    if not spread.size:
        return spread
    usual = np.sqrt(np.mean(np.square(spread, dtype=np.float64), axis=-1, keepdims=True)) if spread.ndim else spread
    return np.asarray(SUMMATION * np.maximum(spread, usual), np.float64)
