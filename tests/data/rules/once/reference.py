import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["R"], 8), dtype=np.float32)}


def expected(inputs, case):
    faded = np.exp(-0.125 * np.arange(case["R"])) @ inputs["x"].astype(np.float64)
    return {"y": np.cos(np.outer(np.arange(case["N"]) / case["N"], np.arange(1, 9))) @ faded}
