import numpy as np


def inputs(c, rng):
    def n(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    return {"x": n(c["B"], c["CI"], c["L"]), "w": n(c["CO"], c["CI"], c["K"]), "bias": n(c["CO"])}


def expected(inputs):
    x, w, bias = (inputs[k].astype(np.float64) for k in ("x", "w", "bias"))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2], axis=2)
    return {"y": np.einsum("bilk,oik->bol", windows, w) + bias[None, :, None]}
