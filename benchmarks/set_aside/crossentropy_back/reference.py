import numpy as np


def inputs(c, rng):
    b, t, v = c["B"], c["T"], c["V"]
    return {
        "logits": rng.standard_normal((b, t, v), dtype=np.float32),
        "dloss": rng.standard_normal((b, t), dtype=np.float32),
        "target": rng.integers(0, v, (b, t), dtype=np.int32),
    }


def expected(inputs):
    x, dloss, target = inputs["logits"].astype(np.float64), inputs["dloss"].astype(np.float64), inputs["target"]
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    np.put_along_axis(p, target[..., None].astype(np.int64), np.take_along_axis(p, target[..., None], -1) - 1, -1)
    return {"dlogits": p * dloss[..., None]}
