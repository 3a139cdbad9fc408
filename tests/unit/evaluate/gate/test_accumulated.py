"""A sum of many atomics may err as often as it is rounded; one that leaves terms out may not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from evo.evaluate.gate.compare import compare
from evo.evaluate.gate.error_budget import per_element
from evo.results import Status
from evo.spec.expectation import Expectation
from evo.spec.task import Task

COUNT, SUMS = 1 << 18, 4
Reals = NDArray[np.float32]


def status(task: Task, sums: Reals, terms: Reals, accumulated: float) -> Status:
    exact = terms.sum(axis=1, dtype=np.float64)
    close = Expectation({}, {"y": exact}, {"y": exact.astype(np.float32)})
    found = compare(task, "sums", {"y": sums}, close, accumulated)
    if found.status is Status.CORRECT:  # what is shown as correct is shown with no error beyond what is allowed
        assert (found.max_error or 0.0) <= found.budget["max_error"]
    return found.status


@pytest.fixture(scope="module")
def terms() -> Reals:
    return np.random.default_rng(3).uniform(0.0, 1.0, (SUMS, COUNT)).astype(np.float32)


def test_what_the_order_of_atomics_costs_is_allowed(scale: Task, terms: Reals) -> None:
    one_by_one = np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]
    assert status(scale, one_by_one, terms, COUNT) is Status.CORRECT
    assert status(scale, one_by_one, terms, 0) is Status.WRONG


@pytest.mark.parametrize("accumulated", [64, COUNT])
def test_terms_that_are_left_out_are_seen(scale: Task, terms: Reals, accumulated: float) -> None:
    short = np.sum(terms[:, : -COUNT // 1000], axis=1, dtype=np.float64).astype(np.float32)
    assert status(scale, short, terms, accumulated) is Status.WRONG


def test_only_a_task_that_allows_atomics_has_any(scale: Task) -> None:
    assert per_element(scale, 1000, 10) == 0.0
