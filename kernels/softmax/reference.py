"""Softmax of rows: inputs, the float64 expectation, an fp16 implementation for the error budget, and the rival."""

import math
from collections.abc import Callable

import numpy as np

_OFFSET = 300.0  # exp of it overflows float32, so the row maximum must be subtracted


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal values of spread 2. Every fourth row is shifted up beyond the range of exp, every fourth one down."""
    x = 2 * rng.standard_normal((case["ROWS"], case["COLS"]), dtype=np.float32)
    x[1::4] += _OFFSET
    x[3::4] -= _OFFSET
    return {"x": x.astype(np.float16)}


def _softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"y": _softmax(inputs["x"].astype(np.float64))}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 throughout, rounded once on the way out."""
    return {"y": _softmax(inputs["x"].astype(np.float32)).astype(np.float16)}


def rivals() -> dict[str, Callable]:
    from torch import softmax

    return {"torch": lambda tensors, _: softmax(tensors["x"], dim=1)}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """exp gives 1 and 3 in the first row, equal weights in the second, whatever the offset."""
    x = np.array([[0, math.log(3)], [500, 500]], np.float16)
    return {"ROWS": 2, "COLS": 2}, {"x": x}, {"y": np.array([[0.25, 0.75], [0.5, 0.5]])}
