"""Messages over a socket between a driver and its child process. Either end may be gone, slow or broken.

A message is a header (magic number, count and sizes of its parts) and the parts: a body, then buffers. Two encodings:
pickled, where arrays travel outside the pickle and are copied once on each side, and plain, JSON with bytes allowed,
for children that run code of others: reading a plain message never runs what the sender chose.
"""

from __future__ import annotations

import io
import json
import pickle
import socket
import struct
import time
from collections.abc import Sequence

_MAGIC = b"evo\x01"
_HEAD = struct.Struct("<4sI")
_SIZE = struct.Struct("<Q")
_MOST_PARTS = 1 << 20
_TOGETHER = 1 << 16  # bytes that are copied and sent as one
_AT_ONCE = 512  # parts that one call of the system takes, which allows 1024
_PLACE = "\0bytes"  # in JSON, {_PLACE: n} stands for the n-th buffer


class ConnectionClosed(Exception):
    """The other end is gone."""


class MessageGarbled(Exception):
    """The bytes that arrived are not a message."""


class Connection:
    """One end of the socket. plain: JSON instead of pickles."""

    def __init__(self, pipe: socket.socket, *, plain: bool = False) -> None:
        self.plain = plain
        self._pipe = pipe

    def fileno(self) -> int:
        return self._pipe.fileno()

    def close(self) -> None:
        self._pipe.close()

    def send(self, message: object, *, limit_s: float | None = None, by_place: bool = False) -> None:
        """Send one message. Raises Closed, or TimeoutError if the other end does not take it in `limit_s` seconds.

        by_place: the other end maps arrays that lie in shared memory, which have to stay until it has done so.
        """
        parts = _plain_parts(message) if self.plain else _pickled_parts(message, by_place=by_place)
        head = _HEAD.pack(_MAGIC, len(parts)) + b"".join(_SIZE.pack(part.nbytes) for part in parts)
        try:
            self._pipe.settimeout(limit_s)
            if sum(part.nbytes for part in parts) <= _TOGETHER:
                self._pipe.sendall(b"".join((head, *parts)))
            else:
                self._send_all([memoryview(head), *parts], limit_s)
        except (BrokenPipeError, ConnectionResetError):
            raise ConnectionClosed from None

    def receive(self, deadline: float = float("inf")) -> object:
        """Wait for one message until the monotonic time `deadline`. Raises TimeoutError, Closed or Garbled."""
        magic, count = _HEAD.unpack(*self._read([_HEAD.size], deadline))
        if magic != _MAGIC or not 1 <= count <= _MOST_PARTS:
            raise MessageGarbled(f"a header of {(magic + _SIZE.pack(count)[:4]).hex()}")
        sizes = [size for (size,) in _SIZE.iter_unpack(*self._read([_SIZE.size * count], deadline))]
        try:
            body, *buffers = self._read(sizes, deadline)
        except (MemoryError, OverflowError):
            raise MessageGarbled(f"parts of {sizes} bytes") from None
        try:
            return _from_plain(body, buffers) if self.plain else pickle.loads(body, buffers=buffers)
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything; what cannot be read is garbled
            raise MessageGarbled(f"{type(error).__name__}: {error}") from None

    def _send_all(self, parts: list[memoryview], limit_s: float | None) -> None:
        """Parts as they lie, many with each call of the system: each may wake the other end."""
        views = [part.cast("B") for part in parts if part.nbytes]
        over = float("inf") if limit_s is None else time.monotonic() + limit_s
        at = 0
        while at < len(views):
            at = _passed(views, at, self._pipe.sendmsg(views[at : at + _AT_ONCE]))
            if at < len(views) and time.monotonic() > over:
                raise TimeoutError

    def _read(self, sizes: Sequence[int], deadline: float) -> list[bytearray]:
        parts = [bytearray(size) for size in sizes]
        views = [memoryview(part) for part in parts if part]
        at = 0
        while at < len(views):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._pipe.settimeout(None if left == float("inf") else left)
            try:
                got = self._pipe.recvmsg_into(views[at : at + _AT_ONCE])[0]
            except ConnectionResetError:
                raise ConnectionClosed from None
            if not got:
                raise ConnectionClosed
            at = _passed(views, at, got)
        return parts


def _passed(views: list[memoryview], at: int, count: int) -> int:
    """The index of the first view that is not through after `count` more bytes; that view is cut to its rest."""
    while at < len(views) and count >= views[at].nbytes:
        count -= views[at].nbytes
        at += 1
    if count:
        views[at] = views[at][count:]
    return at


def _pickled_parts(message: object, *, by_place: bool) -> list[memoryview]:
    buffers: list[pickle.PickleBuffer] = []
    if by_place:
        from evo.spec.shared_arrays import PlacesPickler  # NumPy, which not every end of a connection needs

        stream = io.BytesIO()
        PlacesPickler(stream, protocol=5, buffer_callback=buffers.append).dump(message)
        body = stream.getvalue()
    else:
        body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    return [memoryview(body), *(buffer.raw() for buffer in buffers)]


def _plain_parts(message: object) -> list[memoryview]:
    buffers: list[memoryview] = []

    def out_of_band(value: object) -> dict[str, int]:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"{type(value).__name__} does not go into a plain message")
        buffers.append(memoryview(value))
        return {_PLACE: len(buffers) - 1}

    body = json.dumps(message, default=out_of_band).encode()
    return [memoryview(body), *buffers]


def _from_plain(body: bytearray, buffers: Sequence[bytearray]) -> object:
    def read(found: dict[str, object]) -> object:  # bytes come as a bytearray: not copied, and writable
        place = found.get(_PLACE)
        return buffers[place] if isinstance(place, int) else found

    message: object = json.loads(body, object_hook=read)
    return message
