import numpy as np


def inputs(c, rng):
    return {
        "x": rng.standard_normal((c["N"], c["D"]), dtype=np.float32),
        "y": rng.standard_normal((c["M"], c["D"]), dtype=np.float32),
    }


def expected(inputs):
    x = inputs["x"]
    y = inputs["y"]
    return {"d": ((x[:, None].astype(np.float64) - y[None]) ** 2).sum(2)}
