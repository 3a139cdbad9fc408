import numpy as np


def inputs(c, rng):
    return {
        "x": rng.standard_normal((c["R"], c["D"]), dtype=np.float32),
        "g": rng.standard_normal(c["D"], dtype=np.float32),
    }


def expected(inputs):
    x = inputs["x"]
    g = inputs["g"]
    return {"y": x * g / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5)}
