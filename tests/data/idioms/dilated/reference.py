import numpy as np


def inputs(c, rng):
    return {
        "x": rng.standard_normal(
            (
                c["N"],
                c["C"],
                c["H"],
                c["W"],
            ),
            dtype=np.float32,
        ),
        "w": rng.standard_normal(
            (
                c["K"],
                c["C"],
                3,
                3,
            ),
            dtype=np.float32,
        ),
    }


def expected(inputs):
    x, w = (inputs[k].astype(np.float64) for k in ("x", "w"))
    h, v = x.shape[2:]
    p = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)))
    return {
        "y": sum(
            np.einsum("nchw,kc->nkhw", p[:, :, 2 * i : 2 * i + h, 2 * j : 2 * j + v], w[:, :, i, j])
            for i in range(3)
            for j in range(3)
        )
    }
