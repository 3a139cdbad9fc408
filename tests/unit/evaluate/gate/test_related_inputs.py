"""Inputs whose numbers are related: each follows from those before it, groups that rise, maxima that come late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evo.audit.redteam import task_folder
from evo.evaluate.gate.input_patterns import (
    OUTERMOST,
    PEAKED,
    RECIPROCAL,
    SHIFTED,
    STRUCTURED,
    STRUCTURES,
    UNEVEN,
    patterned,
)
from evo.evaluate.gate.integer_patterns import WAYS, _related, varied_integers
from evo.evaluate.gate.outlying_inputs import far_apart
from evo.spec.reference import load_reference
from evo.spec.task import Case, load_task, read_task
from evo.spec.tensor_arrays import Arrays

ROOT = Path(__file__).resolve().parents[4]
SEEDS = range(6)


def inputs(name: str, case: str | Case, pattern: str, turns: int) -> list[Arrays]:
    task = load_task(ROOT, name)
    reference = load_reference(task)
    asked = task.case(case) if isinstance(case, str) else case
    found = [patterned(task, reference, asked, seed, pattern, turn=turn) for seed in SEEDS for turn in range(turns)]
    return [one.inputs for one in found if one is not None]


def test_rows_begin_with_a_geometric_sequence() -> None:
    """x[i]^2 = x[i-1] x[i+1], of other sizes, and other values behind them."""
    met = 0
    for one in inputs("rmsnorm", "ragged", STRUCTURED, STRUCTURES):
        x = one["x"].astype(np.float64)[:, :10]
        is_so = (x[:, 1:-1] ** 2 == x[:, :-2] * x[:, 2:]).all(axis=1) & (x != 0).all(axis=1)
        met += int((is_so & (np.abs(x[:, 0]) != np.abs(x[:, 1]))).sum())
    assert met


def test_rows_have_orders_of_sizes_and_of_signs() -> None:
    """Each is a chain of conditions, of which a few by themselves say nothing."""
    x = np.concatenate([one["x"] for one in inputs("rmsnorm", "ragged", STRUCTURED, STRUCTURES)]).astype(np.float64)
    steps = np.diff(x, axis=1)[:, :24]
    bends, size = np.diff(steps, axis=1), np.abs(steps)
    rises, turned = steps > 0, np.diff(steps > 0, axis=1)
    alike = (np.abs(x) == np.abs(x[:, :1])).all(axis=1) & (x[:, 0] != 0)
    found = {
        "a zigzag that grows": turned[:, :19].all(axis=1) & (size[:, 1:20] > size[:, :19]).all(axis=1),
        "up to a peak, and down": rises[:, 0] & (turned.sum(axis=1) == 1) & (steps != 0).all(axis=1),
        "a slope that grows": (bends[:, :16] > 0).all(axis=1),
        "as many of each sign as 127 have": alike & (np.abs(x.sum(axis=1)) == np.abs(x[:, 0])),
    }
    assert [name for name, rows in found.items() if not rows.any()] == []


def test_numbers_of_a_range_stand_in_no_order() -> None:
    drawn = np.random.default_rng(3).integers(0, 8192, 64).astype(np.int32)
    met = 0
    for seed in range(40):
        other = varied_integers(drawn, None, np.random.default_rng(seed))
        assert other is not None
        few = other[:16].astype(np.int64)
        rises = int((np.diff(few) > 0).sum())
        met += len(set(few.tolist())) == 16 and np.ptp(few) == 15 and 2 < rises < 13
    assert met


def test_groups_follow_from_one_another_and_come_by_turns() -> None:
    drawn = np.array([0, 30, 30, 50, 51, 100], np.int32)
    ways = [
        varied_integers(drawn, None, np.random.default_rng([seed, way]), way)
        for seed in range(30)
        for way in range(WAYS)
    ]
    loads = np.diff(np.array([way for way in ways if way is not None]), axis=1)
    assert (loads.sum(axis=1) == 100).all()
    assert (loads >= 0).all()
    few = loads[:, :4]
    assert ((few[:, :3] == 2 * few[:, 1:]) & (few[:, :3] > 0)).all(axis=1).any()
    assert (few[:, 2:] == few[:, 1:3] + few[:, :2]).all(axis=1).any()
    assert ((loads == 0) == (np.arange(5) % 2 == 1)).all(axis=1).any()


def test_whole_numbers_follow_from_the_two_before() -> None:
    rng = np.random.default_rng(3)
    drawn = rng.integers(-1000, 1000, (40, 37)).astype(np.int16)
    met = 0
    for _ in SEEDS:
        other = varied_integers(drawn, None, rng)
        assert other is not None
        assert drawn.min() <= other.min()
        assert other.max() <= drawn.max()
        x = other.astype(np.int64)[:, :9]
        met += int(((x[:, 2:] == x[:, 1:-1] + x[:, :-2]).all(axis=1) & (x[:, 0] != 0)).sum())
    assert met


@pytest.mark.parametrize(("low", "high"), [(0, 8191), (-300, 300)])
def test_neighbours_are_apart_by_each_power_of_two(low: int, high: int) -> None:
    """All different by chance: check cases of fewer numbers show that they may repeat."""
    drawn = np.random.default_rng(3).choice(np.arange(low, high + 1), 128, replace=False).astype(np.int32)
    met: set[int] = set()
    for seed in SEEDS[:2]:
        other = varied_integers(drawn, None, np.random.default_rng(seed), WAYS, may_repeat=True)
        assert other is not None
        assert drawn.min() <= other.min()
        assert other.max() <= drawn.max()
        met |= set(np.abs(np.diff(other.astype(np.int64))).tolist())
    assert {1 << bit for bit in range(int(drawn.max() - drawn.min()).bit_length())} <= met


def test_all_of_a_tensor_lies_below_zero() -> None:
    below = [one["x"].astype(np.float64).max() <= 0 for one in inputs("softmax", "ragged", SHIFTED, 2)]
    assert 0 < sum(below) < len(below)


def test_squares_of_one_tensor_are_subnormal() -> None:
    """A sum of them that an instruction flushes is zero, and its reciprocal infinite; beside other tensors as well."""
    drawn = np.random.default_rng(2).standard_normal(400)
    for names in ("x", "xw"):
        reals, dtypes = dict.fromkeys(names, drawn), dict.fromkeys(names, "float32")
        found = list(far_apart(reals, dtypes, np.random.default_rng(3), alone=len(names) > 1))
        assert found
        for other in found:
            (tiny,) = other.values()
            squares = np.square(tiny.astype(np.float32))
            assert 0 < squares.mean() < np.finfo(np.float32).smallest_normal / 8
            np.testing.assert_allclose(squares.mean(), np.square(tiny).mean(), rtol=1e-3)
    met = [float(np.abs(one["x"].astype(np.float64)).max()) for one in inputs("softmax", "ragged", RECIPROCAL, 1)]
    assert 0 < max(met) < 2.0**-7


def test_groups_rise_and_fall_one_after_another() -> None:
    case = Case(name="asked", axes={"T": 78, "E": 12, "D": 8, "F": 8})
    loads = [np.diff(one["offsets"]) for one in inputs("moe_grouped_matmul", case, UNEVEN, WAYS + 1)]
    assert all(int(each.sum()) == 78 and (each >= 0).all() for each in loads)
    for sign in (1, -1):
        assert any((sign * np.diff(each)[-8 if sign < 0 else 0 : None if sign < 0 else 8] > 0).all() for each in loads)


def test_sums_of_exponentials_overflow_if_a_late_maximum_is_not_met() -> None:
    """exp of each difference to the largest of the first values is a number of float32, and their sum is none."""
    met = 0
    for one in inputs("softmax", "wide", PEAKED, 3):
        x = one["x"].astype(np.float64)
        above = x - x[:, :256].max(axis=1, keepdims=True)
        met += int(((np.exp(above).sum(axis=1) > np.finfo(np.float32).max) & (above.max(axis=1) <= 80)).sum())
    assert met


@pytest.mark.parametrize("groups", [2, 7, 70])
def test_ends_of_groups_rise_between_the_same_two(groups: int) -> None:
    """Rounded down to tiles and moved, a first group had once fewer than no members."""
    for seed in range(300):
        rng = np.random.default_rng([groups, seed])
        inner = np.sort(rng.integers(0, 62, groups - 1))
        drawn = np.concatenate([[0], inner, [61]]).astype(np.int32)
        for way in range(WAYS + 1):
            other = varied_integers(drawn, None, rng, way)
            assert other is not None
            assert (other[0], other[-1]) == (0, 61)
            assert (np.diff(other) >= 0).all(), (seed, way, other)


def test_numbers_of_wide_types_reach_where_a_fast_division_gives_zero() -> None:
    """`div.approx` by more than 2^126 is zero; a half has no such number."""
    task = read_task(task_folder("gather_rows", ROOT / "kernels"))
    found = [patterned(task, load_reference(task), task.check[0], seed, OUTERMOST, turn=2) for seed in SEEDS]
    sizes = [{name: np.abs(one.inputs[name]).min() for name in ("table", "bias")} for one in found if one is not None]
    assert len(sizes) == len(SEEDS)
    assert all(any(size > 2.0**126 for size in each.values()) for each in sizes)
    halves = load_task(ROOT, "softmax")
    assert patterned(halves, load_reference(halves), halves.check[0], 1, OUTERMOST, turn=2) is None


def test_numbers_that_a_sum_of_float32_cannot_hold_are_not_tried() -> None:
    """A mean of a column near the largest float is a float, and the sum on the way is none in any honest kernel."""
    task = read_task(ROOT / "tests" / "data" / "foreign" / "kernels" / "column_mean")
    reference = load_reference(task)
    found = [patterned(task, reference, case, seed, OUTERMOST, turn=2) for case in task.check for seed in SEEDS]
    assert found == [None] * len(found)


def test_of_very_many_short_rows_some_are_related() -> None:
    """Pixels of an image, three numbers each: row by row, a million of them took a minute for each draw."""
    drawn = np.random.default_rng(3).integers(0, 256, (60_000, 3))
    changed = [(varied_integers(drawn, None, np.random.default_rng(seed)) != drawn).any(axis=1).sum() for seed in SEEDS]
    related = _related(drawn, np.random.default_rng(5))
    assert 0 < (related != drawn).any(axis=1).sum() <= 4096
    assert (related.min(), related.max()) == (0, 255)
    assert all(changed)
