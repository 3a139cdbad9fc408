import numpy as np


def inputs(shapes, rng):
    m, n, k = shapes["M"], shapes["N"], shapes["K"]
    drawn = {"a": rng.standard_normal((m, k)), "b": rng.standard_normal((k, n))}
    return {name: values.astype(np.float32) for name, values in drawn.items()}


def expected(inputs):
    return {"c": inputs["a"] @ inputs["b"]}
