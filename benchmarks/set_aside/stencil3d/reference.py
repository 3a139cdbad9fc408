import numpy as np


def inputs(c, rng):
    return {"u": rng.standard_normal((c["Z"], c["Y"], c["X"]), dtype=np.float32)}


def expected(inputs):
    u = inputs["u"].astype(np.float64)
    v = u.copy()
    i = slice(1, -1)
    around = u[:-2, i, i] + u[2:, i, i] + u[i, :-2, i] + u[i, 2:, i] + u[i, i, :-2] + u[i, i, 2:]
    v[i, i, i] = 0.4 * u[i, i, i] + 0.1 * around
    return {"v": v}
