import numpy as np


def inputs(case, rng):
    m, n, k = case["M"], case["N"], case["K"]
    return {"A": rng.standard_normal((m, k), dtype=np.float32), "B": rng.standard_normal((k, n), dtype=np.float32)}


def expected(inputs):
    return {"C": 1.5 * inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)}
