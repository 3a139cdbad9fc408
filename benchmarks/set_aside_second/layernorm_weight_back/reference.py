import numpy as np


def inputs(c, rng):
    n, w = c["N"], c["C"]
    return {
        "dout": rng.standard_normal((n, w), dtype=np.float32),
        "x": rng.standard_normal((n, w), dtype=np.float32),
        "mean": rng.standard_normal(n, dtype=np.float32),
        "rstd": rng.standard_normal(n, dtype=np.float32),
    }


def expected(inputs):
    d, x = inputs["dout"].astype(np.float64), inputs["x"].astype(np.float64)
    norm = (x - inputs["mean"][:, None]) * inputs["rstd"][:, None]
    return {"dweight": (d * norm).sum(0), "dbias": d.sum(0)}
