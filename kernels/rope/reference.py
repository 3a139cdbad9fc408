"""Rotary position embedding, half-split: inputs, the float64 expectation, an fp16 implementation, and the rival."""

from collections.abc import Callable

import numpy as np


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal values, and tables of angles whose base and first positions are drawn: they must be read, not computed.

    At one position some pairs next to one another do not turn, as at the start of a text, or in partial embeddings.
    """
    half, length = case["D"] // 2, case["T"]
    x = rng.standard_normal((case["B"], case["S"], case["H"], case["D"]), dtype=np.float32)
    base = 10000 * 2 ** rng.uniform(-3, 3)
    start = rng.uniform(0, 2 * np.pi, half)  # position 0 turns by it, so that no token is left as it is
    turns = base ** (-np.arange(half) / half)
    first, last = sorted(rng.integers(0, half + 1, 2))
    still = rng.integers(max(0, length - case["S"]), length)
    start[first:last] = -still * turns[first:last]
    angles = start + np.arange(length)[:, None] * turns
    angles[still, first:last] = 0
    return {
        "x": x.astype(np.float16),
        "cosines": np.cos(angles).astype(np.float32),
        "sines": np.sin(angles).astype(np.float32),
    }


def _turned(inputs: dict[str, np.ndarray], dtype: type) -> np.ndarray:
    x, cosines, sines = (inputs[name].astype(dtype) for name in ("x", "cosines", "sines"))
    tokens, half = x.shape[1], x.shape[3] // 2
    c, s = cosines[-tokens:, None, :], sines[-tokens:, None, :]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * c - second * s, second * c + first * s], axis=-1)


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"y": _turned(inputs, np.float64)}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 throughout, rounded once on the way out."""
    return {"y": _turned(inputs, np.float32).astype(np.float16)}


def rivals() -> dict[str, Callable]:
    """torch has no call for it; this is what model code spells out, in several kernels."""
    import torch

    def call(tensors: dict, case: dict) -> object:
        x, half = tensors["x"], case["D"] // 2
        cosines, sines = (tensors[name][-case["S"] :, None, :].repeat(1, 1, 2) for name in ("cosines", "sines"))
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return (x * cosines + turned * sines).to(x.dtype)

    return {"eager": call}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The second position of two: a quarter turn of elements 0 and 2, and of 1 and 3 by the angle with 3/5 and 4/5."""
    x = np.array([[[[1, 10, 2, 20]], [[5, 5, -1, 0]]]], np.float16)[:, 1:]
    cosines = np.array([[1, 1], [0, 0.6]], np.float32)
    sines = np.array([[0, 0], [1, 0.8]], np.float32)
    y = np.array([[[[1.0, 3, 5, 4]]]])
    return {"B": 1, "S": 1, "H": 1, "D": 4, "T": 2}, {"x": x, "cosines": cosines, "sines": sines}, {"y": y}
