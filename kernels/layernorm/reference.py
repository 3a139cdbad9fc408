"""Layer normalisation of rows: inputs, the float64 expectation, an fp16 implementation for the budget, the rival."""

from collections.abc import Callable

import numpy as np

_EPS = np.float32(1e-5)  # as the kernel gets it


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows that differ in mean and size: ordinary, constant (eps alone keeps it finite), far from zero, large, small.

    Where the mean is hundreds of deviations away, the mean square and the squared mean agree but for their last bits.
    """
    x = rng.standard_normal((case["ROWS"], case["COLS"]), dtype=np.float32)
    x[1::8] = 4 * x[1::8] + 1500
    x[3::8] *= 500
    x[5::8] = 2.5
    x[6::8] = 4 * x[6::8] - 1800
    x[7::8] *= 0.01
    w = 1 + 0.25 * rng.standard_normal(case["COLS"], dtype=np.float32)
    b = 0.5 * rng.standard_normal(case["COLS"], dtype=np.float32)
    return {"x": x.astype(np.float16), "w": w.astype(np.float16), "b": b.astype(np.float16)}


def _normalised(inputs: dict[str, np.ndarray], dtype: type) -> np.ndarray:
    x, w, b = (inputs[name].astype(dtype) for name in ("x", "w", "b"))
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred * (1 / np.sqrt(variance + dtype(_EPS))) * w + b


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"y": _normalised(inputs, np.float64)}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 throughout, rounded once on the way out."""
    return {"y": _normalised(inputs, np.float32).astype(np.float16)}


def rivals() -> dict[str, Callable]:
    from torch.nn.functional import layer_norm

    def call(tensors: dict, case: dict) -> object:
        return layer_norm(tensors["x"], (case["COLS"],), tensors["w"], tensors["b"], float(_EPS))

    return {"torch": call}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Means 2, 10, 7 and deviations 1, 3, 0 (of all four, not of three): a constant row becomes the bias."""
    x = np.array([[1, 3, 3, 1], [7, 13, 13, 7], [7, 7, 7, 7]], np.float16)
    w = np.array([3, 6, 1, 0.5], np.float16)
    b = np.array([0, 1, -1, 2], np.float16)
    y = np.array([[-3, 7, 0, 1.5], [-3, 7, 0, 1.5], [0, 1, -1, 2]])
    return {"ROWS": 3, "COLS": 4}, {"x": x, "w": w, "b": b}, {"y": y}
