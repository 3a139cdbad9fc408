"""Convolution of images: inputs, the float64 expectation, an fp16 implementation for the budget, and the rival."""

import math
from collections.abc import Callable

import numpy as np


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal images; filters are scaled so that the sums are of size 1 for every filter size."""
    terms = case["C"] * case["R"] * case["S"]
    x = rng.standard_normal((case["N"], case["H"], case["W"], case["C"]), dtype=np.float32)
    w = rng.standard_normal((case["K"], case["R"], case["S"], case["C"]), dtype=np.float32)
    return {"x": x.astype(np.float16), "w": (w * np.float32(1 / math.sqrt(terms))).astype(np.float16)}


def _convolve(x: np.ndarray, w: np.ndarray, case: dict) -> np.ndarray:
    """One matrix product for each tap of the filter; borders hold zeros."""
    stride, pad, dilation = case["STRIDE"], case["PAD"], case["DIL"]
    height = (case["H"] + 2 * pad - dilation * (case["R"] - 1) - 1) // stride + 1
    width = (case["W"] + 2 * pad - dilation * (case["S"] - 1) - 1) // stride + 1
    bordered = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    y = np.zeros((case["N"], height, width, case["K"]), x.dtype)
    for r in range(case["R"]):
        rows = slice(r * dilation, r * dilation + (height - 1) * stride + 1, stride)
        for s in range(case["S"]):
            cols = slice(s * dilation, s * dilation + (width - 1) * stride + 1, stride)
            y += bordered[:, rows, cols] @ w[:, r, s].T
    return y


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:
    return {"y": _convolve(inputs["x"].astype(np.float64), inputs["w"].astype(np.float64), case)}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:
    """float32 accumulators, rounded once on the way out."""
    return {"y": _convolve(inputs["x"].astype(np.float32), inputs["w"].astype(np.float32), case).astype(np.float16)}


def rivals() -> dict[str, Callable]:
    """torch's convolution of channels-last tensors, which is cuDNN."""
    from torch import Tensor
    from torch.nn.functional import conv2d

    def cudnn(tensors: dict, case: dict) -> Tensor:
        x, w = (tensors[name].permute(0, 3, 1, 2) for name in ("x", "w"))
        y = conv2d(x, w, stride=case["STRIDE"], padding=case["PAD"], dilation=case["DIL"])
        return y.permute(0, 2, 3, 1)

    return {"cudnn": cudnn}


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """3x4 pixels of one channel, a 2x2 filter that is not symmetric, stride 2, a border of one."""
    case = {"N": 1, "H": 3, "W": 4, "C": 1, "K": 1, "R": 2, "S": 2, "STRIDE": 2, "PAD": 1, "DIL": 1}
    x = np.arange(1, 13, dtype=np.float16).reshape(1, 3, 4, 1)
    w = np.array([[1, 2], [3, -4]], np.float16).reshape(1, 2, 2, 1)
    y = np.array([[-4.0, -6.0, 12.0], [-26.0, 6.0, 44.0]]).reshape(1, 2, 3, 1)
    return case, {"x": x, "w": w}, {"y": y}
