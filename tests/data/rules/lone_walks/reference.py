import numpy as np


def inputs(shapes, rng):
    return {"x": rng.standard_normal((shapes["R"], shapes["C"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"y": x / (abs(x).max(axis=1, keepdims=True) + 1e-6)}
