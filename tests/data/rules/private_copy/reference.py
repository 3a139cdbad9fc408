import numpy as np


def inputs(case, rng):
    return {"data": rng.integers(0, 256, case["N"], dtype=np.uint8)}


def expected(inputs):
    return {"bins": np.bincount(inputs["data"], minlength=256).astype(np.int32)}
