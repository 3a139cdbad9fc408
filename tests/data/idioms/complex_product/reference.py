import numpy as np


def inputs(shapes, rng):
    return {name: rng.standard_normal((shapes["N"], 2), dtype=np.float32) for name in ("a", "b")}


def expected(inputs):
    a, b = (inputs[name].astype(np.float64) for name in ("a", "b"))
    product = (a[:, 0] + 1j * a[:, 1]) * (b[:, 0] + 1j * b[:, 1])
    return {"out": np.stack([product.real, product.imag], axis=1)}
