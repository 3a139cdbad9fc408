"""Large arrays that a child process keeps between calls, so that the inputs of a case travel to it once.

What lies in shared memory is mapped there and not sent. Only read-only arrays are kept, by identity: the driver's end
holds weak references, and tells the child to drop those that are gone, and beyond a limit the ones that were not used
for longest. The child's copies are read-only.
"""

from __future__ import annotations

import io
import pickle
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evo.spec.shared_arrays import opened, place_of

LIMIT_BYTES = 1 << 30  # of one child; what the driver does not hold itself is of no use to it
LEAST_BYTES = 1 << 18  # smaller ones are sent each time

Kept = NDArray[np.generic]


class Place(NamedTuple):
    """A new array that the child maps."""

    place: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Shipment(NamedTuple):
    """A message, the arrays that are new in it by number, and the numbers of those that are not needed any more."""

    gone: tuple[int, ...]
    new: tuple[tuple[int, Kept | Place], ...]
    body: bytes
    buffers: tuple[pickle.PickleBuffer, ...]


class Sender:
    """The driver's end: what one child has."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._known: dict[int, tuple[int, weakref.ref[Kept], int]] = {}  # id -> number, array, bytes; latest last
        self._next = 0

    @property
    def kept_bytes(self) -> int:
        """What the child keeps, once it has the latest shipment."""
        return sum(size for _, _, size in self._known.values())

    def pack(self, message: object) -> Shipment:
        """The message as it is to be sent."""
        gone = self._forget_the_dead()
        new: list[tuple[int, Kept]] = []
        used: set[int] = set()

        def number_of(value: object) -> int | None:
            if type(value) is not np.ndarray or value.nbytes < LEAST_BYTES or value.flags.writeable:
                return None
            return self._number(value, new, used)

        class Pickler(pickle.Pickler):
            def persistent_id(self, value: object) -> int | None:
                return number_of(value)

        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(message)
        gone += self._over_the_limit(used)
        sent = ((number, _as_sent(array)) for number, array in new)
        return Shipment(tuple(gone), tuple(sent), stream.getvalue(), tuple(buffers))

    def _number(self, array: Kept, new: list[tuple[int, Kept]], used: set[int]) -> int:
        known = self._known.pop(id(array), None)
        if known is None:
            known = (self._next, weakref.ref(array), array.nbytes)
            self._next += 1
            new.append((known[0], array))
        self._known[id(array)] = known
        used.add(known[0])
        return known[0]

    def _forget_the_dead(self) -> list[int]:
        dead = [(key, number) for key, (number, array, _) in self._known.items() if array() is None]
        for key, _ in dead:
            del self._known[key]
        return [number for _, number in dead]

    def _over_the_limit(self, used: set[int]) -> list[int]:
        """What the child may drop before it reads this message: the oldest that it does not need for it."""
        gone: list[int] = []
        left = self.kept_bytes
        for key, (number, _, size) in list(self._known.items()):
            if left <= self._limit_bytes:
                break
            if number not in used:
                del self._known[key]
                gone.append(number)
                left -= size
        return gone


def _as_sent(array: Kept) -> Kept | Place:
    place = place_of(array)
    return array if place is None else Place(place, array.shape, array.dtype)


class Receiver:
    """The child's end."""

    def __init__(self) -> None:
        self._arrays: dict[int, Kept] = {}

    def unpack(self, shipment: Shipment) -> object:
        """The message that was packed."""
        for number in shipment.gone:
            self._arrays.pop(number, None)
        for number, sent in shipment.new:
            array = opened(*sent) if isinstance(sent, Place) else sent
            array.flags.writeable = False
            self._arrays[number] = array
        arrays = self._arrays

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, number: Any) -> Kept:
                return arrays[number]

        message: object = Unpickler(io.BytesIO(shipment.body), buffers=shipment.buffers).load()
        return message
