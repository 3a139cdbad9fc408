"""Rows of a table by number, plus a bias."""

import numpy as np


def inputs(case, rng):
    return {
        "ids": rng.integers(0, case["V"], case["N"], dtype=np.int32),
        "table": rng.standard_normal((case["V"], case["D"]), dtype=np.float32),
        "bias": rng.standard_normal(case["D"], dtype=np.float32),
    }


def expected(inputs):
    return {"y": inputs["table"].astype(np.float64)[inputs["ids"]] + inputs["bias"]}
