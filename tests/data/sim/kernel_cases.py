"""A kernel's inputs, launch shape and answer, for the simulator and for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

F, I32 = np.float32, np.int32
Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """expected: argument index -> the array that the kernel must leave there; scratch: what else it writes."""

    args: list[Any]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    expected: dict[int, Array]
    tolerance: float = 0.0
    arrange: dict[int, Callable[[Array], Array]] = field(default_factory=dict)  # before comparing: order does not count
    scratch: tuple[int, ...] = ()


def rng(name: str) -> np.random.Generator:
    return np.random.default_rng(sum(name.encode()))


def normal(name: str, *shape: int, dtype: Any = F) -> Array:
    return rng(name).standard_normal(shape).astype(dtype)


def whole(name: str, *shape: int, low: int = -100, high: int = 100) -> Array:
    return rng(name).integers(low, high, shape).astype(I32)


def zeros(like: Array) -> Array:
    return np.zeros_like(like)
