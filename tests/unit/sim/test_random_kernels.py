"""Random whole kernels against the NumPy oracle of fuzz.py: a sample here, thousands under `long`."""

from __future__ import annotations

import fuzz
import numpy as np
import pytest
from harness import run

from evo import sim


def check(seed: int, opt_level: int = 1, size: int = 24) -> None:
    text, program = fuzz.make(seed, size)
    arrays = fuzz.inputs(seed)
    outs, result = run(sim.load(text, opt_level=opt_level), "k", arrays, grid=(2,), block=(64,))
    assert result.faults == ()
    for got, expect in zip(outs, fuzz.oracle(program, arrays), strict=True):
        if got.dtype == np.float32:
            nan = np.isnan(expect)
            assert (np.isnan(got) == nan).all(), seed
            assert (got.view(np.uint32)[~nan] == expect.view(np.uint32)[~nan]).all(), seed
        else:
            assert (got == expect).all(), seed


@pytest.mark.parametrize("seed", range(12))
def test_random_kernel(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(3))
def test_random_kernel_at_other_levels(seed: int) -> None:
    check(seed, 0)
    check(seed, 2)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 4000, 100))
def test_thousands_of_random_kernels(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed, size=20 + seed % 30)
