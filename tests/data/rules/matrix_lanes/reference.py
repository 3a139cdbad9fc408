import numpy as np


def inputs(case, rng):
    return {"in": rng.uniform(-1, 1, (case["N"], 8, 8)).astype(np.float32)}


def expected(inputs):
    return {"out": np.linalg.inv(inputs["in"] + 16 * np.eye(8, dtype=inputs["in"].dtype))}
