import numpy as np


def inputs(case, rng):
    return {"x": rng.integers(0, 1 << 16, (case["H"], case["W"]), dtype=np.uint16)}


def expected(inputs):
    x = inputs["x"]
    near = np.pad(x, ((0, 0), (4, 4)), mode="edge")
    windows = np.stack([near[:, k : k + x.shape[1]] for k in range(9)])
    return {"y": np.sort(windows, axis=0)[4]}
