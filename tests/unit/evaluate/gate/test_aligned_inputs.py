"""Aligned inputs: rows along an axis are multiples of one row, and some point away from the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evo.evaluate.gate.aligned_inputs import aligned
from evo.evaluate.gate.input_patterns import ALIGNED, patterned
from evo.spec.reference import load_reference
from evo.spec.task import load_task

ROOT = Path(__file__).resolve().parents[4]


def rows(array: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(np.asarray(array, np.float64), axis, -1).reshape(-1, array.shape[axis])


def along(rows: np.ndarray) -> np.ndarray:
    """By how much each row points the way of the first, from -1 to 1."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit[0]


@pytest.mark.parametrize(("name", "pair"), [("attention", ("q", 3, "k", 3)), ("matmul", ("a", 1, "b", 0))])
def test_two_tensors_point_one_way_and_some_rows_against_it(name: str, pair: tuple[str, int, str, int]) -> None:
    task = load_task(ROOT, name)
    first, axis, second, other = pair
    drawn = {t.name: np.random.default_rng(3).standard_normal(t.dims(task.check[1])) for t in task.inputs}
    signs = []
    for seed in range(40):
        found = aligned(task.inputs, drawn, np.random.default_rng(seed))
        assert all(array.shape == drawn[key].shape for key, array in found.items())
        if {first, second} <= set(found):
            own = rows(found[second], other)
            cosines = along(np.vstack([own, rows(found[first], axis)]))
            if np.allclose(np.abs(cosines), 1):
                signs.append(cosines[len(own) :])
    assert len(signs) >= 10  # the axis that they share is the likeliest
    assert any((cosines < 0).all() for cosines in signs)
    assert any((cosines > 0).any() and (cosines < 0).any() for cosines in signs)


def test_a_reference_is_accurate_on_them_and_their_scores_go_far_below_zero() -> None:
    task = load_task(ROOT, "attention")
    case = task.case("full_tile")
    least = []
    for seed in range(8):
        found = patterned(task, load_reference(task), case, seed, ALIGNED)
        assert found is not None
        q, k = (found.inputs[name].astype(np.float64) for name in ("q", "k"))
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) / 8
        least.append(scores.max(axis=-1).min())
    assert min(least) < -50


def test_signs_alternate_both_ways_and_rows_grow_little_by_little() -> None:
    task = load_task(ROOT, "softmax")
    drawn = {"x": np.random.default_rng(3).standard_normal((37, 127))}
    found = [aligned(task.inputs, drawn, np.random.default_rng(seed)) for seed in range(60)]
    boards = [np.sign(one["x"]) for one in found if one]
    assert any((board[1:] == -board[:-1]).all() and (board[:, 1:] == -board[:, :-1]).all() for board in boards)
    growth = [np.diff(np.abs(one["x"][:, 0])) / np.abs(one["x"][0, 0]) for one in found if one]
    assert any(((steps > 0) & (steps < 1e-3)).all() for steps in growth)


def test_axes_of_length_one_have_no_direction() -> None:
    task = load_task(ROOT, "softmax")
    assert not aligned(task.inputs, {"x": np.ones((1, 1))}, np.random.default_rng(1))
