"""Arrays that a child keeps: they travel once, only where nobody can change them, and within a limit."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

from evo.device.kept_arrays import LEAST_BYTES, Receiver, Sender, Shipment


def fixed(value: float, count: int = LEAST_BYTES) -> np.ndarray[Any, Any]:
    array = np.full(count, value, np.float32)
    array.flags.writeable = False
    return array


def sent(shipment: Shipment) -> Shipment:
    """Through a pipe: pickled with its buffers outside, and read again."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(tuple(shipment), protocol=5, buffer_callback=buffers.append)
    return Shipment._make(pickle.loads(body, buffers=[bytearray(buffer.raw()) for buffer in buffers]))


def size(shipment: Shipment) -> int:
    return sum(array.nbytes for _, array in shipment.new) + sum(b.raw().nbytes for b in shipment.buffers)


def test_what_was_sent_is_not_sent_again() -> None:
    sender, receiver, x = Sender(), Receiver(), fixed(3.0)
    first = sender.pack({"x": x, "again": [x, x]})
    assert size(first) == x.nbytes
    found: Any = receiver.unpack(sent(first))
    assert all(np.array_equal(each, x) for each in (found["x"], *found["again"]))
    second = sender.pack(("call", {"x": x}))
    assert (size(second), len(second.body) < 1000) == (0, True)
    again: Any = receiver.unpack(sent(second))
    assert again[1]["x"] is found["x"]
    assert not found["x"].flags.writeable


@pytest.mark.parametrize("array", [np.zeros(LEAST_BYTES, np.float32), fixed(1.0, 16)], ids=["writable", "small"])
def test_what_may_change_or_is_small_is_sent_each_time(array: np.ndarray[Any, Any]) -> None:
    sender, receiver = Sender(), Receiver()
    for value in (1.0, 2.0):
        if array.flags.writeable:
            array[:] = value
        found: Any = receiver.unpack(sent(sender.pack([array])))
        assert np.array_equal(found[0], array)
    assert sender.kept_bytes == 0


def test_what_the_driver_has_dropped_the_child_drops_too() -> None:
    sender, receiver, x = Sender(), Receiver(), fixed(1.0)
    receiver.unpack(sent(sender.pack([x])))
    del x
    gc.collect()
    y = fixed(2.0)  # perhaps where x was
    found: Any = receiver.unpack(sent(sender.pack([y])))
    assert np.array_equal(found[0], y)
    assert len(receiver._arrays) == 1


def test_the_oldest_go_first_beyond_the_limit_but_none_that_the_message_needs() -> None:
    a, b, c = fixed(1.0), fixed(2.0), fixed(3.0)
    sender, receiver = Sender(2 * a.nbytes), Receiver()
    receiver.unpack(sent(sender.pack([a])))
    receiver.unpack(sent(sender.pack([b])))
    receiver.unpack(sent(sender.pack([a])))
    receiver.unpack(sent(sender.pack([c])))  # b was not used for longest
    assert sender.kept_bytes == 2 * a.nbytes
    assert size(sender.pack([a])) == 0
    shipment = sender.pack([a, b, c])
    found: Any = receiver.unpack(sent(shipment))
    assert [float(each[0]) for each in found] == [1.0, 2.0, 3.0]
    assert len(receiver._arrays) == 3
