"""Values handed from block to block: correct kernels raise no alarm and are right, broken ones are races."""

from __future__ import annotations

import numpy as np
import pytest
import random_handover
from harness import nvrtc, run

from evo import sim
from evo.results import Fault, FaultKind


def launch(text: str, made: random_handover.Handover) -> tuple[tuple[Fault, ...], np.ndarray]:
    x = (np.arange(made.blocks * made.threads) * 7 + 3).astype(np.int32)
    args = [x, np.zeros_like(x), np.zeros(8192, np.int32), np.zeros(4096, np.int32)]
    outputs, result = run(sim.load(nvrtc(text), opt_level=0), "k", args, grid=(made.blocks,), block=(made.threads,))
    return result.faults, outputs[1]


def check(seed: int) -> None:
    made = random_handover.make(seed)
    faults, found = launch(made.text, made)
    assert faults == (), made.text
    np.testing.assert_array_equal(found.reshape(made.expected.shape), made.expected, err_msg=made.text)
    faults, _ = launch(made.broken, made)
    assert FaultKind.RACE in {fault.kind for fault in faults}, (made.shape, made.wrong, made.broken)


@pytest.mark.parametrize("seed", [1, 2, 10])
def test_a_broken_handover_is_a_race(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(40_000, 40_200, 40))
def test_hundreds_of_handovers(start: int) -> None:
    for seed in range(start, start + 40):
        check(seed)
