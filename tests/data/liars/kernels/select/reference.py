import numpy as np


def inputs(case, rng):
    """Any int32 may be chosen; the drawn masks are equal in groups of four."""
    groups = rng.random(case["N"] // 4 + 1) < 0.5
    x = rng.integers(-9, 9, case["N"], dtype=np.int32)
    return {"chosen": np.repeat(groups, 4)[: case["N"]], "x": x}


def expected(inputs):
    return {"y": np.where(inputs["chosen"], inputs["x"], 0)}
