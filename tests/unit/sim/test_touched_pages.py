"""Of a large array of zeros the pages that were written to are found, and few others."""

from __future__ import annotations

import numpy as np

from evo.sim.memory import touched


def test_what_was_written_lies_in_what_is_told() -> None:
    values = np.zeros(1 << 30, np.uint8)
    places = [0, 5, 123_456_789, 123_456_790, 700_000_001, values.size - 1]
    values[places] = 1
    parts = list(touched(values))
    found = np.concatenate([np.flatnonzero(values[part]) + part.start for part in parts])
    assert found.tolist() == places
    assert sum(part.stop - part.start for part in parts) < values.size // 2


def test_an_array_that_begins_within_a_page_keeps_its_ends() -> None:
    values = np.zeros(1 << 22, np.uint8)[37:-11]
    values[[0, len(values) - 1]] = 1
    parts = list(touched(values))
    assert all(0 <= part.start < part.stop <= len(values) for part in parts)
    assert sum(int(values[part].sum()) for part in parts) == 2
