import numpy as np


def inputs(c, rng):
    return {
        "logits": rng.standard_normal((c["N"], c["V"]), dtype=np.float32),
        "targets": rng.integers(0, c["V"], c["N"], dtype=np.int32),
    }


def expected(inputs):
    logits = inputs["logits"]
    targets = inputs["targets"]
    return {
        "loss": np.log(np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True)).sum(1))
        + logits.max(1)
        - logits[np.arange(len(targets)), targets]
    }
