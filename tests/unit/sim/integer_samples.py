"""Integers of a type for the tests of opcodes: the edges of its range, shift counts, and random ones."""

from __future__ import annotations

import numpy as np
from harness import DTYPES

RNG = np.random.default_rng(7)


def samples(kind: str, count: int = 160) -> np.ndarray:
    dtype = DTYPES[kind]
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, info.max, info.max - 1, info.min, info.min + 1]
    if info.min < 0:
        edges += [-1, -2, -31]
    random = RNG.integers(info.min, info.max, count - len(edges), dtype=dtype, endpoint=True)
    out = np.concatenate([np.array(edges, dtype), random])
    RNG.shuffle(out)
    return out
