"""Cross entropy of rows of logits."""

import numpy as np


def inputs(case, rng):
    return {
        "logits": rng.standard_normal((case["N"], case["V"]), dtype=np.float32),
        "targets": rng.integers(0, case["V"], case["N"], dtype=np.int32),
    }


def expected(inputs):
    logits = inputs["logits"].astype(np.float64)
    targets = inputs["targets"]
    most = logits.max(1)
    own = logits[np.arange(len(targets)), targets]
    return {"loss": np.log(np.exp(logits - most[:, None]).sum(1)) + most - own}
