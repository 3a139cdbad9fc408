import numpy as np


def inputs(case, rng):
    token = rng.integers(0, 8, case["N"], dtype=np.int32)
    return {"table": rng.standard_normal((case["V"], case["D"])), "token": token}


def expected(inputs):
    return {"y": inputs["table"].astype(np.float64)[inputs["token"]]}
