import numpy as np


def inputs(c, rng):
    return {
        "q": rng.standard_normal((c["B"], c["N"], c["D"]), dtype=np.float32),
        "k": rng.standard_normal((c["B"], c["N"], c["D"]), dtype=np.float32),
    }


def expected(inputs):
    q = inputs["q"]
    k = inputs["k"]
    return {"s": 0.125 * q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), 1, 2)}
