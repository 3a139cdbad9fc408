import numpy as np


def inputs(c, rng):
    return {
        "inp": rng.standard_normal((c["B"], c["T"], c["C"]), dtype=np.float32),
        "weight": rng.standard_normal((c["OC"], c["C"]), dtype=np.float32),
        "bias": rng.standard_normal(c["OC"], dtype=np.float32),
    }


def expected(inputs):
    inp = inputs["inp"]
    weight = inputs["weight"]
    bias = inputs["bias"]
    return {"out": inp.astype(np.float64) @ weight.T.astype(np.float64) + bias}
