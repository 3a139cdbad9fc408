import numpy as np


def inputs(c, rng):
    def n(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    return {"a": n(c["M"], c["K"]), "b": n(c["N"], c["K"]), "u": n(c["K"]), "v": n(c["M"])}


def expected(inputs):
    a, b, u, v = (inputs[k].astype(np.float64) for k in ("a", "b", "u", "v"))
    return {"y": (a - u) @ b.T + (a * v[:, None]) @ (b - u).T}
