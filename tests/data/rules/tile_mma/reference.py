import numpy as np


def inputs(shapes, rng):
    b, m, n, k = shapes["B"], shapes["M"], shapes["N"], shapes["K"]
    drawn = {
        "a": rng.standard_normal((b, m, k)),
        "b": rng.standard_normal((b, k, n)) / k**0.5,
        "bias": rng.standard_normal(n),
    }
    return {name: values.astype(np.float16) for name, values in drawn.items()}


def expected(inputs):
    a, b, bias = (inputs[name].astype(np.float64) for name in ("a", "b", "bias"))
    return {"c": np.maximum(a @ b + bias, 0)}
