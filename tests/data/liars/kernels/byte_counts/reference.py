import numpy as np


def inputs(case, rng):
    return {"data": rng.integers(0, 8, case["N"], dtype=np.uint8)}


def expected(inputs):
    return {"bins": np.bincount(inputs["data"], minlength=256)}
