"""Permutations of dimensions, found by counting: the lengths and the order, whatever the tensors are declared as."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from evo.analysis.access import Moved, permutation_of
from evo.spec.expr import parse

CASES: tuple[Mapping[str, int], ...] = (
    {"A": 4, "B": 6, "C": 5, "D": 7, "E": 3},
    {"A": 3, "B": 2, "C": 9, "D": 1, "E": 4},
    {"A": 2, "B": 5, "C": 3, "D": 4, "E": 2},
)


def moved(lengths: str, order: tuple[int, ...], turned: tuple[int, ...] = ()) -> list[Moved]:
    """Where a permutation of these lengths takes each element, at all cases."""
    found = []
    for case in CASES:
        shape = [int(parse(text).value(case)) for text in lengths.split(", ")]
        source = np.arange(int(np.prod(shape))).reshape(shape).transpose(order)
        for axis in turned:
            source = np.flip(source, axis)
        to = np.empty(source.size, np.int64)
        to[source.reshape(-1)] = np.arange(source.size)
        found.append(Moved(to, case))
    return found


@pytest.mark.parametrize(
    ("lengths", "order", "turned", "seen"),
    [
        ("A, B, C, D, E", (4, 2, 0, 3, 1), (), ("A", "B", "C", "D", "E")),
        ("A, B, C, D", (0, 2, 3, 1), (), ("A", "B", "C * D")),  # two that move together are one
        ("A, B, C, D, E", (1, 2, 0, 3, 4), (), ("A", "B * C", "D * E")),
        ("A, B, C", (2, 1, 0), (1,), ("A", "B", "C")),
        ("A, C, E, E, B, D", (0, 1, 4, 2, 5, 3), (), ("A * C", "E", "E", "B", "D")),  # channels become pixels
        ("A, 2 * B, 3", (2, 0, 1), (), ("2 * A * B", "3")),
    ],
)
def test_a_permutation_is_found(
    lengths: str, order: tuple[int, ...], turned: tuple[int, ...], seen: tuple[str, ...]
) -> None:
    cases = moved(lengths, order, turned)
    found = permutation_of(cases, [parse("2 * A * B"), parse("3")])
    assert found is not None
    assert len(found.lengths) == len(seen)
    for case in CASES:
        assert [each.value(case) for each in found.lengths] == [parse(text).value(case) for text in seen]
    assert len(found.turned) == len(turned)


def test_an_order_that_changes_between_cases_is_none() -> None:
    cases = moved("A, B, C", (2, 1, 0))
    assert permutation_of([*cases[:2], moved("A, B, C", (1, 2, 0))[2]], []) is None


def test_what_moves_otherwise_is_none() -> None:
    to = np.random.default_rng(0).permutation(24)
    assert permutation_of([Moved(to, {"A": 4, "B": 6})], []) is None
    assert permutation_of([Moved(np.arange(24), {"A": 4, "B": 6})], []) is None
