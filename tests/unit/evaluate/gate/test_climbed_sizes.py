"""Sizes that meet several conditions, which draws hardly do."""

from __future__ import annotations

import numpy as np

from evo.evaluate.gate.climbed_sizes import Sizes, climbed

SPANS = {"a": (1, 4096), "b": (1, 4096), "c": (1, 4096)}


def progress(sizes: Sizes) -> np.ndarray:
    a, b, c = sizes.values()
    return (a % 61 == 17) + (b % 53 == 29).astype(np.int64) + (c % 47 == 11)


def sought(steps: int) -> Sizes | None:
    start = {name: np.full(4, 64) for name in SPANS}
    return climbed(start, progress, steps, list(SPANS), SPANS, lambda sizes: sizes, np.random.default_rng(0))


def test_one_condition_after_the_other_is_met() -> None:
    found = sought(3)
    assert found is not None
    assert (progress(found) == 3).all()


def test_what_cannot_be_met_ends() -> None:
    assert sought(4) is None


def test_sizes_of_which_none_may_change_end_as_well() -> None:
    start = {name: np.full(4, 64) for name in SPANS}
    assert climbed(start, progress, 1, [], SPANS, lambda sizes: sizes, np.random.default_rng(0)) is None
