import numpy as np


def inputs(c, rng):
    return {name: rng.standard_normal(c["N"], dtype=np.float32) for name in ("x", "t")}


def expected(inputs):
    apart = inputs["x"].astype(np.float64) - inputs["t"]
    return {"y": apart**2 / (1 + apart**2)}
