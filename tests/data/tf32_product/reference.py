import numpy as np


def inputs(shapes, rng):
    m, n, k = (shapes[x] for x in ("T", "OC", "C"))
    return {
        "inp": rng.standard_normal((m, k)).astype(np.float32),
        "weight": (rng.standard_normal((n, k)) / k**0.5).astype(np.float32),
        "bias": rng.standard_normal(n).astype(np.float32),
    }


def expected(inputs):
    a, w, b = (inputs[x].astype(np.float64) for x in ("inp", "weight", "bias"))
    return {"out": np.maximum(a @ w.T + b, 0)}
