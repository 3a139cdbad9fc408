import numpy as np


def inputs(c, rng):
    return {
        "p": rng.standard_normal(c["N"], dtype=np.float32),
        "g": rng.standard_normal(c["N"], dtype=np.float32),
        "m": rng.standard_normal(c["N"], dtype=np.float32),
        "v": rng.random(c["N"], dtype=np.float32),
    }


def expected(inputs):
    p = inputs["p"]
    g = inputs["g"]
    m = inputs["m"]
    v = inputs["v"]
    return {
        "mo": 0.1 * g + 0.9 * m,
        "vo": 0.001 * g * g + 0.999 * v,
        "po": p - 1e-3 * ((0.1 * g + 0.9 * m) / 0.1 / (np.sqrt((0.001 * g * g + 0.999 * v) / 0.001) + 1e-8) + 0.01 * p),
    }
