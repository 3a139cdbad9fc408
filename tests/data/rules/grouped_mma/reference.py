import numpy as np


def inputs(shapes, rng):
    t, e, d, f = shapes["T"], shapes["E"], shapes["D"], shapes["F"]
    drawn = {"x": rng.standard_normal((t, d)), "w": rng.standard_normal((e, d, f)) / d**0.5}
    return {
        **{name: values.astype(np.float16) for name, values in drawn.items()},
        "expert_of": rng.integers(0, e, t).astype(np.int32),  # in no order
    }


def expected(inputs):
    x, w = (inputs[name].astype(np.float64) for name in ("x", "w"))
    return {"y": np.einsum("td,tdf->tf", x, w[inputs["expert_of"]])}
