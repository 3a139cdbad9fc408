"""Pages under simulated memory: those that were written to are found, and a buffer may show those of a file."""

from __future__ import annotations

import numpy as np
import pytest

from evo.sim.memory import SLACK, Memory, touched
from evo.spec.shared_arrays import place_of, shared_copy


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


@pytest.mark.parametrize("offset", [0, 64, 4])
def test_a_buffer_shows_a_file_and_leaves_it_as_it_is(offset: int) -> None:
    values = shared_copy(np.arange(1 << 19, dtype=np.int32))
    memory, other = Memory(), Memory()
    shown = memory.allocate(values.nbytes, "x", offset=offset, file=place_of(values))
    assert shown.address == other.allocate(values.nbytes, "x", offset=offset).address
    if offset == 4:  # host memory is aligned as device memory is
        assert shown.state is not None
        return
    assert shown.state is None
    assert (memory.read(shown, np.int32, len(values)) == values).all()
    memory.write(shown, np.full(4, -1, np.int32))
    assert memory.read(shown, np.int32, 4).tolist() == [-1] * 4
    assert values[:4].tolist() == [0, 1, 2, 3]
    assert shown.data.size == shown.size_bytes + 2 * SLACK
    assert not shown.data[:SLACK].any()


def test_a_file_of_another_size_is_not_shown() -> None:
    values = shared_copy(np.zeros(1 << 19, np.int32))
    assert Memory().allocate(values.nbytes - 4, "x", file=place_of(values)).state is not None
