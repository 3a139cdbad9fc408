import numpy as np


def inputs(c, rng):
    return {
        "A": rng.standard_normal((c["M"], c["K"]), dtype=np.float32),
        "B": rng.standard_normal((c["K"], c["N"]), dtype=np.float32),
    }


def expected(inputs):
    A = inputs["A"]
    B = inputs["B"]
    return {"C": A.astype(np.float64) @ B.astype(np.float64)}
