import numpy as np


def inputs(case, rng):
    return {"in": rng.uniform(0, 1, (case["N"], 8, 8)).astype(np.float32)}


def expected(inputs):
    return {"out": np.linalg.inv(inputs["in"].astype(np.float64) + 16 * np.eye(8))}
