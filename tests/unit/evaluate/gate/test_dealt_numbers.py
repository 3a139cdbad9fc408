"""Whole numbers that mean something together, with one of them set; launches where axes are longest together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evo.evaluate.gate import at_corners
from evo.evaluate.gate.integer_patterns import varied_integers, with_number
from evo.results import Status
from evo.spec.chips import chip
from evo.spec.task import load_task
from evo.spec.variant import parse_variant

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("drawn", "place", "number", "expected"),
    [
        ([0, 2, 9, 9, 30], 1, 16, [0, 16, 20, 25, 30]),  # those that are passed are dealt anew
        ([0, 0, 9, 20, 30], 3, 4, [0, 0, 2, 4, 30]),
        ([0, 2, 9, 20, 30], 4, 8, None),  # the last end is the number of all
        ([3, 0, 2, 1], 0, 1, [1, 0, 2, 3]),
        ([3, 0, 2, 1], 0, 7, None),
        ([3, 3, 0, 5], 1, 4, [3, 4, 0, 5]),
        ([3, 3, 0, 5], 1, 6, None),
    ],
)
def test_a_number_is_set_and_the_others_stay_of_their_kind(
    drawn: list[int], place: int, number: int, expected: list[int] | None
) -> None:
    given = np.asarray(drawn, np.int32)
    found = with_number(given, place, number, given)
    assert (None if found is None else found.tolist()) == expected


@pytest.mark.parametrize(("count", "groups"), [(61, 7), (100, 6), (517, 64)])
def test_groups_may_be_equal_but_for_one_in_the_middle(count: int, groups: int) -> None:
    drawn = np.r_[0, np.sort(np.random.default_rng(5).integers(0, count, groups - 1)), count].astype(np.int32)
    found = [varied_integers(drawn, None, np.random.default_rng(seed), 5) for seed in range(40)]
    sizes = [np.diff(ends) for ends in found if ends is not None]
    assert all(each.sum() == count and (each >= 0).all() for each in sizes)
    even = count // groups
    assert any((each != even).sum() == 1 and each[0] == each[-1] == even for each in sizes)


@pytest.mark.parametrize(("grid", "status"), [("(S, B)", None), ("(1, B * S * 2)", Status.REFUSED)])
def test_a_launch_fits_where_axes_are_longest_together(grid: str, status: Status | None) -> None:
    task = load_task(ROOT, "rope")
    text = (ROOT / "kernels/rope/ladder/10_pairs.cu").read_text()
    assert "grid (S, B)" in text
    found = at_corners(task, parse_variant(text.replace("grid (S, B)", f"grid {grid}")), chip("l4"), 3)
    assert (None if found is None else found.status) is status
