"""Arrays that two processes map, and systems that do not let them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evo.spec import shared_arrays
from evo.spec.connection import Connection
from evo.spec.shared_arrays import LEAST_BYTES, opened, place_of, shared_copy


@pytest.fixture
def unknown() -> Iterator[None]:
    """Nothing is known of this system yet, and is not afterwards."""
    shared_arrays._can_be_opened.cache_clear()
    yield
    shared_arrays._can_be_opened.cache_clear()


def test_a_large_array_is_found_at_its_place_and_cannot_be_written_to() -> None:
    array = shared_copy(np.arange(LEAST_BYTES, dtype=np.uint8))
    place = place_of(array)
    assert place is not None
    found = opened(place, array.shape, array.dtype)
    assert not found.flags.writeable
    array[0] = 7
    assert found[0] == 7


def resident_kb(address: int) -> int:
    """Of the mapping that begins there."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    next(line for line in lines if line.startswith(f"{address:x}-"))
    return int(next(line for line in lines if line.startswith("Rss:")).split()[1])


def test_what_is_only_handed_on_takes_no_memory_of_this_process_until_it_is_read() -> None:
    array = shared_copy(np.arange(LEAST_BYTES, dtype=np.uint8))
    place = place_of(array)
    assert place is not None
    whole, handed_on = opened(place, array.shape, array.dtype), opened(place, array.shape, array.dtype, is_read=False)
    assert resident_kb(whole.ctypes.data) == LEAST_BYTES >> 10
    assert resident_kb(handed_on.ctypes.data) == 0
    assert place_of(handed_on) is not None  # others find it
    assert (handed_on == array).all()
    assert resident_kb(handed_on.ctypes.data) > 0


def test_a_message_by_place_holds_no_copy_of_what_is_shared() -> None:
    one, other = socket.socketpair()
    sender, receiver = Connection(one), Connection(other)
    array, small = shared_copy(np.arange(2 * LEAST_BYTES, dtype=np.uint8)), np.arange(5)
    sender.send({"outputs": [array, array.view(np.uint16), small], "n": 3}, by_place=True)  # what a socket holds
    found = receiver.receive()
    assert isinstance(found, dict)
    first, second, third = found["outputs"]
    assert (first == array).all()
    assert (second == array.view(np.uint16)).all()
    assert (third == small).all()
    assert found["n"] == 3
    assert place_of(first) is not None
    assert not first.flags.writeable
    array[0] = 7
    assert first[0] == 7


def test_where_a_place_cannot_be_opened_arrays_are_no_places(unknown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: object, *more: object) -> int:
        raise PermissionError(path)

    monkeypatch.setattr(os, "open", refused)
    array = np.arange(LEAST_BYTES, dtype=np.uint8)
    copy = shared_copy(array)
    assert place_of(copy) is None
    assert copy is array
