import numpy as np


def inputs(case, rng):
    b, t, c = case["B"], case["T"], case["C"]
    return {
        "inp": rng.standard_normal((b, t, c), dtype=np.float32),
        "weight": rng.standard_normal(c, dtype=np.float32),
        "bias": rng.standard_normal(c, dtype=np.float32),
    }


def expected(inputs):
    x = inputs["inp"].astype(np.float64)
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + 1e-5)
    return {
        "out": (x - mean[..., None]) * rstd[..., None] * inputs["weight"] + inputs["bias"],
        "mean": mean,
        "rstd": rstd,
    }
