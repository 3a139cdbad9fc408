import numpy as np


def inputs(c, rng):
    return {
        "x": rng.standard_normal((c["C"], c["H"], c["W"]), dtype=np.float32),
        "w": rng.standard_normal((c["C"], 3, 3), dtype=np.float32),
    }


def expected(inputs):
    x = inputs["x"]
    w = inputs["w"]
    return {
        "y": sum(
            np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))[:, i : i + x.shape[1], j : j + x.shape[2]]
            * w[:, i, j][:, None, None]
            for i in range(3)
            for j in range(3)
        )
    }
