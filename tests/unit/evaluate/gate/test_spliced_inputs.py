"""Spliced inputs: parts of rows at other places, in every kind that a kernel might draw conclusions from."""

from __future__ import annotations

import numpy as np
import pytest

from evo.evaluate.gate.integer_patterns import varied_integers
from evo.evaluate.gate.spliced_inputs import TURNS, spliced


def rows(turn: int, shape: tuple[int, ...] = (200, 64)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tensor before and after, and another one after."""
    rng = np.random.default_rng(7)
    x, r = rng.standard_normal(shape), rng.standard_normal(shape)
    found = spliced({"x": x, "r": r}, turn, np.random.default_rng(turn))
    return x, found["x"], found["r"]


@pytest.mark.parametrize(
    "holds",
    [
        lambda x, _: (
            (x[1:, :8] == x[:-1, :8]).all(1) & (x[1:] != x[:-1]).any(1)
        ),  # begins as the row before, and differs
        lambda x, r: (x[:, :8] == -r[:, :8]).all(1),  # two tensors cancel
        lambda x, _: (x[:, 0:16:2] == -x[:, 1:16:2]).all(1),  # neighbours cancel
        lambda x, _: (np.sort(np.abs(x))[:, -1] == np.sort(np.abs(x))[:, -2]) & (np.abs(x).max(1) > 10),  # two peaks
        lambda x, _: (x[:, 30:38] == x[:, 30:31]).all(1) & (x[:, 0] != x[:, 1]),  # a plateau inside
        lambda x, _: (x[:, :8] == x[:, :-9:-1]).all(1),  # the end mirrors the start
    ],
)
def test_every_kind_is_among_the_turns(holds) -> None:
    assert not holds(*(np.random.default_rng(1).standard_normal((2, 200, 64)))).any()  # a draw has none
    assert any(holds(*rows(turn)[1:]).any() for turn in range(1, TURNS + 1))


@pytest.mark.parametrize("shape", [(5, 1), (1, 2), (1, 300), (3, 2, 7)])
def test_any_shape_keeps_its_shape_and_the_given_arrays_stay(shape: tuple[int, ...]) -> None:
    for turn in range(TURNS + 1):
        before, after, other = rows(turn, shape)
        assert after.shape == other.shape == shape
        assert np.array_equal(before, np.random.default_rng(7).standard_normal(shape))


def test_whole_numbers_follow_on_one_another_in_some_turns() -> None:
    drawn = np.random.default_rng(0).integers(0, 500, 64)
    found = [varied_integers(drawn, 499, np.random.default_rng(seed)) for seed in range(20)]
    assert any((np.diff(values[:4]) == 1).all() for values in found)
    assert all(values.min() >= 0 and values.max() <= 499 for values in found)
