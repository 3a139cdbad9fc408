"""Matrix products of a mixture of experts: inputs, the float64 expectation, an fp16 implementation, and the rivals."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

_LARGE = 2**16  # weights of an expert


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal tokens; weights are scaled so that the sums are of size 1. Experts are uneven.

    About a quarter of them have no token. Large ones have at least one each, so that all weights must be read: the
    bytes that `work` counts.
    """
    x = rng.standard_normal((case["T"], case["D"]), dtype=np.float32)
    w = rng.standard_normal((case["E"], case["D"], case["F"]), dtype=np.float32)
    w *= np.float32(1 / math.sqrt(case["D"]))
    shares = rng.exponential(size=case["E"])
    shares[rng.random(case["E"]) < 0.25] = 0
    shares[rng.integers(case["E"])] += 0.1  # one of them has tokens
    least = 1 if case["D"] * case["F"] >= _LARGE and case["T"] >= case["E"] else 0
    counts = least + rng.multinomial(case["T"] - least * case["E"], shares / shares.sum())
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return {"x": x.astype(np.float16), "w": w.astype(np.float16), "offsets": offsets}


def _products(x: np.ndarray, w: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Rows offsets[e] to offsets[e + 1] of x times the matrix of expert e."""
    y = np.zeros((x.shape[0], w.shape[2]), x.dtype)
    for expert, (first, last) in enumerate(pairwise(offsets)):
        y[first:last] = x[first:last] @ w[expert].astype(x.dtype)
    return y


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"y": _products(inputs["x"].astype(np.float64), inputs["w"], inputs["offsets"])}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 accumulators, rounded once on the way out."""
    return {"y": _products(inputs["x"].astype(np.float32), inputs["w"], inputs["offsets"]).astype(np.float16)}


def rivals() -> dict[str, Callable]:
    """A cuBLAS product for each expert, and torch's grouped product where it takes fp16.

    The loop reads the offsets once and not in each call: a program that waits for them has no graph, and is slower.
    """
    import torch

    known: dict[int, list[int]] = {}

    def loop(tensors: dict, case: dict) -> torch.Tensor:
        x, w, offsets = tensors["x"], tensors["w"], tensors["offsets"]
        if offsets.data_ptr() not in known:
            known[offsets.data_ptr()] = offsets.tolist()
        ends = known[offsets.data_ptr()]
        y = torch.empty((case["T"], case["F"]), dtype=x.dtype, device=x.device)
        for expert, (first, last) in enumerate(pairwise(ends)):
            if first < last:
                torch.matmul(x[first:last], w[expert], out=y[first:last])
        return y

    calls: dict[str, Callable] = {"loop": loop}
    if hasattr(torch, "_grouped_mm"):
        calls["grouped_mm"] = lambda tensors, _: torch._grouped_mm(
            tensors["x"], tensors["w"], offs=tensors["offsets"][1:]
        )
    return calls


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Three tokens, three experts: the first has one token, the second none, the third two."""
    x = np.array([[1, 2], [3, 4], [5, -6]], np.float16)
    w = np.array([[[1, 2], [3, 4]], [[9, 9], [9, 9]], [[-1, 0], [2, 0.5]]], np.float16)
    offsets = np.array([0, 1, 1, 3], np.int32)
    y = np.array([[7.0, 10.0], [5.0, 2.0], [-17.0, -3.0]])
    return {"T": 3, "E": 3, "D": 2, "F": 2}, {"x": x, "w": w, "offsets": offsets}, {"y": y}
