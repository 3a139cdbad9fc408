import numpy as np


def inputs(case, rng):
    m = rng.standard_normal((case["BATCH"], 8, 8), dtype=np.float32)
    return {"m": m + 8 * np.eye(8, dtype=np.float32)}


def expected(inputs):
    return {"inv": np.linalg.inv(inputs["m"].astype(np.float64))}
