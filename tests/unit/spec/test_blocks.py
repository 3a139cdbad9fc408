"""Formulas over blocks of a large array."""

import itertools
import math

import numpy as np

from evo.spec.blocks import BLOCK, exact_sum, over_blocks


def test_every_element_is_in_one_block_and_blocks_stay_in_order() -> None:
    for size in (0, 1, BLOCK, BLOCK + 1, 40 * BLOCK + 7):
        parts = over_blocks(lambda part: part, size)
        assert [index for part in parts[:2] for index in (part.start, part.stop)][:1] == ([0] if size else [])
        assert all(a.stop == b.start for a, b in itertools.pairwise(parts))
        assert sum(part.stop - part.start for part in parts) == size


def test_sums_of_blocks_are_those_of_the_whole() -> None:
    values = np.random.default_rng(3).standard_normal(30 * BLOCK + 5)
    found = exact_sum(over_blocks(lambda part: float(values[part].sum()), values.size))
    assert math.isclose(found, math.fsum(values), rel_tol=1e-12, abs_tol=1e-9)


def test_a_sum_that_overflows_or_has_no_value_is_no_exception() -> None:
    assert exact_sum([1e308, 1e308]) == math.inf
    assert math.isnan(exact_sum([math.inf, -math.inf]))
