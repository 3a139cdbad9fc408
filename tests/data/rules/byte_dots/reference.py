import numpy as np


def inputs(c, rng):
    return {
        "points": rng.integers(-128, 128, (c["N"], c["D"])),
        "centres": rng.integers(-128, 128, (c["K"], c["D"])),
    }


def expected(inputs):
    apart = inputs["points"].astype(np.int64)[:, None] - inputs["centres"].astype(np.int64)[None]
    return {"label": (apart * apart).sum(axis=-1).argmin(axis=1).astype(np.int32)}
