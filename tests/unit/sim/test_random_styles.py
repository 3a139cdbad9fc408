"""Random correct kernels in the styles of many hands: no alarm, and the values that NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
import random_styles
from harness import include_folder, nvrtc, run

from evo import sim


def check(seed: int) -> None:
    made = random_styles.make(seed)
    x = random_styles.inputs(made.blocks, made.threads).reshape(-1)
    module = sim.load(nvrtc(made.text, f"-I{include_folder()}/cccl"), opt_level=0)
    outputs, result = run(
        module,
        "k",
        [x, np.zeros_like(x), np.zeros_like(x)],
        grid=(made.blocks,),
        block=(made.threads,),
        shared_bytes=made.dynamic,
    )
    assert result.faults == (), (seed, made.styles)
    np.testing.assert_array_equal(
        outputs[1].reshape(made.expected.shape), made.expected, err_msg=f"{seed} {made.styles}"
    )


@pytest.mark.long
@pytest.mark.parametrize("start", range(2_000, 2_300, 20))
def test_hundreds_of_kernels_in_many_styles(start: int) -> None:
    for seed in range(start, start + 20):
        check(seed)
