"""A residual sum and its layer normalisation: inputs, the float64 expectation, an fp16 implementation, the rival."""

from collections.abc import Callable

import numpy as np

_EPS = np.float32(1e-5)  # as the kernel gets it


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows whose sums differ in mean and size: ordinary, far from zero, large, constant, small.

    The sums far from zero and the constant ones are exact in fp16: whether a kernel normalises the rounded sum or the
    one before it makes no difference there. Far from zero mean square and squared mean agree but for their last bits.
    """
    shape = (case["ROWS"], case["COLS"])
    x, r = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    x[1::8], r[1::8] = np.rint(4 * x[1::8] + 1500), np.rint(4 * r[1::8])
    x[3::8] *= 500
    x[5::8] = np.rint(8 * x[5::8]) / 8
    r[5::8] = 1 - x[5::8]
    x[6::8], r[6::8] = np.rint(4 * x[6::8]), np.rint(4 * r[6::8] - 1800)
    x[7::8] *= 0.01
    r[7::8] *= 0.01
    w = 1 + 0.25 * rng.standard_normal(case["COLS"], dtype=np.float32)
    b = 0.5 * rng.standard_normal(case["COLS"], dtype=np.float32)
    return {name: array.astype(np.float16) for name, array in {"x": x, "r": r, "w": w, "b": b}.items()}


def _added(inputs: dict[str, np.ndarray], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    x, r, w, b = (inputs[name].astype(dtype) for name in ("x", "r", "w", "b"))
    total = x + r
    centred = total - total.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return total, centred * (1 / np.sqrt(variance + dtype(_EPS))) * w + b


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return dict(zip(("s", "y"), _added(inputs, np.float64), strict=True))


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    """float32 throughout, both outputs rounded once on the way out."""
    total, normalised = _added(inputs, np.float32)
    return {"s": total.astype(np.float16), "y": normalised.astype(np.float16)}


def rivals() -> dict[str, Callable]:
    """Two calls, since torch has no fused one; the second reads the sum that the first has rounded and stored."""
    from torch.nn.functional import layer_norm

    def call(tensors: dict, case: dict) -> object:
        total = tensors["x"] + tensors["r"]
        return total, layer_norm(total, (case["COLS"],), tensors["w"], tensors["b"], float(_EPS))

    return {"torch": call}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The sums have means 2, 10, 7 and deviations 1, 3, 0 (of all four, not of three)."""
    x = np.array([[0, 1, 2, 3], [7, 6, 5, 4], [3, 4, 5, 6]], np.float16)
    r = np.array([[1, 2, 1, -2], [0, 7, 8, 3], [4, 3, 2, 1]], np.float16)
    w = np.array([3, 6, 1, 0.5], np.float16)
    b = np.array([0, 1, -1, 2], np.float16)
    s = np.array([[1.0, 3, 3, 1], [7, 13, 13, 7], [7, 7, 7, 7]])
    y = np.array([[-3, 7, 0, 1.5], [-3, 7, 0, 1.5], [0, 1, -1, 2]])
    return {"ROWS": 3, "COLS": 4}, {"x": x, "r": r, "w": w, "b": b}, {"s": s, "y": y}
