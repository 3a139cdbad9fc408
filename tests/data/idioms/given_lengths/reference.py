import numpy as np


def inputs(shapes, rng):
    first = np.sort(rng.integers(0, shapes["N"] + 1, shapes["R"] + 1)).astype(np.int32)
    return {"first": first, "value": rng.standard_normal(shapes["N"], dtype=np.float32)}


def expected(inputs):
    total = np.concatenate([[0.0], inputs["value"].astype(np.float64).cumsum()])
    return {"sum": total[inputs["first"][1:]] - total[inputs["first"][:-1]]}
