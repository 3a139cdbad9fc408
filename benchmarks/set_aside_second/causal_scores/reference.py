import numpy as np


def inputs(c, rng):
    shape = (c["H"], c["T"], c["D"])
    return {"q": rng.standard_normal(shape, dtype=np.float32), "k": rng.standard_normal(shape, dtype=np.float32)}


def expected(inputs):
    q, k = inputs["q"].astype(np.float64), inputs["k"].astype(np.float64)
    s = np.einsum("htd,hud->htu", q, k) / np.sqrt(q.shape[-1])
    t = q.shape[1]
    return {"s": np.where(np.tril(np.ones((t, t), dtype=bool)), s, -1e9)}
