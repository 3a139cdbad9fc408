"""Arrays by the name of their tensor: what a reference draws, returns and is compared by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.spec.shared_arrays import shared_copy

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class DrawnInputs:
    """arrays, and views of them that cannot be written to; large ones in memory that other processes map."""

    arrays: Arrays
    views: Arrays

    @staticmethod
    def of(arrays: Arrays) -> DrawnInputs:
        for name, array in arrays.items():  # in place: what holds them has the same
            arrays[name] = shared_copy(array)
        views = {name: array.view() for name, array in arrays.items()}
        for view in views.values():
            view.flags.writeable = False
        return DrawnInputs(arrays, views)


def arrays_of(found: Mapping[str, object]) -> Arrays:
    return {name: np.asarray(value) for name, value in found.items()}


def stream_of(seed: int, *names: str) -> list[int]:
    """The seed of a stream of its own for every seed, case and distribution."""
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return [seed, int.from_bytes(digest[:8], "little")]


def generator_of(seed: int, *names: str) -> np.random.Generator:
    return np.random.default_rng(stream_of(seed, *names))


def distance(left: Arrays, right: Arrays, name: str) -> NDArray[np.float64]:
    apart: NDArray[np.float64] = np.asarray(np.asarray(left[name], np.float64) - np.asarray(right[name], np.float64))
    np.abs(apart, out=apart)
    return apart


def size_of(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


def typical_size(values: NDArray[np.generic]) -> float:
    """The root of the mean square of what is finite; 0 if nothing is."""
    finite = values.astype(np.float64)[np.isfinite(values.astype(np.float64))]
    return float(np.sqrt((finite**2).mean())) if finite.size else 0.0
