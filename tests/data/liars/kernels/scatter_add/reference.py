import numpy as np


def inputs(case, rng):
    place = np.sort(rng.permutation(case["V"])[: case["N"]]).astype(np.int32)
    return {"place": place, "x": rng.integers(-999, 999, case["N"], dtype=np.int32)}


def expected(inputs):
    y = np.zeros(inputs["V"], np.int64)
    np.add.at(y, inputs["place"], inputs["x"])
    return {"y": y}
