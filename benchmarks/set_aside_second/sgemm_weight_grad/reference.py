import numpy as np


def inputs(c, rng):
    return {
        "dy": rng.standard_normal((c["B"], c["O"]), dtype=np.float32),
        "x": rng.standard_normal((c["B"], c["I"]), dtype=np.float32),
    }


def expected(inputs):
    return {"dw": inputs["dy"].astype(np.float64).T @ inputs["x"].astype(np.float64)}
