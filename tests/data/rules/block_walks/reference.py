import numpy as np


def inputs(case, rng):
    return {"x": rng.uniform(-1, 1, case["N"]).astype(np.float32)}


def expected(inputs):
    x = inputs["x"]
    return {"found": np.array([(x > 0.5).sum(), (x < -0.5).sum()], dtype=np.int32)}
