import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["R"], c["C"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"mean": x.mean(0), "square": (x * x).mean(0)}
