import numpy as np


def inputs(c, rng):
    return {"atoms": rng.uniform(0.5, 2.0, (c["A"], 4)).astype(np.float32)}


def expected(inputs, case):
    x, y, z, charge = inputs["atoms"].astype(np.float64).T
    places = np.arange(case["N"])[:, None] * np.float64(np.float32(0.001))
    return {"energy": (charge / np.sqrt((places - x) ** 2 + y * y + z * z)).sum(axis=1)}
