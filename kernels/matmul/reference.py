"""Matrix product: inputs, the float64 expectation, an fp16 implementation for the error budget, and the rival."""

import math
from collections.abc import Callable

import numpy as np


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal matrices; B is scaled so that the sums are of size 1 for every K."""
    a = rng.standard_normal((case["M"], case["K"]), dtype=np.float32)
    b = rng.standard_normal((case["K"], case["N"]), dtype=np.float32) * np.float32(1 / math.sqrt(case["K"]))
    return {"a": a.astype(np.float16), "b": b.astype(np.float16)}


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 accumulators, rounded once on the way out."""
    return {"c": (inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32)).astype(np.float16)}


def rivals() -> dict[str, Callable]:
    """torch.matmul, which is cuBLAS."""
    from torch import matmul

    return {"cublas": lambda tensors, _: matmul(tensors["a"], tensors["b"])}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """2x3 times 3x2, not symmetric in anything."""
    a = np.array([[1, 2, 3], [4, 5, 6]], np.float16)
    b = np.array([[7, 8], [9, 10], [11, -12]], np.float16)
    return {"M": 2, "N": 2, "K": 3}, {"a": a, "b": b}, {"c": np.array([[58.0, -8.0], [139.0, 10.0]])}
