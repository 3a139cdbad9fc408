"""RMS normalisation of rows: inputs, the float64 expectation, an fp16 implementation for the budget, and the rival."""

from collections.abc import Callable

import numpy as np

_EPS = np.float32(1e-5)  # as the kernel gets it


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of very different size: ordinary, zero (eps alone keeps it finite), large (squares beyond fp16), small."""
    x = rng.standard_normal((case["ROWS"], case["COLS"]), dtype=np.float32)
    x[1::8] = 0
    x[3::8] *= 500
    x[5::8] *= 0.003
    w = 1 + 0.25 * rng.standard_normal(case["COLS"], dtype=np.float32)
    return {"x": x.astype(np.float16), "w": w.astype(np.float16)}


def _normalised(inputs: dict[str, np.ndarray], dtype: type) -> np.ndarray:
    x, w = inputs["x"].astype(dtype), inputs["w"].astype(dtype)
    mean = (x * x).mean(axis=1, keepdims=True)
    return x * (1 / np.sqrt(mean + dtype(_EPS))) * w


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"y": _normalised(inputs, np.float64)}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 throughout, rounded once on the way out."""
    return {"y": _normalised(inputs, np.float32).astype(np.float16)}


def rounded(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """As Llama's layer has it in common model code: a half before the weight multiplies it."""
    plain = {"x": inputs["x"], "w": np.ones_like(inputs["w"])}
    return {"y": _normalised(plain, np.float32).astype(np.float16) * inputs["w"]}


def rivals() -> dict[str, Callable]:
    from torch.nn.functional import rms_norm

    def call(tensors: dict, case: dict) -> object:
        return rms_norm(tensors["x"], (case["COLS"],), tensors["w"], float(_EPS))

    return {"torch": call}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The mean squares of the first two rows are 9, so their values are divided by 3; a zero row stays zero."""
    x = np.array([[1, 1, 5, 3], [0, 0, 0, 6], [0, 0, 0, 0]], np.float16)
    w = np.array([3, 6, 1, 0.5], np.float16)
    y = np.array([[1, 2, 5 / 3, 0.5], [0, 0, 0, 1], [0, 0, 0, 0]])
    return {"ROWS": 3, "COLS": 4}, {"x": x, "w": w}, {"y": y}
