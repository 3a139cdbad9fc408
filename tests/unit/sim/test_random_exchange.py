"""Random exchanges between threads: correct ones raise no alarm and are right; one meeting too few is a race."""

from __future__ import annotations

import numpy as np
import pytest
import random_exchange
from harness import nvrtc, run

from evo import sim
from evo.results import Fault, FaultKind


def launch(text: str) -> tuple[tuple[Fault, ...], np.ndarray]:
    x = np.arange(random_exchange.THREADS, dtype=np.int32) * 3 + 1
    args = [x, np.zeros_like(x), np.zeros(8 * x.size, np.int32)]
    outputs, result = run(sim.load(nvrtc(text), opt_level=0), "k", args, grid=(1,), block=(x.size,))
    return result.faults, outputs[1]


def check(seed: int) -> None:
    made = random_exchange.make(seed)
    faults, found = launch(made.text)
    assert faults == (), made.text
    np.testing.assert_array_equal(found, made.expected, err_msg=made.text)
    faults, _ = launch(made.broken)
    assert FaultKind.RACE in {fault.kind for fault in faults}, made.broken


@pytest.mark.parametrize("seed", range(2))
def test_a_meeting_too_few_is_a_race(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1_000, 1_200, 40))
def test_hundreds_of_exchanges(start: int) -> None:
    for seed in range(start, start + 40):
        check(seed)
