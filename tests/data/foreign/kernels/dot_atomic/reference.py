import numpy as np


def inputs(c, rng):
    return {
        "a": rng.standard_normal(c["N"], dtype=np.float32),
        "b": rng.standard_normal(c["N"], dtype=np.float32),
    }


def expected(inputs):
    a = inputs["a"]
    b = inputs["b"]
    return {"out": np.array([a.astype(np.float64) @ b])}
