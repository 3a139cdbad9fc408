import numpy as np


def inputs(c, rng):
    return {"x": rng.standard_normal((c["T"], c["H"], c["D"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    t, _, d = x.shape
    freq = 10000.0 ** (-2.0 * np.arange(d // 2) / d)
    angle = (np.arange(t)[:, None] * freq)[:, None, :]
    c, s = np.cos(angle), np.sin(angle)
    y = np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    y[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return {"y": y}
