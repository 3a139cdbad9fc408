import numpy as np


def inputs(c, rng):
    return {
        "q": rng.standard_normal((c["T"], c["H"], 2 * c["HALF"]), dtype=np.float32),
        "angle": rng.standard_normal((c["T"], c["HALF"]), dtype=np.float32),
    }


def expected(inputs):
    q, angle = inputs["q"].astype(np.float64), inputs["angle"].astype(np.float64)[:, None, :]
    even, odd = q[..., 0::2], q[..., 1::2]
    y = np.empty_like(q)
    y[..., 0::2] = even * np.cos(angle) - odd * np.sin(angle)
    y[..., 1::2] = odd * np.cos(angle) + even * np.sin(angle)
    return {"y": y}
