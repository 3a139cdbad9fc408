import numpy as np


def inputs(case, rng):
    return {"a": rng.standard_normal((case["ROWS"], case["COLS"]), dtype=np.float32)}


def expected(inputs):
    return {"b": inputs["a"].T.copy()}
